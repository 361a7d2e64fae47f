#include "scheduler/rpc/server.h"

#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/grpc_log.h"
#include "base/limits.h"

namespace spillway::rpc {

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::string& address, const std::vector<grpc::Service*>& services) {
  LogGrpcAsDebug();
  grpc::EnableDefaultHealthCheckService(true);
  auto out = std::make_unique<Server>();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &out->port_);
  builder.SetMaxReceiveMessageSize(limits::kGrpcMessageBytesMax);
  builder.SetMaxSendMessageSize(limits::kGrpcMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits::kGrpcMetadataBytesMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1'000);
  // Both sides say so: clients ping every 10 s, also between calls; a peer that does not answer for 20 s is gone.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Two daemons on one port would share it silently.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : services) builder.RegisterService(service);
  out->server_ = builder.BuildAndStart();
  if (out->server_ == nullptr || out->port_ == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     ": the port is taken, or the address is not of this machine; `listen` in config.yaml names another (port 0: a free one)"));
  }
  return out;
}

void Server::Stop(int64_t grace_ms) {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
  server_->Wait();
  server_ = nullptr;
}

absl::Status CheckLoopback(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::InvalidArgumentError(absl::StrCat(address, ": write HOST:PORT, such as 127.0.0.1:7070"));
  const std::string host = address.substr(0, colon);
  const bool loopback_v4 = absl::StartsWith(host, "127.") && host.find_first_not_of("0123456789.") == std::string::npos;
  if (loopback_v4 || host == "localhost" || host == "[::1]") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(address, ": only loopback addresses are served without TLS, and TLS is not built yet"));
}

}  // namespace spillway::rpc
