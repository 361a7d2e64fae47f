// First come, first served; the first that can go nowhere blocks those behind it.
#pragma once

#include "scheduler/core/policy/cluster/cluster.h"

namespace spillway::core::cluster {

class Fifo : public Policy {
 public:
  Decision Decide(const View& view) const override;
};

}  // namespace spillway::core::cluster
