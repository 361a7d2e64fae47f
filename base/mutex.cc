// CondVar's waits: the caller's lock is adopted for the wait and given back still held.
#include "base/mutex.h"

#include <algorithm>
#include <chrono>

namespace spillway {

void CondVar::Wait(Mutex* mutex) {
  std::unique_lock<std::mutex> lock(mutex->native(), std::adopt_lock);
  condition_.wait(lock);
  lock.release();
}

bool CondVar::WaitForMs(Mutex* mutex, long timeout_ms) {
  constexpr long kYearMs = 365L * 24 * 3600 * 1000;  // keeps now + timeout from overflowing
  std::unique_lock<std::mutex> lock(mutex->native(), std::adopt_lock);
  const std::cv_status status = condition_.wait_for(lock, std::chrono::milliseconds(std::clamp(timeout_ms, 0L, kYearMs)));
  lock.release();
  return status == std::cv_status::no_timeout;
}

}  // namespace spillway
