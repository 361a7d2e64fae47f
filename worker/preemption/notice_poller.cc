#include "worker/preemption/notice_poller.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace spillway::preemption {
namespace {

PollerOptions Adjusted(PollerOptions options, const NoticeSource& source) {
  options.period_ms = std::max({options.period_ms, source.period_ms_min(), int64_t{1}});
  return options;
}

}  // namespace

NoticePoller::NoticePoller(std::unique_ptr<NoticeSource> source, Clock* clock, PollerOptions options, OnNotice on_notice)
    : clock_(clock),
      options_(Adjusted(options, *source)),
      on_notice_(std::move(on_notice)),
      source_(std::move(source)),
      tracker_(source_->name(), source_->lead(), options.margin) {}

NoticePoller::~NoticePoller() { Stop(); }

void NoticePoller::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void NoticePoller::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void NoticePoller::BeginDraining() {
  MutexLock lock(&mutex_);
  tracker_.BeginDraining();
}

absl::Status NoticePoller::Acknowledge() {
  MutexLock lock(&source_mutex_);
  return source_->Acknowledge();
}

NoticeTracker::State NoticePoller::state() const {
  MutexLock lock(&mutex_);
  return tracker_.state();
}

absl::Status NoticePoller::last_status() const {
  MutexLock lock(&mutex_);
  return last_status_;
}

void NoticePoller::Loop() {
  for (;;) {
    LookOnce();
    const int64_t until_ms = clock_->NowSteadyMs() + options_.period_ms;
    MutexLock lock(&mutex_);
    for (int64_t left_ms = options_.period_ms; !stopping_ && left_ms > 0; left_ms = until_ms - clock_->NowSteadyMs()) {
      changed_.WaitForMs(&mutex_, left_ms);
    }
    if (stopping_) return;
  }
}

void NoticePoller::LookOnce() {
  absl::StatusOr<Reading> reading = absl::UnknownError("not looked yet");
  std::string name;
  {
    MutexLock lock(&source_mutex_);
    name = source_->name();
    reading = source_->Poll();
  }
  std::optional<Notice> notice;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    // Said once when it begins and once when it ends, however often it is tried.
    if (!reading.ok() && last_status_.ok()) LOG(WARNING) << "notices from " << name << " cannot be read: " << reading.status().message();
    if (reading.ok() && !last_status_.ok()) LOG(INFO) << "notices from " << name << " can be read again";
    last_status_ = reading.status();
    if (reading.ok()) notice = tracker_.Feed(*reading, clock_->NowUtcMs(), clock_->NowSteadyMs());
  }
  if (notice.has_value()) on_notice_(*notice);
}

}  // namespace spillway::preemption
