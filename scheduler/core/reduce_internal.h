// What the files of Reduce share: the only hands that change a State. Every move is checked against transitions.h, every touched row noted in Changes.
#pragma once

#include <functional>

#include "scheduler/core/core.h"

namespace spillway::core {

struct ReduceContext {
  State* state;
  int64_t now_ms;
  Changes* changes;
};

void Apply(const ReduceContext& context, const Configured& event);
void Apply(const ReduceContext& context, const JobSubmitted& event);
void Apply(const ReduceContext& context, const RequestRecorded& event);
void Apply(const ReduceContext& context, const RequestsForgotten& event);
void Apply(const ReduceContext& context, const JobCancelRequested& event);
void Apply(const ReduceContext& context, const AttemptOffered& event);
void Apply(const ReduceContext& context, const AttemptAccepted& event);
void Apply(const ReduceContext& context, const AttemptStarted& event);
void Apply(const ReduceContext& context, const AttemptStopRequested& event);
void Apply(const ReduceContext& context, const AttemptEnded& event);
void Apply(const ReduceContext& context, const CheckpointRegistered& event);
void Apply(const ReduceContext& context, const AttemptSealed& event);
void Apply(const ReduceContext& context, const NodeRequested& event);
void Apply(const ReduceContext& context, const NodeCreated& event);
void Apply(const ReduceContext& context, const NodeCreateRefused& event);
void Apply(const ReduceContext& context, const NodeRegistered& event);
void Apply(const ReduceContext& context, const NodeNoticed& event);
void Apply(const ReduceContext& context, const NodeCordoned& event);
void Apply(const ReduceContext& context, const NodeDrainStarted& event);
void Apply(const ReduceContext& context, const NodeReleaseRequested& event);
void Apply(const ReduceContext& context, const OrphanAdopted& event);
void Apply(const ReduceContext& context, const NodeGone& event);
void Apply(const ReduceContext& context, const OffersUpdated& event);
void Apply(const ReduceContext& context, const ReportsTaken& event);
void Apply(const ReduceContext& context, const JobReleased& event);
void Apply(const ReduceContext& context, const JobFailed& event);
void Apply(const ReduceContext& context, const JobPaused& event);
void Apply(const ReduceContext& context, const JobResumed& event);
void Apply(const ReduceContext& context, const JobUpdated& event);
void Apply(const ReduceContext& context, const TasksCancelRequested& event);
void Apply(const ReduceContext& context, const MemberAccepted& event);
void Apply(const ReduceContext& context, const MemberStarted& event);
void Apply(const ReduceContext& context, const MemberEnded& event);
void Apply(const ReduceContext& context, const Restored& event);

// --- reduce_jobs.cc ---

// Takes the task out of the indexes, lets `change` at it, counts its move, and puts it back, or out of memory when it has ended. The job may be gone after.
void ChangeTask(const ReduceContext& context, TaskId id, const std::function<void(Task*)>& change);
// The job's next task begins to take memory: QUEUED, as it was without a row.
void BeginTask(const ReduceContext& context, JobId job);

// --- reduce_attempts.cc ---

void MoveAttempt(Attempt* attempt, AttemptState to);
// Sets the wish to stop, or tightens the one there is (its cause and initiator stay), and moves the attempt to STOPPING.
void RequestStop(Attempt* attempt, const StopRequest& stop);

}  // namespace spillway::core
