// `spillway up`, jobs, a scheduler that is killed, `spillway down`: the programs themselves, in a home and on ports of their own.
// Waits are bounded and on conditions; every program started is ended by `down`, which TearDown runs whatever happened, and where this test itself is
// killed by tests/support/reap.py.
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "client/local_home.h"
#include "client/local_processes.h"

namespace spillway::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Result {
  int code = -1;
  std::string out, err;
};

class UpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/spillway-up-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    folder_ = path;
    const char* source = getenv("SPILLWAY_SOURCE");
    ASSERT_NE(source, nullptr) << "run by ctest";
    const auto reaper = Spawn({.argv = {"/usr/bin/python3", JoinPath(source, "tests/support/reap.py"), absl::StrCat(getpid()), "/tmp", folder_.substr(5)}});
    ASSERT_OK(reaper);
    int status = -1;
    ASSERT_EQ(waitpid(*reaper, &status, 0), *reaper);
    ASSERT_EQ(status, 0);
    const char* bin = getenv("SPILLWAY_BIN");
    ASSERT_NE(bin, nullptr) << "run by ctest";
    program_ = JoinPath(bin, "spillway");
    home_ = JoinPath(folder_, "home");
    ASSERT_OK(MakeDirectories(home_, 0700));
    ASSERT_OK(WriteFileAtomically(JoinPath(home_, "config.yaml"), "listen: {user: \"127.0.0.1:0\", worker: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\n"));
  }
  void TearDown() override {
    Spillway({"cancel", "all", "--now", "--yes"});
    const Result down = Spillway({"down"});
    EXPECT_EQ(down.code, 0) << down.out << down.err;
    ASSERT_OK(RemoveTree(folder_));
  }
  pid_t Start(const std::vector<std::string>& words, const std::string& name) {
    SpawnOptions options;
    options.argv = {program_};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    options.env = std::vector<std::string>{"SPILLWAY_HOME=" + home_, "PATH=/usr/bin:/bin"};
    options.stdout_path = JoinPath(folder_, name + ".out");
    options.stderr_path = JoinPath(folder_, name + ".err");
    const auto pid = Spawn(options);
    EXPECT_OK(pid);
    return pid.value_or(-1);
  }
  Result Finish(pid_t pid, const std::string& name) {
    Result result;
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.out = ReadFile(JoinPath(folder_, name + ".out")).value_or("");
    result.err = ReadFile(JoinPath(folder_, name + ".err")).value_or("");
    return result;
  }
  Result Spillway(const std::vector<std::string>& words) {
    const std::string name = absl::StrCat("call", ++calls_);
    return Finish(Start(words, name), name);
  }
  void Up(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"up"};
    words.insert(words.end(), more.begin(), more.end());
    const Result up = Spillway(words);
    ASSERT_EQ(up.code, 0) << up.out << up.err;
  }
  std::string folder_, home_, program_;
  int calls_ = 0;
};

// A socket of this machine's own address at a port that nobody had: bound, and not listening.
int BindFreePort(int64_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

TEST_F(UpTest, AJobRunsAndTheExitCodesSayHow) {
  // Where a scheduler was and is no more: at the usual port the machine may have somebody else's.
  const HomePaths paths(home_);
  int64_t port = 0;
  const int nobody = BindFreePort(&port);
  ASSERT_OK(MakeDirectories(JoinPath(home_, "run"), 0700));
  ASSERT_OK(WriteFileAtomically(paths.user_port, absl::StrCat(port, "\n")));
  const Result before = Spillway({"queue"});
  close(nobody);
  ASSERT_OK(RemoveTree(JoinPath(home_, "run")));
  EXPECT_EQ(before.code, 5);
  EXPECT_THAT(before.err, HasSubstr("start it with `spillway up`"));
  Up({"--resources", "cpus=1,memory=1GB,gpu=H100:1:80GB:simulated"});
  const Result again = Spillway({"up"});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("was up already"));
  const Result hello = Spillway({"run", "--gpus", "H100:1", "--", "echo", "hello"});
  EXPECT_EQ(hello.code, 0) << hello.err;
  EXPECT_EQ(hello.out, "hello\n");
  EXPECT_EQ(Spillway({"run", "--", "sh", "-c", "exit 3"}).code, 1);
  EXPECT_EQ(Spillway({"wait", "1"}).code, 0);
  EXPECT_EQ(Spillway({"wait", "2"}).code, 1);
  EXPECT_EQ(Spillway({"logs", "99"}).code, 3);
  EXPECT_EQ(Spillway({"cancel", "1"}).code, 4) << "it has ended";
  EXPECT_EQ(Spillway({"run", "--memory", "2gb", "--", "x"}).code, 2);
  const Result described = Spillway({"describe", "2"});
  EXPECT_THAT(described.out, HasSubstr("USER_ERROR"));
  EXPECT_THAT(Spillway({"nodes", "-o", "json"}).out, HasSubstr("\"name\": \"local-1\""));
  const Result stranger = [&] {
    SpawnOptions options;
    options.argv = {program_, "queue"};
    options.env = std::vector<std::string>{"SPILLWAY_HOME=" + home_, "SPILLWAY_TOKEN=wrong"};
    options.stderr_path = JoinPath(folder_, "stranger.err");
    return Finish(Spawn(options).value_or(-1), "stranger");
  }();
  EXPECT_EQ(stranger.code, 4);
  EXPECT_THAT(stranger.err, HasSubstr("does not accept this token"));
}

TEST_F(UpTest, AJobOutlivesASchedulerThatIsKilledAndAPlannedStop) {
  Up();
  const HomePaths paths(home_);
  // The job ends when this file appears: nothing here depends on how fast the machine is.
  const std::string go = JoinPath(folder_, "go");
  ASSERT_EQ(Spillway({"run", "--detach", "--", "sh", "-c", absl::StrCat("echo begun; while [ ! -e ", go, " ]; do sleep 0.05; done; echo done")}).code, 0);
  const pid_t follower = Start({"logs", "-f", "1"}, "follower");
  for (int i = 0; i < 600 && ReadFile(JoinPath(folder_, "follower.out")).value_or("") != "begun\n"; ++i) usleep(50'000);
  ASSERT_EQ(ReadFile(JoinPath(folder_, "follower.out")).value_or(""), "begun\n");
  ASSERT_EQ(kill(follower, SIGTERM), 0);
  Finish(follower, "follower");

  const auto scheduler = FindProcess(paths.scheduler_pid, "spillwayd", paths.home);
  ASSERT_TRUE(scheduler.has_value());
  KillNow(*scheduler);
  for (int i = 0; i < 200 && StillAlive(*scheduler); ++i) usleep(50'000);
  Up();  // at other ports: the worker is started anew, the job is not
  const Result down = Spillway({"down", "--keep-jobs"});
  EXPECT_EQ(down.code, 0) << down.err;
  EXPECT_THAT(down.out, HasSubstr("the supervisor of local-1 and its jobs go on"));
  Up();
  ASSERT_OK(WriteFileAtomically(go, ""));
  EXPECT_EQ(Spillway({"wait", "1", "--timeout", "60s"}).code, 0);
  EXPECT_EQ(Spillway({"logs", "1"}).out, "begun\ndone\n");
  EXPECT_THAT(Spillway({"describe", "1", "-o", "json"}).out, HasSubstr("\"attempts_total\": \"1\"")) << "one attempt, through all of it";
}

TEST_F(UpTest, DownLeavesNothingRunning) {
  Up();
  const HomePaths paths(home_);
  const auto scheduler = FindProcess(paths.scheduler_pid, "spillwayd", paths.home);
  const auto worker = FindProcess(paths.WorkerPid("local-1"), "spillway-worker", paths.NodeHome("local-1"));
  const auto supervisor = FindProcess(paths.SupervisorPid("local-1"), "spillway-supervisor", paths.NodeHome("local-1"));
  ASSERT_TRUE(scheduler.has_value() && worker.has_value() && supervisor.has_value());
  const std::string socket = ValueOfOption(*supervisor, "--socket");
  ASSERT_TRUE(PathExists(socket)) << socket;
  // Whatever became of the pid files.
  ASSERT_OK(WriteFileAtomically(paths.scheduler_pid, "garbage\n"));
  unlink(paths.WorkerPid("local-1").c_str());
  EXPECT_THAT(Spillway({"up"}).out, HasSubstr("was up already"));
  const Result down = Spillway({"down"});
  EXPECT_EQ(down.code, 0) << down.err;
  EXPECT_THAT(down.out, StartsWith("stopped the scheduler (pid "));
  for (const auto& process : {*scheduler, *worker, *supervisor}) EXPECT_FALSE(StillAlive(process));
  EXPECT_FALSE(PathExists(socket.substr(0, socket.rfind('/')))) << "the folder of its sockets goes with the supervisor";
  EXPECT_FALSE(PathExists(paths.scheduler_pid));
  EXPECT_THAT(Spillway({"down"}).out, StartsWith("nothing ran in "));
}

TEST_F(UpTest, ACopiedHomeDoesNotStopTheProgramsOfTheFirst) {
  Up();
  const HomePaths first(home_);
  const auto scheduler = FindProcess(first.scheduler_pid, "spillwayd", first.home);
  ASSERT_TRUE(scheduler.has_value());
  home_ = JoinPath(folder_, "copy");
  ASSERT_OK(MakeDirectories(JoinPath(home_, "run"), 0700));
  ASSERT_OK_AND_ASSIGN(const std::string pid, ReadFile(first.scheduler_pid));
  ASSERT_OK(WriteFileAtomically(HomePaths(home_).scheduler_pid, pid));
  EXPECT_THAT(Spillway({"down"}).out, StartsWith("nothing ran in "));
  EXPECT_TRUE(StillAlive(*scheduler));
  home_ = first.home;
}

TEST_F(UpTest, AFailedFirstUpLeavesNothingAndTheNextOneMaySayAnotherPort) {
  home_ = JoinPath(folder_, "first");
  const HomePaths paths(home_);
  // A port that is taken.
  int64_t port = 0;
  const int taken = BindFreePort(&port);
  ASSERT_EQ(listen(taken, 1), 0);
  const Result up = Spillway({"up", "--port", absl::StrCat(port)});
  close(taken);
  EXPECT_EQ(up.code, 5);
  EXPECT_THAT(up.err, AllOf(HasSubstr("cannot listen on 127.0.0.1:"), HasSubstr("`spillway up --port 0` takes a free port"), Not(HasSubstr("chttp2")),
                            Not(HasSubstr("grpc"))));
  EXPECT_FALSE(PathExists(paths.config));
  EXPECT_FALSE(PathExists(paths.scheduler_pid));
  const Result again = Spillway({"up", "--port", "0", "--no-worker"});
  EXPECT_EQ(again.code, 0) << again.err;
  ASSERT_OK_AND_ASSIGN(const std::string free_port, ReadFile(paths.user_port));
  EXPECT_THAT(again.out, HasSubstr(absl::StrCat("is up at 127.0.0.1:", absl::StripAsciiWhitespace(free_port)))) << "any free one, shown and recorded";
  EXPECT_NE(absl::StripAsciiWhitespace(free_port), "7070");
}

TEST_F(UpTest, ANodeThatCannotStartTakesDownWhatTheSameUpStarted) {
  const HomePaths paths(home_);
  // The machine has no such device, which only its worker can know.
  const Result up = Spillway({"up", "--resources", "cpus=1,memory=1GB,gpu=NoSuchDevice:1:80GB"});
  EXPECT_EQ(up.code, 5);
  EXPECT_THAT(up.err, HasSubstr("this machine lacks 1 of 1 NoSuchDevice"));
  EXPECT_FALSE(FindProcess(paths.scheduler_pid, "spillwayd", paths.home).has_value());
  EXPECT_FALSE(FindProcess(paths.SupervisorPid("local-1"), "spillway-supervisor", paths.NodeHome("local-1")).has_value());
  EXPECT_FALSE(PathExists(paths.scheduler_pid));
  EXPECT_FALSE(PathExists(paths.WorkerPid("local-1")));
  EXPECT_FALSE(PathExists(paths.NodeHome("local-1"))) << "or the next `up` would count it";
  EXPECT_TRUE(PathExists(paths.config)) << "that one was there before";
}

TEST_F(UpTest, ARefusedForegroundUpStopsNothingThatRan) {
  Up({"--resources", "cpus=1,memory=1GB,gpu=none"});
  EXPECT_EQ(Spillway({"up", "--foreground", "--resources", "cpus=2"}).code, 4);
  EXPECT_EQ(Spillway({"up", "--foreground", "--port", "70000"}).code, 2);
  EXPECT_THAT(Spillway({"up"}).out, HasSubstr("was up already"));
}

TEST_F(UpTest, AStoppedSchedulerIsNamedWithTheWayOut) {
  Up({"--no-worker"});
  const HomePaths paths(home_);
  const auto scheduler = FindProcess(paths.scheduler_pid, "spillwayd", paths.home);
  ASSERT_TRUE(scheduler.has_value());
  ASSERT_EQ(kill(scheduler->pid, SIGSTOP), 0);
  const Result up = Spillway({"up", "--no-worker"});
  EXPECT_EQ(up.code, 5);
  EXPECT_THAT(up.err, AllOf(HasSubstr(absl::StrCat("spillwayd (pid ", scheduler->pid, ") is stopped")),
                            HasSubstr(absl::StrCat("`kill -CONT ", scheduler->pid, "`")), Not(HasSubstr("start it with `spillway up`"))));
  ASSERT_EQ(kill(scheduler->pid, SIGCONT), 0);
  EXPECT_THAT(Spillway({"up", "--no-worker"}).out, HasSubstr("was up already"));
  ASSERT_EQ(kill(scheduler->pid, SIGSTOP), 0);
  EXPECT_EQ(Spillway({"down"}).code, 0) << "it is let go on, to hear that it should end";
  EXPECT_FALSE(StillAlive(*scheduler));
}

TEST_F(UpTest, WhatARunningNodeCannotTakeIsRefusedAndNothingStarts) {
  Up({"--resources", "cpus=1,memory=1GB,gpu=none"});
  const Result other = Spillway({"up", "--resources", "cpus=2"});
  EXPECT_EQ(other.code, 4);
  EXPECT_THAT(other.err, HasSubstr("local-1 runs already with `cpus=1,memory=1GB,gpu=none`; first `spillway down`"));
  EXPECT_EQ(Spillway({"up", "--resources", "cpus=1,memory=1GB,gpu=none"}).code, 0) << "the same again says nothing new";
  EXPECT_THAT(Spillway({"up", "--no-worker"}).err, HasSubstr("--no-worker: local-1 runs already"));
  Up({"--reserved-nodes", "2", "--resources", "cpus=1,memory=1GB,gpu=none"});
  const Result fewer = Spillway({"up", "--reserved-nodes", "1"});
  EXPECT_EQ(fewer.code, 4);
  EXPECT_THAT(fewer.err, HasSubstr("--reserved-nodes 1: local-1, local-2 run already"));
  EXPECT_EQ(Spillway({"up", "--server", "127.0.0.1:1"}).code, 2);
  EXPECT_EQ(Spillway({"down", "--server", "127.0.0.1:1"}).code, 2);
  EXPECT_EQ(Spillway({"up", "--port", "7"}).code, 4) << "the configuration says another one";
  EXPECT_THAT(Spillway({"nodes"}).out, AllOf(HasSubstr("local-1"), HasSubstr("local-2"))) << "all went on";
}

TEST_F(UpTest, ANodeThatDeclaresTheWholeMachineStaysAlone) {
  Up();
  const Result more = Spillway({"up", "--reserved-nodes", "2"});
  EXPECT_EQ(more.code, 4);
  EXPECT_THAT(more.err, HasSubstr("local-1 runs already and declares all the machine has"));
}

TEST_F(UpTest, AMistypedListOfResourcesIsNotKept) {
  const Result bad = Spillway({"up", "--resources", "cpu=1"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("--resources: 'cpu=1': no resource is called 'cpu'; did you mean cpus?"));
  EXPECT_FALSE(PathExists(JoinPath(home_, "run"))) << "nothing was begun";
  Up();
}

TEST_F(UpTest, AFileThatHoldsNoPortIsNamed) {
  Up();
  const std::string file = JoinPath(home_, "run/user.port");
  ASSERT_OK(WriteFileAtomically(file, "garbage\n"));
  for (const char* verb : {"queue", "up"}) {
    const Result result = Spillway({verb});
    EXPECT_EQ(result.code, 2) << verb;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat(file, " holds `garbage`"))) << verb;
  }
  EXPECT_EQ(Spillway({"down"}).code, 0);
  Up();
  EXPECT_EQ(Spillway({"queue"}).code, 0);
}

TEST_F(UpTest, AFailedStartShowsTheLogOfThisStartOnly) {
  Up({"--no-worker"});
  ASSERT_EQ(Spillway({"down"}).code, 0);
  const std::string log = JoinPath(home_, "run/spillwayd.log");
  ASSERT_OK_AND_ASSIGN(const std::string before, ReadFile(log));
  ASSERT_OK(WriteFileAtomically(log, before + "a line of an earlier life\n"));
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "config.yaml"), "lisen: {user: \"127.0.0.1:0\"}\n"));
  const Result up = Spillway({"up"});
  EXPECT_EQ(up.code, 2);
  EXPECT_THAT(up.err, AllOf(HasSubstr("lisen"), Not(HasSubstr("an earlier life"))));
}

TEST_F(UpTest, AConfigurationThatIsWrongIsShown) {
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "config.yaml"), "lisen: {user: \"127.0.0.1:0\"}\n"));
  const Result up = Spillway({"up"});
  EXPECT_EQ(up.code, 2) << "invalid input";
  EXPECT_THAT(up.err, HasSubstr("config.yaml:1: lisen: unknown key, did you mean `listen`?"));
}

}  // namespace
}  // namespace spillway::client
