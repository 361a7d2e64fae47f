#include "scheduler/rpc/live.h"

#include <algorithm>

#include "scheduler/core/policy/slack.h"
#include "scheduler/rpc/translate_view.h"

namespace spillway::rpc {

LiveTasks CollectLive(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms, const std::vector<JobId>& jobs,
                      const core::TaskRange& range, size_t tasks_max) {
  LiveTasks live;
  size_t left = tasks_max;
  for (const JobId id : jobs) {
    const auto found = state.jobs.find(id);
    if (found == state.jobs.end()) continue;
    const core::Job& job = found->second.job;
    const auto& tasks = found->second.tasks;
    const auto why = [&](const TaskId& task) {
      const std::vector<core::Why> reasons = core::Explain(state, soft, policy, task, now_ms);
      return reasons.empty() ? "" : reasons.front().message;
    };
    if (job.next_index < std::min(job.task_count, range.end) && left > 0) {
      --left;
      if (job.deadline_ms > 0) live.unstarted_slack_ms[id] = core::SlackOf(state, job, nullptr, now_ms).SpareMs(job, now_ms);
      live.unstarted[id] = why({id, job.next_index});
    }
    for (auto at = tasks.lower_bound(range.first); at != tasks.end() && at->first < range.end; ++at) {
      if (left == 0) return live;
      --left;
      const core::Task& task = at->second;
      if (job.deadline_ms > 0) live.slack_ms[task.id] = core::SlackOf(state, job, &task, now_ms).SpareMs(job, now_ms);
      if (!task.attempt) {
        live.waiting[task.id] = why(task.id);
        continue;
      }
      const AttemptId attempt{id, task.id.index, task.attempt->number};
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
  const TaskId id{task->job_id(), task->task_index()};
  const bool unstarted = task->attempts_total() == 0 && (task->state() == v1::QUEUED || task->state() == v1::HELD);
  if (auto it = live.waiting.find(id); it != live.waiting.end()) {
    task->set_waiting(it->second);
  } else if (auto all = live.unstarted.find(id.job); all != live.unstarted.end() && unstarted) {
    task->set_waiting(all->second);
  }
  if (auto it = live.slack_ms.find(id); it != live.slack_ms.end()) {
    task->set_slack_ms(it->second);
  } else if (auto all = live.unstarted_slack_ms.find(id.job); all != live.unstarted_slack_ms.end() && unstarted) {
    task->set_slack_ms(all->second);
  }
}

}  // namespace spillway::rpc
