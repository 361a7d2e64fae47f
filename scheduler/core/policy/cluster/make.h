// The policies by name, for whoever takes the name from a person.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scheduler/core/policy/cluster/cluster.h"
#include "scheduler/core/policy/cluster/spillway.h"

namespace spillway::core::cluster {

// "easy", "fifo", "las", "laxity", "spillway".
std::vector<std::string> PolicyNames();

// INVALID_ARGUMENT with the nearest name for one that does not exist.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(absl::string_view name, const Patience& patience = Patience());

}  // namespace spillway::core::cluster
