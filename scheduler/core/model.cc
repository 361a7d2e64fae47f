// Finders over the state, and the indexes made anew after a load.
#include "scheduler/core/model.h"

#include "base/log.h"
#include "scheduler/core/index.h"

namespace spillway::core {

State::Indexes MakeIndexes(const State& state) {
  State::Indexes index;
  for (const auto& [id, shape] : state.shapes) index.shape_ids[shape] = id;
  for (const auto& [id, live] : state.jobs) {
    AddJobName(&index, live.job);
    AddNeedsToIndexes(&index, live.job);
    AddUnstartedToIndexes(&index, live.job);
    for (const auto& [number, task] : live.tasks) AddTaskToIndexes(&index, live.job, task);
  }
  for (const auto& [id, node] : state.nodes) AddNodeToIndexes(&index, node);
  for (const auto& [id, record] : state.requests) index.requests_by_age.insert({record.at_ms, id});
  return index;
}

void RebuildIndexes(State* state) { state->index = MakeIndexes(*state); }

HoldReason HoldOf(const Job& job) {
  if (job.paused) return HoldReason::kPaused;
  return job.needs.empty() ? HoldReason::kUnspecified : HoldReason::kDependency;
}

TaskState FoldState(const Job& job) {
  const TaskCounts& n = job.counts;
  if (n.active > 0) return TaskState::kActive;
  if (n.queued > 0) return TaskState::kQueued;
  if (n.held > 0) return TaskState::kHeld;
  if (n.failed > 0) return TaskState::kFailed;
  if (n.cancelled > 0) return TaskState::kCancelled;
  return TaskState::kSucceeded;
}

bool Failed(const Need& need) { return !need.any && (need.ended == TaskState::kFailed || need.ended == TaskState::kCancelled); }

NeedsStand StandOf(const std::vector<Need>& needs) {
  NeedsStand stand = NeedsStand::kMet;
  for (const Need& need : needs) {
    if (Failed(need)) return NeedsStand::kFailed;
    if (need.ended == TaskState::kUnspecified) stand = NeedsStand::kOpen;
  }
  return stand;
}

const Task* FindTask(const State& state, TaskId id) {
  const auto job = state.jobs.find(id.job);
  if (job == state.jobs.end()) return nullptr;
  const auto task = job->second.tasks.find(id.index);
  return task == job->second.tasks.end() ? nullptr : &task->second;
}

std::optional<Task> GetTask(const State& state, TaskId id) {
  if (const Task* task = FindTask(state, id)) return *task;
  const Job* job = FindJob(state, id.job);
  if (job == nullptr || id.index < job->next_index || id.index >= job->task_count) return std::nullopt;
  Task unstarted;
  unstarted.id = id;
  unstarted.hold = HoldOf(*job);
  if (unstarted.hold != HoldReason::kUnspecified) unstarted.state = TaskState::kHeld;
  unstarted.queued_ms = job->submitted_ms;
  return unstarted;
}

const Job* FindJob(const State& state, JobId id) {
  const auto found = state.jobs.find(id);
  return found == state.jobs.end() ? nullptr : &found->second.job;
}

const Node* FindNode(const State& state, NodeId id) {
  const auto found = state.nodes.find(id);
  return found == state.nodes.end() ? nullptr : &found->second;
}

const Shape& ShapeOf(const State& state, const Job& job) {
  const auto found = state.shapes.find(job.shape_id);
  CHECK(found != state.shapes.end()) << "job " << job.id << " has the shape " << job.shape_id << ", which does not exist";
  return found->second;
}

}  // namespace spillway::core
