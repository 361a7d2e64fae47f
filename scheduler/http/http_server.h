// Plain HTTP on loopback: /healthz for those who wait, /metrics (Prometheus text) for those who watch. Read-only, no secrets, no token.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/engine/engine_thread.h"

namespace spillway::http {

class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& address, engine::EngineThread* engine);
  ~Server();
  int port() const { return port_; }

 private:
  struct Listener;  // hides the HTTP library
  Server();
  std::unique_ptr<Listener> listener_;
  int port_ = 0;
};

// The numbers of one moment, as Prometheus reads them. Pure.
std::string MetricsText(const core::State& state, const engine::Counters& counters);

}  // namespace spillway::http
