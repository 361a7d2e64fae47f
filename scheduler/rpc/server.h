// The two gRPC servers of the daemon: one for users, one for workers. Owns their limits and keepalive; the services do the rest.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway::rpc {

class Server {
 public:
  // `address` is "HOST:PORT"; port 0 picks a free one. UNAVAILABLE names the address when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& address, const std::vector<grpc::Service*>& services);
  // Calls under way get `grace_ms` to end, then are cancelled. Idempotent.
  void Stop(int64_t grace_ms);
  ~Server() { Stop(0); }
  int port() const { return port_; }

 private:
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

// INVALID_ARGUMENT unless the host is a loopback address: without TLS nothing else is safe.
absl::Status CheckLoopback(const std::string& address);

}  // namespace spillway::rpc
