// What a deadline means for where a task may go in this cycle. Ahead of its deadline a task waits for a machine that is cheap because it can be taken away,
// rather than pay for one that stays; at the last safe moment it goes where nothing is taken away, from wherever it runs.
#pragma once

#include <functional>

#include "scheduler/core/plan/plan.h"
#include "scheduler/core/policy/slack.h"
#include "scheduler/core/queue/queue.h"

namespace spillway::core {

enum class Stance {
  kFree,     // no deadline, or it is over: wherever it is cheapest
  kPatient,  // time to spare: no machine that stays is asked for, as long as any other is offered
  kUrgent,   // none: nowhere where it can be taken away, as long as there is anything else
};
Stance StanceOf(Plan* plan, const Job& job, const Task* task);

// Every task that waits and is urgent, of the earliest deadline first; tasks that never began follow each other until `serve` says that it could do nothing
// for one. Looks at no job without a deadline.
void ForEachUrgent(Plan* plan, const std::function<bool(const QueuedTask&)>& serve);

// The earliest time at which the stance of a waiting task changes, or a running one must move; INT64_MAX when none does.
int64_t NextDeadlineStepMs(const State& state, int64_t now_ms);

}  // namespace spillway::core
