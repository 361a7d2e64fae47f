// Admits what start-up and the providers say: configuration, price lists, instances made, refused, listed and gone.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/text.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/policy/restored.h"
#include "scheduler/core/policy/retry.h"

namespace spillway::core {
namespace {

constexpr int64_t kOfferBackoffMsMax = 5 * 60'000;
constexpr int64_t kRejectedBackoffMs = 30 * 60'000;  // the request itself is wrong: asking again soon is of no use

absl::StatusOr<const ProviderInfo*> FindProvider(const State& state, const std::string& name) {
  const auto found = state.meta.providers.find(name);
  if (found != state.meta.providers.end()) return &found->second;
  return absl::NotFoundError(absl::StrCat("no provider is called ", Printable(name)));
}

absl::Status ValidateOffer(const Offer& offer, const std::string& provider) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("offer ", Printable(offer.name), " of ", provider, ": ", what));
  };
  if (offer.name.empty()) return bad("has no name");
  if (!offer.provider.empty() && offer.provider != provider) return bad(absl::StrCat("belongs to ", offer.provider));
  if (offer.market == Market::kUnspecified) return bad("has no market");
  if (offer.price_micros_per_hour < 0) return bad("its price is negative");
  if (offer.billing.increment_ms < 1 || offer.billing.minimum_ms < 0) return bad("its billing rule is out of range");
  const Capacity& has = offer.capacity;
  if (has.gpu_count < 0 || has.gpu_count > 64 || has.cpu_milli < 0 || has.memory_bytes < 0 || has.disk_bytes < 0) return bad("its capacity is out of range");
  return absl::OkStatus();
}

// What the provider says of an offer; what was learned stays.
bool SameListing(Offer known, const Offer& listed) {
  if (known.withdrawn) return false;
  known.backoff_until_ms = listed.backoff_until_ms;
  known.backoff_reason = listed.backoff_reason;
  known.refusals = listed.refusals;
  known.preemptions = listed.preemptions;
  known.last_preempted_ms = listed.last_preempted_ms;
  known.exposure_ms = listed.exposure_ms;
  return known == listed;
}

bool NothingNew(const State& state, const std::string& provider, const std::vector<Offer>& offers) {
  size_t same = 0, standing = 0;
  for (const Offer& offer : offers) {
    const auto known = state.offers.find({provider, offer.name});
    if (known == state.offers.end() || !SameListing(known->second, offer)) return false;
    ++same;
  }
  for (auto known = state.offers.lower_bound({provider, ""}); known != state.offers.end() && known->first.first == provider; ++known) {
    standing += known->second.withdrawn ? 0 : 1;
  }
  return same == standing;
}

}  // namespace

Admitted AdmitOne(const AdmitContext& context, const Configure& command) {
  const Meta& meta = context.state.meta;
  if (!meta.cluster_uuid.empty() && !command.cluster_uuid.empty() && meta.cluster_uuid != command.cluster_uuid) {
    return absl::FailedPreconditionError(absl::StrCat("the data belong to cluster ", meta.cluster_uuid, ", the configuration says ", command.cluster_uuid));
  }
  Configured event{meta.cluster_uuid.empty() ? command.cluster_uuid : meta.cluster_uuid, command.providers, command.reservations};
  std::map<std::string, ProviderInfo> providers;
  for (const ProviderInfo& provider : command.providers) {
    if (provider.name.empty()) return absl::InvalidArgumentError("providers: one has no name");
    if (!providers.insert({provider.name, provider}).second) return absl::InvalidArgumentError(absl::StrCat("providers: two are called ", provider.name));
  }
  std::map<std::string, Reservation> reservations;
  std::map<std::string, std::string> reserved_by;
  for (const Reservation& reservation : command.reservations) {
    if (reservation.name.empty()) return absl::InvalidArgumentError("reservations: one has no name");
    if (reservation.price_micros_per_hour < 0) return absl::InvalidArgumentError(absl::StrCat("reservation ", reservation.name, ": its price is negative"));
    if (!reservations.insert({reservation.name, reservation}).second)
      return absl::InvalidArgumentError(absl::StrCat("reservations: two are called ", reservation.name));
  }
  Admission admission;
  if (event.cluster_uuid != meta.cluster_uuid || providers != meta.providers || reservations != meta.reservations) admission.events.push_back(std::move(event));
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const OffersListed& command) {
  if (const auto provider = FindProvider(context.state, command.provider); !provider.ok()) return provider.status();
  OffersUpdated event{command.provider, command.offers};
  std::set<std::string> names;
  for (Offer& offer : event.offers) {
    if (const absl::Status valid = ValidateOffer(offer, command.provider); !valid.ok()) return valid;
    if (!names.insert(offer.name).second)
      return absl::InvalidArgumentError(absl::StrCat("two offers of ", command.provider, " are called ", Printable(offer.name)));
    offer.provider = command.provider;
    offer.withdrawn = false;
  }
  Admission admission;
  if (!NothingNew(context.state, command.provider, event.offers)) admission.events.push_back(std::move(event));
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const InstanceCreated& command) {
  Admission admission;
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) {
    if (command.node <= 0 || command.node >= context.state.meta.next_node) return NoSuchNode(context.state, command.node);
    return admission;  // it has ended: the next listing shows the instance as an orphan
  }
  if (command.instance_id.empty()) return absl::InvalidArgumentError("instance_id: must not be empty");
  if (node->instance_id == command.instance_id) return admission;
  if (!node->instance_id.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", node->name, " is instance ", node->instance_id, " already, not ", Printable(command.instance_id)));
  }
  admission.events.push_back(NodeCreated{node->id, command.instance_id});
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const InstanceRefused& command) {
  Admission admission;
  const Node* node = FindNode(context.state, command.node);
  const bool waits = node != nullptr && node->owned && node->created_ms == 0 && (node->state == NodeState::kRequested || node->state == NodeState::kReleasing);
  if (!waits) return admission;
  const OfferKey key{node->provider, node->offer};
  const auto offer = context.state.offers.find(key);
  const int64_t refusals = offer == context.state.offers.end() ? 1 : offer->second.refusals + 1;
  int64_t wait_ms = command.retry_after_ms;
  if (wait_ms <= 0) {
    wait_ms = command.code == InstanceRefused::Code::kRejected ? kRejectedBackoffMs : Doubling(context.policy.offer_backoff_ms, refusals, kOfferBackoffMsMax);
  }
  wait_ms = std::min(wait_ms, kRejectedBackoffMs);
  admission.events.push_back(NodeCreateRefused{node->id, key, Printable(command.message), context.now_ms + wait_ms});
  return admission;
}

namespace {

// Keeps its name unless a living node or another orphan has it.
Node Orphan(const AdmitContext& context, NodeId id, const std::string& provider, const InstanceListing::Instance& instance, std::set<std::string>* names) {
  Node node;
  node.id = id;
  const bool free_name = !instance.name.empty() && !context.state.index.node_by_name.contains({provider, instance.name}) && names->insert(instance.name).second;
  node.name = free_name ? instance.name : instance.instance_id;
  node.provider = provider;
  node.instance_id = instance.instance_id;
  node.state = NodeState::kReleasing;
  node.market = Market::kOnDemand;
  node.owned = true;
  node.requested_ms = node.created_ms = node.releasing_ms = context.now_ms;
  node.reason = "orphan: an instance of this cluster that no node accounts for";
  return node;
}

// Absence from a complete listing proves the end of an instance that must have been in it. `surely_ms`: when the listing began, if no doubtful time passed.
bool AbsenceProves(const Node& node, int64_t surely_ms) {
  if (!node.owned) return false;
  if (!node.instance_id.empty()) return node.created_ms + kListingGraceMs < surely_ms;
  // Never heard of again after it was asked for and given up.
  return node.state == NodeState::kReleasing && node.releasing_ms + kListingGraceMs < surely_ms;
}

// What this listing shows alive was seen to end: it is older than that, not a machine of its own.
bool KnownToHaveEnded(const AdmitContext& context, const std::string& provider, const std::string& instance_id, int64_t surely_ms) {
  const auto& ended = context.state.meta.ended_instances;
  const auto known = ended.find(EndedInstanceKey(provider, instance_id));
  return known != ended.end() && surely_ms <= known->second + kListingGraceMs;
}

void TakeAlive(const AdmitContext& context, const Node& node, const InstanceListing::Instance& instance, int64_t asked_ms, std::vector<Event>* events) {
  if (node.instance_id.empty() && !instance.instance_id.empty()) events->push_back(NodeCreated{node.id, instance.instance_id});
  if (instance.notice_in_ms < 0) return;
  const int64_t deadline_ms = std::max(context.now_ms, asked_ms + instance.notice_in_ms);
  if (node.notice_deadline_ms != 0 && node.notice_deadline_ms <= deadline_ms) return;
  events->push_back(NodeNoticed{node.id, deadline_ms, node.provider});
  if (node.state == NodeState::kReady) events->push_back(NodeDrainStarted{node.id, absl::StrCat("notice from ", node.provider)});
}

}  // namespace

Admitted AdmitOne(const AdmitContext& context, const InstanceListing& command) {
  const State& state = context.state;
  const auto provider = FindProvider(state, command.provider);
  if (!provider.ok()) return provider.status();
  Admission admission;
  std::set<NodeId> seen;
  std::set<std::string> orphan_names, ids;
  NodeId next_node = state.meta.next_node;
  const int64_t surely_ms = command.asked_ms - command.doubt_ms;
  for (const InstanceListing::Instance& instance : command.instances) {
    if (instance.instance_id.empty()) return absl::InvalidArgumentError(absl::StrCat("the listing of ", command.provider, " has an instance without an id"));
    if (!ids.insert(instance.instance_id).second) continue;
    auto found = state.index.node_by_instance.find({command.provider, instance.instance_id});
    const Node* node = found == state.index.node_by_instance.end() ? nullptr : FindNode(state, found->second);
    if (node == nullptr) {
      const auto by_name = state.index.node_by_name.find({command.provider, instance.name});
      if (by_name != state.index.node_by_name.end()) node = FindNode(state, by_name->second);
      if (node != nullptr && !node->instance_id.empty()) node = nullptr;  // an earlier machine of that name
    }
    if (node == nullptr) {
      if (Adopting(state, context.now_ms)) continue;
      if (KnownToHaveEnded(context, command.provider, instance.instance_id, surely_ms)) continue;
      if (instance.alive && (*provider)->can_create)
        admission.events.push_back(OrphanAdopted{Orphan(context, next_node++, command.provider, instance, &orphan_names)});
      continue;
    }
    if (!seen.insert(node->id).second) continue;
    if (instance.alive) {
      TakeAlive(context, *node, instance, command.asked_ms, &admission.events);
    } else {
      EndNode(context, *node, instance.reclaimed, Printable(instance.reason), instance.billed_micros, &admission.events);
    }
  }
  if (!(*provider)->can_testify) return admission;
  for (const auto& [id, node] : state.nodes) {
    if (node.provider != command.provider || seen.contains(id) || !AbsenceProves(node, surely_ms)) continue;
    EndNode(context, node, false, absl::StrCat(command.provider, " does not list it any more"), -1, &admission.events);
  }
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const InstanceGone& command) {
  Admission admission;
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) {
    if (command.node <= 0 || command.node >= context.state.meta.next_node) return NoSuchNode(context.state, command.node);
    return admission;
  }
  EndNode(context, *node, command.reclaimed, Printable(command.reason), command.billed_micros, &admission.events);
  return admission;
}

}  // namespace spillway::core
