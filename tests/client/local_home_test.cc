// What `up` makes in a fresh home, and whom `down` would touch.
#include "client/local_home.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "client/local_processes.h"
#include "spec/validate.h"
#include "spec/yaml.h"
#include "tests/client/fake_api.h"

namespace spillway::client {
namespace {

using ::testing::HasSubstr;

class LocalHomeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/spillway-test-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    folder_ = path;
  }
  void TearDown() override { ASSERT_OK(RemoveTree(folder_)); }
  static mode_t ModeOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  std::string folder_;
};

TEST_F(LocalHomeTest, IsPrivateAndMadeOnce) {
  const HomePaths paths(JoinPath(folder_, "home"));
  ASSERT_OK(PrepareHome(paths, std::nullopt));
  EXPECT_EQ(ModeOf(paths.home), 0700u);
  EXPECT_EQ(ModeOf(paths.user_token), 0600u);
  EXPECT_EQ(ModeOf(paths.worker_token), 0600u);
  ASSERT_OK_AND_ASSIGN(const std::string token, ReadFile(paths.user_token));
  EXPECT_EQ(token.size(), 65u);
  ASSERT_OK_AND_ASSIGN(const std::string worker, ReadFile(paths.worker_token));
  EXPECT_NE(token, worker);
  ASSERT_OK(WriteFileAtomically(paths.config, "policy: {pool_avoid: 5m}\n"));
  ASSERT_OK(PrepareHome(paths, std::nullopt));
  ASSERT_OK_AND_ASSIGN(const std::string again, ReadFile(paths.user_token));
  EXPECT_EQ(again, token);
  ASSERT_OK_AND_ASSIGN(const std::string config, ReadFile(paths.config));
  EXPECT_EQ(config, "policy: {pool_avoid: 5m}\n");
}

TEST_F(LocalHomeTest, TheFirstConfigurationIsValid) {
  for (const std::optional<int64_t> port : {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(4321)}) {
    v1::ServerConfig config;
    ASSERT_OK(spec::BindYaml(DefaultConfig(port), "config.yaml", &config));
    EXPECT_TRUE(spec::ValidateServerConfig(config).empty());
    EXPECT_EQ(config.listen().user(), port.has_value() ? absl::StrCat("127.0.0.1:", *port) : "");
  }
  // What stands there as a comment is valid too, once it is one no longer.
  std::string text;
  for (const std::string& line :
       {std::string("reservations:"), std::string("  - {name: base, nodes: [local-1], price_per_hour: 1.20, from: \"2026-01-01T00:00:00Z\"}"),
        std::string("providers:"),
        std::string("  - {name: cloud, kind: playground, url: \"http://127.0.0.1:9000\", token_file: /path/to/token, max_nodes: 10}")}) {
    EXPECT_THAT(DefaultConfig(std::nullopt), HasSubstr("# " + line));
    text += line + "\n";
  }
  v1::ServerConfig config;
  ASSERT_OK(spec::BindYaml(text, "config.yaml", &config));
  EXPECT_TRUE(spec::ValidateServerConfig(config).empty());
}

TEST_F(LocalHomeTest, AnotherPortThanTheConfigurationSaysIsRefused) {
  const HomePaths paths(JoinPath(folder_, "home"));
  ASSERT_OK_AND_ASSIGN(const bool made, PrepareHome(paths, 4321));
  ASSERT_OK_AND_ASSIGN(const bool made_again, PrepareHome(paths, 4321));
  EXPECT_TRUE(made && !made_again) << "who made it removes it when nothing comes of it";
  EXPECT_THAT(PrepareHome(paths, 0), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--port 0: "))) << "any free one is not this one";
  EXPECT_THAT(PrepareHome(paths, 4322), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("exists and says 127.0.0.1:4321; change `listen.user`")));
  ASSERT_OK(WriteFileAtomically(paths.config, "policy: {retry_backoff: 1s}\n"));
  EXPECT_OK(PrepareHome(paths, 7070)) << "the port when none is written";
}

TEST_F(LocalHomeTest, AHomeOthersMayWriteIsRefused) {
  const HomePaths paths(JoinPath(folder_, "home"));
  ASSERT_OK(MakeDirectories(paths.home));
  ASSERT_EQ(chmod(paths.home.c_str(), 0777), 0);
  EXPECT_THAT(PrepareHome(paths, std::nullopt), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("may be written by others")));
}

TEST_F(LocalHomeTest, OneUpOrDownAtATime) {
  const HomePaths paths(JoinPath(folder_, "home"));
  ASSERT_OK(PrepareHome(paths, std::nullopt));
  ASSERT_OK_AND_ASSIGN(const int lock, LockHome(paths));
  EXPECT_THAT(LockHome(paths), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another `spillway up` or `down`")));
  close(lock);
  ASSERT_OK_AND_ASSIGN(const int again, LockHome(paths));
  close(again);
}

TEST_F(LocalHomeTest, AProcessWhosePidFileIsLostIsFoundByItsHome) {
  ASSERT_OK_AND_ASSIGN(const pid_t pid,
                       Spawn({.argv = {"/usr/bin/python3", "-c", "import signal; signal.pause()", "--home", folder_}, .die_with_parent = true}));
  const std::string none = JoinPath(folder_, "none"), program = std::filesystem::canonical("/usr/bin/python3").filename();
  std::optional<LocalProcess> found;
  // Between fork and exec it still shows our own command line.
  while (!(found = FindProcess(none, program, folder_)).has_value()) sched_yield();
  EXPECT_EQ(found->pid, pid);
  EXPECT_FALSE(FindProcess(none, program, folder_ + "x").has_value());
  EXPECT_FALSE(FindProcess(none, "spillwayd", folder_).has_value());
  KillNow(*found);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(FindProcess(none, program, folder_).has_value());
}

// A home that was copied has the pid files of the first one, whose programs live: they are not this home's to stop.
TEST_F(LocalHomeTest, AProcessOfAnotherHomeIsNeverTakenWhateverThePidFileSays) {
  const std::string home = JoinPath(folder_, "home"), copy = JoinPath(folder_, "copy"), file = JoinPath(folder_, "pid");
  for (const std::string& each : {home, copy}) ASSERT_OK(MakeDirectories(JoinPath(each, "run")));
  const std::string program = std::filesystem::canonical("/usr/bin/python3").filename();
  // One says its home, the other, started by the environment, only holds its lock.
  const std::string holds = absl::StrCat("import signal; f = open('", home, "/run/spillwayd.lock', 'w'); signal.pause()");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-c", "import signal; signal.pause()", "--home", home}, {"-c", holds}}) {
    SpawnOptions options;
    options.argv = {"/usr/bin/python3"};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    options.die_with_parent = true;
    ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn(options));
    ASSERT_OK_AND_ASSIGN(const int64_t ticks, ProcessStartTicks(pid));
    while (!FindProcess(JoinPath(folder_, "none"), program, home).has_value()) sched_yield();
    for (const std::string& text : {absl::StrCat(pid, "\n"), absl::StrCat(pid, " ", ticks, "\n")}) {
      ASSERT_OK(WriteFileAtomically(file, text));
      EXPECT_FALSE(FindProcess(file, program, copy).has_value()) << text;
      const auto found = FindProcess(file, program, home);
      ASSERT_TRUE(found.has_value()) << text;
      EXPECT_EQ(found->pid, pid);
    }
    KillNow({pid, ticks});
    ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  }
}

TEST_F(LocalHomeTest, AStoppedProcessIsSeenAndHearsThatItShouldEnd) {
  ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn({.argv = {"sleep", "60"}, .die_with_parent = true}));
  ASSERT_OK_AND_ASSIGN(const int64_t ticks, ProcessStartTicks(pid));
  const LocalProcess process{pid, ticks};
  EXPECT_FALSE(IsStopped(process));
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  ASSERT_EQ(waitpid(pid, nullptr, WUNTRACED), pid);
  EXPECT_TRUE(IsStopped(process));
  EXPECT_TRUE(StillAlive(process));
  AskToEnd(process);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(IsStopped(process));
}

TEST_F(LocalHomeTest, OnlyTheVeryProcessIsFound) {
  ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn({.argv = {"sleep", "60"}, .die_with_parent = true}));
  ASSERT_OK_AND_ASSIGN(const int64_t ticks, ProcessStartTicks(pid));
  const std::string file = JoinPath(folder_, "pid");
  const auto found = [&](const std::string& text, const std::string& program) {
    EXPECT_OK(WriteFileAtomically(file, text));
    return FindProcess(file, program, "/no/home").has_value();
  };
  EXPECT_TRUE(found(absl::StrCat(pid, " ", ticks, "\n"), "sleep"));
  EXPECT_FALSE(found(absl::StrCat(pid, " ", ticks, "\n"), "spillwayd")) << "another program has this pid now";
  EXPECT_FALSE(found(absl::StrCat(pid, " ", ticks + 1, "\n"), "sleep")) << "the pid was given anew";
  EXPECT_TRUE(found(absl::StrCat(pid, "\n"), "sleep")) << "a daemon's own pid file";
  EXPECT_FALSE(found("1\n", "sleep"));
  EXPECT_FALSE(found("-1\n", "sleep"));
  EXPECT_FALSE(found("", "sleep"));
  EXPECT_FALSE(found("junk", "sleep"));
  EXPECT_FALSE(FindProcess(JoinPath(folder_, "none"), "sleep", "/no/home").has_value());
  const LocalProcess process{pid, ticks};
  AskToEnd(process);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(StillAlive(process));
  EXPECT_FALSE(found(absl::StrCat(pid, " ", ticks, "\n"), "sleep"));
}

TEST_F(LocalHomeTest, DownWithoutAnythingSaysSo) {
  Cli cli;
  cli.context.home = JoinPath(folder_, "none");
  EXPECT_EQ(cli.Run({"down"}), 0);
  EXPECT_EQ(cli.out, "nothing runs in " + cli.context.home + "\n");
  const HomePaths paths(JoinPath(folder_, "home"));
  ASSERT_OK(PrepareHome(paths, std::nullopt));
  cli.context.home = paths.home;
  EXPECT_EQ(cli.Run({"down"}), 0);
  EXPECT_EQ(cli.out, "nothing ran in " + paths.home + "\n");
}

TEST_F(LocalHomeTest, UpRefusesBadFlagsBeforeItMakesAnything) {
  Cli cli;
  cli.context.home = JoinPath(folder_, "home");
  EXPECT_EQ(cli.Run({"up", "--reserved-nodes", "0"}), 2);
  EXPECT_EQ(cli.Run({"up", "--reserved-nodes", "99"}), 2);
  EXPECT_EQ(cli.Run({"up", "--reserved-nodes", "-1"}), 2) << "not: as before";
  EXPECT_EQ(cli.Run({"up", "--port", "70000"}), 2);
  EXPECT_EQ(cli.Run({"up", "--port", "-1"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("--port: -1 is outside 0 (any free port) to 65535"));
  for (const char* list : {"cpu=1", "cpus=0.0001", "memory=0", "cpus=1,cpus=2", "gpu=A\xff:1:1GB:simulated", "cpus=1,,memory=1GB", ""}) {
    EXPECT_EQ(cli.Run({"up", "--resources", list}), 2) << list;
    EXPECT_THAT(cli.err, HasSubstr("--resources")) << list;
  }
  EXPECT_EQ(cli.Run({"up", "--no-worker", "--resources", "cpus=1"}), 2);
  EXPECT_FALSE(PathExists(cli.context.home));
  cli.context.home = JoinPath(folder_, "caf\xe9");
  EXPECT_EQ(cli.Run({"up"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("caf\\xe9` is not UTF-8 text"));
  EXPECT_FALSE(PathExists(cli.context.home));
}

}  // namespace
}  // namespace spillway::client
