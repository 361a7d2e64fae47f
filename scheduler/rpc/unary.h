// The three ways a unary call is answered: refused at once, by the engine after a commit, by the read pool. Each finishes the reactor exactly once.
#pragma once

#include <functional>
#include <utility>

#include "scheduler/rpc/backend.h"
#include "scheduler/rpc/call.h"

namespace spillway::rpc {

inline constexpr int64_t kRetryAfterMs = 1'000;

// Null when the caller may go on; else the call is answered already.
inline grpc::ServerUnaryReactor* RefuseStranger(grpc::CallbackServerContext* context, const Backend& backend) {
  const absl::Status status = Authenticate(*context, *backend.user_guard);
  if (status.ok()) return nullptr;
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

inline grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (status.code() == absl::StatusCode::kResourceExhausted) SuggestRetry(context, kRetryAfterMs);
  reactor->Finish(ToGrpc(status));
  return reactor;
}

inline void FinishFull(grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* reactor) {
  SuggestRetry(context, kRetryAfterMs);
  reactor->Finish(ToGrpc(absl::ResourceExhaustedError("too many reads are waiting; try again")));
}

// `fill` turns the reply into the response, on the engine's thread.
inline void PostThenFinish(grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* reactor, const Backend& backend, core::Command command,
                           std::function<void(const core::Reply&)> fill) {
  const absl::Status posted = backend.engine->Post(std::move(command), [context, reactor, fill = std::move(fill)](absl::StatusOr<core::Reply> reply) {
    if (reply.ok()) fill(*reply);
    if (reply.status().code() == absl::StatusCode::kResourceExhausted) SuggestRetry(context, kRetryAfterMs);
    reactor->Finish(ToGrpc(reply.status()));
  });
  if (!posted.ok()) {
    SuggestRetry(context, kRetryAfterMs);
    reactor->Finish(ToGrpc(posted));
  }
}

inline grpc::ServerUnaryReactor* AskEngine(grpc::CallbackServerContext* context, const Backend& backend, core::Command command,
                                           std::function<void(const core::Reply&)> fill) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  PostThenFinish(context, reactor, backend, std::move(command), std::move(fill));
  return reactor;
}

// First a blocking look-up on the pool that makes the command, then the engine.
inline grpc::ServerUnaryReactor* ThenAskEngine(grpc::CallbackServerContext* context, const Backend& backend,
                                               std::function<absl::StatusOr<core::Command>()> make, std::function<void(const core::Reply&)> fill) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool queued = backend.pool->Run([context, reactor, &backend, make = std::move(make), fill = std::move(fill)]() mutable {
    absl::StatusOr<core::Command> command = make();
    if (!command.ok()) return reactor->Finish(ToGrpc(command.status()));
    PostThenFinish(context, reactor, backend, *std::move(command), std::move(fill));
  });
  if (!queued) FinishFull(context, reactor);
  return reactor;
}

// `read` may block; it runs on the pool and fills the response.
inline grpc::ServerUnaryReactor* ReadOnPool(grpc::CallbackServerContext* context, const Backend& backend, std::function<absl::Status()> read) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!backend.pool->Run([reactor, read = std::move(read)] { reactor->Finish(ToGrpc(read())); })) FinishFull(context, reactor);
  return reactor;
}

}  // namespace spillway::rpc
