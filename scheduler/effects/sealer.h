// Seals ended attempts: lists the attempt's directory in the store, verifies the newest committed manifest byte for byte, and says what it found.
// What the attempt writes after that is never read. Owns one thread and a queue of orders (each at most once); never deletes or changes anything.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "scheduler/core/command.h"
#include "scheduler/engine/orders.h"

namespace spillway::effects {

class Sealer {
 public:
  using Post = std::function<void(core::Command)>;
  Sealer(std::string checkpoint_root, Post post);
  ~Sealer();
  void Seal(const engine::SealOrder& order);

 private:
  void Work();

  const std::string root_;
  const Post post_;
  Mutex mutex_;
  CondVar changed_;
  std::map<AttemptId, engine::SealOrder> orders_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The seal of one attempt; an error means the store could not be read: try again. Blocking.
absl::StatusOr<core::SealResult> SealNow(const std::string& checkpoint_root, const engine::SealOrder& order);

}  // namespace spillway::effects
