// The playground's HTTP front: the control API under /v1 (bearer token) and the metadata service of each instance under
// /metadata/ID/SECRET/latest (session tokens, the way clouds do). Loopback only. README.md documents both.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "playground/host.h"

namespace spillway::playground {

class HttpServer {
 public:
  // `control_token` opens the control API, and every instance's metadata secret is derived from it.
  HttpServer(Host* host, std::string control_token);
  ~HttpServer();

  // Binds 127.0.0.1:port. With port 0 a free one, but `preferred_port` if that can be had (the port of the last life, which machines still
  // running know). Returns the port.
  absl::StatusOr<int> Bind(int port, int preferred_port);
  void Start();  // serves on threads of its own
  void Stop();

  std::string MetadataUrl(const std::string& instance_id) const;  // requires Bind

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::playground
