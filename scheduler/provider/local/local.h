// This machine as a supplier of nodes: each is a spillway-worker started here, with a home of its own under SPILLWAY_HOME/nodes. Free, and already paid for.
// A node is alive while its worker runs; a worker that died is started again as long as its supervisor lives, so that its jobs go on.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "scheduler/provider/provider.h"
#include "scheduler/provider/registry.h"
#include "spillway/v1/config.pb.h"

namespace spillway::provider {

absl::StatusOr<std::unique_ptr<Provider>> MakeLocal(const v1::ProviderConfig& config, const Surroundings& surroundings);

}  // namespace spillway::provider
