#include "sim/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

namespace spillway::sim {
namespace {

using ::testing::HasSubstr;

TEST(FaultPlanTest, TheTextOfAPlanIsThePlan) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const FaultPlan plan = FaultPlan::Draw(seed);
    FaultPlan again;
    ASSERT_TRUE(again.Read(plan.ToText()).ok()) << plan.ToText();
    EXPECT_EQ(again.ToText(), plan.ToText());
    EXPECT_EQ(again.faults.lost, plan.faults.lost);
    EXPECT_EQ(again.rates.scheduler_dies, plan.rates.scheduler_dies);
    EXPECT_EQ(again.storms, plan.storms);
    EXPECT_EQ(again.policy.lease_ms, plan.policy.lease_ms);
  }
}

TEST(FaultPlanTest, StormsLieApartWithinTheDay) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const FaultPlan plan = FaultPlan::Draw(seed);
    int64_t end_min = 0;
    ASSERT_FALSE(plan.storms.empty());
    for (const Storm& storm : plan.storms) {
      EXPECT_GE(storm.begin_min, end_min);
      EXPECT_GT(storm.minutes, 0);
      end_min = storm.begin_min + storm.minutes;
    }
    EXPECT_LE(end_min, plan.day_min);
  }
}

TEST(FaultPlanTest, EverySeedGoesWithoutSomethingAndEveryFaultIsDrawn) {
  std::map<std::string, int> drawn;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    FaultPlan plan = FaultPlan::Draw(seed);
    int calm = 0;
    plan.EachNumber([&](const char* name, const auto* value, const auto& without) { *value == without ? ++calm : ++drawn[name]; });
    EXPECT_GT(calm, 5) << seed;
  }
  FaultPlan any;
  any.EachNumber([&](const char* name, const auto*, const auto&) {
    const std::string never[] = {"jobs_max", "renew_every_ms"};
    if (std::count(std::begin(never), std::end(never), name) == 0) {
      EXPECT_GT(drawn[name], 10) << name;
    }
  });
}

TEST(FaultPlanTest, RefusesWhatIsNoPlan) {
  FaultPlan plan;
  EXPECT_THAT(std::string(plan.Read("latencyms_max=3").message()), HasSubstr("did you mean latency_ms_max?"));
  EXPECT_THAT(std::string(plan.Read("lost=much").message()), HasSubstr("lost=much: not such a value"));
  EXPECT_THAT(std::string(plan.Read("storms=1-2").message()), HasSubstr("BEGIN+MINUTES"));
  EXPECT_THAT(std::string(plan.Read("storms=10+30/20+5").message()), HasSubstr("one after the other"));
  EXPECT_THAT(std::string(plan.Read("day_min=10,storms=5+30").message()), HasSubstr("after the day"));
}

}  // namespace
}  // namespace spillway::sim
