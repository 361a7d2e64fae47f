// Seals ended attempts: lists the attempt's directory in the store, verifies the newest committed manifest byte for byte, and says what it found.
// What the attempt writes after that is never read. Owns two threads (a large checkpoint must not hold up the small ones) and a queue of orders, each at
// most once; an attempt whose store cannot be read waits behind the others and is tried again for ever. Never deletes or changes anything.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "scheduler/core/command.h"
#include "scheduler/engine/orders.h"

namespace spillway::effects {

class Sealer {
 public:
  using Post = std::function<void(core::Command)>;
  Sealer(std::string checkpoint_root, Post post, int64_t retry_ms = 1'000);
  ~Sealer() { Stop(); }
  void Seal(const engine::SealOrder& order);
  // Waits for the seals under way; the others are owed again after the next start. Idempotent.
  void Stop();

 private:
  struct Owed {
    engine::SealOrder order;
    int64_t failures = 0;
  };
  void Work();
  void Failed(Owed owed, const absl::Status& why);

  const std::string root_;
  const Post post_;
  const int64_t retry_ms_;
  Mutex mutex_;
  CondVar changed_;
  std::map<AttemptId, Owed> due_ ABSL_GUARDED_BY(mutex_);
  std::map<AttemptId, Owed> later_ ABSL_GUARDED_BY(mutex_);  // failed; due again when nothing else is
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The seal of one attempt; an error means the store could not be read: try again. Blocking.
absl::StatusOr<core::SealResult> SealNow(const std::string& checkpoint_root, const engine::SealOrder& order);

}  // namespace spillway::effects
