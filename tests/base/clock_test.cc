#include "base/clock.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "base/mutex.h"

namespace spillway {
namespace {

TEST(ClockTest, RealClockNeverGoesBackOnTheSteadyReading) {
  RealClock clock;
  int64_t last = clock.NowSteadyMs();
  EXPECT_GT(last, 0);
  for (int i = 0; i < 10'000; ++i) {
    const int64_t now = clock.NowSteadyMs();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, RealClockReadsThisCentury) {
  RealClock clock;
  EXPECT_GT(clock.NowUtcMs(), 1'577'836'800'000);  // 2020
  EXPECT_LT(clock.NowUtcMs(), 4'102'444'800'000);  // 2100
}

TEST(ClockTest, ManualClockMovesOnlyWhenToldTo) {
  ManualClock clock(5'000, 100);
  EXPECT_EQ(clock.NowUtcMs(), 5'000);
  EXPECT_EQ(clock.NowSteadyMs(), 100);
  clock.AdvanceMs(7);
  EXPECT_EQ(clock.NowUtcMs(), 5'007);
  EXPECT_EQ(clock.NowSteadyMs(), 107);
  clock.JumpUtcMs(-5'000);
  EXPECT_EQ(clock.NowUtcMs(), 7);
  EXPECT_EQ(clock.NowSteadyMs(), 107);  // an operator's jump is not felt by leases
}

TEST(MutexTest, AWaiterSeesWhatWasWrittenBeforeTheSignal) {
  Mutex mutex;
  CondVar changed;
  int stage = 0;
  std::thread other([&] {
    MutexLock lock(&mutex);
    while (stage != 1) changed.Wait(&mutex);
    stage = 2;
    changed.SignalAll();
  });
  {
    MutexLock lock(&mutex);
    stage = 1;
    changed.SignalAll();
    while (stage != 2) changed.Wait(&mutex);
    EXPECT_EQ(stage, 2);
  }
  other.join();
}

TEST(MutexTest, ATimedWaitGivesUpAndHoldsTheLockAgain) {
  Mutex mutex;
  CondVar never;
  {
    MutexLock lock(&mutex);
    // Only a spurious wake-up returns true here; it cannot happen for ever.
    while (never.WaitForMs(&mutex, 1)) {
    }
    while (never.WaitForMs(&mutex, -5)) {  // a deadline already past
    }
    EXPECT_FALSE(mutex.native().try_lock());
  }
  EXPECT_TRUE(mutex.native().try_lock());
  mutex.native().unlock();
}

TEST(MutexTest, TheLongestTimeoutIsNoOverflow) {
  Mutex mutex;
  CondVar changed;
  bool ready = false;
  std::thread other([&] {
    MutexLock lock(&mutex);
    ready = true;
    changed.Signal();
  });
  {
    MutexLock lock(&mutex);
    while (!ready) EXPECT_TRUE(changed.WaitForMs(&mutex, std::numeric_limits<long>::max()));
  }
  other.join();
}

}  // namespace
}  // namespace spillway
