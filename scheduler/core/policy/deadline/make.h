// The policies by name, for whoever takes the name from a person.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/core/policy/deadline/deadline.h"
#include "scheduler/core/policy/deadline/outlook.h"

namespace spillway::core::deadline {

// "greedy", "skynomad", "spillway", "up", "up-without-hysteresis".
std::vector<std::string> PolicyNames();

// A policy for one job on this market, with the prices it begins with. `outlook` is reused where it fits and kept for the next.
// INVALID_ARGUMENT with the nearest name for one that does not exist.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(absl::string_view name, const Job& job, const Market& market, int64_t checkpoint_gb,
                                                   std::shared_ptr<const Outlook>* outlook);

}  // namespace spillway::core::deadline
