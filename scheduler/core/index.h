// Keeps State::index in step with the maps it is derived from. Every change of a field that an index is made of stands between a Remove and an Add.
#pragma once

#include "scheduler/core/model.h"

namespace spillway::core {

void AddTaskToIndexes(State* state, const Job& job, const Task& task);
void RemoveTaskFromIndexes(State* state, const Job& job, const Task& task);

// The one key that stands for the job's tasks from next_index on; none once it is cancelled or used up.
void AddUnstartedToIndexes(State* state, const Job& job);
void RemoveUnstartedFromIndexes(State* state, const Job& job);

void AddJobName(State* state, const Job& job);
void RemoveJobName(State* state, const Job& job);

void AddNodeToIndexes(State* state, const Node& node);
void RemoveNodeFromIndexes(State* state, const Node& node);

}  // namespace spillway::core
