// What only the engine's memory knows about jobs: last progress, and why tasks wait. Copied out on the engine's thread, merged into rows from the store.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/core/core.h"
#include "spillway/v1/job_service.pb.h"

namespace spillway::rpc {

struct LiveTasks {
  std::map<AttemptId, core::Progress> progress;
  std::map<TaskId, std::string> waiting;  // one line; only for tasks that wait
};

// Of these jobs' living tasks, at most `tasks_max` in all. With `explain`, the first reason of each waiting task.
LiveTasks CollectLive(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms, const std::vector<JobId>& jobs,
                      size_t tasks_max, bool explain);

void MergeLive(const LiveTasks& live, v1::Task* task);

}  // namespace spillway::rpc
