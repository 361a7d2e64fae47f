// FleetService: nodes, offers, reservations, cordon and drain, backups. Owns no state but that a backup is under way.
#pragma once

#include <atomic>
#include <memory>

#include "scheduler/rpc/backend.h"
#include "spillway/v1/fleet_service.grpc.pb.h"

namespace spillway::rpc {

class FleetService final : public v1::FleetService::CallbackService {
 public:
  explicit FleetService(Backend backend);

  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext*, const v1::ListNodesRequest*, v1::ListNodesResponse*) override;
  grpc::ServerUnaryReactor* ListOffers(grpc::CallbackServerContext*, const v1::ListOffersRequest*, v1::ListOffersResponse*) override;
  grpc::ServerUnaryReactor* ListReservations(grpc::CallbackServerContext*, const v1::ListReservationsRequest*, v1::ListReservationsResponse*) override;
  grpc::ServerUnaryReactor* Cordon(grpc::CallbackServerContext*, const v1::CordonRequest*, v1::NodeActionResponse*) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext*, const v1::DrainRequest*, v1::NodeActionResponse*) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext*, const v1::GetServerInfoRequest*, v1::ServerInfo*) override;
  grpc::ServerWriteReactor<v1::BackupChunk>* Backup(grpc::CallbackServerContext*, const v1::BackupRequest*) override;

 private:
  // A living node by name or id; NOT_FOUND names the nearest.
  absl::StatusOr<NodeId> FindLiving(const std::string& node) const;
  // NOT_FOUND, with the names that there are, where the configuration has no such provider.
  absl::Status CheckProvider(const std::string& name) const;

  const Backend backend_;
  const std::shared_ptr<std::atomic<bool>> backing_up_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace spillway::rpc
