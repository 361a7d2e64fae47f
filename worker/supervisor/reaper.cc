#include "worker/supervisor/reaper.h"

#include <errno.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "worker/supervisor/launcher.h"
#include "worker/supervisor/process_tree.h"

namespace spillway::supervisor {
namespace {

constexpr long kLookAgainMs = 5, kLookAgainMsMax = 500;

void Tell(int fd, ReaperRecord record) { (void)!write(fd, &record, sizeof record); }

// Leaves open: 0, 1, 2 and status_fd.
void CloseAllBut(int status_fd) {
  if (status_fd > 3) syscall(SYS_close_range, 3u, static_cast<unsigned>(status_fd) - 1, 0u);
  syscall(SYS_close_range, static_cast<unsigned>(status_fd) + 1, ~0u, 0u);
}

// To the main process's group, and to the other groups of its session. It is not reaped yet, so its number is still its own.
void SignalSession(pid_t main, int signal) {
  // Before its setsid the child has no group of its own yet.
  if (kill(-main, signal) != 0) kill(main, signal);
  for (const pid_t pid : DescendantsOf(getpid(), Parents())) {
    if (pid != main && getpgid(pid) != main && getsid(pid) == main) kill(pid, signal);
  }
}

// Whoever kills a tree that forks without end must not wait for its turn among it. Refused without privilege, and then only slower.
void GetAhead() {
  sched_param first = {};
  first.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) setpriority(PRIO_PROCESS, 0, -20);
}

}  // namespace

void RunReaper(const ReaperPipes& pipes, const std::function<void(pid_t reaper)>& become) {
  prctl(PR_SET_NAME, "spillway-reaper");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != pipes.parent) _exit(127);
  sigset_t waited;
  sigfillset(&waited);
  sigprocmask(SIG_SETMASK, &waited, nullptr);
  sigemptyset(&waited);
  sigaddset(&waited, SIGCHLD);
  sigaddset(&waited, SIGRTMIN);

  const pid_t self = getpid();
  const pid_t main = fork();
  if (main == 0) become(self);
  if (main < 0) {
    const LaunchFailure failure{LaunchFailure::kFork, errno};
    (void)!write(pipes.report_fd, &failure, sizeof failure);
    _exit(127);
  }
  CloseAllBut(pipes.status_fd);
  Tell(pipes.status_fd, {ReaperRecord::kMain, main, {}});

  bool main_lives = true, killing = false, counted = false;
  size_t leftovers = 0;
  std::set<pid_t> killed;
  long look_again_ms = kLookAgainMs;
  while (true) {
    // While killing, look again soon: a process may have forked between the look at /proc and its death.
    const timespec soon = {look_again_ms / 1000, look_again_ms % 1000 * 1'000'000};
    siginfo_t info = {};
    const int signal = sigtimedwait(&waited, &info, killing ? &soon : nullptr);
    if (signal == SIGRTMIN && info.si_value.sival_int == kReaperKillTree) {
      GetAhead();
      killing = true;
    } else if (signal == SIGRTMIN && info.si_value.sival_int > 0 && main_lives) {
      SignalSession(main, info.si_value.sival_int);
    }
    int status = 0;
    rusage usage = {};
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
      if (pid != main) continue;
      main_lives = false;
      GetAhead();
      killing = true;
      Tell(pipes.status_fd, {ReaperRecord::kEnded, status, usage});
    }
    if (pid < 0 && errno == ECHILD && !main_lives) {
      Tell(pipes.status_fd, {ReaperRecord::kGone, static_cast<int>(leftovers), {}});
      _exit(0);
    }
    if (!killing) continue;
    std::set<pid_t> found = KillDescendantsOfSelf();
    if (!main_lives && !counted) {
      counted = true;
      leftovers = found.size();
    }
    // Who cannot die yet (a disk that does not answer) is not asked two hundred times a second.
    look_again_ms = found == killed ? std::min(look_again_ms * 2, kLookAgainMsMax) : kLookAgainMs;
    killed = std::move(found);
  }
}

}  // namespace spillway::supervisor
