#include "worker/supervisor/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/text.h"
#include "worker/supervisor/reaper.h"

namespace spillway::supervisor {
namespace {

rlimit g_open_files = {};

// Pointers into the plan, in the form that execve wants.
struct ExecArguments {
  explicit ExecArguments(const LaunchPlan& plan) {
    for (const std::string& word : plan.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& pair : plan.env) env.push_back(const_cast<char*>(pair.c_str()));
    argv.push_back(nullptr);
    env.push_back(nullptr);
    const std::string& name = plan.argv[0];
    if (name.find('/') != std::string::npos) {
      files.push_back(name);
      return;
    }
    absl::string_view path;
    for (const std::string& pair : plan.env) {
      if (pair.compare(0, 5, "PATH=") == 0) path = absl::string_view(pair).substr(5);
    }
    for (const absl::string_view folder : absl::StrSplit(path, ':')) files.push_back(folder.empty() ? name : JoinPath(folder, name));
  }
  std::vector<char*> argv, env;
  std::vector<std::string> files;  // to try in order
};

[[noreturn]] void Fail(int report_fd, LaunchFailure::Stage stage, int error) {
  const LaunchFailure failure{stage, error};
  (void)!write(report_fd, &failure, sizeof failure);
  _exit(127);
}

void ResetSignals() {
  for (int signal = 1; signal < 65; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void SetLimits(const LaunchPlan& plan, int report_fd) {
  setrlimit(RLIMIT_NOFILE, &g_open_files);
  for (const frames::ResourceLimit& limit : plan.rlimits) {
    const rlimit value = {limit.soft < 0 ? RLIM_INFINITY : static_cast<rlim_t>(limit.soft), limit.hard < 0 ? RLIM_INFINITY : static_cast<rlim_t>(limit.hard)};
    if (setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &value) != 0) Fail(report_fd, LaunchFailure::kLimits, errno);
  }
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, "500", 3);
    close(fd);
  }
}

// Becomes the user's program. Runs in the child, which is a copy of a program with one thread.
[[noreturn]] void Become(const LaunchPlan& plan, const ExecArguments& arguments, int report_fd, pid_t parent) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  ResetSignals();
  umask(022);
  if (plan.cgroup != nullptr) {
    for (const int fd : plan.cgroup->join_fds()) {
      if (write(fd, "0", 1) != 1) Fail(report_fd, LaunchFailure::kJoin, errno);
    }
  }
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int output_fd = plan.output_fd >= 0 ? plan.output_fd : null_fd;
  if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(output_fd, 1) < 0 || dup2(output_fd, 2) < 0) Fail(report_fd, LaunchFailure::kDescriptors, errno);
  syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  SetLimits(plan, report_fd);
  if (chdir(plan.cwd.empty() ? "/" : plan.cwd.c_str()) != 0) Fail(report_fd, LaunchFailure::kFolder, errno);
  int error = ENOENT;
  for (const std::string& file : arguments.files) {
    execve(file.c_str(), arguments.argv.data(), arguments.env.data());
    // As execvp: a file that may not be run is remembered, but one further along the path wins.
    if (errno == EACCES) {
      error = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      error = errno;
      break;
    }
  }
  Fail(report_fd, LaunchFailure::kExec, error);
}

// fork, straight into the cgroup where the kernel can. `in_cgroup` says whether it did.
pid_t ForkInto(const Cgroup* cgroup, bool* in_cgroup) {
  *in_cgroup = false;
  if (cgroup == nullptr || !cgroup->clone_into()) return fork();
  clone_args args = {};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(cgroup->folder_fd());
  const long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid >= 0) {
    *in_cgroup = true;
    return static_cast<pid_t>(pid);
  }
  if (errno != ENOSYS && errno != E2BIG && errno != EINVAL) return -1;
  return fork();
}

bool JoinCgroup(const Cgroup& cgroup) {
  const int fd = openat(cgroup.folder_fd(), "cgroup.procs", O_WRONLY | O_CLOEXEC);
  return fd >= 0 && write(fd, "0", 1) == 1;
}

}  // namespace

void RememberLimitsForChildren() { getrlimit(RLIMIT_NOFILE, &g_open_files); }

absl::StatusOr<Launched> Launch(const LaunchPlan& plan) {
  const ExecArguments arguments(plan);
  int report[2], status[2] = {-1, -1};
  if (pipe2(report, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  const bool reaped = plan.cgroup == nullptr;
  if (reaped && pipe2(status, O_CLOEXEC) != 0) {
    const int error = errno;
    close(report[0]);
    close(report[1]);
    return ErrnoStatus(error, "cannot make a pipe");
  }
  const pid_t parent = getpid();
  bool in_cgroup = false;
  const pid_t pid = ForkInto(plan.cgroup, &in_cgroup);
  if (pid == 0) {
    if (reaped) {
      RunReaper({report[1], status[1], plan.output_fd, parent}, [&](pid_t reaper) { Become(plan, arguments, report[1], reaper); });
    }
    if (!in_cgroup && !JoinCgroup(*plan.cgroup)) Fail(report[1], LaunchFailure::kJoin, errno);
    Become(plan, arguments, report[1], parent);
  }
  const int error = errno;
  close(report[1]);
  if (reaped) close(status[1]);
  if (pid < 0) {
    close(report[0]);
    if (reaped) close(status[0]);
    return ErrnoStatus(error, "cannot fork");
  }
  fcntl(report[0], F_SETFL, O_NONBLOCK);
  if (reaped) fcntl(status[0], F_SETFL, O_NONBLOCK);
  return Launched{pid, report[0], status[0]};
}

std::string Describe(const LaunchFailure& failure, const frames::Start& start, bool* is_jobs) {
  *is_jobs = false;
  const char* why = strerror(failure.error);
  switch (failure.stage) {
    case LaunchFailure::kJoin: return absl::StrCat("cannot join the cgroup: ", why);
    case LaunchFailure::kLimits: return absl::StrCat("cannot set a resource limit: ", why);
    case LaunchFailure::kDescriptors: return absl::StrCat("cannot set up its descriptors: ", why);
    case LaunchFailure::kFork: return absl::StrCat("cannot fork: ", why);
    case LaunchFailure::kFolder: *is_jobs = true; return absl::StrCat("cannot enter the folder ", Printable(start.cwd), ": ", why);
    default:
      *is_jobs = failure.error != ENOMEM && failure.error != EMFILE && failure.error != ENFILE && failure.error != EIO && failure.error != EAGAIN;
      return absl::StrCat("exec ", Printable(start.argv.empty() ? "" : start.argv[0]), ": ", why,
                          failure.error == ENOEXEC ? " (a script needs a first line like #!/bin/sh)" : "");
  }
}

void TellReaper(pid_t reaper, int signal) {
  sigval value = {};
  value.sival_int = signal;
  sigqueue(reaper, SIGRTMIN, value);
}

}  // namespace spillway::supervisor
