#include "scheduler/core/index.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "scheduler/core/fit/room.h"

namespace spillway::core {
namespace {

using QueueKey = State::Indexes::QueueKey;

void AddKey(State::Indexes* index, int64_t shape_id, const QueueKey& key) {
  index->queue.insert(key);
  index->queue_by_shape[shape_id].insert(key);
}

void RemoveKey(State::Indexes* index, int64_t shape_id, const QueueKey& key) {
  CHECK(index->queue.erase(key) == 1) << key.task.ToString();
  const auto found = index->queue_by_shape.find(shape_id);
  CHECK(found != index->queue_by_shape.end() && found->second.erase(key) == 1) << key.task.ToString();
  if (found->second.empty()) index->queue_by_shape.erase(found);
}

// A row of a damaged database may hold any number, and the least has no negative.
int64_t Negated(int64_t priority) { return -std::max(priority, -std::numeric_limits<int64_t>::max()); }

QueueKey KeyOf(const Job& job, const Task& task) { return {Negated(job.priority), task.queued_ms, task.id}; }
QueueKey UnstartedKey(const Job& job) { return {Negated(job.priority), job.submitted_ms, {job.id, job.next_index}}; }
using Taken = State::Indexes::Taken;

// Among the open ones, by what is free on it now.
void AddOpen(State::Indexes* index, const Node& node) {
  if (TakesWork(node)) index->open[KindOf(node)].insert(FreeOn(RoomOn(*index, node), node.id));
}

void RemoveOpen(State::Indexes* index, const Node& node) {
  if (!TakesWork(node)) return;
  const auto kind = index->open.find(KindOf(node));
  CHECK(kind != index->open.end() && kind->second.erase(FreeOn(RoomOn(*index, node), node.id)) == 1) << "node " << node.id;
  if (kind->second.empty()) index->open.erase(kind);
}

const Node& LivingNode(const State& state, NodeId id) {
  const Node* node = FindNode(state, id);
  CHECK(node != nullptr) << "node " << id << " does not live";
  return *node;
}

bool HasUnstartedQueued(const Job& job) { return job.next_index < job.task_count && HoldOf(job) == HoldReason::kUnspecified; }

bool Gathers(const Attempt& attempt) { return IsGang(attempt) && attempt.state == AttemptState::kOffered; }
std::pair<int64_t, AttemptId> GatheringKey(const Task& task) { return {task.attempt->offered_ms, {task.id.job, task.id.index, task.attempt->number}}; }

}  // namespace

void AddTaskToIndexes(State::Indexes* index, const Job& job, const Task& task) {
  if (task.state == TaskState::kQueued) {
    AddKey(index, job.shape_id, KeyOf(job, task));
    if (task.not_before_ms > 0) index->back_offs.insert({task.not_before_ms, task.id});
  }
  if (!task.attempt) return;
  if (Gathers(*task.attempt)) index->gathering.insert(GatheringKey(task));
  if (!task.attempt->stop) {
    ++index->active_priorities[job.priority];
  } else if (task.attempt->stop->for_task.job != 0) {
    index->making_room.insert({task.id.job, task.id.index, task.attempt->number});
  }
}

void RemoveTaskFromIndexes(State::Indexes* index, const Job& job, const Task& task) {
  if (task.state == TaskState::kQueued) {
    RemoveKey(index, job.shape_id, KeyOf(job, task));
    if (task.not_before_ms > 0) index->back_offs.erase({task.not_before_ms, task.id});
  }
  if (!task.attempt) return;
  if (Gathers(*task.attempt)) index->gathering.erase(GatheringKey(task));
  if (!task.attempt->stop) {
    const auto found = index->active_priorities.find(job.priority);
    CHECK(found != index->active_priorities.end()) << task.id.ToString();
    if (--found->second == 0) index->active_priorities.erase(found);
  } else {
    index->making_room.erase({task.id.job, task.id.index, task.attempt->number});
  }
}

void AddMemberToIndexes(const State& state, State::Indexes* index, const Shape& shape, const AttemptId& attempt, const Member& member) {
  const Node& node = LivingNode(state, member.node);
  RemoveOpen(index, node);
  const bool is_new = index->on_node[member.node].insert(attempt).second;
  Taken& taken = index->taken[member.node];
  CHECK(is_new && (taken.devices & member.devices) == 0) << attempt.ToString() << " node " << member.node;
  taken.cpu_milli += shape.cpu_milli;
  taken.memory_bytes += shape.memory_bytes;
  taken.disk_bytes += shape.disk_bytes;
  taken.devices |= member.devices;
  AddOpen(index, node);
}

void RemoveMemberFromIndexes(const State& state, State::Indexes* index, const Shape& shape, const AttemptId& attempt, const Member& member) {
  const Node& node = LivingNode(state, member.node);
  RemoveOpen(index, node);
  const auto attempts = index->on_node.find(member.node);
  CHECK(attempts != index->on_node.end() && attempts->second.erase(attempt) == 1) << attempt.ToString() << " node " << member.node;
  Taken& taken = index->taken.at(member.node);
  taken.cpu_milli -= shape.cpu_milli;
  taken.memory_bytes -= shape.memory_bytes;
  taken.disk_bytes -= shape.disk_bytes;
  taken.devices &= ~member.devices;
  if (attempts->second.empty()) {
    index->on_node.erase(attempts);
    index->taken.erase(member.node);
  }
  AddOpen(index, node);
}

void AddUnstartedToIndexes(State::Indexes* index, const Job& job) {
  if (HasUnstartedQueued(job)) AddKey(index, job.shape_id, UnstartedKey(job));
}

void RemoveUnstartedFromIndexes(State::Indexes* index, const Job& job) {
  if (HasUnstartedQueued(job)) RemoveKey(index, job.shape_id, UnstartedKey(job));
}

void AddNeedsToIndexes(State::Indexes* index, const Job& job) {
  for (const Need& need : job.needs) index->needed_by[need.job].insert(job.id);
  if (!job.needs.empty() && StandOf(job.needs) != NeedsStand::kOpen) index->settled.insert(job.id);
}

void RemoveNeedsFromIndexes(State::Indexes* index, const Job& job) {
  for (const Need& need : job.needs) {
    const auto found = index->needed_by.find(need.job);
    if (found == index->needed_by.end()) continue;  // the same job stands twice among the needs
    found->second.erase(job.id);
    if (found->second.empty()) index->needed_by.erase(found);
  }
  index->settled.erase(job.id);
}

void AddJobName(State::Indexes* index, const Job& job) {
  index->job_names.insert({job.name, job.id});
  JobId& newest = index->newest_by_name[job.name];
  if (job.id > newest) newest = job.id;
}

void RemoveJobName(State::Indexes* index, const Job& job) {
  auto& names = index->job_names;
  names.erase({job.name, job.id});
  const auto newest = index->newest_by_name.find(job.name);
  if (newest == index->newest_by_name.end() || newest->second != job.id) return;
  const auto after = names.lower_bound({job.name, job.id});
  if (after != names.begin() && std::prev(after)->first == job.name) {
    newest->second = std::prev(after)->second;
  } else {
    index->newest_by_name.erase(newest);
  }
}

void AddDeadline(State::Indexes* index, const Job& job) {
  if (job.deadline_ms > 0) index->deadlines.insert({job.deadline_ms, job.id});
}

void RemoveDeadline(State::Indexes* index, const Job& job) { index->deadlines.erase({job.deadline_ms, job.id}); }

void AddNodeToIndexes(State::Indexes* index, const Node& node) {
  index->node_by_name[{node.provider, node.name}] = node.id;
  if (!node.instance_id.empty()) index->node_by_instance[{node.provider, node.instance_id}] = node.id;
  AddOpen(index, node);
}

void RemoveNodeFromIndexes(State::Indexes* index, const Node& node) {
  RemoveOpen(index, node);
  const auto by_name = index->node_by_name.find({node.provider, node.name});
  if (by_name != index->node_by_name.end() && by_name->second == node.id) index->node_by_name.erase(by_name);
  const auto by_instance = index->node_by_instance.find({node.provider, node.instance_id});
  if (by_instance != index->node_by_instance.end() && by_instance->second == node.id) index->node_by_instance.erase(by_instance);
}

}  // namespace spillway::core
