// What happened: the only thing that changes the state. Events carry every outcome they lead to, so Reduce never chooses, and a replay by a later
// version gives the same state. Stored for ever: field and alternative numbers are never reused (a variant's index + 1 is its stored number).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/core/model.h"

namespace spillway::core {

struct Configured {
  std::string cluster_uuid;
  std::vector<ProviderInfo> providers;
  std::vector<Reservation> reservations;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.cluster_uuid), a(2, s.providers), a(3, s.reservations);
  }
};
struct JobSubmitted {
  Job job;                     // id from Meta::next_job; shape_id set, all its tasks counted as queued, or as held
  std::optional<Shape> shape;  // set when shape_id is new
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.shape);
  }
};
struct RequestRecorded {
  std::string request_id;
  RequestRecord record;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.request_id), a(2, s.record);
  }
};
struct RequestsForgotten {
  int64_t before_ms = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.before_ms);
  }
};
struct JobCancelRequested {  // QUEUED and HELD tasks become CANCELLED at once; ACTIVE ones get `stop`
  JobId job = 0;
  StopRequest stop;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.stop);
  }
};
struct AttemptOffered {
  TaskId task;
  Attempt attempt;  // number above Task::attempts, state OFFERED
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.task.job), a(2, s.task.index), a(3, s.attempt);
  }
};
struct AttemptAccepted {
  AttemptId attempt;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number);
  }
};
struct AttemptStarted {
  AttemptId attempt;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number);
  }
};
struct AttemptStopRequested {
  AttemptId attempt;
  StopRequest stop;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number), a(4, s.stop);
  }
};
// The end, and what becomes of the task (policy/retry.h chose it in Admit).
struct AttemptEnded {
  AttemptId attempt;
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  std::string detail;
  int64_t to_step = 0;
  TaskState next = TaskState::kUnspecified;  // QUEUED, HELD, SUCCEEDED, FAILED, CANCELLED
  int64_t not_before_ms = 0;                 // when it goes on
  bool seal = false;                         // the attempt must be sealed first
  NodeId avoid_node = 0;
  int64_t preempted = 0, node_faults = 0, user_errors = 0, checkpointed_in_vain = 0;  // the task's counters from now on
  NodeId gone_node = 0;  // the member whose machine is gone, where its bill is known: what it ran after the bill's end is nobody's run
  int64_t billed_until_ms = 0;
  HoldReason hold = HoldReason::kUnspecified;  // when next is HELD
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number), a(4, s.cause), a(5, s.initiator), a(6, s.detail), a(7, s.to_step), a(8, s.next);
    a(9, s.not_before_ms), a(10, s.seal), a(11, s.avoid_node), a(12, s.preempted), a(13, s.node_faults), a(14, s.user_errors), a(15, s.checkpointed_in_vain);
    a(16, s.gone_node), a(17, s.billed_until_ms), a(18, s.hold);
  }
};
struct CheckpointRegistered {
  TaskId task;
  CheckpointRef checkpoint;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.task.job), a(2, s.task.index), a(3, s.checkpoint);
  }
};
struct AttemptSealed {  // clears Task::seal_owed; `newest` is registered when it is newer than what is
  AttemptId attempt;
  std::optional<CheckpointRef> newest;
  int64_t damaged = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number), a(4, s.newest), a(5, s.damaged);
  }
};
struct NodeRequested {
  Node node;  // state REQUESTED, id from Meta::next_node
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node);
  }
};
struct NodeCreated {
  NodeId node = 0;
  std::string instance_id;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.instance_id);
  }
};
struct NodeCreateRefused {  // the node ends as RELEASED without a charge; the offer backs off
  NodeId node = 0;
  OfferKey offer;
  std::string message;
  int64_t backoff_until_ms = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.offer.first), a(3, s.offer.second), a(4, s.message), a(5, s.backoff_until_ms);
  }
};
struct NodeRegistered {  // READY (or again READY with a new boot_id); creates the row for nodes that came by themselves
  Node node;             // the whole new value; metering is carried on by Reduce
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node);
  }
};
struct NodeNoticed {
  NodeId node = 0;
  int64_t deadline_ms = 0;  // 0: advice only
  std::string source;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.deadline_ms), a(3, s.source);
  }
};
struct NodeCordoned {
  NodeId node = 0;
  bool on = true;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.on);
  }
};
struct NodeDrainStarted {  // READY -> DRAINING
  NodeId node = 0;
  std::string reason;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.reason);
  }
};
struct NodeReleaseRequested {  // -> RELEASING
  NodeId node = 0;
  std::string reason;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.reason);
  }
};
struct OrphanAdopted {  // an instance of ours that no row knows: a row in RELEASING, so that it is ended
  Node node;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node);
  }
};
struct NodeGone {  // RELEASED or LOST; its attempts ended in events before this one
  NodeId node = 0;
  NodeState state = NodeState::kLost;
  std::string reason;
  bool reclaimed = false;        // counts as a preemption of its pool
  int64_t billed_micros = -1;    // the provider's final bill: the last charge makes the sum equal to it
  int64_t forget_before_ms = 0;  // of Meta::ended_instances
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.state), a(3, s.reason), a(4, s.reclaimed), a(5, s.billed_micros), a(6, s.forget_before_ms);
  }
};
struct OffersUpdated {
  std::string provider;
  std::vector<Offer> offers;  // whole list; Reduce keeps the learned fields and marks the missing as withdrawn
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.provider), a(2, s.offers);
  }
};
struct ReportsTaken {  // Node::report_ack = seq
  NodeId node = 0;
  int64_t seq = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.seq);
  }
};

struct JobReleased {  // what it waited for has come: its tasks are QUEUED, or HELD for another reason
  JobId job = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job);
  }
};
struct JobFailed {  // before any of its tasks began: those that were not cancelled are FAILED, and the job says why
  JobId job = 0;
  EndCause cause = EndCause::kUnspecified;
  std::string detail;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.cause), a(3, s.detail);
  }
};
// QUEUED tasks become HELD at once; ACTIVE ones get `stop`, or go on where it has no cause (a secret is not there: `stop.reason` says which).
struct JobPaused {
  JobId job = 0;
  StopRequest stop;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.stop);
  }
};
struct JobResumed {
  JobId job = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job);
  }
};
struct JobUpdated {  // what an update may change, as it is from now on
  JobId job = 0;
  int64_t priority = 0;
  int64_t parallel = 0;
  int64_t deadline_ms = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.priority), a(3, s.parallel), a(4, s.deadline_ms);
  }
};
struct TasksCancelRequested {  // of these, QUEUED and HELD ones become CANCELLED at once; ACTIVE ones get `stop`; those that have ended stay as they are
  JobId job = 0;
  std::vector<TaskRange> tasks;
  StopRequest stop;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.tasks), a(3, s.stop);
  }
};

// The three of a gang's members, each before the event of the whole attempt that the last of them brings about.
struct MemberAccepted {
  AttemptId attempt;
  NodeId node = 0;
  std::string rendezvous;  // of member 0
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number), a(4, s.node), a(5, s.rendezvous);
  }
};
struct MemberStarted {
  AttemptId attempt;
  NodeId node = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number), a(4, s.node);
  }
};
struct MemberEnded {  // and others have not: cause, initiator, detail, to_step are the attempt's from now on
  AttemptId attempt;
  NodeId node = 0;
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  std::string detail;
  int64_t to_step = 0;
  NodeId cause_node = 0;
  NodeId gone_node = 0;  // as in AttemptEnded
  int64_t billed_until_ms = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt.job), a(2, s.attempt.index), a(3, s.attempt.number), a(4, s.node), a(5, s.cause), a(6, s.initiator), a(7, s.detail), a(8, s.to_step);
    a(9, s.cause_node), a(10, s.gone_node), a(11, s.billed_until_ms);
  }
};

struct Restored {  // the rows come from a backup, and a life of the scheduler after it is lost: ids go on beyond any that it can have given
  int64_t incarnation = 0;
  JobId next_job = 0;
  NodeId next_node = 0;
  int64_t adopt_until_ms = 0;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.incarnation), a(2, s.next_job), a(3, s.next_node), a(4, s.adopt_until_ms);
  }
};

using Event =
    std::variant<Configured, JobSubmitted, RequestRecorded, RequestsForgotten, JobCancelRequested, AttemptOffered, AttemptAccepted, AttemptStarted,
                 AttemptStopRequested, AttemptEnded, CheckpointRegistered, AttemptSealed, NodeRequested, NodeCreated, NodeCreateRefused, NodeRegistered,
                 NodeNoticed, NodeCordoned, NodeDrainStarted, NodeReleaseRequested, OrphanAdopted, NodeGone, OffersUpdated, ReportsTaken, JobReleased,
                 JobFailed, JobPaused, JobResumed, JobUpdated, TasksCancelRequested, MemberAccepted, MemberStarted, MemberEnded, Restored>;

// "attempt_ended": the word that Watch and `spillway events` show.
const char* EventKind(const Event& event);

}  // namespace spillway::core
