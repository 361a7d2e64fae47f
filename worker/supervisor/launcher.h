// From a plan to a running process: fork into the attempt's cgroup, or through a reaper, and exec. Never waits for the child: how the launch went
// is read from `report_fd` (end of file: it runs; a LaunchFailure: it does not).
//
// The child: new session, SIGKILL when its parent dies, default signals, /dev/null as standard input, `output_fd` as output and error, nothing
// else open, its limits, its folder, and a high out-of-memory score so that the kernel takes it before worker or supervisor.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/frames/frames.h"
#include "worker/supervisor/cgroup.h"

namespace spillway::supervisor {

// Laid out before the fork, so that the child only makes system calls.
struct LaunchPlan {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;
  std::vector<frames::ResourceLimit> rlimits;
  int output_fd = -1;
  const Cgroup* cgroup = nullptr;  // nullptr: through a reaper
};

struct LaunchFailure {
  enum Stage : int { kJoin = 1, kLimits, kFolder, kDescriptors, kFork, kExec };
  int stage = 0;
  int error = 0;
};

// What a reaper tells through `status_fd`, in this order: kMain once, kEnded once, kGone once.
struct ReaperRecord {
  enum Kind : int { kMain = 1, kEnded, kGone };
  int kind = 0;
  int value = 0;      // kMain: its pid; kEnded: its wait status; kGone: how many processes outlived it and were killed
  rusage usage = {};  // kEnded
};

struct Launched {
  pid_t pid = -1;  // our child: the main process, or the reaper
  int report_fd = -1;
  int status_fd = -1;  // of the reaper, else -1
};

absl::StatusOr<Launched> Launch(const LaunchPlan& plan);

// What Launch promised about descriptors and signals, remembered once at start-up, before this process changes its own limits.
void RememberLimitsForChildren();

// "exec ./train: No such file or directory", and whether the job rather than the node is at fault.
std::string Describe(const LaunchFailure& failure, const frames::Start& start, bool* is_jobs);

// Signals to a reaper travel as the value of SIGRTMIN: pass `signal` on to the main process's group, or kill the whole tree.
inline constexpr int kReaperKillTree = -1;
void TellReaper(pid_t reaper, int signal);

}  // namespace spillway::supervisor
