// What every call shares: its token checked, its error put on the wire, its answer given once from whatever thread has it.
// Owns the mapping between absl::Status and gRPC's; never blocks.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/auth/token.h"
#include "spec/validate.h"

namespace spillway::rpc {

grpc::Status ToGrpc(const absl::Status& status);

// OK, or UNAUTHENTICATED.
absl::Status Authenticate(const grpc::CallbackServerContext& context, const auth::TokenGuard& guard);

// Sets "spillway-violations-bin" and returns the INVALID_ARGUMENT that names them all in one text.
grpc::Status RefuseWithViolations(grpc::CallbackServerContext* context, const std::vector<spec::Violation>& violations);

// A full queue or disk: the caller should come back after `retry_after_ms`.
void SuggestRetry(grpc::CallbackServerContext* context, int64_t retry_after_ms);

}  // namespace spillway::rpc
