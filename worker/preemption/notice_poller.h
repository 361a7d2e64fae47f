// A thread that looks at one source again and again and passes on what is new. The callback runs on that thread; it must not call Stop.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "worker/preemption/notice.h"
#include "worker/preemption/notice_source.h"

namespace spillway::preemption {

struct PollerOptions {
  int64_t period_ms = 5'000;  // from the end of one look to the next; raised to what the provider asks for
  Margin margin;
};

class NoticePoller {
 public:
  using OnNotice = std::function<void(const Notice&)>;

  NoticePoller(std::unique_ptr<NoticeSource> source, Clock* clock, PollerOptions options, OnNotice on_notice);
  ~NoticePoller();  // stops

  void Start();
  // Returns when the thread has ended: at most the few seconds of a request under way. No callback comes after it.
  void Stop();

  void BeginDraining();
  // The machine is empty; see NoticeSource.
  absl::Status Acknowledge();

  NoticeTracker::State state() const;
  // Of the newest look: whether the source can be reached at all.
  absl::Status last_status() const;

 private:
  void Loop();
  void LookOnce();

  Clock* const clock_;
  const PollerOptions options_;
  const OnNotice on_notice_;

  Mutex source_mutex_;  // a source is used by one thread at a time
  const std::unique_ptr<NoticeSource> source_ ABSL_PT_GUARDED_BY(source_mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  NoticeTracker tracker_ ABSL_GUARDED_BY(mutex_);
  absl::Status last_status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::preemption
