// Holds one attempt's tree where no cgroup can: a process between the supervisor and the user's program that adopts whatever the tree orphans
// (PR_SET_CHILD_SUBREAPER), so that when it has no child left, nothing of the tree is left. It leaves only then.
// A copy of the supervisor that never becomes another program; keeps no descriptor but its two pipes.
#pragma once

#include <sys/types.h>

#include <functional>

namespace spillway::supervisor {

struct ReaperPipes {
  int report_fd;  // the child's; closed here
  int status_fd;  // ReaperRecords
  int output_fd;  // the child's; closed here
  pid_t parent;
};

// Runs in the forked child. `become` runs in its child in turn, with the reaper's pid, and does not return.
[[noreturn]] void RunReaper(const ReaperPipes& pipes, const std::function<void(pid_t reaper)>& become);

}  // namespace spillway::supervisor
