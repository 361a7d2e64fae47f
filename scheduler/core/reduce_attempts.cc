// Attempts from the offer to the seal, and the checkpoints they leave.
#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/index.h"
#include "scheduler/core/metering.h"
#include "scheduler/core/reduce_internal.h"
#include "scheduler/core/transitions.h"

namespace spillway::core {
namespace {

__extension__ typedef __int128 Int128;

Attempt& Living(Task* task, AttemptNumber number) {
  CHECK(task->attempt && task->attempt->number == number) << task->id.ToString() << "@" << number << " does not live";
  return *task->attempt;
}

const Task& LivingTask(const State& state, AttemptId id) {
  const Task* task = FindTask(state, id.task());
  CHECK(task != nullptr && task->attempt && task->attempt->number == id.number) << id.ToString() << " does not live";
  return *task;
}

// Those that have not stopped; of the others everything is metered, and their nodes may be gone.
void MeterMembers(const ReduceContext& context, const std::vector<Member>& members) {
  for (const Member& member : members) {
    if (!member.stopped) Meter(context.state, member.node, context.now_ms, context.changes);
  }
}

Member& MemberOn(Attempt* attempt, NodeId node) {
  const auto found = std::find_if(attempt->members.begin(), attempt->members.end(), [&](const Member& member) { return member.node == node; });
  CHECK(found != attempt->members.end() && !found->stopped) << "no member of attempt " << attempt->number << " lives on node " << node;
  return *found;
}

// What ran there has ended: the node may have become idle.
void LeaveNode(const ReduceContext& context, NodeId id) {
  Node& node = context.state->nodes.at(id);
  if (node.idle_since_ms == 0 && !context.state->index.on_node.contains(id)) node.idle_since_ms = context.now_ms;
  context.changes->nodes.insert(id);
}

void RegisterNewest(const ReduceContext& context, Task* task, const CheckpointRef& checkpoint, int64_t worked_ms) {
  context.changes->checkpoints.emplace_back(task->id, checkpoint);
  if (task->checkpoint && !Newer(checkpoint, *task->checkpoint)) return;
  task->checkpoint = checkpoint;
  task->worked_ms = worked_ms;
}

// Running time whose result a checkpoint at `step` holds, of an attempt that had come to `last_step` at `until_ms`: the same part of it as of the steps.
int64_t WorkedMs(const Attempt& attempt, int64_t step, int64_t last_step, int64_t until_ms) {
  if (attempt.started_ms == 0 || step <= attempt.from_step) return attempt.worked_before_ms;
  const Int128 saved = Int128{step} - attempt.from_step, all = Int128{std::max(last_step, step)} - attempt.from_step;
  return attempt.worked_before_ms + static_cast<int64_t>(std::max<int64_t>(until_ms - attempt.started_ms, 0) * saved / all);
}

// What the task resumed from when `attempt` was offered.
std::optional<CheckpointRef> ResumedFrom(const Task& task, AttemptNumber attempt) {
  for (const Attempt& past : task.history) {
    if (past.number != attempt || past.resume_path.empty()) continue;
    CheckpointRef before;
    before.attempt = attempt - 1;
    before.step = past.from_step;
    before.path = past.resume_path;
    return before;
  }
  return std::nullopt;
}

}  // namespace

void MoveAttempt(Attempt* attempt, AttemptState to) {
  CHECK(LegalMove(attempt->state, to)) << "attempt " << attempt->number << " " << Name(attempt->state) << " -> " << Name(to);
  attempt->state = to;
}

void RequestStop(Attempt* attempt, const StopRequest& stop) {
  if (!attempt->stop) {
    attempt->stop = stop;
    MoveAttempt(attempt, AttemptState::kStopping);
  } else if (Tightens(attempt->stop, stop)) {
    attempt->stop->grace_ms = stop.grace_ms;
    attempt->stop->requested_ms = stop.requested_ms;
  }
}

void Apply(const ReduceContext& context, const AttemptOffered& event) {
  MeterMembers(context, event.attempt.members);
  const LiveJob& live = context.state->jobs.at(event.task.job);
  if (!live.tasks.contains(event.task.index)) {
    CHECK(event.task.index == live.job.next_index) << event.task.ToString();
    BeginTask(context, event.task.job);
  }
  ChangeTask(context, event.task, [&event](Task* task) {
    CHECK(!task->attempt && task->seal_owed == 0 && event.attempt.number > task->attempts) << task->id.ToString();
    task->state = TaskState::kActive;
    task->attempts = event.attempt.number;
    task->attempt = event.attempt;
    task->not_before_ms = 0;
  });
  for (const Member& member : event.attempt.members) {
    AddMemberToIndexes(*context.state, &context.state->index, ShapeOf(*context.state, live.job), {event.task.job, event.task.index, event.attempt.number},
                       member);
    context.state->nodes.at(member.node).idle_since_ms = 0;
    context.changes->nodes.insert(member.node);
  }
}

void Apply(const ReduceContext& context, const AttemptAccepted& event) {
  ChangeTask(context, event.attempt.task(), [&](Task* task) {
    Attempt& attempt = Living(task, event.attempt.number);
    attempt.accepted_ms = context.now_ms;
    if (attempt.state == AttemptState::kOffered) MoveAttempt(&attempt, AttemptState::kStarting);  // else it is STOPPING and stays so
  });
}

void Apply(const ReduceContext& context, const AttemptStarted& event) {
  ChangeTask(context, event.attempt.task(), [&](Task* task) {
    Attempt& attempt = Living(task, event.attempt.number);
    attempt.started_ms = context.now_ms;
    if (attempt.state != AttemptState::kStopping) MoveAttempt(&attempt, AttemptState::kRunning);
  });
}

void Apply(const ReduceContext& context, const AttemptStopRequested& event) {
  ChangeTask(context, event.attempt.task(), [&](Task* task) { RequestStop(&Living(task, event.attempt.number), event.stop); });
}

void Apply(const ReduceContext& context, const AttemptEnded& event) {
  const std::vector<Member> members = LivingTask(*context.state, event.attempt).attempt->members;
  if (event.gone_node != 0) MeterGone(context.state, event.gone_node, event.billed_until_ms, context.now_ms, context.changes);
  MeterMembers(context, members);
  const Shape& shape = ShapeOf(*context.state, *FindJob(*context.state, event.attempt.job));
  for (const Member& member : members) {
    if (!member.stopped) RemoveMemberFromIndexes(*context.state, &context.state->index, shape, event.attempt, member);
  }
  ChangeTask(context, event.attempt.task(), [&](Task* task) {
    Attempt attempt = Living(task, event.attempt.number);
    MoveAttempt(&attempt, AttemptState::kEnded);
    attempt.ended_ms = context.now_ms;
    attempt.cause = event.cause;
    attempt.initiator = event.initiator;
    attempt.detail = event.detail;
    attempt.to_step = std::max(event.to_step, attempt.from_step);
    attempt.cause_node = 0;
    for (Member& member : attempt.members) member.stopped = true;
    task->attempt.reset();
    task->history.push_back(std::move(attempt));
    if (task->history.size() > limits::kAttemptHistoryMax) task->history.erase(task->history.begin());
    task->state = event.next;
    task->hold = event.hold;
    task->preempted = event.preempted;
    task->node_faults = event.node_faults;
    task->user_errors = event.user_errors;
    task->checkpointed_in_vain = event.checkpointed_in_vain;
    task->avoid_node = event.avoid_node;
    if (event.next == TaskState::kQueued || event.next == TaskState::kHeld) {
      task->seal_owed = event.seal ? event.attempt.number : 0;
      task->not_before_ms = event.not_before_ms;
      task->queued_ms = context.now_ms;
    }
  });
  for (const Member& member : members) {
    if (!member.stopped) LeaveNode(context, member.node);
  }
}

void Apply(const ReduceContext& context, const MemberAccepted& event) {
  ChangeTask(context, event.attempt.task(), [&](Task* task) {
    Attempt& attempt = Living(task, event.attempt.number);
    MemberOn(&attempt, event.node).accepted = true;
    if (!event.rendezvous.empty()) attempt.rendezvous = event.rendezvous;
  });
}

void Apply(const ReduceContext& context, const MemberStarted& event) {
  ChangeTask(context, event.attempt.task(), [&](Task* task) { MemberOn(&Living(task, event.attempt.number), event.node).started = true; });
}

void Apply(const ReduceContext& context, const MemberEnded& event) {
  if (event.gone_node != 0) MeterGone(context.state, event.gone_node, event.billed_until_ms, context.now_ms, context.changes);
  Meter(context.state, event.node, context.now_ms, context.changes);
  const Member* member = LivingMember(*LivingTask(*context.state, event.attempt).attempt, event.node);
  CHECK(member != nullptr) << event.attempt.ToString() << " node " << event.node;
  RemoveMemberFromIndexes(*context.state, &context.state->index, ShapeOf(*context.state, *FindJob(*context.state, event.attempt.job)), event.attempt, *member);
  ChangeTask(context, event.attempt.task(), [&](Task* task) {
    Attempt& attempt = Living(task, event.attempt.number);
    MemberOn(&attempt, event.node).stopped = true;
    attempt.cause = event.cause;
    attempt.initiator = event.initiator;
    attempt.detail = event.detail;
    attempt.to_step = event.to_step;
    attempt.cause_node = event.cause_node;
  });
  LeaveNode(context, event.node);
}

void Apply(const ReduceContext& context, const CheckpointRegistered& event) {
  ChangeTask(context, event.task, [&](Task* task) {
    const bool own = task->attempt && task->attempt->number == event.checkpoint.attempt;
    const int64_t step = event.checkpoint.step;
    RegisterNewest(context, task, event.checkpoint, own ? WorkedMs(*task->attempt, step, step, context.now_ms) : task->worked_ms);
    if (own) {
      task->attempt->saved_step = std::max(task->attempt->saved_step, event.checkpoint.step);
    }
  });
}

// The seal is the last word about what the attempt left. A registered manifest of its own that no longer verifies is given up for the newest that does,
// or for what the attempt itself had resumed from.
void Apply(const ReduceContext& context, const AttemptSealed& event) {
  ChangeTask(context, event.attempt.task(), [&](Task* task) {
    CHECK(task->seal_owed == event.attempt.number) << event.attempt.ToString();
    task->seal_owed = 0;
    const bool own = task->checkpoint && task->checkpoint->attempt == event.attempt.number;
    const auto past = std::find_if(task->history.begin(), task->history.end(), [&](const Attempt& one) { return one.number == event.attempt.number; });
    if (own && event.damaged > 0 && (!event.newest || Newer(*task->checkpoint, *event.newest))) {
      task->checkpoint = ResumedFrom(*task, event.attempt.number);
      task->worked_ms = past == task->history.end() ? 0 : past->worked_before_ms;
    }
    if (!event.newest) return;
    if (task->checkpoint && !Newer(*event.newest, *task->checkpoint)) return;
    const int64_t step = event.newest->step;
    RegisterNewest(context, task, *event.newest, past == task->history.end() ? task->worked_ms : WorkedMs(*past, step, past->to_step, past->ended_ms));
    task->checkpointed_in_vain = 0;
    if (past != task->history.end()) past->saved_step = std::max(past->saved_step, step);
  });
}

}  // namespace spillway::core
