// Starting programs: argv, never a shell. Descriptors are close-on-exec everywhere else, so a child gets only what is named here.
// Standard input is /dev/null, signal handlers and mask are the default ones. The caller reaps the child.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway {

struct SpawnOptions {
  std::vector<std::string> argv;                // argv[0] is looked up in PATH unless it has a slash
  std::optional<std::vector<std::string>> env;  // "K=V"; nullopt inherits
  std::string cwd;                              // "" inherits
  std::string stdout_path;                      // appended to, 0600; "" inherits; "/dev/null" works
  std::string stderr_path;                      // the same path as stdout_path shares the descriptor
  bool new_session = false;                     // setsid, so that it outlives the caller's terminal
  bool die_with_parent = false;                 // PR_SET_PDEATHSIG(SIGKILL): when this process ends, not the calling thread
};

// The pid of the running program. When exec fails the error says so (NOT_FOUND, PERMISSION_DENIED) and nothing is left.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

// Start time of a process in clock ticks since boot (/proc/PID/stat field 22): (pid, start time) names a process for ever.
absl::StatusOr<int64_t> ProcessStartTicks(pid_t pid);
// True while a process with this pid and this start time is alive and not a zombie.
bool ProcessAlive(pid_t pid, int64_t start_ticks);

// The folder of the running executable, to find its siblings (`spillway-worker` beside `spillwayd`).
std::string ExecutableFolder();

}  // namespace spillway
