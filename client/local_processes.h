// Programs of ours that run in the background of this machine, each known by a pid file: starting, finding, stopping.
// A process is named by (pid, start time) and must run the program it should: a pid that the system gave to another is never touched.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway::client {

struct LocalProcess {
  pid_t pid = 0;
  int64_t start_ticks = 0;
  int64_t log_from = 0;  // where its own lines begin in its log, when it was started by us
};

// The living process of `program` for `home`, or nullopt: the one that the pid file names, else, where the file is lost or wrong, one that holds the home's
// lock or was started with `--home HOME`. One that holds the lock of another home, or was started with it, is never taken, whatever the file says: a home
// that was copied has the pid files of the first. A file with the pid alone (as daemons write it themselves) is believed when the process runs the program,
// and holds a lock on the file or was started before the file was written.
std::optional<LocalProcess> FindProcess(const std::string& pid_file, const std::string& program, const std::string& home);

// Starts `program` (a sibling of this executable) detached, its output appended to `log_file`, and writes the pid file ("": the program does it itself).
// In `foreground` it stays in the caller's session and shares our output.
absl::StatusOr<LocalProcess> StartProcess(const std::string& program, const std::vector<std::string>& arguments, const std::string& log_file,
                                          const std::string& pid_file, bool foreground);

// Says which process is meant beyond doubt: its pid and when it started.
absl::Status WritePidFile(const std::string& pid_file, const LocalProcess& process);

bool StillAlive(const LocalProcess& process);
bool IsStopped(const LocalProcess& process);                                 // by SIGSTOP, a terminal or a debugger: alive, and answers nobody
bool HasArgument(const LocalProcess& process, const std::string& argument);  // among those it was started with
// What follows `option` among them: `--resources` -> "cpus=2"; "" where the option is absent.
std::string ValueOfOption(const LocalProcess& process, const std::string& option);
// The file was written after the process had started, beyond the doubt of two wall-clock readings.
bool ChangedSinceStart(const LocalProcess& process, const std::string& file);
void AskToEnd(const LocalProcess& process);  // SIGTERM; one that is stopped is let go on, to hear it
void KillNow(const LocalProcess& process);   // SIGKILL

// The last lines of a log from byte `from` on, for an error message: what an earlier life wrote says nothing about this one.
std::string LogTail(const std::string& log_file, int64_t from);

}  // namespace spillway::client
