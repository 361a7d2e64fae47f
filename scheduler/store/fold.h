// What still lives: as the tables are searched.
#pragma once

#include "scheduler/core/model.h"

namespace spillway::store {

inline bool IsLive(TaskState state) { return state == TaskState::kQueued || state == TaskState::kHeld || state == TaskState::kActive; }
inline bool IsLive(NodeState state) { return state != NodeState::kReleased && state != NodeState::kLost; }
inline bool IsLive(const core::Job& job) { return job.ended_ms == 0; }

}  // namespace spillway::store
