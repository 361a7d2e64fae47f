// The one door into the state: every command is admitted or refused here, as a whole.
#include "base/log.h"
#include "scheduler/core/admit_internal.h"

namespace spillway::core {

absl::StatusOr<Admission> Admit(const State& state, const Command& command, int64_t now_ms, const Policy& policy) {
  CHECK(now_ms >= state.meta.now_ms) << now_ms << " is before " << state.meta.now_ms;
  const AdmitContext context{state, now_ms, policy};
  return std::visit([&context](const auto& one) { return AdmitOne(context, one); }, command);
}

bool Changes::Empty() const {
  return !meta && jobs.empty() && tasks.empty() && nodes.empty() && shapes.empty() && offers.empty() && requests.empty() && ended_jobs.empty() &&
         ended_tasks.empty() && gone_nodes.empty() && charges.empty() && checkpoints.empty();
}

}  // namespace spillway::core
