// First come, first served with EASY backfill: the first that can go nowhere keeps the place it would have by the predicted ends, and those behind it start
// where they do not delay it.
#pragma once

#include "scheduler/core/policy/cluster/cluster.h"

namespace spillway::core::cluster {

class Easy : public Policy {
 public:
  Decision Decide(const View& view) const override;
};

}  // namespace spillway::core::cluster
