// spillway-train as a process: killed without warning, asked to stop, used wrongly.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/subprocess.h"
#include "checkpoint/checkpoint.h"
#include "tests/examples/support.h"

namespace spillway::trainer {
namespace {

using ::testing::HasSubstr;

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() : data_(folder_.path() + "/text") { EXPECT_OK(WriteFileAtomically(data_, SampleText(3000))); }

  pid_t Start(std::vector<std::string> flags, std::vector<std::string> env = {}) {
    const char* bin = getenv("SPILLWAY_BIN");
    SpawnOptions options;
    options.argv = {absl::StrCat(bin == nullptr ? "build/bin" : bin, "/spillway-train")};
    options.argv.insert(options.argv.end(), flags.begin(), flags.end());
    options.env = std::move(env);  // nothing of SPILLWAY_ leaks in from where the test runs
    log_ = absl::StrCat(folder_.path(), "/log", ++logs_);
    options.stdout_path = options.stderr_path = log_;
    auto pid = Spawn(options);
    EXPECT_OK(pid.status());
    return *pid;
  }
  std::vector<std::string> Training(std::vector<std::string> more = {}) const {
    std::vector<std::string> flags = {"--data",  data_, "--layers",           "1", "--dim",       "16", "--heads", "2", "--context", "8",
                                      "--batch", "2",   "--checkpoint-every", "5", "--log-every", "1"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  std::string Log() const { return ReadFile(log_).value_or(""); }
  // The wait status; kills and fails after a while.
  int WaitFor(pid_t pid) {
    int status = 0;
    EXPECT_TRUE(Eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; })) << Log();
    return status;
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      usleep(2000);
    }
    return true;
  }
  std::string HashIn(const std::string& output) const {
    const size_t at = output.find("weights sha256 ");
    return at == std::string::npos ? "" : output.substr(at + 15, 64);
  }

  TemporaryFolder folder_;
  const std::string data_;
  std::string log_;
  int logs_ = 0;
};

TEST_F(ProgramTest, KilledAgainAndAgainItEndsWithTheSameWeights) {
  ASSERT_EQ(WaitFor(Start(Training({"--steps", "120"}))), 0);
  const std::string unbroken = HashIn(Log());
  ASSERT_EQ(unbroken.size(), 64u);
  const std::string directory = folder_.path() + "/checkpoints";
  int kills = 0;
  size_t had = 0;
  for (;;) {
    ASSERT_LT(kills, 100);
    const pid_t pid = Start(Training({"--steps", "120", "--checkpoint-dir", directory, "--step-delay-ms", "1"}));
    // Without warning, as soon as there is one more checkpoint than before: somewhere in the steps after it, or in the next save.
    int status = 0;
    bool ended = false;
    ASSERT_TRUE(Eventually([&] {
      ended = waitpid(pid, &status, WNOHANG) == pid;
      return ended || checkpoint::ListCommitted(directory)->size() > had + 2;
    }));
    if (ended) {
      ASSERT_EQ(status, 0) << Log();
      break;
    }
    kill(pid, SIGKILL);
    status = WaitFor(pid);
    had = checkpoint::ListCommitted(directory)->size();
    if (WIFEXITED(status)) break;  // it was done just then
    ++kills;
  }
  EXPECT_GT(kills, 3);
  const std::string final_step = checkpoint::StepDirectory(directory, 120);
  ASSERT_EQ(WaitFor(Start({"--hash", final_step})), 0);
  EXPECT_EQ(HashIn(Log()), unbroken);
}

TEST_F(ProgramTest, AskedToStopItSavesAndExits85) {
  const std::string directory = folder_.path() + "/checkpoints";
  const pid_t pid = Start(Training({"--steps", "100000", "--checkpoint-every", "0", "--checkpoint-dir", directory, "--step-delay-ms", "1000"}));
  ASSERT_TRUE(Eventually([&] { return Log().find("step 1/") != std::string::npos; }));
  kill(pid, SIGTERM);
  const int status = WaitFor(pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 85) << Log();
  ASSERT_OK_AND_ASSIGN(const checkpoint::ScanResult scan, checkpoint::ScanAttempt(directory));
  EXPECT_EQ(scan.committed.size(), 1u);
}

// The key is the environment's, for what it restores and what it saves; without it there is an end and no new beginning.
TEST_F(ProgramTest, GoesOnFromEncryptedCheckpointsWithTheirKeyAlone) {
  const std::string directory = folder_.path() + "/checkpoints", key = folder_.path() + "/key";
  ASSERT_OK(WriteFileAtomically(key, std::string(64, '7'), 0600));
  const std::vector<std::string> env = {"SPILLWAY_CHECKPOINT_KEY_FILE=" + key};
  ASSERT_EQ(WaitFor(Start(Training({"--steps", "20"}))), 0);
  const std::string unbroken = HashIn(Log());
  ASSERT_EQ(WaitFor(Start(Training({"--steps", "20", "--checkpoint-dir", directory}), env)), 0) << Log();
  for (int64_t step : {15, 20}) ASSERT_OK(RemoveTree(checkpoint::StepDirectory(directory, step)));  // as if it had been killed before
  EXPECT_EQ(WEXITSTATUS(WaitFor(Start(Training({"--steps", "20", "--checkpoint-dir", directory})))), 1);
  EXPECT_THAT(Log(), HasSubstr("is encrypted, and no key is given"));
  ASSERT_EQ(WaitFor(Start(Training({"--steps", "20", "--checkpoint-dir", directory}), env)), 0) << Log();
  EXPECT_THAT(Log(), HasSubstr("resumed from step 10"));
  ASSERT_EQ(WaitFor(Start({"--hash", checkpoint::StepDirectory(directory, 20)}, env)), 0) << Log();
  EXPECT_EQ(HashIn(Log()), unbroken);
  EXPECT_NE(WaitFor(Start({"--hash", checkpoint::StepDirectory(directory, 20)})), 0);
}

TEST_F(ProgramTest, UsedWronglyItSaysHow) {
  EXPECT_EQ(WEXITSTATUS(WaitFor(Start({"--dat", "x"}))), 2);
  EXPECT_THAT(Log(), HasSubstr("nearest: --data"));
  EXPECT_EQ(WEXITSTATUS(WaitFor(Start({"--data", "/nonexistent"}))), 1);
  EXPECT_EQ(WEXITSTATUS(WaitFor(Start(Training({"--backend", "cuda"})))), 1);
  EXPECT_THAT(Log(), HasSubstr("built without CUDA"));
  EXPECT_EQ(WaitFor(Start({"--help"})), 0);
}

}  // namespace
}  // namespace spillway::trainer
