// What only the engine's memory knows about jobs: last progress, and why tasks wait. Copied out on the engine's thread, merged into rows from the store.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "scheduler/core/core.h"
#include "spillway/v1/job_service.pb.h"

namespace spillway::rpc {

struct LiveTasks {
  std::map<AttemptId, core::Progress> progress;
  std::map<TaskId, std::string> waiting;   // one line; only for tasks that wait
  std::map<JobId, std::string> unstarted;  // the same for those that never began
  std::map<TaskId, int64_t> slack_ms;      // of tasks with a deadline
  std::map<JobId, int64_t> unstarted_slack_ms;
};

inline constexpr core::TaskRange kAllTasks{0, std::numeric_limits<TaskIndex>::max()};

// Of these jobs' living tasks within `range`, at most `tasks_max` in all. A task that never began says for all of its job why they wait.
LiveTasks CollectLive(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms, const std::vector<JobId>& jobs,
                      const core::TaskRange& range, size_t tasks_max);

void MergeLive(const LiveTasks& live, v1::Task* task);

}  // namespace spillway::rpc
