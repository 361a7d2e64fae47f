#include "sim/world.h"

#include <gtest/gtest.h>

#include "sim/machine_clock.h"

namespace spillway::sim {
namespace {

TEST(World, ThingsHappenInOrderAndEqualTimesAsPlanned) {
  World world(1);
  std::string seen;
  world.After(20, [&] { seen += "c"; });
  world.After(10, [&] { seen += "a"; });
  world.After(10, [&] { seen += "b"; });
  world.RunUntil(World::kStartMs + 15);
  EXPECT_EQ(seen, "ab");
  EXPECT_EQ(world.now_ms(), World::kStartMs + 15);
  world.At(0, [&] { seen += "!"; });  // the past is now
  world.RunUntil(World::kStartMs + 30);
  EXPECT_EQ(seen, "ab!c");
}

TEST(World, WhatWasPlannedForALifeEndsWithIt) {
  World world(1);
  Life life;
  int happened = 0;
  world.After(10, life, [&] { ++happened; });
  world.After(20, life, [&] { ++happened; });
  world.RunUntil(World::kStartMs + 15);
  life.End();
  world.After(10, life, [&] { happened += 10; });  // of the next life
  world.RunUntil(World::kStartMs + 100);
  EXPECT_EQ(happened, 11);
}

TEST(World, StopsAtTheFirstBrokenPromise) {
  World world(1);
  world.After(10, [&] { world.Fail("one"); });
  world.After(20, [&] { world.Fail("two"); });
  world.RunUntil(World::kStartMs + 100);
  EXPECT_EQ(world.failure(), "at 0h00m00.010s: one");
  EXPECT_EQ(world.now_ms(), World::kStartMs + 10);
}

TEST(World, NoticesWhenTimeStandsStill) {
  World world(1);
  std::function<void()> again = [&] { world.After(0, again); };
  again();
  world.RunUntil(World::kStartMs + 1);
  EXPECT_NE(world.failure(), "");
}

TEST(World, OneConcernsLuckDoesNotMoveAnothers) {
  World world(7), same(7), other(8);
  Rng a = world.Luck("a");
  a.Next();
  EXPECT_EQ(world.Luck("b").Next(), same.Luck("b").Next());
  EXPECT_NE(world.Luck("a").Next(), world.Luck("b").Next());
  EXPECT_NE(world.Luck("a").Next(), other.Luck("a").Next());
}

TEST(MachineClock, RunsAtItsOwnRate) {
  World world(1);
  MachineClock fast(&world, 500, 10'000);  // one in a hundred
  Life life;
  int64_t at_ms = 0;
  fast.After(100'000, life, [&] { at_ms = world.now_ms(); });
  EXPECT_NEAR(static_cast<double>(fast.TrueMs(100'500) - World::kStartMs), 99'010, 2);
  world.RunUntil(World::kStartMs + 200'000);
  EXPECT_NEAR(static_cast<double>(at_ms - World::kStartMs), 99'010, 2);
  EXPECT_EQ(fast.NowMs(), 500 + 202'000);
}

TEST(MachineClock, NothingHappensWhileFrozenAndNoTimePasses) {
  World world(1);
  MachineClock clock(&world, 0, 0);
  Life life;
  std::vector<int64_t> seen;
  for (const int64_t local : {50, 150}) clock.At(local, life, [&] { seen.push_back(world.now_ms() - World::kStartMs); });
  world.RunUntil(World::kStartMs + 20);
  clock.Freeze();
  world.RunUntil(World::kStartMs + 1'020);
  EXPECT_EQ(clock.NowMs(), 20);
  EXPECT_TRUE(seen.empty());
  clock.Thaw();
  world.RunUntil(World::kStartMs + 2'000);
  EXPECT_EQ(seen, (std::vector<int64_t>{1'050, 1'150}));
}

}  // namespace
}  // namespace spillway::sim
