#include "client/commands/task_table.h"

#include "absl/strings/str_cat.h"
#include "base/attempt_words.h"
#include "client/targets.h"

namespace spillway::client {

std::string TaskTable(const Tasks& tasks, const Context& context) {
  if (tasks.empty()) return "";
  const int64_t now_ms = context.clock->NowUtcMs();
  Table table({">TASK", "STATE", "NODE", "MARKET", "PROGRESS", ">TRY", ">RAN", "END", "WAITS FOR"});
  for (const v1::Task& task : tasks) {
    const std::string state(Name(static_cast<TaskState>(task.state())));
    const v1::Attempt* const last = task.attempts_size() > 0 ? &task.attempts(task.attempts_size() - 1) : nullptr;
    const bool ended = last != nullptr && last->state() == v1::ENDED;
    const int64_t ran_ms = RanMs(task, now_ms);
    const std::string held = task.hold_reason() == v1::HOLD_REASON_UNSPECIFIED ? "" : absl::StrCat(" ", LowerName(static_cast<HoldReason>(task.hold_reason())));
    table.Add({absl::StrCat(task.job_id(), ".", task.task_index()),
               {state + held, ColourOfState(state)},
               last != nullptr ? last->node_name() : "",
               last != nullptr ? LowerName(static_cast<Market>(last->market())) : "",
               HumanProgress(task.progress().step(), task.progress().total()),
               task.attempts_total() > 0 ? absl::StrCat(task.attempts_total()) : "",
               ran_ms > 0 ? HumanDuration(ran_ms) : "",
               ended ? absl::StrCat(Name(static_cast<EndCause>(last->end_cause())), last->detail().empty() ? "" : absl::StrCat(" (", last->detail(), ")")) : "",
               task.waiting()});
  }
  return table.Render(context.colours);
}

int64_t EndedTasks(const v1::Job& job) { return job.counts().succeeded() + job.counts().failed() + job.counts().cancelled(); }

}  // namespace spillway::client
