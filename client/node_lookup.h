// Finding nodes by what people call them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/api.h"

namespace spillway::client {

inline constexpr int64_t kNodesMax = 20'000;

// Every page, at most kNodesMax.
absl::StatusOr<v1::ListNodesResponse> ListAllNodes(Api& api, bool include_gone);
// By name (the one that lives, else the newest) or number. NOT_FOUND names the nearest.
absl::StatusOr<v1::Node> FindNode(Api& api, const std::string& name_or_id);

}  // namespace spillway::client
