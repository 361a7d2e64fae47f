// What the processes of a tree use, read from /proc: for limits that no kernel controller holds here.
// Only looks; what follows from it is the attempt's business. What is gone while it is looked at uses nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>

namespace spillway::supervisor {

struct TreeUse {
  int64_t processes = 0;
  int64_t memory_bytes = 0;
};

// How often a tree without a controller is looked at.
inline constexpr int64_t kLookAtUseEveryMs = 500;
inline constexpr int64_t kLookAtUsePauseFactor = 10;  // at most a tenth of the time is spent on it

// Memory: what is resident, shared pages counted once for each process. Where that is above `memory_bytes_max` (> 0), which may be wrong for
// processes that share much, each page is counted in its share (PSS), which costs more to ask for.
TreeUse UseOf(const std::set<pid_t>& processes, int64_t memory_bytes_max);

}  // namespace spillway::supervisor
