// Keeps State::index in step with the maps it is derived from. Every change of a field that an index is made of stands between a Remove and an Add.
#pragma once

#include "scheduler/core/model.h"

namespace spillway::core {

void AddTaskToIndexes(State::Indexes* index, const Job& job, const Task& task);
void RemoveTaskFromIndexes(State::Indexes* index, const Job& job, const Task& task);

// What an attempt holds of one node, as long as it lives. The node stands in its own indexes before that, and longer.
void AddMemberToIndexes(const State& state, State::Indexes* index, const Shape& shape, const AttemptId& attempt, const Member& member);
void RemoveMemberFromIndexes(const State& state, State::Indexes* index, const Shape& shape, const AttemptId& attempt, const Member& member);

// The one key that stands for the job's tasks from next_index on; none once it is used up, and none while they are held.
void AddUnstartedToIndexes(State::Indexes* index, const Job& job);
void RemoveUnstartedFromIndexes(State::Indexes* index, const Job& job);

// Whom the job waits for, and that it waits no longer.
void AddNeedsToIndexes(State::Indexes* index, const Job& job);
void RemoveNeedsFromIndexes(State::Indexes* index, const Job& job);

void AddJobName(State::Indexes* index, const Job& job);
void RemoveJobName(State::Indexes* index, const Job& job);

void AddDeadline(State::Indexes* index, const Job& job);
void RemoveDeadline(State::Indexes* index, const Job& job);

void AddNodeToIndexes(State::Indexes* index, const Node& node);
void RemoveNodeFromIndexes(State::Indexes* index, const Node& node);

// All of them, from what they are derived from.
State::Indexes MakeIndexes(const State& state);

}  // namespace spillway::core
