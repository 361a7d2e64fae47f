// A failing plan gets small: by a rule alone, and with a planted bug in the whole simulation.
#include "tests/simulation/shrink.h"

#include <gtest/gtest.h>

#include "tests/simulation/bugs.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

TEST(ShrinkTest, KeepsWhatTheFailureNeedsAndNothingElse) {
  const FaultPlan whole = FaultPlan::Draw(7);
  FaultPlan plan = whole;
  plan.faults.lost = 0.2;
  plan.rates.drains = 3;
  // Breaks in the second storm when frames are lost and nodes are drained.
  const auto run = [](const FaultPlan& tried) {
    const bool broken = tried.faults.lost > 0 && tried.rates.drains > 0 && !tried.storms.empty() && tried.storms.back().begin_min > 200;
    return Trial{broken ? "broken" : "", 0};
  };
  const Shrunk small = Shrink(plan, run(plan), 10'000, run);
  EXPECT_EQ(small.trial.failure, "broken");
  EXPECT_EQ(FaultsIn(small.plan), 2) << small.plan.ToText();
  EXPECT_EQ(small.plan.faults.lost, 0.2);
  EXPECT_EQ(small.plan.rates.drains, 3);
  ASSERT_EQ(small.plan.storms.size(), 1u);
  EXPECT_EQ(small.plan.storms[0].minutes, 1);
  EXPECT_EQ(small.plan.jobs, 1);
  EXPECT_EQ(small.plan.static_nodes, 1);
  EXPECT_LT(small.tries, 200);
}

TEST(ShrinkTest, CutsOffWhatComesAfterTheFailure) {
  FaultPlan plan;
  plan.day_min = 1'000;
  plan.storms = {{0, 60}, {300, 60}, {600, 60}};
  plan.faults.lost = 0.2;
  const auto run = [](const FaultPlan& tried) { return Trial{tried.storms.size() >= 2 ? "broken" : "", 310 * 60'000}; };
  const Shrunk small = Shrink(plan, run(plan), 1, run);
  EXPECT_EQ(small.plan.day_min, 311);
  ASSERT_EQ(small.plan.storms.size(), 2u);
  EXPECT_EQ(small.plan.storms[1].minutes, 11);
}

TEST(ShrinkTest, StopsWhenItsTriesAreUsedUp) {
  const auto run = [](const FaultPlan&) { return Trial{"broken", 0}; };
  const Shrunk small = Shrink(FaultPlan::Draw(7), run(FaultPlan()), 5, run);
  EXPECT_EQ(small.tries, 5);
}

// A seal that looks at nothing needs little: an attempt that ends with a checkpoint nobody reported.
TEST(ShrinkTest, APlantedBugNeedsFewFaults) {
  const Bug* bug = FindBug("seals-blind");
  ASSERT_NE(bug, nullptr);
  Hooks hooks;
  bug->plant(&hooks);
  uint64_t seed = 0;
  FaultPlan plan;
  Trial whole;
  while (whole.failure.empty() && ++seed <= 100) {
    plan = FaultPlan::Draw(seed);
    whole = RunPlan(seed, plan, hooks);
  }
  ASSERT_NE(whole.failure, "") << "no seed fails";
  const auto run = [&](const FaultPlan& tried) { return RunPlan(seed, tried, hooks); };
  const Shrunk small = Shrink(plan, whole, 200, run);
  EXPECT_LE(FaultsIn(small.plan), 3) << small.plan.ToText();
  EXPECT_LT(FaultsIn(small.plan), FaultsIn(plan) / 3);
  EXPECT_LE(small.plan.storms.size(), 1u);
  // What is printed repeats it.
  FaultPlan again;
  ASSERT_TRUE(again.Read(small.plan.ToText()).ok());
  EXPECT_EQ(again.ToText(), small.plan.ToText());
  EXPECT_EQ(RunPlan(seed, again, hooks).failure, small.trial.failure);
}

}  // namespace
}  // namespace spillway::sim
