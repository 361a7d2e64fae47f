#include "scheduler/core/policy/restored.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/core/admit_internal.h"

namespace spillway::core {

bool Adopting(const State& state, int64_t now_ms) { return now_ms < state.meta.adopt_until_ms; }

bool WaitsForLostLife(const State& state, const Job& job, int64_t now_ms) { return job.id < state.meta.first_job && Adopting(state, now_ms); }

AttemptNumber NextAttempt(const State& state, const Job& job, const Task& task) {
  const AttemptNumber lives_before = job.id < state.meta.first_job ? (state.meta.incarnation - 1) * kAttemptsALife : 0;
  return std::max(task.attempts, lives_before) + 1;
}

Admitted AdmitOne(const AdmitContext& context, const Restore& command) {
  const Meta& meta = context.state.meta;
  if (meta.cluster_uuid.empty()) return absl::FailedPreconditionError("the backup is of a scheduler that never ran");
  if (command.incarnation <= meta.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat("incarnation ", command.incarnation, " was lived already; the backup is of ", meta.incarnation));
  }
  const int64_t lives = command.incarnation - meta.incarnation;  // a backup may be restored more than once
  Admission admission;
  admission.events.push_back(Restored{command.incarnation, std::max(meta.next_job, command.seen_job + 1) + lives * kIdsALife,
                                      meta.next_node + lives * kIdsALife, context.now_ms + context.policy.lease_ms + context.policy.lease_grace_ms});
  return admission;
}

}  // namespace spillway::core
