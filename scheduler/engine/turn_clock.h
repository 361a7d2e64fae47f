// The time that turns are stamped with: UTC for people, yet running at the pace of the steady clock, so that an operator who sets the clock back neither
// stops leases and back-offs nor makes them jump. Never decreases. Ahead of UTC it runs a tenth slow until UTC has caught up; behind, it jumps forward.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace spillway::engine {

class TurnClock {
 public:
  // `at_least_ms`: the newest time the state has seen.
  TurnClock(Clock* clock, int64_t at_least_ms) : clock_(clock), now_ms_(std::max(clock->NowUtcMs(), at_least_ms)), steady_ms_(clock->NowSteadyMs()) {}

  int64_t NowMs() {
    const int64_t steady_ms = clock_->NowSteadyMs(), utc_ms = clock_->NowUtcMs();
    const int64_t passed_ms = std::max<int64_t>(0, steady_ms - steady_ms_);
    if (now_ms_ + passed_ms <= utc_ms) {
      now_ms_ = utc_ms;
      tenths_ = 0;
    } else {
      // Nine tenths of what passed, but never behind UTC.
      tenths_ += passed_ms * 9;
      now_ms_ = std::max(now_ms_ + tenths_ / 10, utc_ms);
      tenths_ %= 10;
    }
    steady_ms_ = steady_ms;
    return now_ms_;
  }

 private:
  Clock* const clock_;
  int64_t now_ms_;
  int64_t steady_ms_;
  int64_t tenths_ = 0;  // of a millisecond, left over
};

}  // namespace spillway::engine
