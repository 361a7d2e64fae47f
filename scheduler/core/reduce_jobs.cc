// Jobs, their tasks' coming and going, idempotency records.
#include "base/log.h"
#include "scheduler/core/index.h"
#include "scheduler/core/metering.h"
#include "scheduler/core/reduce_internal.h"
#include "scheduler/core/transitions.h"

namespace spillway::core {
namespace {

int64_t& CountOf(TaskCounts* counts, TaskState state) {
  switch (state) {
    case TaskState::kQueued: return counts->queued;
    case TaskState::kHeld: return counts->held;
    case TaskState::kActive: return counts->active;
    case TaskState::kSucceeded: return counts->succeeded;
    case TaskState::kFailed: return counts->failed;
    case TaskState::kCancelled: return counts->cancelled;
    case TaskState::kUnspecified: break;
  }
  CHECK(false) << "a task without a state";
  return counts->queued;
}

bool Ended(TaskState state) { return state == TaskState::kSucceeded || state == TaskState::kFailed || state == TaskState::kCancelled; }

LiveJob& Live(const ReduceContext& context, JobId id) {
  const auto live = context.state->jobs.find(id);
  CHECK(live != context.state->jobs.end()) << "job " << id << " does not live";
  return live->second;
}

void LeaveMemory(const ReduceContext& context, Task task) {
  context.changes->tasks.erase(task.id);
  context.changes->ended_tasks[task.id] = std::move(task);
}

// Whoever waits for the job knows from now on how it ended. What follows from it is decided, not reduced.
void TellWhoWaits(const ReduceContext& context, const Job& job) {
  const auto waiting = context.state->index.needed_by.find(job.id);
  if (waiting == context.state->index.needed_by.end()) return;
  const std::set<JobId> jobs = waiting->second;
  for (const JobId id : jobs) {
    Job& waits = Live(context, id).job;
    RemoveNeedsFromIndexes(&context.state->index, waits);
    for (Need& need : waits.needs) {
      if (need.job == job.id) need.ended = FoldState(job);
    }
    AddNeedsToIndexes(&context.state->index, waits);
    context.changes->jobs.insert(id);
  }
}

// Changes what holds the tasks that never began: they go along between QUEUED and HELD, without rows of their own.
void ChangeHold(const ReduceContext& context, LiveJob* live, const std::function<void(Job*)>& change) {
  Job& job = live->job;
  State::Indexes* index = &context.state->index;
  RemoveUnstartedFromIndexes(index, job);
  RemoveNeedsFromIndexes(index, job);
  int64_t& from = HoldOf(job) == HoldReason::kUnspecified ? job.counts.queued : job.counts.held;
  change(&job);
  int64_t& to = HoldOf(job) == HoldReason::kUnspecified ? job.counts.queued : job.counts.held;
  from -= job.task_count - job.next_index;
  to += job.task_count - job.next_index;
  AddNeedsToIndexes(index, job);
  AddUnstartedToIndexes(index, job);
  context.changes->jobs.insert(job.id);
}

std::vector<TaskIndex> TasksIn(const LiveJob& live, TaskState state) {
  std::vector<TaskIndex> tasks;
  for (const auto& [index, task] : live.tasks) {
    if (task.state == state) tasks.push_back(index);
  }
  return tasks;
}

void EndJobIfDone(const ReduceContext& context, JobId id) {
  LiveJob& live = Live(context, id);
  Job& job = live.job;
  if (job.counts.queued + job.counts.held + job.counts.active > 0) return;
  CHECK(live.tasks.empty()) << "job " << id << " ends with living tasks";
  job.ended_ms = context.now_ms;
  RemoveJobName(&context.state->index, job);
  RemoveNeedsFromIndexes(&context.state->index, job);
  TellWhoWaits(context, job);
  context.changes->jobs.erase(id);
  context.changes->ended_jobs[id] = std::move(job);
  context.state->jobs.erase(id);
}

}  // namespace

void ChangeTask(const ReduceContext& context, TaskId id, const std::function<void(Task*)>& change) {
  LiveJob& live = Live(context, id.job);
  const auto found = live.tasks.find(id.index);
  CHECK(found != live.tasks.end()) << "task " << id.ToString() << " does not live";
  Task& task = found->second;
  RemoveTaskFromIndexes(&context.state->index, live.job, task);
  const TaskState from = task.state;
  change(&task);
  context.changes->tasks.insert(id);
  if (task.state != from) {
    CHECK(LegalMove(from, task.state)) << id.ToString() << " " << Name(from) << " -> " << Name(task.state);
    --CountOf(&live.job.counts, from);
    ++CountOf(&live.job.counts, task.state);
    context.changes->jobs.insert(id.job);
  }
  if (!Ended(task.state)) return AddTaskToIndexes(&context.state->index, live.job, task);
  LeaveMemory(context, std::move(task));
  live.tasks.erase(found);
  EndJobIfDone(context, id.job);
}

void BeginTask(const ReduceContext& context, JobId id) {
  LiveJob& live = Live(context, id);
  CHECK(live.job.next_index < live.job.task_count) << "job " << id;
  RemoveUnstartedFromIndexes(&context.state->index, live.job);
  Task task;
  task.id = {id, live.job.next_index++};
  task.queued_ms = live.job.submitted_ms;
  task.hold = HoldOf(live.job);
  if (task.hold != HoldReason::kUnspecified) task.state = TaskState::kHeld;
  AddUnstartedToIndexes(&context.state->index, live.job);
  AddTaskToIndexes(&context.state->index, live.job, task);
  live.tasks[task.id.index] = std::move(task);
  context.changes->jobs.insert(id);
}

void Apply(const ReduceContext& context, const JobSubmitted& event) {
  State* state = context.state;
  const Job& job = event.job;
  CHECK(job.id == state->meta.next_job) << job.id << " " << state->meta.next_job;
  if (event.shape) {
    CHECK(job.shape_id == state->meta.next_shape) << job.shape_id;
    ++state->meta.next_shape;
    state->shapes[job.shape_id] = *event.shape;
    state->index.shape_ids[*event.shape] = job.shape_id;
    context.changes->shapes.insert(job.shape_id);
  }
  CHECK(state->shapes.contains(job.shape_id)) << job.shape_id;
  ++state->meta.next_job;
  LiveJob& live = state->jobs[job.id];
  live.job = job;
  AddJobName(&state->index, job);
  AddNeedsToIndexes(&state->index, job);
  AddUnstartedToIndexes(&state->index, job);
  context.changes->jobs.insert(job.id);
}

void Apply(const ReduceContext& context, const RequestRecorded& event) {
  auto& index = context.state->index.requests_by_age;
  const auto old = context.state->requests.find(event.request_id);
  if (old != context.state->requests.end()) index.erase({old->second.at_ms, event.request_id});
  context.state->requests[event.request_id] = event.record;
  index.insert({event.record.at_ms, event.request_id});
  context.changes->requests.insert(event.request_id);
}

void Apply(const ReduceContext& context, const RequestsForgotten& event) {
  auto& index = context.state->index.requests_by_age;
  while (!index.empty() && index.begin()->first < event.before_ms) {
    context.state->requests.erase(index.begin()->second);
    context.changes->requests.insert(index.begin()->second);
    index.erase(index.begin());
  }
}

void Apply(const ReduceContext& context, const JobCancelRequested& event) {
  LiveJob& live = Live(context, event.job);
  live.job.cancel_requested = true;
  context.changes->jobs.insert(event.job);
  while (live.job.next_index < live.job.task_count) BeginTask(context, event.job);  // their rows say CANCELLED, not QUEUED
  const std::vector<TaskIndex> waiting = TasksIn(live, HoldOf(live.job) == HoldReason::kUnspecified ? TaskState::kQueued : TaskState::kHeld);
  for (TaskIndex index : TasksIn(live, TaskState::kActive)) {
    ChangeTask(context, {event.job, index}, [&event](Task* task) { RequestStop(&*task->attempt, event.stop); });
  }
  // The last of them may end the job.
  for (TaskIndex index : waiting) {
    ChangeTask(context, {event.job, index}, [](Task* task) {
      task->state = TaskState::kCancelled;
      task->hold = HoldReason::kUnspecified;
      task->seal_owed = 0;
    });
  }
}

void Apply(const ReduceContext& context, const JobReleased& event) {
  ChangeHold(context, &Live(context, event.job), [](Job* job) { job->needs.clear(); });
}

void Apply(const ReduceContext& context, const JobFailed& event) {
  LiveJob& live = Live(context, event.job);
  CHECK(live.tasks.empty()) << "job " << event.job << " fails as a whole, and tasks of it began";
  CHECK(HoldOf(live.job) != HoldReason::kUnspecified) << "job " << event.job << " fails as a whole, and nothing holds it";
  live.job.cause = event.cause;
  live.job.detail = event.detail;
  context.changes->jobs.insert(event.job);
  const int64_t count = live.job.task_count;
  while (live.job.next_index < count) BeginTask(context, event.job);  // their rows say FAILED
  for (TaskIndex index = 0; index < count; ++index) {
    ChangeTask(context, {event.job, index}, [](Task* task) {
      task->state = TaskState::kFailed;
      task->hold = HoldReason::kUnspecified;
    });
  }
}

void Apply(const ReduceContext& context, const JobPaused& event) {
  LiveJob& live = Live(context, event.job);
  ChangeHold(context, &live, [](Job* job) { job->paused = true; });
  for (TaskIndex index : TasksIn(live, TaskState::kQueued)) {
    ChangeTask(context, {event.job, index}, [](Task* task) {
      task->state = TaskState::kHeld;
      task->hold = HoldReason::kPaused;
    });
  }
  for (TaskIndex index : TasksIn(live, TaskState::kActive)) {
    ChangeTask(context, {event.job, index}, [&event](Task* task) { RequestStop(&*task->attempt, event.stop); });
  }
}

void Apply(const ReduceContext& context, const JobResumed& event) {
  LiveJob& live = Live(context, event.job);
  ChangeHold(context, &live, [](Job* job) { job->paused = false; });
  for (TaskIndex index : TasksIn(live, TaskState::kHeld)) {
    ChangeTask(context, {event.job, index}, [&](Task* task) {
      task->state = TaskState::kQueued;
      task->hold = HoldReason::kUnspecified;
      task->queued_ms = context.now_ms;
    });
  }
}

// Every key that the priority is part of is made anew.
void Apply(const ReduceContext& context, const JobUpdated& event) {
  LiveJob& live = Live(context, event.job);
  State::Indexes* index = &context.state->index;
  RemoveUnstartedFromIndexes(index, live.job);
  for (const auto& [number, task] : live.tasks) RemoveTaskFromIndexes(index, live.job, task);
  live.job.priority = event.priority;
  for (const auto& [number, task] : live.tasks) AddTaskToIndexes(index, live.job, task);
  AddUnstartedToIndexes(index, live.job);
  context.changes->jobs.insert(event.job);
}

}  // namespace spillway::core
