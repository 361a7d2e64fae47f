// Admits what Decide proposes and operators order about nodes and attempts. Decide is not trusted: every precondition is looked at again.
#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/fit/room.h"
#include "scheduler/core/policy/offers.h"
#include "scheduler/core/policy/restored.h"
#include "scheduler/core/policy/silence.h"
#include "scheduler/core/policy/slack.h"

namespace spillway::core {
namespace {

absl::Status Refused(absl::string_view what) { return absl::FailedPreconditionError(what); }

bool HasAttempts(const State& state, NodeId node) { return state.index.on_node.contains(node); }

absl::Status MayBeOffered(const AdmitContext& context, const Job& job, TaskId id) {
  const Task* task = FindTask(context.state, id);
  if (job.cancel_requested) return Refused(absl::StrCat("task ", id.ToString(), " was cancelled"));
  if (AtLimit(job)) return Refused(absl::StrCat("job ", job.id, " has as many tasks ACTIVE as it may at once, ", job.parallel));
  if (WaitsForLostLife(context.state, job, context.now_ms)) return Refused(absl::StrCat("job ", job.id, " may still run from before the restore"));
  if (task == nullptr) {
    if (id.index != job.next_index || id.index >= job.task_count) return Refused(absl::StrCat("task ", id.ToString(), " is not the next of its job to start"));
    if (const HoldReason hold = HoldOf(job); hold != HoldReason::kUnspecified) return Refused(absl::StrCat("job ", job.id, " is held: ", LowerName(hold)));
    return absl::OkStatus();
  }
  if (task->state != TaskState::kQueued) return Refused(absl::StrCat("task ", id.ToString(), " is ", Name(task->state)));
  if (task->seal_owed != 0) return Refused(absl::StrCat("attempt ", task->seal_owed, " of task ", id.ToString(), " is not sealed yet"));
  if (task->not_before_ms > context.now_ms) return Refused(absl::StrCat("task ", id.ToString(), " backs off"));
  return absl::OkStatus();
}

absl::Status MayHold(const AdmitContext& context, const Node& node, const Shape& shape, uint64_t devices) {
  if (node.state != NodeState::kReady) return Refused(absl::StrCat("node ", node.name, " is ", Name(node.state)));
  if (node.cordoned) return Refused(absl::StrCat("node ", node.name, " is cordoned"));
  if (node.notice_deadline_ms != 0) return Refused(absl::StrCat("node ", node.name, " will be taken"));
  if (const uint32_t misfits = Misfits(shape, node); misfits != 0) {
    return Refused(absl::StrCat("node ", node.name, " ", DescribeMisfits(misfits, shape, node)));
  }
  const Room room = RoomOn(context.state.index, node);
  if (!room.Holds(shape)) return Refused(absl::StrCat("node ", node.name, " has no room for ", DescribeNeed(shape)));
  if (std::popcount(devices) != shape.gpu_count || (devices & room.devices) != devices) {
    return Refused(absl::StrCat("node ", node.name, " does not have these devices free"));
  }
  return absl::OkStatus();
}

}  // namespace

Admitted AdmitOne(const AdmitContext& context, const CordonNode& command) {
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) return NoSuchNode(context.state, command.node);
  Admission admission;
  if (!command.on && node->state == NodeState::kDraining && (node->notice_deadline_ms == 0 || !node->owned)) {
    Node back = *node;  // uncordon ends a drain too, and a notice that the operator of a static machine knows to be wrong
    back.state = NodeState::kReady;
    back.cordoned = false;
    back.notice_deadline_ms = 0;
    back.reason.clear();
    admission.events.push_back(NodeRegistered{std::move(back)});
  } else if (node->cordoned != command.on) {
    admission.events.push_back(NodeCordoned{node->id, command.on});
  }
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const DrainNode& command) {
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) return NoSuchNode(context.state, command.node);
  if (node->state != NodeState::kReady && node->state != NodeState::kDraining) {
    return Refused(absl::StrCat("node ", node->name, " is ", Name(node->state), ", only a READY node can be drained"));
  }
  Admission admission;
  if (node->state == NodeState::kReady) admission.events.push_back(NodeDrainStarted{node->id, "drained by an operator"});
  const auto attempts = context.state.index.on_node.find(node->id);
  if (attempts == context.state.index.on_node.end()) return admission;
  for (const AttemptId& id : attempts->second) {
    StopRequest stop;
    stop.cause = EndCause::kMoved;
    stop.initiator = Initiator::kUser;
    stop.grace_ms = command.grace_ms > 0 ? command.grace_ms : FindJob(context.state, id.job)->grace_ms;
    stop.requested_ms = context.now_ms;
    stop.reason = absl::StrCat("node ", node->name, " is drained");
    if (!Tightens(FindAttempt(context.state, id)->stop, stop)) continue;
    admission.events.push_back(AttemptStopRequested{id, std::move(stop)});
    ++admission.reply.affected;
  }
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const Place& command) {
  const State& state = context.state;
  const Job* job = FindJob(state, command.task.job);
  if (job == nullptr) return Refused(absl::StrCat("task ", command.task.ToString(), " does not live"));
  if (const absl::Status may = MayBeOffered(context, *job, command.task); !may.ok()) return may;
  const Shape& shape = ShapeOf(state, *job);
  if (static_cast<int64_t>(command.members.size()) != shape.nodes)
    return Refused(absl::StrCat("task ", command.task.ToString(), " needs ", shape.nodes, " nodes"));
  const std::optional<Task> task = GetTask(state, command.task);
  Attempt attempt;
  attempt.number = NextAttempt(state, *job, *task);
  attempt.state = AttemptState::kOffered;
  attempt.place = command.reason;
  attempt.offered_ms = context.now_ms;
  attempt.worked_before_ms = task->worked_ms;
  if (task->checkpoint) {
    attempt.resume_path = task->checkpoint->path;
    attempt.from_step = attempt.to_step = task->checkpoint->step;
  }
  std::set<NodeId> nodes;
  for (const Member& member : command.members) {
    const Node* node = FindNode(state, member.node);
    if (node == nullptr) return NoSuchNode(state, member.node);
    if (!nodes.insert(node->id).second) return Refused("a node holds at most one member of a gang");
    if (const absl::Status may = MayHold(context, *node, shape, member.devices); !may.ok()) return may;
    attempt.members.push_back({member.node, member.devices, false});
    attempt.node_names.push_back(node->name);
    // What can be taken away from one member is taken away from all.
    if (attempt.market == Market::kUnspecified || CanBeTaken(node->market)) attempt.market = node->market;
    attempt.price_micros_per_hour = std::max(attempt.price_micros_per_hour, node->price_micros_per_hour);
  }
  Admission admission;
  admission.events.push_back(AttemptOffered{command.task, std::move(attempt)});
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const RequestNode& command) {
  const State& state = context.state;
  const auto found = state.offers.find(command.offer);
  if (found == state.offers.end()) return absl::NotFoundError(absl::StrCat("there is no offer ", command.offer.first, "/", command.offer.second));
  const Offer& offer = found->second;
  switch (BarOf(state, offer, 0, 0, context.now_ms)) {
    case OfferBar::kNone: break;
    case OfferBar::kWithdrawn: return Refused(absl::StrCat("offer ", offer.name, " was withdrawn"));
    case OfferBar::kNoProvider: return Refused(absl::StrCat("provider ", offer.provider, " creates no nodes"));
    case OfferBar::kBackoff: return Refused(absl::StrCat("offer ", offer.name, " backs off: ", offer.backoff_reason));
    case OfferBar::kNoCapacity: return Refused(absl::StrCat("offer ", offer.name, " has no capacity"));
    case OfferBar::kNodeLimit: return Refused(absl::StrCat("provider ", offer.provider, " has as many nodes as max_nodes allows"));
  }
  const std::optional<Task> task = GetTask(state, command.for_task);
  if (!task || task->state != TaskState::kQueued) return Refused(absl::StrCat("task ", command.for_task.ToString(), " does not wait for a node"));
  Node node;
  node.id = state.meta.next_node;
  node.name = absl::StrCat(offer.provider, "-", node.id);
  if (state.meta.incarnation > 1) absl::StrAppend(&node.name, "-", state.meta.incarnation);
  node.provider = offer.provider;
  node.offer = offer.name;
  node.zone = offer.zone;
  node.region = offer.region;
  node.state = NodeState::kRequested;
  node.market = offer.market;
  node.capacity = offer.capacity;
  node.price_micros_per_hour = offer.price_micros_per_hour;
  node.billing = offer.billing;
  node.owned = true;
  node.requested_ms = context.now_ms;
  node.for_task = command.for_task;
  node.reason = absl::StrCat("for task ", command.for_task.ToString(), ": ", DescribePlace(command.reason));
  Admission admission;
  admission.reply.node = node.id;
  admission.events.push_back(NodeRequested{std::move(node)});
  return admission;
}

// A machine with living attempts is ended only when it will be taken anyway, or as the fence of a silent one whose provider can prove the end.
Admitted AdmitOne(const AdmitContext& context, const ReleaseNode& command) {
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) return NoSuchNode(context.state, command.node);
  if (!node->owned) return Refused(absl::StrCat("node ", node->name, " was not created by this cluster: it is not ours to release"));
  Admission admission;
  if (node->state == NodeState::kReleasing) return admission;
  const bool fence = command.reason == kReasonSilent && CanTestify(context.state, *node);
  const bool taken = node->notice_deadline_ms != 0 && node->notice_deadline_ms <= context.now_ms;
  if (HasAttempts(context.state, node->id) && !fence && !taken) return Refused(absl::StrCat("attempts live on node ", node->name));
  admission.events.push_back(NodeReleaseRequested{node->id, command.reason});
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const StopAttempt& command) {
  const Attempt* attempt = FindAttempt(context.state, command.attempt);
  if (attempt == nullptr) return Refused(absl::StrCat("attempt ", command.attempt.ToString(), " does not live"));
  Admission admission;
  if (!Tightens(attempt->stop, command.stop)) return admission;
  AttemptStopRequested event{command.attempt, command.stop};
  event.stop.requested_ms = context.now_ms;
  admission.events.push_back(std::move(event));
  admission.reply.affected = 1;
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const DeclareLost& command) {
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) return NoSuchNode(context.state, command.node);
  if (CanTestify(context.state, *node)) return Refused(absl::StrCat("provider ", node->provider, " can testify for node ", node->name));
  if (!ShouldSpeak(*node)) return Refused(absl::StrCat("node ", node->name, " is ", Name(node->state), " and never held a lease"));
  Admission admission;
  End end;
  end.cause = EndCause::kNodeLost;
  end.initiator = Initiator::kNode;
  end.detail = absl::StrCat(node->name, " is lost: ", command.reason);
  EndAllOn(context, node->id, end, &admission.events);
  NodeGone gone;
  gone.node = node->id;
  gone.state = node->state == NodeState::kReleasing ? NodeState::kReleased : NodeState::kLost;
  gone.reason = command.reason;
  gone.forget_before_ms = context.now_ms - kEndedInstanceKeptMs;
  admission.events.push_back(std::move(gone));
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const FenceAttempt& command) {
  const Attempt* attempt = FindAttempt(context.state, command.attempt);
  if (attempt == nullptr || LivingMember(*attempt, command.node) == nullptr) {
    return Refused(absl::StrCat("attempt ", command.attempt.ToString(), " does not live on node ", command.node));
  }
  const Job& job = *FindJob(context.state, command.attempt.job);
  if (job.max_silence_ms <= 0) return Refused(absl::StrCat("job ", job.id, " waits for the lease of its nodes to end"));
  End end;
  end.cause = EndCause::kNodeLost;
  end.initiator = Initiator::kScheduler;
  end.detail = command.reason;
  Admission admission;
  EndMember(context, job, *FindTask(context.state, command.attempt.task()), command.node, end, &admission.events);
  return admission;
}

}  // namespace spillway::core
