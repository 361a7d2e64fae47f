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
  std::string token;         // empty when none was found
  std::string token_source;  // the variable or file it came from
};

// A variable of the environment; empty when unset.
using Environment = std::function<std::string(const char*)>;
Environment ProcessEnvironment();

// `server_flag` empty: SPILLWAY_SERVER, then HOME/run/user.port (written by a scheduler that runs here), then 127.0.0.1:7070.
// The token: SPILLWAY_TOKEN, then the file SPILLWAY_TOKEN_FILE names, then HOME/tokens/user. A file that others may read is refused.
absl::StatusOr<Connection> FindConnection(const std::string& server_flag, const std::string& home, const Environment& environment);

// HOST:PORT from a file that spillwayd writes (HOME/run/user.port, worker.port): a port on this machine, or an address. INVALID_ARGUMENT names the file
// and says what to do when it holds anything else; NOT_FOUND when it is absent.
absl::StatusOr<std::string> ReadPortFile(const std::string& path);

// The token in `path`. PERMISSION_DENIED when group or others may read or write it; INVALID_ARGUMENT when it holds no token.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// The host is this machine: what is sent there crosses no network.
bool IsLoopback(absl::string_view server);

}  // namespace spillway::client
