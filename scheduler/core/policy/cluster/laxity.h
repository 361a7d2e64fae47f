// Least laxity first, with EASY backfill: what has the least time to spare before its deadline is served first; what has no deadline, or cannot make it
// any more, last. Never stops anything.
#pragma once

#include "scheduler/core/policy/cluster/cluster.h"

namespace spillway::core::cluster {

class Laxity : public Policy {
 public:
  Decision Decide(const View& view) const override;
};

// Time to spare if it started on reserved nodes now; kNever without a deadline. Below 0 it is late whatever happens.
int64_t LaxityMs(const QueuedWork& work, const Overheads& overheads, int64_t now_ms);

}  // namespace spillway::core::cluster
