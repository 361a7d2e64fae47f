#include "scheduler/rpc/read_pool.h"

#include <utility>

namespace spillway::rpc {

ReadPool::ReadPool(int threads, size_t queue_max) : queue_max_(queue_max) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

ReadPool::~ReadPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool ReadPool::Run(std::function<void()> read) {
  MutexLock lock(&mutex_);
  if (stopping_ || queue_.size() >= queue_max_) return false;
  queue_.push_back(std::move(read));
  changed_.Signal();
  return true;
}

void ReadPool::Work() {
  while (true) {
    std::function<void()> read;
    {
      MutexLock lock(&mutex_);
      while (queue_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (queue_.empty()) return;
      read = std::move(queue_.front());
      queue_.pop_front();
    }
    read();
  }
}

}  // namespace spillway::rpc
