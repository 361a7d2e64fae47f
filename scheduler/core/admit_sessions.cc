// Admits what nodes say: who they are, what became of attempts, that they will be taken.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/text.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/policy/restored.h"

namespace spillway::core {
namespace {

absl::Status ValidateHello(const State& state, const NodeHello& hello) {
  if (hello.name.empty() || hello.name.size() > limits::kNameBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("name: must have 1 to ", limits::kNameBytesMax, " bytes"));
  }
  if (hello.boot_id.empty()) return absl::InvalidArgumentError("boot_id: must not be empty");
  if (!hello.cluster_uuid.empty() && !state.meta.cluster_uuid.empty() && hello.cluster_uuid != state.meta.cluster_uuid) {
    return absl::FailedPreconditionError(absl::StrCat("node ", hello.name, " belongs to cluster ", hello.cluster_uuid, ", this is ", state.meta.cluster_uuid));
  }
  const Capacity& has = hello.capacity;
  if (has.cpu_milli < 0 || has.memory_bytes < 0 || has.disk_bytes < 0 || has.gpu_memory_bytes < 0) {
    return absl::InvalidArgumentError("capacity: must not be negative");
  }
  if (has.gpu_count < 0 || has.gpu_count > 64) return absl::InvalidArgumentError(absl::StrCat("capacity.gpu_count: must be 0 to 64, not ", has.gpu_count));
  return absl::OkStatus();
}

// By the provider's own id first: the name is what we called it, the id is what it is.
const Node* FindByHello(const State& state, const std::string& provider, const NodeHello& hello) {
  if (!hello.instance_id.empty()) {
    const auto found = state.index.node_by_instance.find({provider, hello.instance_id});
    if (found != state.index.node_by_instance.end()) return FindNode(state, found->second);
  }
  const auto found = state.index.node_by_name.find({provider, hello.name});
  return found == state.index.node_by_name.end() ? nullptr : FindNode(state, found->second);
}

// Static machines carry the price of the reservation that names them; the time it covers is the operator's word.
void TakeReservation(const AdmitContext& context, Node* node) {
  node->reservation.clear();
  for (const auto& [name, reservation] : context.state.meta.reservations) {
    const bool now_inside =
        (reservation.from_ms == 0 || reservation.from_ms <= context.now_ms) && (reservation.to_ms == 0 || context.now_ms < reservation.to_ms);
    if (!now_inside || !reservation.nodes.contains(node->name)) continue;
    node->reservation = name;
    node->market = Market::kReserved;
    node->price_micros_per_hour = reservation.price_micros_per_hour;
    return;
  }
  node->price_micros_per_hour = 0;
}

Node NewRow(const AdmitContext& context, const std::string& provider, const NodeHello& hello) {
  Node node;
  node.id = context.state.meta.next_node;
  node.name = hello.name;
  node.provider = provider;
  node.instance_id = hello.instance_id;
  node.market = hello.market == Market::kUnspecified ? Market::kReserved : hello.market;
  node.requested_ms = node.created_ms = context.now_ms;
  return node;
}

// A new life of the machine: what was there and is not in its inventory is over. OFFERED ones too: the life before may have begun one and not lived to say
// so, and an attempt begins once. How many they are.
size_t EndForgotten(const AdmitContext& context, const Node& node, const NodeHello& hello, std::vector<Event>* events) {
  size_t ended = 0;
  const auto attempts = context.state.index.on_node.find(node.id);
  if (attempts == context.state.index.on_node.end()) return ended;
  for (const AttemptId& id : attempts->second) {
    const bool known = std::any_of(hello.inventory.begin(), hello.inventory.end(), [&](const InventoryEntry& entry) { return entry.attempt == id; });
    const Task& task = *FindTask(context.state, id.task());
    if (known) continue;
    End end;
    end.cause = EndCause::kNodeLost;
    end.initiator = Initiator::kNode;
    end.detail = node.boot_id == kLifeBefore ? absl::StrCat("it ended after the backup that the scheduler was restored from: ", node.name, " has it no more")
                                             : absl::StrCat("the node forgot it: ", node.name, " started anew");
    EndMember(context, *FindJob(context.state, id.job), task, node.id, end, events);
    ++ended;
  }
  return ended;
}

void CatchUp(const AdmitContext& context, const Node& node, const NodeHello& hello, std::vector<Event>* events);

}  // namespace

Admitted AdmitOne(const AdmitContext& context, const NodeHello& command) {
  const State& state = context.state;
  if (const absl::Status valid = ValidateHello(state, command); !valid.ok()) return valid;
  const std::string provider_name = command.provider.empty() ? "static" : command.provider;
  const auto provider = state.meta.providers.find(provider_name);
  if (provider == state.meta.providers.end() && provider_name != "static" && !state.meta.providers.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, info] : state.meta.providers) names.push_back(name);
    const std::string nearest = NearestName(provider_name, names);
    return absl::FailedPreconditionError(
        absl::StrCat("no provider is called ", Printable(provider_name), nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
  }
  const Node* old = FindByHello(state, provider_name, command);
  const bool creates = provider != state.meta.providers.end() && provider->second.can_create;
  if (old == nullptr && creates) {
    return absl::FailedPreconditionError(
        absl::StrCat("provider ", provider_name, " was not asked for a node called ", Printable(command.name), " (or it was released)"));
  }
  if (old != nullptr && old->owned && !old->instance_id.empty() && !command.instance_id.empty() && old->instance_id != command.instance_id) {
    return absl::FailedPreconditionError(absl::StrCat("node ", old->name, " is instance ", old->instance_id, ", not ", Printable(command.instance_id)));
  }
  const bool new_life = old == nullptr || old->boot_id != command.boot_id;
  if (old != nullptr && new_life && command.other_session_alive) {
    return absl::AlreadyExistsError(absl::StrCat("another machine called ", old->name, " has a live session"));
  }

  Admission admission;
  Node node = old != nullptr ? *old : NewRow(context, provider_name, command);
  const size_t ended = old != nullptr && new_life ? EndForgotten(context, *old, command, &admission.events) : 0;
  if (old != nullptr && old->boot_id == kLifeBefore) CatchUp(context, *old, command, &admission.events);
  // The answer to its creation was lost, or is still under way: the machine itself says what it is, also when it was given up meanwhile.
  if (old != nullptr && (old->state == NodeState::kRequested || (old->owned && old->instance_id.empty() && !command.instance_id.empty()))) {
    admission.events.push_back(NodeCreated{node.id, command.instance_id});
    node.instance_id = command.instance_id;
    if (node.created_ms == 0) node.created_ms = context.now_ms;
    if (node.state == NodeState::kRequested) node.state = NodeState::kBooting;
  }
  if (new_life) {
    node.boot_id = command.boot_id;
    node.report_ack = 0;
  }
  if (WantedOn(state, node.id).size() == ended) node.capacity = command.capacity;  // nothing is left there that needs what it had
  if (!command.isolation.empty()) node.isolation = command.isolation;
  if (!node.owned) {
    node.zone = command.zone;
    node.region = command.region;
    TakeReservation(context, &node);
  }
  if (!node.owned && new_life && node.notice_deadline_ms != 0) {  // it was said to the life before
    node.notice_deadline_ms = 0;
    if (node.state == NodeState::kDraining) node.state = NodeState::kReady;
  }
  // A machine on its way out stays so, whatever life it is in. A static one that an operator drained stays drained when it starts anew: uncordon ends that.
  if (node.state != NodeState::kDraining && node.state != NodeState::kReleasing) {
    node.state = NodeState::kReady;
    if (node.ready_ms == 0) node.ready_ms = context.now_ms;
  }
  if (old == nullptr || node != *old) admission.events.push_back(NodeRegistered{node});
  if (node.state == NodeState::kReady && node.notice_deadline_ms > 0) admission.events.push_back(NodeDrainStarted{node.id, "it will be taken"});
  admission.reply.node = node.id;
  admission.reply.report_ack = node.report_ack;
  return admission;
}

namespace {

// Follows the tasks that one batch of reports touches, on copies: a batch may tell a whole life.
class Follower {
 public:
  Follower(const AdmitContext& context, NodeId node) : context_(context), node_(node) {}

  // Null when the attempt does not live on this node (any more).
  Task* Find(AttemptId id) {
    auto found = tasks_.find(id.task());
    if (found == tasks_.end()) {
      const Task* task = FindTask(context_.state, id.task());
      if (task == nullptr) return nullptr;
      found = tasks_.insert({id.task(), *task}).first;
    }
    Task& task = found->second;
    if (!task.attempt || task.attempt->number != id.number) return nullptr;
    return LivingMember(*task.attempt, node_) != nullptr ? &task : nullptr;
  }

 private:
  const AdmitContext& context_;
  NodeId node_;
  std::map<TaskId, Task> tasks_;
};

Member& MemberOn(Attempt* attempt, NodeId node) {
  return *std::find_if(attempt->members.begin(), attempt->members.end(), [&](const Member& member) { return member.node == node; });
}

void AcceptAll(const AdmitContext& context, AttemptId id, Task* task, std::vector<Event>* events) {
  events->push_back(AttemptAccepted{id});
  task->attempt->accepted_ms = context.now_ms;
  if (task->attempt->state == AttemptState::kOffered) task->attempt->state = AttemptState::kStarting;
}

// The last member to accept makes the attempt STARTING: all of them are told to start only then.
absl::Status TakeAccepted(const AdmitContext& context, NodeId node, const Report& report, Task* task, std::vector<Event>* events) {
  Attempt& attempt = *task->attempt;
  if (attempt.accepted_ms != 0) return absl::OkStatus();
  if (IsGang(attempt)) {
    Member& member = MemberOn(&attempt, node);
    const bool first = node == attempt.members.front().node;
    if (first && report.rendezvous.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("report ", report.seq, ": member 0 of ", report.attempt.ToString(), " does not say where it listens"));
    }
    const std::string rendezvous = first ? Printable(report.rendezvous) : "";
    if (!member.accepted || (first && rendezvous != attempt.rendezvous)) events->push_back(MemberAccepted{report.attempt, node, rendezvous});
    if (first) attempt.rendezvous = rendezvous;
    member.accepted = true;
    if (!std::all_of(attempt.members.begin(), attempt.members.end(), [](const Member& one) { return one.accepted; })) return absl::OkStatus();
  }
  AcceptAll(context, report.attempt, task, events);
  return absl::OkStatus();
}

// Whoever has started had accepted; of several members nobody starts before all have.
void TakeStarted(const AdmitContext& context, NodeId node, AttemptId id, Task* task, std::vector<Event>* events) {
  Attempt& attempt = *task->attempt;
  if (attempt.accepted_ms == 0 && IsGang(attempt)) return;
  if (attempt.accepted_ms == 0) AcceptAll(context, id, task, events);
  if (attempt.started_ms != 0) return;
  if (IsGang(attempt)) {
    Member& member = MemberOn(&attempt, node);
    if (!member.started) events->push_back(MemberStarted{id, node});
    member.started = true;
    if (!std::all_of(attempt.members.begin(), attempt.members.end(), [](const Member& one) { return one.started || one.stopped; })) return;
  }
  events->push_back(AttemptStarted{id});
  attempt.started_ms = context.now_ms;
  if (attempt.state == AttemptState::kStarting) attempt.state = AttemptState::kRunning;
}

// What the node began since the backup was reported to the life that is lost. A gang of which the backup does not know that all have accepted cannot be
// caught up with: where member 0 listens was told to that life alone. It is taken back like any that does not gather (gang_hold).
void CatchUp(const AdmitContext& context, const Node& node, const NodeHello& hello, std::vector<Event>* events) {
  for (const InventoryEntry& entry : hello.inventory) {
    const Attempt* attempt = FindAttempt(context.state, entry.attempt);
    if (attempt == nullptr || entry.state == AttemptState::kEnded || (IsGang(*attempt) && attempt->accepted_ms == 0)) continue;
    if (std::none_of(attempt->members.begin(), attempt->members.end(), [&](const Member& member) { return member.node == node.id; })) continue;
    Task task = *FindTask(context.state, entry.attempt.task());
    if (attempt->accepted_ms == 0) AcceptAll(context, entry.attempt, &task, events);
    if (entry.state != AttemptState::kStarting) TakeStarted(context, node.id, entry.attempt, &task, events);
  }
}

absl::Status TakeCheckpoint(const AdmitContext& context, AttemptId id, const Report& report, Task* task, std::vector<Event>* events) {
  CheckpointRef checkpoint = report.checkpoint;
  if (checkpoint.attempt == 0) checkpoint.attempt = id.number;
  if (checkpoint.attempt != id.number) {
    return absl::InvalidArgumentError(
        absl::StrCat("report ", report.seq, ": attempt ", id.ToString(), " reports a checkpoint of attempt ", checkpoint.attempt));
  }
  if (checkpoint.path.empty() || checkpoint.step < 0)
    return absl::InvalidArgumentError(absl::StrCat("report ", report.seq, ": a checkpoint without path or step"));
  if (task->checkpoint && task->checkpoint->path == checkpoint.path && task->checkpoint->manifest_sha256 == checkpoint.manifest_sha256) return absl::OkStatus();
  // The members of a gang share a directory, and each reports in the order of the steps what it finds there: another one has told of this.
  if (IsGang(*task->attempt) && task->checkpoint && task->checkpoint->attempt == id.number && checkpoint.step <= task->checkpoint->step)
    return absl::OkStatus();
  checkpoint.registered_ms = context.now_ms;
  checkpoint.sealed = false;
  events->push_back(CheckpointRegistered{id.task(), checkpoint});
  task->attempt->saved_step = std::max(task->attempt->saved_step, checkpoint.step);
  if (!task->checkpoint || Newer(checkpoint, *task->checkpoint)) task->checkpoint = checkpoint;
  return absl::OkStatus();
}

void TakeEnded(const AdmitContext& context, NodeId node, const Report& report, Task* task, std::vector<Event>* events) {
  End end;
  end.cause = report.cause == EndCause::kUnspecified ? EndCause::kNodeLost : report.cause;  // a cause from a later version of the worker
  end.initiator = report.initiator;
  end.detail = Printable(report.detail, 1000);
  end.to_step = report.last_step;
  end.nodes_own_word = true;
  EndMember(context, *FindJob(context.state, task->id.job), *task, node, end, events);
  MemberOn(&*task->attempt, node).stopped = true;
}

}  // namespace

Admitted AdmitOne(const AdmitContext& context, const NodeReports& command) {
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) return NoSuchNode(context.state, command.node);
  if (node->boot_id != command.boot_id) {
    return absl::FailedPreconditionError(absl::StrCat("reports of another life of node ", node->name, ": the session starts again"));
  }
  Admission admission;
  int64_t ack = node->report_ack;
  Follower follower(context, command.node);
  for (const Report& report : command.reports) {
    if (report.seq <= ack) continue;  // durable already
    if (report.seq != ack + 1) {
      return absl::FailedPreconditionError(absl::StrCat("reports of node ", node->name, " go from ", ack, " to ", report.seq, ": the session starts again"));
    }
    ack = report.seq;
    Task* task = follower.Find(report.attempt);
    if (task == nullptr) continue;  // fenced, moved or forgotten: acknowledged, no more
    switch (report.kind) {
      case Report::Kind::kAccepted:
        if (const absl::Status taken = TakeAccepted(context, command.node, report, task, &admission.events); !taken.ok()) return taken;
        break;
      case Report::Kind::kStarted: TakeStarted(context, command.node, report.attempt, task, &admission.events); break;
      case Report::Kind::kCheckpoint:
        if (const absl::Status taken = TakeCheckpoint(context, report.attempt, report, task, &admission.events); !taken.ok()) return taken;
        break;
      case Report::Kind::kEnded: TakeEnded(context, command.node, report, task, &admission.events); break;
    }
  }
  if (ack != node->report_ack) admission.events.push_back(ReportsTaken{node->id, ack});
  admission.reply.report_ack = ack;
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const NodeNotice& command) {
  const Node* node = FindNode(context.state, command.node);
  if (node == nullptr) return NoSuchNode(context.state, command.node);
  Admission admission;
  if (command.advisory) {
    admission.events.push_back(NodeNoticed{node->id, 0, Printable(command.source)});
    return admission;
  }
  const int64_t deadline_ms = context.now_ms + std::max<int64_t>(command.in_ms, 0);
  if (node->notice_deadline_ms != 0 && node->notice_deadline_ms <= deadline_ms) return admission;  // known already
  admission.events.push_back(NodeNoticed{node->id, deadline_ms, Printable(command.source)});
  if (node->state == NodeState::kReady) admission.events.push_back(NodeDrainStarted{node->id, absl::StrCat("notice from ", Printable(command.source))});
  return admission;
}

}  // namespace spillway::core
