#include "scheduler/rpc/fleet_service.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/core/metering.h"
#include "scheduler/rpc/backup_stream.h"
#include "scheduler/rpc/follow.h"
#include "scheduler/rpc/translate_view.h"
#include "scheduler/rpc/unary.h"

namespace spillway::rpc {

FleetService::FleetService(Backend backend) : backend_(std::move(backend)) { unlink(BackupStream::CopyOf(backend_.database).c_str()); }

grpc::ServerUnaryReactor* FleetService::ListNodes(grpc::CallbackServerContext* context, const v1::ListNodesRequest* request, v1::ListNodesResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    const int64_t limit = request->page_size() == 0 ? limits::kPageSizeDefault : request->page_size();
    if (limit < 1 || limit > limits::kPageSizeMax) return absl::InvalidArgumentError(absl::StrCat("page_size must be 1 to ", limits::kPageSizeMax));
    NodeId before = 0;
    if (!request->page_token().empty() && (!absl::SimpleAtoi(request->page_token(), &before) || before < 1)) {
      return absl::InvalidArgumentError("page_token is not one of ours");
    }
    ASSIGN_OR_RETURN(const std::vector<core::Node> nodes, backend_.reader->ListNodes(request->include_gone(), before, limit));
    using Uses = std::map<NodeId, NodeUse>;
    ASSIGN_OR_RETURN(const Uses uses, AskState(backend_, [&](const core::State& state, const core::Soft& soft, int64_t now_ms) {
                       Uses out;
                       for (const core::Node& row : nodes) {
                         const core::Node* node = core::FindNode(state, row.id);
                         if (node == nullptr) continue;
                         NodeUse& use = out[row.id] = UseOfNode(state, soft, row);
                         use.charged_micros = node->charged_micros + core::UnmeteredMicros(*node, now_ms);
                       }
                       return out;
                     }));
    for (const core::Node& node : nodes) {
      const auto use = uses.find(node.id);
      v1::Node* view = response->add_nodes();
      *view = NodeView(node, use == uses.end() ? NodeUse{} : use->second);
      if (use != uses.end() && node.gone_ms == 0) view->set_charged_micros(use->second.charged_micros);
    }
    if (static_cast<int64_t>(nodes.size()) == limit) response->set_next_page_token(absl::StrCat(nodes.back().id));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* FleetService::ListOffers(grpc::CallbackServerContext* context, const v1::ListOffersRequest* request,
                                                   v1::ListOffersResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    if (!request->provider().empty()) RETURN_IF_ERROR(CheckProvider(request->provider()));
    ASSIGN_OR_RETURN(const std::vector<core::Offer> offers, backend_.reader->ListOffers(request->provider()));
    for (const core::Offer& offer : offers) {
      if (!offer.withdrawn) *response->add_offers() = OfferView(offer);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* FleetService::ListReservations(grpc::CallbackServerContext* context, const v1::ListReservationsRequest*,
                                                         v1::ListReservationsResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto reservations, AskState(backend_, [](const core::State& state, const core::Soft&, int64_t) { return state.meta.reservations; }));
    for (const auto& [name, reservation] : reservations) *response->add_reservations() = ReservationView(reservation);
    return absl::OkStatus();
  });
}

absl::Status FleetService::CheckProvider(const std::string& name) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, AskState(backend_, [](const core::State& state, const core::Soft&, int64_t) {
                     std::vector<std::string> out;
                     for (const auto& [each, info] : state.meta.providers) out.push_back(each);
                     return out;
                   }));
  if (std::find(names.begin(), names.end(), name) != names.end()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("no provider is called ", Printable(name),
                   names.empty() ? "" : absl::StrCat(names.size() == 1 ? "; there is " : "; there are ", Printable(absl::StrJoin(names, ", "), 400))));
}

absl::StatusOr<NodeId> FleetService::FindLiving(const std::string& node) const {
  using Names = std::map<NodeId, std::string>;
  ASSIGN_OR_RETURN(const Names living, AskState(backend_, [](const core::State& state, const core::Soft&, int64_t) {
                     Names out;
                     for (const auto& [id, row] : state.nodes) out[id] = row.name;
                     return out;
                   }));
  NodeId id = 0;
  if (absl::SimpleAtoi(node, &id) && living.count(id) > 0) return id;
  std::vector<std::string> names;
  std::vector<NodeId> same;
  for (const auto& [living_id, name] : living) {
    if (name == node) same.push_back(living_id);
    names.push_back(name);
  }
  if (same.size() == 1) return same.front();
  if (same.size() > 1)
    return absl::InvalidArgumentError(absl::StrCat(same.size(), " living nodes are called ", Printable(node), "; give the id: ", absl::StrJoin(same, ", ")));
  const std::string nearest = NearestName(node, names);
  return absl::NotFoundError(absl::StrCat("no living node is called ", Printable(node), nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

grpc::ServerUnaryReactor* FleetService::Cordon(grpc::CallbackServerContext* context, const v1::CordonRequest* request, v1::NodeActionResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ThenAskEngine(
      context, backend_,
      [this, request]() -> absl::StatusOr<core::Command> {
        ASSIGN_OR_RETURN(const NodeId node, FindLiving(request->node()));
        return core::Command(core::CordonNode{node, request->on()});
      },
      [response](const core::Reply& reply) { response->set_message(reply.message); });
}

grpc::ServerUnaryReactor* FleetService::Drain(grpc::CallbackServerContext* context, const v1::DrainRequest* request, v1::NodeActionResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  if (request->grace_ms() < 0 || request->grace_ms() > kDurationMsMax)
    return Refuse(context, absl::InvalidArgumentError("grace_ms is negative or longer than ten years"));
  return ThenAskEngine(
      context, backend_,
      [this, request]() -> absl::StatusOr<core::Command> {
        ASSIGN_OR_RETURN(const NodeId node, FindLiving(request->node()));
        return core::Command(core::DrainNode{node, request->grace_ms()});
      },
      [response](const core::Reply& reply) { response->set_message(reply.message); });
}

grpc::ServerUnaryReactor* FleetService::GetServerInfo(grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*, v1::ServerInfo* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t seq, backend_.reader->NewestSeq());
    response->set_version(backend_.version);
    response->set_started_utc_ms(backend_.started_ms);
    response->set_event_seq(seq);
    return backend_.engine->Query([&](const core::State& state, const core::Soft&, int64_t) {
      response->set_cluster_uuid(state.meta.cluster_uuid);
      response->set_incarnation(state.meta.incarnation);
      int64_t queued = 0, active = 0, ready = 0;
      for (const auto& [id, job] : state.jobs) queued += job.job.counts.queued, active += job.job.counts.active;
      for (const auto& [id, node] : state.nodes) ready += node.state == NodeState::kReady;
      response->set_queued_tasks(queued);
      response->set_active_tasks(active);
      response->set_ready_nodes(ready);
    });
  });
}

grpc::ServerWriteReactor<v1::BackupChunk>* FleetService::Backup(grpc::CallbackServerContext* context, const v1::BackupRequest*) {
  if (absl::Status status = Authenticate(*context, *backend_.user_guard); !status.ok()) return new RefusedStream<v1::BackupChunk>(ToGrpc(status));
  if (backing_up_->exchange(true)) {
    return new RefusedStream<v1::BackupChunk>(ToGrpc(absl::FailedPreconditionError("another backup is under way; try again when it is done")));
  }
  // Given back with the stream, however that ends.
  const std::shared_ptr<void> turn(nullptr, [busy = backing_up_](void*) { *busy = false; });
  auto backup = std::make_shared<BackupStream>(backend_.database, [context] { return !context->IsCancelled(); });
  auto* stream = new FollowReactor<v1::BackupChunk>(backend_.pool, [backup, turn](std::deque<v1::BackupChunk>* out) { return backup->Read(out); });
  stream->Begin();
  return stream;
}

}  // namespace spillway::rpc
