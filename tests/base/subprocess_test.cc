#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int WaitFor(pid_t pid) {
  int status = -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

class SubprocessTest : public ::testing::Test {
 protected:
  // Runs the program to its end and gives what it wrote to standard output.
  std::string OutputOf(SpawnOptions options) {
    options.stdout_path = folder_.File("output");
    EXPECT_OK(RemoveTree(options.stdout_path));
    const auto pid = Spawn(options);
    EXPECT_OK(pid);
    if (!pid.ok()) return "";
    EXPECT_EQ(WaitFor(*pid), 0);
    return ReadFile(options.stdout_path).value_or("");
  }

  static SpawnOptions Program(std::vector<std::string> argv) {
    SpawnOptions options;
    options.argv = std::move(argv);
    return options;
  }

  static void ExpectNoChildLeft() {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  TemporaryFolder folder_;
};

TEST_F(SubprocessTest, ArgumentsArriveAsTheyAre) { EXPECT_EQ(OutputOf(Program({"printf", "%s|", "a b", "", "$HOME", "*", "'"})), "a b||$HOME|*|'|"); }

TEST_F(SubprocessTest, TheExitStatusIsTheProgramsOwn) {
  ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn(Program({"sh", "-c", "exit 7"})));
  const int status = WaitFor(pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(SubprocessTest, TheEnvironmentIsInheritedOrExactlyTheOneGiven) {
  SpawnOptions options = Program({"env"});
  setenv("SPILLWAY_TEST_INHERITED", "yes", 1);
  EXPECT_THAT(OutputOf(options), HasSubstr("SPILLWAY_TEST_INHERITED=yes\n"));
  unsetenv("SPILLWAY_TEST_INHERITED");
  options.env = {{"A=1", "B=x=y", "EMPTY="}};
  EXPECT_EQ(OutputOf(options), "A=1\nB=x=y\nEMPTY=\n");
  options.env = std::vector<std::string>();
  EXPECT_EQ(OutputOf(options), "");
}

TEST_F(SubprocessTest, TheFolderIsTheOneGiven) {
  SpawnOptions options = Program({"pwd", "-P"});
  options.cwd = "/";
  EXPECT_EQ(OutputOf(options), "/\n");
}

TEST_F(SubprocessTest, OutputIsAppendedToPrivateFiles) {
  const std::string path = folder_.File("log");
  SpawnOptions options = Program({"sh", "-c", "echo out; echo err >&2"});
  options.stdout_path = path;
  options.stderr_path = path;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn(options));
    EXPECT_EQ(WaitFor(pid), 0);
  }
  ASSERT_OK_AND_ASSIGN(const std::string both, ReadFile(path));
  EXPECT_EQ(both, "out\nerr\nout\nerr\n");
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);

  options.stdout_path = folder_.File("out");
  options.stderr_path = folder_.File("err");
  ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn(options));
  EXPECT_EQ(WaitFor(pid), 0);
  EXPECT_EQ(ReadFile(options.stdout_path).value_or(""), "out\n");
  EXPECT_EQ(ReadFile(options.stderr_path).value_or(""), "err\n");
}

TEST_F(SubprocessTest, DevNullTakesTheOutput) {
  SpawnOptions options = Program({"sh", "-c", "echo out; echo err >&2"});
  options.stdout_path = "/dev/null";
  options.stderr_path = "/dev/null";
  ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn(options));
  EXPECT_EQ(WaitFor(pid), 0);
}

TEST_F(SubprocessTest, NoDescriptorButTheStandardOnesIsPassedOn) {
  const int leaky = open("/dev/null", O_RDONLY);  // on purpose without O_CLOEXEC
  ASSERT_GT(leaky, STDERR_FILENO);
  const std::string listing = OutputOf(Program({"ls", "/proc/self/fd"}));
  close(leaky);
  EXPECT_EQ(listing, "0\n1\n2\n3\n");  // 3 is the folder that ls reads
  EXPECT_EQ(OutputOf(Program({"readlink", "/proc/self/fd/0"})), "/dev/null\n");
}

TEST_F(SubprocessTest, SignalsAreAsInAFreshProgram) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto old_handler = signal(SIGPIPE, SIG_IGN);
  const std::string status = OutputOf(Program({"cat", "/proc/self/status"}));
  sigset_t after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
  signal(SIGPIPE, old_handler);
  EXPECT_THAT(status, AllOf(HasSubstr("SigBlk:\t0000000000000000\n"), HasSubstr("SigIgn:\t0000000000000000\n")));
  EXPECT_TRUE(sigismember(&after, SIGTERM) == 1 && sigismember(&after, SIGINT) == 0);  // the caller's mask is as it was
}

TEST_F(SubprocessTest, ANewSessionIsLedByTheChild) {
  const auto session_of = [&](bool new_session) {
    SpawnOptions options = Program({"cat", "/proc/self/stat"});
    options.new_session = new_session;
    const std::vector<std::string> fields = absl::StrSplit(OutputOf(options), ' ');
    return std::pair(fields[0], fields[5]);
  };
  const auto own = session_of(true);
  EXPECT_EQ(own.first, own.second);
  const auto inherited = session_of(false);
  EXPECT_EQ(inherited.second, absl::StrCat(getsid(0)));
}

TEST_F(SubprocessTest, AFailedExecSaysWhyAndLeavesNothing) {
  EXPECT_THAT(Spawn(Program({"spillway-no-such-program"})),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("spillway-no-such-program"), HasSubstr("No such file"))));
  EXPECT_THAT(Spawn(Program({folder_.File("absent")})), StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
  EXPECT_THAT(Spawn(Program({folder_.path()})), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(folder_.path())));
  ASSERT_OK(WriteFileAtomically(folder_.File("plain"), "#!/bin/sh\n", 0644));
  EXPECT_THAT(Spawn(Program({folder_.File("plain")})), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("plain")));
  ExpectNoChildLeft();
}

TEST_F(SubprocessTest, TextWithoutAnInterpreterIsNotGivenToAShell) {
  ASSERT_OK(WriteFileAtomically(folder_.File("text"), absl::StrCat("touch ", folder_.File("ran"), "\n"), 0755));
  EXPECT_THAT(Spawn(Program({folder_.File("text")})), StatusIs(absl::StatusCode::kInternal, HasSubstr("Exec format error")));
  EXPECT_FALSE(PathExists(folder_.File("ran")));
  ExpectNoChildLeft();
}

TEST_F(SubprocessTest, ErrorsBeforeExecAreToldApart) {
  SpawnOptions options = Program({"true"});
  options.cwd = folder_.File("absent");
  EXPECT_THAT(Spawn(options), StatusIs(absl::StatusCode::kNotFound, HasSubstr(absl::StrCat("cannot enter folder ", options.cwd))));
  options.cwd = "";
  options.stdout_path = folder_.File("absent/log");
  EXPECT_THAT(Spawn(options), StatusIs(absl::StatusCode::kNotFound, HasSubstr(absl::StrCat("cannot open ", options.stdout_path))));
  ExpectNoChildLeft();
}

TEST_F(SubprocessTest, WhatCannotBePassedIsRefused) {
  EXPECT_THAT(Spawn(Program({})), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("argv is empty")));
  EXPECT_THAT(Spawn(Program({""})), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("argv is empty")));
  EXPECT_THAT(Spawn(Program({"echo", std::string("a\0b", 3)})), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a\\x00b")));
  SpawnOptions options = Program({"true"});
  options.env = {{"NO_EQUALS"}};
  EXPECT_THAT(Spawn(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NO_EQUALS")));
  options.env = {{std::string("KEY=sec\0ret", 11)}};
  EXPECT_THAT(Spawn(options), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("KEY"), Not(HasSubstr("sec")))));
}

TEST_F(SubprocessTest, ThePathIsSearchedPastWhatMayNotRun) {
  ASSERT_OK(MakeDirectories(folder_.File("one")));
  ASSERT_OK(MakeDirectories(folder_.File("two")));
  ASSERT_OK(WriteFileAtomically(folder_.File("one/tool"), "#!/bin/sh\necho one\n", 0644));
  ASSERT_OK(WriteFileAtomically(folder_.File("two/tool"), "#!/bin/sh\necho two\n", 0755));
  const std::string before = getenv("PATH");
  setenv("PATH", absl::StrCat(folder_.File("none"), ":", folder_.File("one"), ":", folder_.File("two"), ":", before).c_str(), 1);
  EXPECT_EQ(OutputOf(Program({"tool"})), "two\n");
  setenv("PATH", folder_.File("one").c_str(), 1);
  EXPECT_THAT(Spawn(Program({"tool"})), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("tool")));
  setenv("PATH", before.c_str(), 1);
}

// The helper (main.cc) starts `sleep 40` and ends at once. Both hold the pipe as standard output: it closes when both are gone.
TEST_F(SubprocessTest, AChildDiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int own_stdout = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ASSERT_EQ(dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
  const auto parent = Spawn(Program({"/proc/self/exe", "--spawn-and-leave"}));
  ASSERT_EQ(dup2(own_stdout, STDOUT_FILENO), STDOUT_FILENO);
  close(own_stdout);
  close(ends[1]);
  ASSERT_OK(parent);
  EXPECT_EQ(WaitFor(*parent), 0);
  pollfd closed = {ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&closed, 1, 20'000), 1);
  EXPECT_TRUE((closed.revents & POLLHUP) != 0);
  close(ends[0]);
}

TEST_F(SubprocessTest, AChildOutlivesTheThreadThatStartedIt) {
  const std::string gate = folder_.File("gate");
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  SpawnOptions options = Program({"sh", "-c", "read line < \"$0\"; exit 9", gate});
  options.die_with_parent = true;
  absl::StatusOr<pid_t> pid = absl::InternalError("not started");
  pid_t starter = 0;
  std::thread([&] {
    starter = static_cast<pid_t>(syscall(SYS_gettid));
    pid = Spawn(options);
  }).join();
  ASSERT_OK(pid);
  // join returns a little before the kernel is done with the thread.
  while (PathExists(absl::StrCat("/proc/self/task/", starter))) std::this_thread::yield();
  const int writer = open(gate.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(write(writer, "go\n", 3), 3);
  const int status = WaitFor(*pid);
  close(writer);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 9);
}

TEST_F(SubprocessTest, ManyThreadsStartProgramsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        SpawnOptions options = Program({i % 2 == 0 ? "true" : "spillway-no-such-program"});
        options.die_with_parent = t % 2 == 0;
        const auto pid = Spawn(options);
        EXPECT_EQ(pid.ok(), i % 2 == 0);
        if (pid.ok()) {
          EXPECT_EQ(WaitFor(*pid), 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectNoChildLeft();
}

TEST(ProcessTest, PidAndStartTimeNameAProcess) {
  ASSERT_OK_AND_ASSIGN(const int64_t mine, ProcessStartTicks(getpid()));
  EXPECT_GT(mine, 0);
  EXPECT_TRUE(ProcessAlive(getpid(), mine));
  EXPECT_FALSE(ProcessAlive(getpid(), mine - 1));  // the pid of another life
}

TEST(ProcessTest, AMaliciousNameDoesNotShiftTheFields) {
  char name[16] = {};
  ASSERT_EQ(prctl(PR_GET_NAME, name), 0);
  ASSERT_OK_AND_ASSIGN(const int64_t before, ProcessStartTicks(getpid()));
  ASSERT_EQ(prctl(PR_SET_NAME, "a) Z 1 (2 3"), 0);
  ASSERT_OK_AND_ASSIGN(const int64_t renamed, ProcessStartTicks(getpid()));
  EXPECT_TRUE(ProcessAlive(getpid(), renamed));
  prctl(PR_SET_NAME, name);
  EXPECT_EQ(renamed, before);
}

TEST(ProcessTest, AZombieIsNotAliveAndAReapedProcessIsNotFound) {
  SpawnOptions options;
  options.argv = {"sleep", "1000"};
  ASSERT_OK_AND_ASSIGN(const pid_t pid, Spawn(options));
  ASSERT_OK_AND_ASSIGN(const int64_t start, ProcessStartTicks(pid));
  EXPECT_TRUE(ProcessAlive(pid, start));
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_OK(ProcessStartTicks(pid));
  EXPECT_FALSE(ProcessAlive(pid, start));
  WaitFor(pid);
  EXPECT_FALSE(ProcessAlive(pid, start));
  EXPECT_THAT(ProcessStartTicks(pid), StatusIs(absl::StatusCode::kNotFound, HasSubstr(absl::StrCat(pid))));
}

TEST(ProcessTest, TheExecutablesFolderHoldsThisTest) { EXPECT_TRUE(PathExists(JoinPath(ExecutableFolder(), "base_test"))); }

}  // namespace
}  // namespace spillway
