// One thread that does what it is given, in order: for work that may wait for a disk. Whoever gives it bounds it.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace spillway::worker {

class WorkThread {
 public:
  WorkThread() : thread_([this] { Loop(); }) {}
  // Waits for what is being done; what was not begun is dropped.
  ~WorkThread() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    thread_.join();
  }

  void Do(std::function<void()> work) {
    MutexLock lock(&mutex_);
    work_.push_back(std::move(work));
    changed_.Signal();
  }

 private:
  void Loop() {
    while (true) {
      std::function<void()> work;
      {
        MutexLock lock(&mutex_);
        while (work_.empty() && !stopping_) changed_.Wait(&mutex_);
        if (stopping_) return;
        work = std::move(work_.front());
        work_.pop_front();
      }
      work();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::worker
