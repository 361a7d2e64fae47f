// A few threads for reads that block (database, log files), so that gRPC's own threads never do. Bounded: a full pool refuses.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace spillway::rpc {

class ReadPool {
 public:
  explicit ReadPool(int threads, size_t queue_max = 4'096);
  // Runs what is queued, then joins.
  ~ReadPool();
  // False when the queue is full: `read` will not run.
  bool Run(std::function<void()> read);

 private:
  void Work();

  const size_t queue_max_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace spillway::rpc
