#include "playground/instance_init.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/files.h"

namespace spillway::playground {
namespace {

enum class Isolation { kNamespace, kTree };

sigset_t MonitorSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

bool WriteText(const char* path, absl::string_view text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return ok;
}

// As root directly; otherwise inside a user namespace that maps only the own ids, where the kernel allows one.
bool EnterNamespaces() {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) == 0) return true;
  const std::string uid_map = absl::StrCat(getuid(), " ", getuid(), " 1\n");
  const std::string gid_map = absl::StrCat(getgid(), " ", getgid(), " 1\n");
  if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) return false;
  return WriteText("/proc/self/setgroups", "deny") && WriteText("/proc/self/uid_map", uid_map) && WriteText("/proc/self/gid_map", gid_map);
}

[[noreturn]] void Exec(const std::vector<std::string>& argv, int exec_failed_status) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  execvp(args[0], args.data());
  dprintf(STDERR_FILENO, "instance-init: cannot start %s: %s\n", args[0], strerrordesc_np(errno));
  _exit(exec_failed_status);
}

int StatusOfWait(int wait_status) { return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status); }

// Pid 1 of the namespace: starts the command, reaps everything, ends with the command. Signals sent to it from inside are ignored by the kernel.
[[noreturn]] void RunPidOne(const std::vector<std::string>& argv, int report_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool own_proc =
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 && mount("proc", "/proc", "proc", MS_NOSUID | MS_NOEXEC | MS_NODEV, nullptr) == 0;
  const char verdict = own_proc ? 'y' : 'n';
  if (write(report_fd, &verdict, 1) != 1 || !own_proc) _exit(1);
  close(report_fd);
  const pid_t command = fork();
  if (command == 0) {
    setsid();
    Exec(argv, 127);
  }
  if (command < 0) _exit(126);
  for (;;) {
    int wait_status = 0;
    const pid_t reaped = waitpid(-1, &wait_status, 0);
    if (reaped == command) _exit(StatusOfWait(wait_status));
    if (reaped < 0 && errno != EINTR) _exit(1);
  }
}

// The child that stands for the machine: pid 1 of a namespace, or the command itself at the root of a tree. -1 when it cannot be started.
pid_t StartInNamespace(const std::vector<std::string>& argv) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    close(report[0]);
    RunPidOne(argv, report[1]);
  }
  close(report[1]);
  char verdict = 'n';
  if (child < 0 || read(report[0], &verdict, 1) != 1 || verdict != 'y') {
    close(report[0]);
    if (child > 0) waitpid(child, nullptr, 0);
    return -1;
  }
  close(report[0]);
  return child;
}

// A first process tries whether namespaces work at all: unshare cannot be undone in the monitor.
bool NamespacesWork() {
  const pid_t probe = fork();
  if (probe == 0) {
    if (!EnterNamespaces()) _exit(1);
    const pid_t child = StartInNamespace({"/bin/true"});
    if (child < 0) _exit(1);
    waitpid(child, nullptr, 0);
    _exit(0);
  }
  int wait_status = 1;
  if (probe < 0) return false;
  while (waitpid(probe, &wait_status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
}

pid_t StartInTree(const std::vector<std::string>& argv) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    Exec(argv, 127);
  }
  return child;
}

// Parent of every process, from /proc.
std::map<pid_t, pid_t> Parents() {
  std::map<pid_t, pid_t> parents;
  absl::StatusOr<std::vector<std::string>> names = ListDirectory("/proc");
  if (!names.ok()) return parents;
  for (const std::string& name : *names) {
    int pid = 0;
    if (!absl::SimpleAtoi(name, &pid)) continue;
    absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", name, "/stat"), 1 << 16);
    if (!stat.ok()) continue;
    const size_t after_name = stat->rfind(')');
    if (after_name == std::string::npos) continue;
    const std::vector<std::string> fields = absl::StrSplit(stat->substr(after_name + 1), ' ', absl::SkipEmpty());
    int parent = 0;
    if (fields.size() > 1 && absl::SimpleAtoi(fields[1], &parent)) parents[pid] = parent;
  }
  return parents;
}

void ReapAll() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

// Kills everything below this process until nothing is left: orphans come back to it as their subreaper, so none can hide.
void KillTree() {
  const pid_t self = getpid();
  for (;;) {
    ReapAll();
    int killed = 0;
    const std::map<pid_t, pid_t> parents = Parents();
    for (const auto& [pid, parent] : parents) {
      pid_t ancestor = parent;
      for (int depth = 0; ancestor > 1 && ancestor != self && depth < 4096; ++depth) {
        auto it = parents.find(ancestor);
        ancestor = it == parents.end() ? 0 : it->second;
      }
      if (ancestor == self && kill(pid, SIGKILL) == 0) ++killed;
    }
    if (killed == 0) return;
    usleep(1'000);
  }
}

void EndMachine(Isolation isolation, pid_t machine) {
  kill(machine, SIGKILL);
  if (isolation == Isolation::kTree) KillTree();
  // With pid 1 reaped, the kernel has reaped the whole namespace.
  while (waitpid(machine, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Until the machine ends by itself, or the monitor is told to end it. Returns the exit status, 128 + signal when killed.
int Watch(Isolation isolation, pid_t machine) {
  const sigset_t signals = MonitorSignals();
  for (;;) {
    int wait_status = 0;
    for (pid_t reaped; (reaped = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      if (reaped != machine) continue;
      if (isolation == Isolation::kTree) KillTree();
      return StatusOfWait(wait_status);
    }
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal > 0 && signal != SIGCHLD) {
      EndMachine(isolation, machine);
      return 128 + SIGKILL;
    }
  }
}

}  // namespace

int InstanceInitMain(const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> flags(arguments.begin(), dashes);
  const bool tree_only = flags.size() == 3 && flags[2] == "--tree";
  if (flags.size() < 2 || flags[0] != "--end-file" || (flags.size() > 2 && !tree_only) || arguments.end() - dashes < 2) {
    fprintf(stderr, "usage: spillway-playground instance-init --end-file FILE [--tree] -- COMMAND...\n");
    return 2;
  }
  const std::vector<std::string> argv(dashes + 1, arguments.end());
  const sigset_t signals = MonitorSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before the first child: its end must not be missed

  const Isolation isolation = !tree_only && NamespacesWork() ? Isolation::kNamespace : Isolation::kTree;
  pid_t machine = -1;
  if (isolation == Isolation::kNamespace) {
    machine = EnterNamespaces() ? StartInNamespace(argv) : -1;
  } else {
    machine = StartInTree(argv);
  }
  const int status = machine > 0 ? Watch(isolation, machine) : 126;
  const absl::Status written = WriteFileAtomically(flags[1], absl::StrCat(RealClock().NowSteadyMs(), " ", status, "\n"), 0600);
  if (!written.ok()) fprintf(stderr, "instance-init: %s\n", written.ToString().c_str());
  return status;
}

}  // namespace spillway::playground
