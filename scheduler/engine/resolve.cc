#include "scheduler/engine/resolve.h"

#include "absl/strings/str_cat.h"

namespace spillway::engine {
namespace {

// The living attempt with this id, its job, and its member on `node`; null when there is none.
struct Found {
  const core::Job* job = nullptr;
  const core::Attempt* attempt = nullptr;
  const core::Member* member = nullptr;
  int64_t rank = 0;

  // It has not begun, as far as its node has said.
  bool Unstarted() const { return attempt->state == AttemptState::kOffered || (attempt->state == AttemptState::kStarting && !member->started); }
};
Found Find(const core::State& state, NodeId node, AttemptId id) {
  Found found;
  const core::Task* task = core::FindTask(state, id.task());
  if (task == nullptr || !task->attempt.has_value() || task->attempt->number != id.number) return found;
  found.job = core::FindJob(state, id.job);
  found.attempt = &*task->attempt;
  found.member = core::LivingMember(*task->attempt, node);
  if (found.member != nullptr) found.rank = found.member - task->attempt->members.data();
  return found;
}

OfferOrder OfferOf(const core::State& state, NodeId node, AttemptId id, const Found& found) {
  OfferOrder order;
  order.node = node;
  order.attempt = id;
  order.spec_digest = found.job->spec_digest;
  order.job_uid = found.job->uid;
  order.job_name = found.job->name;
  order.checkpoint_dir = CheckpointDir(state, id);
  order.resume_path = found.attempt->resume_path;
  order.resume_step = found.attempt->from_step;
  for (int device = 0; device < 64; ++device) {
    if ((found.member->devices >> device & 1) != 0) order.devices.push_back(device);
  }
  order.log_path = LogPath(id, found.rank);
  order.rank = found.rank;
  order.node_names = found.attempt->node_names;
  if (found.attempt->state == AttemptState::kStarting) order.rendezvous = found.attempt->rendezvous;
  return order;
}

}  // namespace

std::string CheckpointDir(const core::State& state, AttemptId attempt) {
  return absl::StrCat(state.meta.cluster_uuid, "/", attempt.job, "/", attempt.index, "/a", attempt.number);
}

std::string LogPath(AttemptId attempt, int64_t rank) {
  return absl::StrCat(attempt.job, "/", attempt.index, "/a", attempt.number, rank > 0 ? absl::StrCat(".", rank) : "", ".log");
}

std::string ClientToken(const core::State& state, NodeId node) { return absl::StrCat(state.meta.cluster_uuid, "-", node); }

std::optional<OfferOrder> ResolveOffer(const core::State& state, NodeId node, AttemptId id) {
  const Found found = Find(state, node, id);
  if (found.member == nullptr || !found.Unstarted()) return std::nullopt;
  return OfferOf(state, node, id, found);
}

std::optional<StopOrder> ResolveStop(const core::State& state, NodeId node, AttemptId id) {
  const Found found = Find(state, node, id);
  if (found.member == nullptr || found.attempt->state != AttemptState::kStopping || !found.attempt->stop.has_value()) return std::nullopt;
  return StopOrder{node, id, *found.attempt->stop};
}

std::optional<SealOrder> ResolveSeal(const core::State& state, AttemptId id) {
  const core::Task* task = core::FindTask(state, id.task());
  if (task == nullptr || task->seal_owed != id.number) return std::nullopt;
  return SealOrder{id, core::FindJob(state, id.job)->uid, CheckpointDir(state, id)};
}

std::optional<CreateOrder> ResolveCreate(const core::State& state, NodeId id) {
  const core::Node* node = core::FindNode(state, id);
  if (node == nullptr || node->state != NodeState::kRequested) return std::nullopt;
  CreateOrder order;
  order.node = *node;
  if (const auto offer = state.offers.find({node->provider, node->offer}); offer != state.offers.end()) order.offer = offer->second;
  order.client_token = ClientToken(state, id);
  return order;
}

std::optional<TerminateOrder> ResolveTerminate(const core::State& state, NodeId id) {
  const core::Node* node = core::FindNode(state, id);
  if (node == nullptr || node->state != NodeState::kReleasing) return std::nullopt;
  return TerminateOrder{id, node->provider, node->name, node->instance_id, ClientToken(state, id)};
}

WelcomeOrder ResolveWelcome(const core::State& state, const core::Policy& policy, NodeId node, const std::set<AttemptId>& inventory) {
  WelcomeOrder order;
  order.node = node;
  order.cluster_uuid = state.meta.cluster_uuid;
  order.incarnation = state.meta.incarnation;
  order.lease_ms = policy.lease_ms;
  order.renew_every_ms = policy.renew_every_ms;
  if (const core::Node* row = core::FindNode(state, node)) order.report_ack = row->report_ack;
  order.wanted = core::WantedOn(state, node);
  for (const AttemptId& attempt : order.wanted) {
    // Accepted counts like offered: a worker that was killed while it staged has forgotten it, and its supervisor, in the same life, never started it
    // (or is about to, and then says so when it is asked again). A member of a gang that is to start may not have heard so.
    const Found found = Find(state, node, attempt);
    const bool to_start = found.attempt->state == AttemptState::kStarting && core::IsGang(*found.attempt);
    if (found.Unstarted() && (to_start || inventory.count(attempt) == 0)) order.offers.push_back(OfferOf(state, node, attempt, found));
    if (auto stop = ResolveStop(state, node, attempt)) order.stops.push_back(*std::move(stop));
  }
  return order;
}

}  // namespace spillway::engine
