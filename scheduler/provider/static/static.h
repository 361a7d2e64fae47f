// Nodes that register themselves and belong to somebody else: nothing to create, nothing to end, no word about a node's death.
#pragma once

#include <memory>

#include "scheduler/provider/provider.h"
#include "spillway/v1/config.pb.h"

namespace spillway::provider {

std::unique_ptr<Provider> MakeStatic(const v1::ProviderConfig& config);

}  // namespace spillway::provider
