// Builds the events by which attempts and nodes end. Owns the rule of who is believed about the cause, and when an attempt must be sealed.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/metering.h"
#include "scheduler/core/policy/retry.h"

namespace spillway::core {
namespace {

// A node that never had the attempt, or killed it on its own account, answers CANCELLED. That ends the task only if it was cancelled, it alone or with its
// job: otherwise the end counts as what was asked for, or as the node's doing.
End Believed(bool cancelled, const Attempt& attempt, End end) {
  if (end.cause != EndCause::kCancelled || cancelled) return end;
  if (attempt.stop && attempt.stop->cause != EndCause::kCancelled) {
    end.cause = attempt.stop->cause;
    end.initiator = attempt.stop->initiator;
  } else {
    end.cause = EndCause::kFenced;
    end.initiator = Initiator::kNode;
  }
  return end;
}

// Nothing can have been written when the very node that was offered the attempt says that it ended and never accepted it. In every other case something
// may have been, and the next attempt must not start before the store was listed.
bool MustSeal(const Attempt& attempt, const End& end) { return attempt.accepted_ms > 0 || !end.nodes_own_word; }

// How much an end explains, of those of one gang: a machine's fault explains the errors of its peers, whichever was heard of first, and never the other way.
int Weight(EndCause cause, Initiator initiator) {
  switch (cause) {
    case EndCause::kUnspecified: return 0;
    case EndCause::kCompleted: return 1;
    case EndCause::kPeerFailed: return 2;
    case EndCause::kUserError:
    case EndCause::kCheckpointed: return 3;
    default: return AccountOf(cause, initiator) == Account::kUserError ? 4 : 5;
  }
}

std::string NameOf(const Attempt& attempt, NodeId node) {
  for (size_t i = 0; i < attempt.members.size() && i < attempt.node_names.size(); ++i) {
    if (attempt.members[i].node == node) return absl::StrCat("member ", i, " on ", attempt.node_names[i]);
  }
  return absl::StrCat("its member on node ", node);
}

// The task after what the same command has led to already: one listing may end several of its members.
Task After(Task task, const std::vector<Event>& events) {
  const AttemptId id{task.id.job, task.id.index, task.attempt->number};
  Attempt& attempt = *task.attempt;
  for (const Event& event : events) {
    if (const auto* ended = std::get_if<MemberEnded>(&event); ended != nullptr && ended->attempt == id) {
      for (Member& member : attempt.members) member.stopped = member.stopped || member.node == ended->node;
      attempt.cause = ended->cause;
      attempt.initiator = ended->initiator;
      attempt.detail = ended->detail;
      attempt.to_step = ended->to_step;
      attempt.cause_node = ended->cause_node;
    } else if (const auto* stopped = std::get_if<AttemptStopRequested>(&event); stopped != nullptr && stopped->attempt == id && !attempt.stop) {
      attempt.stop = stopped->stop;
    }
  }
  return task;
}

// The job is paused, or will be by what the same command has led to already.
bool Paused(const Job& job, const std::vector<Event>& events) {
  return job.paused || std::any_of(events.begin(), events.end(), [&](const Event& event) {
           const auto* paused = std::get_if<JobPaused>(&event);
           return paused != nullptr && paused->job == job.id;
         });
}

// Without its secret no task of the job can begin, on whatever node: the job waits for the user, who sets the secret and resumes it. What runs of it has its
// values and goes on: the stop has no cause.
JobPaused PauseForSecret(const Job& job, const AttemptEnded& ended) {
  StopRequest none;
  none.reason = ended.detail;
  return {job.id, std::move(none)};
}

// What the end of one member makes of the whole attempt's, after those that ended before it.
End Joined(bool cancelled, const Attempt& attempt, NodeId node, End end) {
  end = Believed(cancelled, attempt, std::move(end));
  // Whoever was asked to stop takes its peers with it, and they may say so before the wish has reached them.
  const bool asked = attempt.stop && attempt.stop->cause != EndCause::kPeerFailed;
  if (asked && end.cause != EndCause::kCompleted) {
    end.cause = attempt.stop->cause;
    end.initiator = attempt.stop->initiator;
  }
  end.to_step = std::max(end.to_step, attempt.to_step);
  end.cause_node = node;
  if (end.cause != EndCause::kCompleted) end.detail = absl::StrCat(NameOf(attempt, node), ": ", end.detail.empty() ? LowerName(end.cause) : end.detail);
  if (Weight(end.cause, end.initiator) > Weight(attempt.cause, attempt.initiator)) return end;
  end.cause = attempt.cause;
  end.initiator = attempt.initiator;
  end.detail = attempt.detail;
  end.cause_node = attempt.cause_node;
  return end;
}

// The event, with what becomes of the task. Requires task.attempt.
AttemptEnded EndOf(const AdmitContext& context, const Job& job, const Task& task, const End& end, bool paused) {
  CHECK(task.attempt) << task.id.ToString();
  const Attempt& attempt = *task.attempt;
  const bool cancelled = job.cancel_requested || task.cancel_requested;
  const End believed = Believed(cancelled, attempt, end);
  RetryInput input;
  input.cause = believed.cause;
  input.initiator = believed.initiator;
  input.policy = job.retry;
  input.cancel_requested = cancelled;
  input.newer_checkpoint = task.checkpoint && task.checkpoint->attempt == attempt.number && task.checkpoint->step > attempt.from_step;
  input.preempted = task.preempted;
  input.node_faults = task.node_faults;
  input.user_errors = task.user_errors;
  input.checkpointed_in_vain = task.checkpointed_in_vain;
  input.backoff_ms = context.policy.retry_backoff_ms;
  const RetryOutcome outcome = AfterEnd(input);

  AttemptEnded event;
  event.attempt = {task.id.job, task.id.index, attempt.number};
  event.cause = outcome.cause;
  event.initiator = believed.initiator;
  event.detail = believed.detail;
  if (outcome.cause != believed.cause)
    absl::StrAppend(&event.detail, event.detail.empty() ? "" : "; ", "exit 85 three times running without a newer checkpoint");
  event.to_step = std::max(believed.to_step, attempt.saved_step);
  event.next = outcome.next;
  if (outcome.next == TaskState::kQueued) {
    if (paused || LacksSecret(believed.cause, believed.initiator)) {
      event.next = TaskState::kHeld;
      event.hold = HoldReason::kPaused;
    }
    event.not_before_ms = outcome.backoff_ms > 0 ? context.now_ms + outcome.backoff_ms : 0;
    event.seal = MustSeal(attempt, believed);
  }
  if (outcome.avoid_node && !attempt.members.empty()) event.avoid_node = believed.cause_node != 0 ? believed.cause_node : attempt.members.front().node;
  event.preempted = outcome.preempted;
  event.node_faults = outcome.node_faults;
  event.user_errors = outcome.user_errors;
  event.checkpointed_in_vain = outcome.checkpointed_in_vain;
  event.gone_node = believed.gone_node;
  event.billed_until_ms = believed.billed_until_ms;
  return event;
}

}  // namespace

void EndMember(const AdmitContext& context, const Job& job, const Task& before, NodeId node, const End& said, std::vector<Event>* events) {
  const Task task = IsGang(*before.attempt) ? After(before, *events) : before;
  const Attempt& attempt = *task.attempt;
  CHECK(LivingMember(attempt, node) != nullptr) << task.id.ToString() << "@" << attempt.number << " does not live on node " << node;
  const End end = IsGang(attempt) ? Joined(job.cancel_requested || task.cancel_requested, attempt, node, said) : said;
  const auto others = std::count_if(attempt.members.begin(), attempt.members.end(), [&](const Member& one) { return !one.stopped && one.node != node; });
  if (others == 0) {
    const bool paused = Paused(job, *events);
    AttemptEnded ended = EndOf(context, job, task, end, paused);
    if (ended.next == TaskState::kHeld && !paused) events->push_back(PauseForSecret(job, ended));
    return events->push_back(std::move(ended));
  }
  MemberEnded event;
  event.attempt = {task.id.job, task.id.index, attempt.number};
  event.node = node;
  event.cause = end.cause;
  event.initiator = end.initiator;
  event.detail = end.detail;
  event.to_step = end.to_step;
  event.cause_node = end.cause_node;
  event.gone_node = end.gone_node;
  event.billed_until_ms = end.billed_until_ms;
  events->push_back(std::move(event));
  if (end.cause == EndCause::kCompleted || attempt.stop) return;
  StopRequest stop;
  stop.cause = EndCause::kPeerFailed;
  stop.initiator = Initiator::kScheduler;
  stop.grace_ms = job.grace_ms;
  stop.requested_ms = context.now_ms;
  stop.reason = end.detail;
  events->push_back(AttemptStopRequested{{task.id.job, task.id.index, attempt.number}, std::move(stop)});
}

void EndAllOn(const AdmitContext& context, NodeId node, const End& end, std::vector<Event>* events) {
  const auto attempts = context.state.index.on_node.find(node);
  if (attempts == context.state.index.on_node.end()) return;
  for (const AttemptId& id : attempts->second) {
    EndMember(context, *FindJob(context.state, id.job), *FindTask(context.state, id.task()), node, end, events);
  }
}

void EndNode(const AdmitContext& context, const Node& node, bool reclaimed, const std::string& reason, int64_t billed_micros, std::vector<Event>* events) {
  const bool taken = reclaimed || node.notice_deadline_ms > 0;
  End end;
  end.cause = taken ? EndCause::kPreempted : EndCause::kNodeLost;
  end.initiator = taken ? Initiator::kProvider : Initiator::kNode;
  end.detail = absl::StrCat(node.name, taken ? " was taken" : " is gone", reason.empty() ? "" : ": ", reason);
  if (billed_micros >= 0 && node.owned && node.created_ms > 0) {
    end.gone_node = node.id;
    end.billed_until_ms = BilledUntil(node, billed_micros, context.now_ms);
  }
  EndAllOn(context, node.id, end, events);
  NodeGone gone;
  gone.node = node.id;
  gone.state = node.state == NodeState::kReleasing ? NodeState::kReleased : NodeState::kLost;
  gone.reason = reason.empty() ? node.reason : reason;
  gone.reclaimed = reclaimed;
  gone.billed_micros = billed_micros;
  gone.forget_before_ms = context.now_ms - kEndedInstanceKeptMs;
  events->push_back(std::move(gone));
}

const Attempt* FindAttempt(const State& state, AttemptId id) {
  const Task* task = FindTask(state, id.task());
  return task != nullptr && task->attempt && task->attempt->number == id.number ? &*task->attempt : nullptr;
}

bool Tightens(const std::optional<StopRequest>& asked, const StopRequest& stop) {
  if (!asked) return true;
  if (stop.grace_ms <= 0) return asked->grace_ms > 0;
  return asked->grace_ms > 0 && stop.requested_ms + stop.grace_ms < asked->requested_ms + asked->grace_ms;
}

absl::Status NoSuchNode(const State& state, NodeId node) {
  if (node > 0 && node < state.meta.next_node) return absl::NotFoundError(absl::StrCat("node ", node, " has ended"));
  return absl::NotFoundError(absl::StrCat("there is no node ", node));
}

bool Newer(const CheckpointRef& a, const CheckpointRef& b) { return a.attempt != b.attempt ? a.attempt > b.attempt : a.step > b.step; }

}  // namespace spillway::core
