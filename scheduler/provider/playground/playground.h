// The client of spillway-playground, the cloud in a box, over its HTTP API (playground/README.md). Knows nothing of its scale or its market.
// Every instance carries the tag cluster=UUID; listings ask for that tag alone, so two clusters can share one cloud.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "scheduler/provider/provider.h"
#include "scheduler/provider/registry.h"
#include "spillway/v1/config.pb.h"

namespace spillway::provider {

absl::StatusOr<std::unique_ptr<Provider>> MakePlayground(const v1::ProviderConfig& config, const Surroundings& surroundings);

}  // namespace spillway::provider
