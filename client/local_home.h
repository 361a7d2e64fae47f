// What SPILLWAY_HOME holds before anything runs there: folders, tokens, a first configuration. Made once, never overwritten.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway::client {

struct HomePaths {
  explicit HomePaths(const std::string& home);
  std::string home, config, user_token, worker_token;
  std::string user_port, worker_port;  // written by spillwayd: the ports it listens on
  std::string scheduler_pid, scheduler_log, lock;
  std::string NodeHome(const std::string& node) const;  // HOME/nodes/NODE
  std::string WorkerPid(const std::string& node) const;
  std::string WorkerLog(const std::string& node) const;
  std::string SupervisorPid(const std::string& node) const;
};

// Creates what is missing: the home and what is in it 0700, tokens 0600 and random. A `port` (0: any free one, run/user.port then tells which) is
// written into a new configuration, and refused with FAILED_PRECONDITION where one exists that says another. True when the configuration is new:
// whoever fails to start with it removes it again, so that the next try is the first one too.
absl::StatusOr<bool> PrepareHome(const HomePaths& paths, std::optional<int64_t> port);

std::string DefaultConfig(std::optional<int64_t> port);

// Names of the nodes that have a home, sorted: local-1, local-2.
std::vector<std::string> LocalNodes(const HomePaths& paths);

// One `up` or `down` at a time; the lock ends with the descriptor's process.
absl::StatusOr<int> LockHome(const HomePaths& paths);

}  // namespace spillway::client
