// A job's state is a fold over its tasks, as people see it and as the job table is searched.
#pragma once

#include "scheduler/core/model.h"

namespace spillway::store {

inline TaskState FoldState(const core::Job& job) {
  const core::TaskCounts& n = job.counts;
  if (n.active > 0) return TaskState::kActive;
  if (n.queued > 0) return TaskState::kQueued;
  if (n.held > 0) return TaskState::kHeld;
  if (n.failed > 0) return TaskState::kFailed;
  if (n.cancelled > 0) return TaskState::kCancelled;
  return TaskState::kSucceeded;
}

inline bool IsLive(TaskState state) { return state == TaskState::kQueued || state == TaskState::kHeld || state == TaskState::kActive; }
inline bool IsLive(NodeState state) { return state != NodeState::kReleased && state != NodeState::kLost; }
inline bool IsLive(const core::Job& job) { return job.ended_ms == 0; }

}  // namespace spillway::store
