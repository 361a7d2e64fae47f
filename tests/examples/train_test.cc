// The loop in this process: however often and wherever a run is stopped, it ends with the weights of the run that was never stopped.
#include "examples/trainer/train.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/examples/support.h"

namespace spillway::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCluster[] = "0b1f6e0c-7a54-4d0e-9a51-5d2f6c3a9e10";

struct Outcome {
  absl::StatusOr<int> code = absl::UnknownError("not run");
  std::string output;
  std::string hash;  // of the final weights, when the run got there
};

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() : data_(folder_.path() + "/text"), options_(TinyRun(data_)) { EXPECT_OK(WriteFileAtomically(data_, SampleText(3000))); }

  std::string Attempt(int64_t n) const { return *checkpoint::AttemptDirectory(folder_.path() + "/checkpoints", kCluster, {5, 0, n}); }

  // What the worker would set for attempt n, resuming from the newest checkpoint of the attempts before.
  checkpoint::RunEnv EnvOf(int64_t n) const {
    checkpoint::RunEnv env;
    env.under_spillway = true;
    env.job_id = 5;
    env.attempt = n;
    env.job_uid = "uid";
    env.checkpoint_dir = Attempt(n);
    env.notice_file = folder_.path() + "/notice";
    for (int64_t before = n - 1; before >= 1 && env.resume_from.empty(); --before) {
      auto scan = checkpoint::ScanAttempt(Attempt(before), {.newest_only = true});
      if (scan.ok() && !scan->committed.empty()) env.resume_from = scan->committed[0].path;
    }
    return env;
  }

  // `signal_after`: the stop signal arrives when that many steps are done in this attempt; -1: never.
  Outcome Attempted(const checkpoint::RunEnv& env, int64_t signal_after = -1) {
    std::ostringstream out;
    Outcome outcome;
    ManualClock clock;
    int64_t asked = 0;  // once before each step
    auto run = Run::Prepare(
        options_, env, [&] { return signal_after >= 0 && asked++ >= signal_after ? 15 : 0; }, &clock, &out);
    outcome.code = run.ok() ? run->ToTheEnd() : absl::StatusOr<int>(run.status());
    outcome.output = out.str();
    const size_t at = outcome.output.find("weights sha256 ");
    if (at != std::string::npos) outcome.hash = outcome.output.substr(at + 15, 64);
    return outcome;
  }

  std::string UnbrokenHash() {
    const Outcome outcome = Attempted(checkpoint::RunEnv());
    EXPECT_EQ(*outcome.code, 0);
    EXPECT_EQ(outcome.hash.size(), 64u);
    return outcome.hash;
  }

  TemporaryFolder folder_;
  const std::string data_;
  Options options_;
};

TEST_F(TrainTest, SameSeedSameWeightsAndOtherSeedOthers) {
  const std::string hash = UnbrokenHash();
  EXPECT_EQ(UnbrokenHash(), hash);
  options_.seed = 2;
  EXPECT_NE(UnbrokenHash(), hash);
}

TEST_F(TrainTest, StoppedAtAnyStepItResumesToTheSameWeights) {
  const std::string unbroken = UnbrokenHash();
  Rng rng(17);
  for (int round = 0; round < 8; ++round) {
    int64_t attempt = 1;
    for (;; ++attempt) {
      ASSERT_LT(attempt, 100);
      const Outcome outcome = Attempted(EnvOf(attempt), rng.Between(1, 25));
      ASSERT_OK(outcome.code.status());
      if (*outcome.code == 0) {
        EXPECT_EQ(outcome.hash, unbroken);
        break;
      }
      ASSERT_EQ(*outcome.code, 85) << outcome.output;
    }
    EXPECT_GT(attempt, 2);
    ASSERT_OK(RemoveTree(folder_.path() + "/checkpoints"));
  }
}

TEST_F(TrainTest, ASingleStepAnAttemptIsProgress) {
  options_.steps = 12;
  const std::string unbroken = UnbrokenHash();
  for (int64_t attempt = 1; attempt < 12; ++attempt) {
    const Outcome outcome = Attempted(EnvOf(attempt), 1);
    ASSERT_EQ(*outcome.code, 85);
    EXPECT_THAT(outcome.output, HasSubstr(attempt == 1 ? "step 1/12" : absl::StrCat("resumed from step ", attempt - 1)));
  }
  EXPECT_EQ(Attempted(EnvOf(12)).hash, unbroken);
}

TEST_F(TrainTest, StoppedBeforeAnyStepItDoesNotClaimACheckpoint) {
  EXPECT_EQ(*Attempted(EnvOf(1), 0).code, kExitStopped);
  EXPECT_EQ(*Attempted(EnvOf(1), 10).code, 85);
  const Outcome second = Attempted(EnvOf(2), 0);  // resumed, but nothing new
  EXPECT_EQ(*second.code, kExitStopped);
  EXPECT_THAT(second.output, HasSubstr("nothing new was saved"));
}

TEST_F(TrainTest, ANoticeFileStopsItToo) {
  ASSERT_OK(WriteFileAtomically(folder_.path() + "/notice", R"({"reason":"preempted"})"));
  EXPECT_EQ(*Attempted(EnvOf(1)).code, kExitStopped);
  ASSERT_EQ(unlink((folder_.path() + "/notice").c_str()), 0);
  // Appears after the tenth step.
  std::ostringstream out;
  ManualClock clock;
  int64_t asked = 0;
  auto run = Run::Prepare(
      options_, EnvOf(1),
      [&] {
        if (asked++ == 9) {
          EXPECT_OK(WriteFileAtomically(folder_.path() + "/notice", R"({"reason":"preempted","seconds_left":30})"));
        }
        return 0;
      },
      &clock, &out);
  ASSERT_OK(run.status());
  ASSERT_OK_AND_ASSIGN(const int code, run->ToTheEnd());
  EXPECT_EQ(code, 85);
  EXPECT_THAT(out.str(), HasSubstr("stopping after step 9: notice \"preempted\""));
}

// The next attempt's environment names the damaged one: the trainer falls back by itself and says so.
TEST_F(TrainTest, FallsBackFromADamagedCheckpointToTheSameWeights) {
  const std::string unbroken = UnbrokenHash();
  ASSERT_EQ(*Attempted(EnvOf(1), 20).code, 85);  // 7, 14, 20
  const checkpoint::RunEnv second = EnvOf(2);
  EXPECT_EQ(second.resume_from, checkpoint::StepDirectory(Attempt(1), 20));
  const std::string container = second.resume_from + "/rank-00000.bin";
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(container));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 8);
  ASSERT_OK(WriteFileAtomically(container, bytes));
  const Outcome outcome = Attempted(second);
  EXPECT_THAT(outcome.output, HasSubstr("skipped a checkpoint: " + container));
  EXPECT_THAT(outcome.output, HasSubstr("resumed from step 14"));
  EXPECT_EQ(outcome.hash, unbroken);
  // Its own manifests name what it really resumed from.
  ASSERT_OK_AND_ASSIGN(const checkpoint::Manifest manifest, checkpoint::ReadManifest(checkpoint::StepDirectory(Attempt(2), 60)));
  EXPECT_EQ(manifest.parent, (checkpoint::CheckpointRef{1, 14}));
}

TEST_F(TrainTest, WithEverythingDamagedItStartsAgainAndSaysSo) {
  const std::string unbroken = UnbrokenHash();
  ASSERT_EQ(*Attempted(EnvOf(1), 5).code, 85);
  const checkpoint::RunEnv second = EnvOf(2);
  ASSERT_OK(WriteFileAtomically(second.resume_from + "/MANIFEST", "x"));
  const Outcome outcome = Attempted(second);
  EXPECT_THAT(outcome.output, HasSubstr("nothing to resume from, starting again at step 0"));
  EXPECT_EQ(outcome.hash, unbroken);
}

TEST_F(TrainTest, RefusesTheCheckpointOfAnotherRun) {
  ASSERT_EQ(*Attempted(EnvOf(1), 5).code, 85);
  options_.lr = 0.001;
  EXPECT_THAT(Attempted(EnvOf(2)).code, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--lr is 0.001")));
  options_ = TinyRun(data_);
  options_.model.dim = 40;
  EXPECT_THAT(Attempted(EnvOf(2)).code, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in the checkpoint, wanted")));
  options_ = TinyRun(data_);
  checkpoint::RunEnv foreign = EnvOf(2);
  foreign.job_uid = "another";
  EXPECT_THAT(Attempted(foreign).code, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of job uid")));
}

TEST_F(TrainTest, TheHashCanBeRecomputedFromDisk) {
  options_.out = folder_.path() + "/weights.bin";
  const Outcome outcome = Attempted(EnvOf(1));
  ASSERT_EQ(*outcome.code, 0);
  ASSERT_OK_AND_ASSIGN(const std::string from_checkpoint, HashOnDisk(checkpoint::StepDirectory(Attempt(1), 60)));
  ASSERT_OK_AND_ASSIGN(const std::string from_file, HashOnDisk(options_.out));
  EXPECT_EQ(from_checkpoint, outcome.hash);
  EXPECT_EQ(from_file, outcome.hash);
  ASSERT_OK_AND_ASSIGN(const std::string earlier, HashOnDisk(checkpoint::StepDirectory(Attempt(1), 56)));
  EXPECT_NE(earlier, outcome.hash);
  EXPECT_FALSE(HashOnDisk(folder_.path()).ok());
  EXPECT_TRUE(absl::IsNotFound(HashOnDisk(folder_.path() + "/none").status()));
  EXPECT_TRUE(absl::IsDataLoss(HashOnDisk(data_).status()));
}

TEST_F(TrainTest, ADoneRunStartedAgainIsStillDone) {
  const Outcome first = Attempted(EnvOf(1));
  ASSERT_EQ(*first.code, 0);
  const Outcome second = Attempted(EnvOf(2));  // the report of the end was lost
  EXPECT_EQ(*second.code, 0);
  EXPECT_EQ(second.hash, first.hash);
  EXPECT_THAT(second.output, Not(HasSubstr("step 1/")));
}

TEST_F(TrainTest, OutsideSpillwayItKeepsItsOwnDirectory) {
  const std::string unbroken = UnbrokenHash();
  options_.checkpoint_dir = folder_.path() + "/mine";
  EXPECT_EQ(*Attempted(checkpoint::RunEnv(), 30).code, 85);
  const Outcome again = Attempted(checkpoint::RunEnv());
  EXPECT_THAT(again.output, HasSubstr("resumed from step 30"));
  EXPECT_EQ(again.hash, unbroken);
}

TEST_F(TrainTest, TellsTheSupervisor) {
  const std::string path = folder_.path() + "/socket";
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  options_.checkpoint_every = 30;
  checkpoint::RunEnv env = EnvOf(1);
  env.socket = path;
  ASSERT_EQ(*Attempted(env).code, 0);
  std::vector<nlohmann::json> messages;
  char buffer[65536];
  for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) messages.push_back(nlohmann::json::parse(buffer, buffer + n));
  close(fd);
  ASSERT_GE(messages.size(), 4u);
  EXPECT_EQ(messages.front()["type"], "progress");
  EXPECT_EQ(messages.front()["step"], 1);
  EXPECT_EQ(messages.front()["total"], 60);
  EXPECT_GT(messages.front()["metrics"]["loss"], 1.0);
  EXPECT_EQ(messages.back(), nlohmann::json::parse(R"({"type":"completed"})"));
  std::vector<int64_t> saved;
  for (const nlohmann::json& m : messages) {
    if (m["type"] != "checkpoint") continue;
    saved.push_back(m["step"]);
    ASSERT_OK_AND_ASSIGN(const checkpoint::CommittedCheckpoint found, checkpoint::Verify(m["path"], checkpoint::VerifyLevel::kFull));
    EXPECT_EQ(found.manifest_sha256, m["manifest_sha256"]);
    EXPECT_EQ(found.bytes, m["bytes"]);
  }
  EXPECT_EQ(saved, (std::vector<int64_t>{30, 60}));
}

TEST_F(TrainTest, AFailedCheckpointDoesNotEndTheTraining) {
  checkpoint::RunEnv env = EnvOf(1);
  ASSERT_OK(MakeDirectories(env.checkpoint_dir));
  ASSERT_OK(WriteFileAtomically(env.checkpoint_dir + "/.stage-step-000000000007", "in the way"));  // removed, and saved
  ASSERT_OK(MakeDirectories(checkpoint::StepDirectory(env.checkpoint_dir, 14)));                   // an empty leftover of that name
  const Outcome outcome = Attempted(env);
  EXPECT_EQ(*outcome.code, 0);
  EXPECT_OK(checkpoint::Verify(checkpoint::StepDirectory(env.checkpoint_dir, 7), checkpoint::VerifyLevel::kFull).status());
  EXPECT_OK(checkpoint::Verify(checkpoint::StepDirectory(env.checkpoint_dir, 14), checkpoint::VerifyLevel::kFull).status());
}

}  // namespace
}  // namespace spillway::trainer
