#include "scheduler/rpc/live.h"

#include "scheduler/rpc/translate_view.h"

namespace spillway::rpc {

LiveTasks CollectLive(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms, const std::vector<JobId>& jobs,
                      size_t tasks_max, bool explain) {
  LiveTasks live;
  size_t left = tasks_max;
  for (const JobId id : jobs) {
    const auto found = state.jobs.find(id);
    if (found == state.jobs.end()) continue;
    const auto wait = [&](const TaskId& task) {
      if (!explain) return;
      const std::vector<core::Why> reasons = core::Explain(state, soft, policy, task, now_ms);
      if (!reasons.empty()) live.waiting[task] = reasons.front().message;
    };
    if (found->second.job.next_index < found->second.job.task_count && left > 0) {
      --left;
      wait({id, found->second.job.next_index});
    }
    for (const auto& [index, task] : found->second.tasks) {
      if (left == 0) return live;
      --left;
      if (!task.attempt) {
        wait(task.id);
        continue;
      }
      const AttemptId attempt{id, index, task.attempt->number};
      if (auto progress = soft.progress.find(attempt); progress != soft.progress.end()) live.progress[attempt] = progress->second;
    }
  }
  return live;
}

void MergeLive(const LiveTasks& live, v1::Task* task) {
  if (task->attempts_size() > 0) {
    const v1::AttemptKey& key = task->attempts(task->attempts_size() - 1).key();
    if (auto it = live.progress.find({key.job_id(), key.task_index(), key.attempt()}); it != live.progress.end()) {
      *task->mutable_progress() = ProgressView(it->second);
    }
  }
  if (auto it = live.waiting.find({task->job_id(), task->task_index()}); it != live.waiting.end()) task->set_waiting(it->second);
}

}  // namespace spillway::rpc
