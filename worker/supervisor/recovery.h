// What a supervisor does about the life before it: kills whatever its predecessor's attempts left, by cgroup, by journal and by environment.
// Waits, bounded, until nothing is left: only then may those attempts be reported as ended.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "worker/supervisor/cgroup.h"
#include "worker/supervisor/journal.h"

namespace spillway::supervisor {

// DEADLINE_EXCEEDED, naming a process, when one would not die in `timeout_ms` (uninterruptible sleep): the node is not fit to run anything.
// What it cannot find: a process outside every cgroup that left its parents and also emptied its environment.
absl::Status KillLeftovers(const JournalContent& journal, const std::string& home_id, CgroupPool* pool, int64_t timeout_ms);

}  // namespace spillway::supervisor
