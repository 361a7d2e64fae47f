// Where the scheduler is and what opens it: flags, environment and SPILLWAY_HOME, in that order. Never talks to anyone.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::client {

inline constexpr char kDefaultServer[] = "127.0.0.1:7070";

struct Connection {
  std::string server;
  std::string token;  // empty when none was found
};

// A variable of the environment; empty when unset.
using Environment = std::function<std::string(const char*)>;
Environment ProcessEnvironment();

// `server_flag` empty: SPILLWAY_SERVER, then HOME/run/user.port (written by a scheduler that runs here), then 127.0.0.1:7070.
// The token: SPILLWAY_TOKEN, then the file SPILLWAY_TOKEN_FILE names, then HOME/tokens/user. A file that others may read is refused.
absl::StatusOr<Connection> FindConnection(const std::string& server_flag, const std::string& home, const Environment& environment);

// The token in `path`. PERMISSION_DENIED when group or others may read or write it.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// The host is this machine: what is sent there crosses no network.
bool IsLoopback(absl::string_view server);

}  // namespace spillway::client
