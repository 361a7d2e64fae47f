// What a restore from a backup means: a life of the scheduler, from the backup to its loss, is not known. Its ids are never given again, its instances and
// attempts are left alone until they have surely ended or told of themselves, and only then is anything of the jobs that were in it begun again, or a
// machine let go. Jobs submitted since the restore wait for nothing.
#pragma once

#include "scheduler/core/core.h"

namespace spillway::core {

inline constexpr int64_t kIdsALife = 1'000'000;    // jobs and nodes that the lost life can have made
inline constexpr int64_t kAttemptsALife = 10'000;  // and attempts of one task
inline constexpr char kLifeBefore[] = "restored";  // Node::boot_id of every node until it has said hello since

// Nothing is let go: what looks idle, silent or unknown may have been given work by the lost life.
bool Adopting(const State& state, int64_t now_ms);
// The lost life may have begun attempts of this job that still run.
bool WaitsForLostLife(const State& state, const Job& job, int64_t now_ms);
// The fencing token of the task's next attempt: above that of every attempt which any life can have begun.
AttemptNumber NextAttempt(const State& state, const Job& job, const Task& task);

}  // namespace spillway::core
