// How a unary call is answered: refused at once, by the engine after a commit, by the read pool, or by the pool and then the engine. Each finishes the reactor exactly once.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.h"
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

// A call that waits for the engine. The answer and a cancellation (the caller left, its deadline passed, the server stops) may come at once, and the answer
// may never come (a full disk holds the commit back): the first of the two ends the call, and the other finds it gone.
class EngineCall final : public grpc::ServerUnaryReactor {
 public:
  // What the engine's answer holds on to. While `call` is set, context, request and response are alive.
  class Slot {
   public:
    // From now on a cancellation ends the call. Before, somebody works on the request.
    void Wait(EngineCall* call) {
      MutexLock lock(&mutex_);
      call_ = call;
      if (cancelled_) EndLocked(Cancelled());
    }
    void Cancel() {
      MutexLock lock(&mutex_);
      cancelled_ = true;
      EndLocked(Cancelled());
    }
    // `status` is asked for only while the call lives.
    void End(const std::function<grpc::Status()>& status) {
      MutexLock lock(&mutex_);
      if (call_ != nullptr) EndLocked(status());
    }

   private:
    static grpc::Status Cancelled() {
      return grpc::Status(grpc::StatusCode::CANCELLED, "the call ended before its answer; what it asked for may have happened");
    }
    void EndLocked(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (EngineCall* call = std::exchange(call_, nullptr); call != nullptr) call->Finish(status);
    }
    Mutex mutex_;
    EngineCall* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
    bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  };

  const std::shared_ptr<Slot>& slot() const { return slot_; }

 private:
  void OnCancel() override {
    const std::shared_ptr<Slot> slot = slot_;  // the call may be gone when this returns
    slot->Cancel();
  }
  void OnDone() override { delete this; }

  const std::shared_ptr<Slot> slot_ = std::make_shared<Slot>();
};

// `fill` turns the reply into the response, on the engine's thread.
inline void PostThenFinish(grpc::CallbackServerContext* context, EngineCall* call, const Backend& backend, core::Command command,
                           std::function<void(const core::Reply&)> fill) {
  const std::shared_ptr<EngineCall::Slot> slot = call->slot();
  slot->Wait(call);
  const absl::Status posted = backend.engine->Post(std::move(command), [context, slot, fill = std::move(fill)](absl::StatusOr<core::Reply> reply) {
    slot->End([&] {
      if (reply.ok()) fill(*reply);
      if (absl::IsResourceExhausted(reply.status())) SuggestRetry(context, kRetryAfterMs);
      return ToGrpc(reply.status());
    });
  });
  if (posted.ok()) return;
  slot->End([&] {
    SuggestRetry(context, kRetryAfterMs);
    return ToGrpc(posted);
  });
}

inline grpc::ServerUnaryReactor* AskEngine(grpc::CallbackServerContext* context, const Backend& backend, core::Command command,
                                           std::function<void(const core::Reply&)> fill) {
  auto* call = new EngineCall;
  PostThenFinish(context, call, backend, std::move(command), std::move(fill));
  return call;
}

// First a blocking look-up on the pool that makes the command, then the engine.
inline grpc::ServerUnaryReactor* ThenAskEngine(grpc::CallbackServerContext* context, const Backend& backend,
                                               std::function<absl::StatusOr<core::Command>()> make, std::function<void(const core::Reply&)> fill) {
  auto* call = new EngineCall;
  const bool queued = backend.pool->Run([context, call, &backend, make = std::move(make), fill = std::move(fill)]() mutable {
    absl::StatusOr<core::Command> command = make();
    if (!command.ok()) return call->Finish(ToGrpc(command.status()));
    PostThenFinish(context, call, backend, *std::move(command), std::move(fill));
  });
  if (!queued) FinishFull(context, call);
  return call;
}

// `read` may block; it runs on the pool and fills the response.
inline grpc::ServerUnaryReactor* ReadOnPool(grpc::CallbackServerContext* context, const Backend& backend, std::function<absl::Status()> read) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!backend.pool->Run([reactor, read = std::move(read)] { reactor->Finish(ToGrpc(read())); })) FinishFull(context, reactor);
  return reactor;
}

}  // namespace spillway::rpc
