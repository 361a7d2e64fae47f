// The seam for time. Two readings, never mixed: UTC is for people and prices, the steady reading for leases and deadlines.
// Only RealClock touches the system; simulations and unit tests bring a clock of their own.
#pragma once

#include <cstdint>

namespace spillway {

class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since the Unix epoch. May jump when an operator sets the clock.
  virtual int64_t NowUtcMs() = 0;
  // Milliseconds on CLOCK_BOOTTIME: never jumps, counts through suspend. Comparable only within one machine and boot.
  virtual int64_t NowSteadyMs() = 0;
};

class RealClock final : public Clock {
 public:
  int64_t NowUtcMs() override;
  int64_t NowSteadyMs() override;
};

// A clock that stands still until it is told to move. For tests and simulations.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t utc_ms = 1'750'000'000'000, int64_t steady_ms = 1'000'000) : utc_ms_(utc_ms), steady_ms_(steady_ms) {}
  int64_t NowUtcMs() override { return utc_ms_; }
  int64_t NowSteadyMs() override { return steady_ms_; }
  void AdvanceMs(int64_t ms) {
    utc_ms_ += ms;
    steady_ms_ += ms;
  }
  void JumpUtcMs(int64_t ms) { utc_ms_ += ms; }

 private:
  int64_t utc_ms_;
  int64_t steady_ms_;
};

}  // namespace spillway
