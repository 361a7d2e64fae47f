// Nodes from the request to their end, the offers they come from, the configuration.
#include <algorithm>

#include "base/log.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/index.h"
#include "scheduler/core/metering.h"
#include "scheduler/core/policy/restored.h"
#include "scheduler/core/reduce_internal.h"
#include "scheduler/core/transitions.h"

namespace spillway::core {
namespace {

// Metering comes first where the change alters what the node's time is charged as: see the callers of Meter.
void ChangeNode(const ReduceContext& context, NodeId id, const std::function<void(Node*)>& change) {
  const auto found = context.state->nodes.find(id);
  CHECK(found != context.state->nodes.end()) << "node " << id << " does not live";
  Node& node = found->second;
  RemoveNodeFromIndexes(&context.state->index, node);
  const NodeState from = node.state;
  change(&node);
  CHECK(node.state == from || LegalMove(from, node.state)) << "node " << id << " " << Name(from) << " -> " << Name(node.state);
  AddNodeToIndexes(&context.state->index, node);
  context.changes->nodes.insert(id);
}

void AddNode(const ReduceContext& context, Node node) {
  CHECK(node.id == context.state->meta.next_node) << node.id << " " << context.state->meta.next_node;
  CHECK(LegalMove(NodeState::kUnspecified, node.state)) << Name(node.state);
  ++context.state->meta.next_node;
  AddNodeToIndexes(&context.state->index, node);
  context.changes->nodes.insert(node.id);
  context.state->nodes[node.id] = std::move(node);
}

void LeaveMemory(const ReduceContext& context, NodeId id) {
  const auto found = context.state->nodes.find(id);
  CHECK(!context.state->index.on_node.contains(id)) << "node " << id << " ends with living attempts";
  RemoveNodeFromIndexes(&context.state->index, found->second);
  context.changes->nodes.erase(id);
  context.changes->gone_nodes[id] = std::move(found->second);
  context.state->nodes.erase(found);
}

void ChangeOffer(const ReduceContext& context, const OfferKey& key, const std::function<void(Offer*)>& change) {
  const auto found = context.state->offers.find(key);
  if (found == context.state->offers.end()) return;
  change(&found->second);
  context.changes->offers.insert(key);
}

OfferKey OfferOf(const Node& node) { return {node.provider, node.offer}; }

void RememberEnded(const ReduceContext& context, const Node& node, int64_t forget_before_ms) {
  auto& ended = context.state->meta.ended_instances;
  std::erase_if(ended, [&](const auto& entry) { return entry.second < forget_before_ms; });
  if (node.owned && !node.instance_id.empty()) ended[EndedInstanceKey(node.provider, node.instance_id)] = context.now_ms;
  context.changes->meta = true;
}

}  // namespace

void Apply(const ReduceContext& context, const Configured& event) {
  Meta& meta = context.state->meta;
  meta.cluster_uuid = event.cluster_uuid;
  meta.providers.clear();
  for (const ProviderInfo& provider : event.providers) meta.providers[provider.name] = provider;
  meta.reservations.clear();
  for (const Reservation& reservation : event.reservations) meta.reservations[reservation.name] = reservation;
}

// Every node's reports go on from where the backup left them, in a life of their own: what became of its attempts since, its hello tells.
void Apply(const ReduceContext& context, const Restored& event) {
  Meta& meta = context.state->meta;
  meta.incarnation = event.incarnation;
  meta.first_job = meta.next_job = event.next_job;
  meta.next_node = event.next_node;
  meta.adopt_until_ms = event.adopt_until_ms;
  std::vector<NodeId> known;
  for (const auto& [id, node] : context.state->nodes) {
    if (!node.boot_id.empty()) known.push_back(id);
  }
  for (const NodeId id : known) {
    ChangeNode(context, id, [](Node* node) {
      node->boot_id = kLifeBefore;
      node->report_ack = 0;
    });
  }
}

void Apply(const ReduceContext& context, const NodeRequested& event) {
  ChangeOffer(context, OfferOf(event.node), [](Offer* offer) {
    if (offer->available > 0) --offer->available;  // until the next listing says better
  });
  AddNode(context, event.node);
}

void Apply(const ReduceContext& context, const NodeCreated& event) {
  ChangeNode(context, event.node, [&](Node* node) {
    if (!event.instance_id.empty()) node->instance_id = event.instance_id;
    if (node->state == NodeState::kRequested) node->state = NodeState::kBooting;
    if (node->created_ms == 0) node->created_ms = node->metered_ms = context.now_ms;  // it bills from here on
  });
  ChangeOffer(context, OfferOf(context.state->nodes.at(event.node)), [](Offer* offer) {
    offer->refusals = 0;
    offer->backoff_until_ms = 0;
    offer->backoff_reason.clear();
  });
}

void Apply(const ReduceContext& context, const NodeCreateRefused& event) {
  ChangeOffer(context, event.offer, [&event](Offer* offer) {
    ++offer->refusals;
    offer->backoff_until_ms = event.backoff_until_ms;
    offer->backoff_reason = event.message;
  });
  ChangeNode(context, event.node, [&](Node* node) {
    node->state = NodeState::kReleased;
    node->gone_ms = context.now_ms;
    node->reason = event.message;
  });
  LeaveMemory(context, event.node);
}

void Apply(const ReduceContext& context, const NodeRegistered& event) {
  const auto take = [&](Node* node) {
    const int64_t metered_ms = node->metered_ms, charged_micros = node->charged_micros, idle_since_ms = node->idle_since_ms;
    *node = event.node;
    node->metered_ms = metered_ms;
    node->charged_micros = charged_micros;
    const bool works = context.state->index.on_node.contains(node->id);
    node->idle_since_ms = works ? 0 : idle_since_ms != 0 ? idle_since_ms : context.now_ms;
  };
  if (const Node* known = FindNode(*context.state, event.node.id); known != nullptr) {
    const bool booted = known->ready_ms == 0 && event.node.ready_ms != 0;
    Meter(context.state, event.node.id, context.now_ms, context.changes);
    ChangeNode(context, event.node.id, take);
    if (!booted) return;
    ChangeOffer(context, OfferOf(event.node), [&](Offer* offer) {
      ++offer->boots;
      offer->boot_ms += std::max<int64_t>(event.node.ready_ms - event.node.requested_ms, 0);
    });
    return;
  }
  Node node = event.node;
  node.metered_ms = context.now_ms;
  node.charged_micros = 0;
  node.idle_since_ms = context.now_ms;
  AddNode(context, std::move(node));
}

void Apply(const ReduceContext& context, const NodeNoticed& event) {
  if (event.deadline_ms == 0) return;  // advice: history only
  bool first = false;
  ChangeNode(context, event.node, [&](Node* node) {
    first = node->notice_deadline_ms == 0;
    node->notice_deadline_ms = event.deadline_ms;
  });
  if (!first) return;
  ChangeOffer(context, OfferOf(context.state->nodes.at(event.node)), [&](Offer* offer) {
    ++offer->preemptions;
    offer->last_preempted_ms = context.now_ms;
  });
}

void Apply(const ReduceContext& context, const NodeCordoned& event) {
  ChangeNode(context, event.node, [&event](Node* node) { node->cordoned = event.on; });
}

void Apply(const ReduceContext& context, const NodeDrainStarted& event) {
  Meter(context.state, event.node, context.now_ms, context.changes);
  ChangeNode(context, event.node, [&event](Node* node) {
    node->state = NodeState::kDraining;
    node->reason = event.reason;
  });
}

void Apply(const ReduceContext& context, const NodeReleaseRequested& event) {
  Meter(context.state, event.node, context.now_ms, context.changes);
  ChangeNode(context, event.node, [&](Node* node) {
    node->state = NodeState::kReleasing;
    node->releasing_ms = context.now_ms;
    node->reason = event.reason;
  });
  if (event.reason != kReasonBootTimeout) return;
  ChangeOffer(context, OfferOf(context.state->nodes.at(event.node)), [&](Offer* offer) { offer->last_preempted_ms = context.now_ms; });
}

void Apply(const ReduceContext& context, const OrphanAdopted& event) {
  Node node = event.node;
  node.metered_ms = context.now_ms;
  AddNode(context, std::move(node));
}

void Apply(const ReduceContext& context, const NodeGone& event) {
  CloseMeter(context.state, event.node, event.billed_micros, context.now_ms, context.changes);
  bool counts_as_preemption = false;
  int64_t exposure_ms = 0;
  ChangeNode(context, event.node, [&](Node* node) {
    counts_as_preemption = event.reclaimed && node->notice_deadline_ms == 0;  // with a notice it was counted then
    exposure_ms = node->ready_ms > 0 ? context.now_ms - node->ready_ms : 0;
    node->state = event.state;
    node->gone_ms = context.now_ms;
    node->reason = event.reason;
  });
  ChangeOffer(context, OfferOf(context.state->nodes.at(event.node)), [&](Offer* offer) {
    offer->exposure_ms += exposure_ms;
    if (!counts_as_preemption) return;
    ++offer->preemptions;
    offer->last_preempted_ms = context.now_ms;
  });
  RememberEnded(context, context.state->nodes.at(event.node), event.forget_before_ms);
  LeaveMemory(context, event.node);
}

void Apply(const ReduceContext& context, const OffersUpdated& event) {
  std::set<std::string> listed;
  for (const Offer& offer : event.offers) {
    listed.insert(offer.name);
    const OfferKey key{event.provider, offer.name};
    Offer& known = context.state->offers[key];
    Offer updated = offer;
    updated.withdrawn = false;
    updated.backoff_until_ms = known.backoff_until_ms;
    updated.backoff_reason = known.backoff_reason;
    updated.refusals = known.refusals;
    updated.preemptions = known.preemptions;
    updated.last_preempted_ms = known.last_preempted_ms;
    updated.exposure_ms = known.exposure_ms;
    updated.boots = known.boots;
    updated.boot_ms = known.boot_ms;
    if (updated == known) continue;
    known = std::move(updated);
    context.changes->offers.insert(key);
  }
  auto& offers = context.state->offers;
  for (auto known = offers.lower_bound({event.provider, ""}); known != offers.end() && known->first.first == event.provider; ++known) {
    if (known->second.withdrawn || listed.contains(known->first.second)) continue;
    known->second.withdrawn = true;
    context.changes->offers.insert(known->first);
  }
}

void Apply(const ReduceContext& context, const ReportsTaken& event) {
  const auto node = context.state->nodes.find(event.node);
  CHECK(node != context.state->nodes.end() && node->second.report_ack < event.seq) << event.node << " " << event.seq;
  node->second.report_ack = event.seq;
  context.changes->nodes.insert(event.node);
}

}  // namespace spillway::core
