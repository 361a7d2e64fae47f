// Least attained service in two queues (Tiresias, NSDI 2019): what has had less than an hour of one device comes first, each queue by arrival; on the reserved
// nodes the first queue stops tasks of the second to make room.
#pragma once

#include "scheduler/core/policy/cluster/cluster.h"

namespace spillway::core::cluster {

class Las : public Policy {
 public:
  Decision Decide(const View& view) const override;
};

}  // namespace spillway::core::cluster
