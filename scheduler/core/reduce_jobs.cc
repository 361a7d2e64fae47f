// Jobs, their tasks' coming and going, idempotency records.
#include <algorithm>

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
  from -= Unstarted(job);
  to += Unstarted(job);
  AddNeedsToIndexes(index, job);
  AddUnstartedToIndexes(index, job);
  context.changes->jobs.insert(job.id);
}

// Tasks that never began end as CANCELLED without ever having had rows: the job remembers which, and goes on behind them.
void Skip(const ReduceContext& context, LiveJob* live, TaskRange wanted) {
  Job& job = live->job;
  State::Indexes* index = &context.state->index;
  wanted.first = std::max(wanted.first, job.next_index);
  if (wanted.size() <= 0) return;
  RemoveUnstartedFromIndexes(index, job);
  const int64_t before = Unstarted(job);
  // Grown over every range that it meets or touches.
  auto& skipped = job.skipped;
  const auto from = std::lower_bound(skipped.begin(), skipped.end(), wanted.first, [](const TaskRange& range, TaskIndex at) { return range.end < at; });
  auto to = from;
  for (; to != skipped.end() && to->first <= wanted.end; ++to) wanted = {std::min(wanted.first, to->first), std::max(wanted.end, to->end)};
  skipped.insert(skipped.erase(from, to), wanted);
  job.next_index = NotSkippedFrom(job, job.next_index);
  const int64_t ended = before - Unstarted(job);
  CountOf(&job.counts, HoldOf(job) == HoldReason::kUnspecified ? TaskState::kQueued : TaskState::kHeld) -= ended;
  job.counts.cancelled += ended;
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
  RemoveDeadline(&context.state->index, job);
  RemoveNeedsFromIndexes(&context.state->index, job);
  TellWhoWaits(context, job);
  context.changes->jobs.erase(id);
  context.changes->ended_jobs[id] = std::move(job);
  context.state->jobs.erase(id);
}

// Those that wait end, those that run are asked to. The last of them may end the job. `alone`: their job goes on without them.
void CancelTasks(const ReduceContext& context, LiveJob* live, const std::vector<TaskRange>& tasks, const StopRequest& stop, bool alone) {
  const JobId id = live->job.id;
  std::vector<TaskIndex> waiting, active;
  for (const TaskRange& range : tasks) {
    Skip(context, live, range);
    for (auto task = live->tasks.lower_bound(range.first); task != live->tasks.end() && task->first < range.end; ++task) {
      (task->second.state == TaskState::kActive ? active : waiting).push_back(task->first);
    }
  }
  for (TaskIndex index : active) {
    ChangeTask(context, {id, index}, [&](Task* task) {
      task->cancel_requested = task->cancel_requested || alone;
      RequestStop(&*task->attempt, stop);
    });
  }
  for (TaskIndex index : waiting) {
    ChangeTask(context, {id, index}, [](Task* task) {
      task->state = TaskState::kCancelled;
      task->hold = HoldReason::kUnspecified;
      task->seal_owed = 0;
    });
  }
  if (context.state->jobs.contains(id)) EndJobIfDone(context, id);
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
  task.id = {id, live.job.next_index};
  live.job.next_index = NotSkippedFrom(live.job, live.job.next_index + 1);
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
  AddDeadline(&state->index, job);
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
  CancelTasks(context, &live, {{0, live.job.task_count}}, event.stop, false);
}

void Apply(const ReduceContext& context, const TasksCancelRequested& event) {
  LiveJob& live = Live(context, event.job);
  CancelTasks(context, &live, event.tasks, event.stop, true);
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
  // As they took no memory before, they need no rows to end.
  live.job.counts.failed += live.job.counts.held;
  live.job.counts.held = 0;
  EndJobIfDone(context, event.job);
}

void Apply(const ReduceContext& context, const JobPaused& event) {
  LiveJob& live = Live(context, event.job);
  const bool by_user = event.stop.cause != EndCause::kUnspecified;
  ChangeHold(context, &live, [&](Job* job) {
    job->paused = true;
    job->detail = by_user ? "" : event.stop.reason;
  });
  for (TaskIndex index : TasksIn(live, TaskState::kQueued)) {
    ChangeTask(context, {event.job, index}, [](Task* task) {
      task->state = TaskState::kHeld;
      task->hold = HoldReason::kPaused;
    });
  }
  if (!by_user) return;
  for (TaskIndex index : TasksIn(live, TaskState::kActive)) {
    ChangeTask(context, {event.job, index}, [&event](Task* task) { RequestStop(&*task->attempt, event.stop); });
  }
}

void Apply(const ReduceContext& context, const JobResumed& event) {
  LiveJob& live = Live(context, event.job);
  ChangeHold(context, &live, [](Job* job) {
    job->paused = false;
    job->detail.clear();
  });
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
  live.job.parallel = event.parallel;
  RemoveDeadline(index, live.job);
  live.job.deadline_ms = event.deadline_ms;
  AddDeadline(index, live.job);
  for (const auto& [number, task] : live.tasks) AddTaskToIndexes(index, live.job, task);
  AddUnstartedToIndexes(index, live.job);
  context.changes->jobs.insert(event.job);
}

}  // namespace spillway::core
