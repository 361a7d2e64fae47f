// Starts, watches, kills and buries machines: the only part of the playground that touches processes and the folders of instances.
// A machine is known by its monitor (instance_init.h): (pid, start ticks) names it for ever, a pidfd tells when it ends, whoever its parent is.
//
//   HOME/instances/ID   the machine's own disk: deleted as soon as the machine has ended
//   HOME/consoles/ID.log   what it printed; kept, cut at kConsoleBytesMax
//   HOME/ends/ID        written by the monitor at its end, read once
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "playground/cloud.h"

namespace spillway::playground {

struct MachineEnd {
  int64_t steady_ms = 0;
  int exit_status = 0;
};

class MachineRunner {
 public:
  struct Options {
    std::string home;
    std::string program_path;  // spillway-playground, for its instance-init mode
    std::string worker_path;   // spillway-worker
    std::map<std::string, std::string> environment;
  };
  explicit MachineRunner(Options options) : options_(std::move(options)) {}

  absl::Status Prepare();  // the folders

  struct Machine {
    pid_t pid = 0;
    int64_t start_ticks = 0;
  };
  // `marker` is unique to this instance of this cloud.
  absl::StatusOr<Machine> Start(const Instance& instance, const std::string& metadata_url, const std::string& marker);

  // A descriptor that becomes readable when the machine has ended; NOT_FOUND when it has already. The caller closes it.
  absl::StatusOr<int> Watch(pid_t pid, int64_t start_ticks);
  // The monitor kills everything inside and then ends. `hard`: kill the monitor too; the kernel then kills pid 1.
  void Kill(int watch_fd, bool hard);
  void Reap(pid_t pid);  // if it was our child

  std::optional<MachineEnd> EndOf(const std::string& id) const;
  // Kills whatever carries the marker and returns how many there were.
  int KillLeftovers(const std::string& marker);
  // Deletes the machine's disk. Requires that it has ended.
  absl::Status Bury(const std::string& id);

  absl::StatusOr<std::string> ConsoleTail(const std::string& id, size_t bytes) const;
  void CutConsoles();  // truncates those that have grown too long

 private:
  std::string DiskOf(const std::string& id) const;
  std::string ConsoleOf(const std::string& id) const;
  std::string EndFileOf(const std::string& id) const;

  Options options_;
};

}  // namespace spillway::playground
