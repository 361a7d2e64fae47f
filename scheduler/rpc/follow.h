// A server stream that sends what there is, then follows: filled on the read pool, written by gRPC's threads, woken by a short timer while there is nothing new.
// Owns the life of the stream: one Pump or one write is under way at any time, and the object deletes itself when gRPC is done with it.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <utility>

#include "scheduler/rpc/call.h"
#include "scheduler/rpc/read_pool.h"

namespace spillway::rpc {

enum class Follow { kMore, kWait, kEnd };

template <typename Message>
class FollowReactor : public grpc::ServerWriteReactor<Message> {
 public:
  // Appends messages to `out` (a bounded number) and says how to go on; runs on the pool, never twice at a time.
  using Fill = std::function<absl::StatusOr<Follow>(std::deque<Message>* out)>;

  static constexpr std::chrono::milliseconds kPollEvery{100};

  FollowReactor(ReadPool* pool, Fill fill) : pool_(pool), fill_(std::move(fill)) {}
  void Begin() { SchedulePump(); }

  void OnWriteDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::CANCELLED);
    messages_.pop_front();
    Continue();
  }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  void SchedulePump() {
    if (!pool_->Run([this] { Pump(); })) this->Finish(ToGrpc(absl::ResourceExhaustedError("too many readers; try again")));
  }
  void Pump() {
    if (cancelled_) return this->Finish(grpc::Status::CANCELLED);
    absl::StatusOr<Follow> next = fill_(&messages_);
    if (!next.ok()) return this->Finish(ToGrpc(next.status()));
    next_ = *next;
    Continue();
  }
  void Continue() {
    if (!messages_.empty()) return this->StartWrite(&messages_.front());
    switch (next_) {
      case Follow::kEnd: return this->Finish(grpc::Status::OK);
      case Follow::kMore: return SchedulePump();
      case Follow::kWait: alarm_.Set(std::chrono::system_clock::now() + kPollEvery, [this](bool) { SchedulePump(); });
    }
  }

  ReadPool* const pool_;
  const Fill fill_;
  std::deque<Message> messages_;
  Follow next_ = Follow::kMore;
  std::atomic<bool> cancelled_ = false;
  grpc::Alarm alarm_;
};

// A stream that is refused at once.
template <typename Message>
class RefusedStream : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedStream(grpc::Status status) { this->Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

}  // namespace spillway::rpc
