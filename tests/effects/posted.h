// What executors told the engine, kept in order; and a wait, bounded and on a condition, for more of it.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "scheduler/core/command.h"

namespace spillway::effects {

inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class Posted {
 public:
  std::function<void(core::Command)> post() {
    return [this](core::Command command) {
      MutexLock lock(&mutex_);
      commands_.push_back(std::move(command));
    };
  }
  template <typename T>
  std::vector<T> Of() {
    MutexLock lock(&mutex_);
    std::vector<T> out;
    for (const core::Command& command : commands_) {
      if (const T* one = std::get_if<T>(&command)) out.push_back(*one);
    }
    return out;
  }
  template <typename T>
  bool WaitFor(size_t count) {
    return Eventually([&] { return Of<T>().size() >= count; });
  }

 private:
  Mutex mutex_;
  std::vector<core::Command> commands_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway::effects
