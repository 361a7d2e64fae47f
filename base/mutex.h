// std::mutex with clang's thread-safety annotations (absl::Mutex gives false reports under TSan on Debian 12).
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace spillway {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* mutex_;
};

// Waits must re-check their condition in a loop. The caller holds `mutex`.
class CondVar {
 public:
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // False when `timeout_ms` passed first.
  bool WaitForMs(Mutex* mutex, long timeout_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void SignalAll() { condition_.notify_all(); }
  void Signal() { condition_.notify_one(); }

 private:
  std::condition_variable condition_;
};

}  // namespace spillway
