// The C++ client of the scheduler: Api over gRPC. Bounds, keepalive and deadlines are set; nothing waits for ever unless asked to follow.
//
// The first contact fails at once when nothing answers. After it, calls that are safe to repeat, and streams, outlive a scheduler that restarts:
// they try again for `reconnect_ms`. No gRPC header is needed to use this one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/api.h"

namespace spillway::client {

struct ClientOptions {
  std::string server;                // "127.0.0.1:7070"
  std::string token;                 // sent as `authorization: Bearer TOKEN`; empty: none
  std::string token_source;          // where it was found, for the error of a scheduler that does not accept it
  int64_t call_timeout_ms = 30'000;  // of one try
  int64_t reconnect_ms = 60'000;     // how long a scheduler that answered before may be away
  bool advise = true;                // an error of one that does not answer says how to start it; `up`, which does that, says more itself
};

// Never blocks and never fails for a scheduler that is away: the first call does.
absl::StatusOr<std::unique_ptr<Api>> Connect(const ClientOptions& options);

}  // namespace spillway::client
