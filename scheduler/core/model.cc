// Finders over the state, and the indexes made anew after a load.
#include "scheduler/core/model.h"

#include <algorithm>

#include "base/log.h"
#include "scheduler/core/index.h"

namespace spillway::core {

State::Indexes MakeIndexes(const State& state) {
  State::Indexes index;
  for (const auto& [id, shape] : state.shapes) index.shape_ids[shape] = id;
  for (const auto& [id, node] : state.nodes) AddNodeToIndexes(&index, node);
  for (const auto& [id, live] : state.jobs) {
    AddJobName(&index, live.job);
    AddDeadline(&index, live.job);
    AddNeedsToIndexes(&index, live.job);
    AddUnstartedToIndexes(&index, live.job);
    for (const auto& [number, task] : live.tasks) {
      AddTaskToIndexes(&index, live.job, task);
      if (!task.attempt) continue;
      for (const Member& member : task.attempt->members) {
        if (!member.stopped) AddMemberToIndexes(state, &index, ShapeOf(state, live.job), {id, number, task.attempt->number}, member);
      }
    }
  }
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

bool Skipped(const Job& job, TaskIndex index) { return index < job.task_count && NotSkippedFrom(job, index) != index; }

TaskIndex NotSkippedFrom(const Job& job, TaskIndex index) {
  const auto after = std::upper_bound(job.skipped.begin(), job.skipped.end(), index, [](TaskIndex at, const TaskRange& range) { return at < range.first; });
  if (after == job.skipped.begin()) return index;
  return std::max(index, std::prev(after)->end);
}

int64_t Unstarted(const Job& job) {
  int64_t count = job.task_count - job.next_index;
  for (auto range = job.skipped.rbegin(); range != job.skipped.rend() && range->first >= job.next_index; ++range) count -= range->size();
  return count;
}

int64_t Begun(const Job& job) {
  int64_t count = job.task_count - Unstarted(job);
  for (const TaskRange& range : job.skipped) count -= range.size();
  return count;
}

bool AtLimit(const Job& job, int64_t more) { return job.parallel > 0 && job.counts.active + more >= job.parallel; }

std::optional<Task> TaskWithoutRow(const Job& job, TaskIndex index) {
  if (index < 0 || index >= job.task_count) return std::nullopt;
  Task task;
  task.id = {job.id, index};
  task.queued_ms = job.submitted_ms;
  if (Skipped(job, index)) {
    task.state = TaskState::kCancelled;
  } else if (index < job.next_index) {
    return std::nullopt;
  } else if (job.ended_ms != 0) {
    task.state = TaskState::kFailed;  // with its job
  } else if (task.hold = HoldOf(job); task.hold != HoldReason::kUnspecified) {
    task.state = TaskState::kHeld;
  }
  return task;
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

AttemptState StateOf(const Attempt& attempt, const Member& member) {
  if (member.stopped) return AttemptState::kEnded;
  if (member.started || attempt.started_ms != 0) return AttemptState::kRunning;
  return member.accepted || attempt.accepted_ms != 0 ? AttemptState::kStarting : AttemptState::kOffered;
}

const Member* LivingMember(const Attempt& attempt, NodeId node) {
  for (const Member& member : attempt.members) {
    if (member.node == node && !member.stopped) return &member;
  }
  return nullptr;
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
  if (job == nullptr || Skipped(*job, id.index)) return std::nullopt;
  return TaskWithoutRow(*job, id.index);
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
