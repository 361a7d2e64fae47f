// The game itself on traces small enough to reckon by hand; the omniscient plan against every plan there is; and that our policy is never late,
// whatever the market does.
#include "sim/deadline/deadline_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/rng.h"
#include "scheduler/core/policy/deadline/make.h"
#include "sim/deadline/omniscient.h"

namespace spillway::sim {
namespace {

constexpr int64_t kMinute = 60'000;
constexpr int64_t kTick = 10 * kMinute;

// One string a zone: '+' given, '.' not. Spot 6 an hour (1 a tick) and on demand 18 (3 a tick), dearer by zone; moving a checkpoint costs 2.
Environment Market(const std::vector<std::string>& zones) {
  Environment environment{.name = "test", .zones = {}, .egress_micros = {}};
  for (size_t i = 0; i < zones.size(); ++i) {
    TraceZone zone;
    for (const char c : zones[i]) zone.available.push_back(c == '+');
    zone.spot_micros_per_hour = {6'000'000 + static_cast<int64_t>(i) * 600'000};
    zone.on_demand_micros_per_hour = 18'000'000 + static_cast<int64_t>(i) * 600'000;
    environment.zones.push_back(std::move(zone));
    environment.egress_micros.emplace_back(zones.size(), 2'000'000)[i] = 0;
  }
  return environment;
}

Job JobOf(int64_t work_ticks, int64_t deadline_ticks, int64_t overhead_minutes) {
  return {.work_ms = work_ticks * kTick, .deadline_ms = deadline_ticks * kTick, .overhead_ms = overhead_minutes * kMinute, .tick_ms = kTick};
}

RunResult Played(const Environment& environment, const Job& job, absl::string_view policy, LastTick last_tick = LastTick::kFull) {
  std::shared_ptr<const core::deadline::Outlook> outlook;
  auto made = core::deadline::MakePolicy(policy, job, environment.MarketAt(0), 50, &outlook);
  EXPECT_TRUE(made.ok());
  return PlayDeadline(environment, 0, job, last_tick, **made);
}

TEST(DeadlineRun, GreedyByHand) {
  // Three ticks of work, a start costs half a tick: spot in 0 (half), taken; 3 and 4 work one and a half; taken; the rest on demand from where it must.
  const RunResult result = Played(Market({"+..++......."}), JobOf(3, 12, 5), "greedy");
  EXPECT_FALSE(result.late);
  EXPECT_EQ(result.starts, 3);
  EXPECT_EQ(result.spot_ms, 3 * kTick);
  // One tick is left, with one start or two it needs two: from tick 10 it is on demand.
  EXPECT_EQ(result.on_demand_ms, 2 * kTick);
  EXPECT_EQ(result.idle_ms, 7 * kTick);
  EXPECT_DOUBLE_EQ(result.dollars(), 3 * 1 + 2 * 3);
}

TEST(DeadlineRun, TheLastTickIsBilledOrNot) {
  const Environment market = Market({"++++++++"});
  const Job job = JobOf(2, 8, 5);
  EXPECT_DOUBLE_EQ(Played(market, job, "greedy").dollars(), 3);
  EXPECT_DOUBLE_EQ(Played(market, job, "greedy", LastTick::kFree).dollars(), 2);
}

// Does what it is told, tick by tick.
class Script : public core::deadline::Policy {
 public:
  Script(std::vector<std::vector<Choice>> ticks, std::vector<int> probes) : ticks_(std::move(ticks)), probes_(std::move(probes)) {}
  std::vector<Choice> Options(const Standing&, const core::deadline::Market&) override {
    return next_ < ticks_.size() ? ticks_[next_++] : std::vector<Choice>{};
  }
  std::vector<int> Probes() override { return next_ == 1 ? probes_ : std::vector<int>{}; }
  void Probed(int zone, bool available) override { answers.emplace_back(zone, available); }
  std::vector<std::pair<int, bool>> answers;

 private:
  std::vector<std::vector<Choice>> ticks_;
  std::vector<int> probes_;
  size_t next_ = 0;
};

TEST(DeadlineRun, OptionsFallThroughProbesCostAMinuteAndMovesTheirWay) {
  const Environment market = Market({".+++++", "++++++"});
  const Job job = JobOf(3, 6, 0);
  Script script({{{Mode::kSpot, 0}, {Mode::kSpot, 1}}, {{Mode::kSpot, 0}}, {}}, {0, 1});
  const RunResult result = PlayDeadline(market, 0, job, LastTick::kFull, script);
  EXPECT_FALSE(result.late);
  EXPECT_EQ(result.starts, 2);
  EXPECT_EQ(result.moves, 1);
  // A tick in zone 1 (1.10), the way (2), two ticks in zone 0. Zone 0 refused the probe; what runs already is not charged for one.
  EXPECT_DOUBLE_EQ(result.dollars(), 1.1 + 2 + 2);
  EXPECT_THAT(script.answers, ::testing::ElementsAre(std::pair{0, false}, std::pair{1, true}));
}

TEST(DeadlineRun, AProbeOfAnotherZoneIsAMinute) {
  Script script({{{Mode::kSpot, 0}}, {}}, {1});
  EXPECT_DOUBLE_EQ(PlayDeadline(Market({"++++", "++++"}), 0, JobOf(2, 4, 0), LastTick::kFull, script).dollars(), 2 + 0.11);
}

TEST(DeadlineRun, WhoDoesNothingIsLate) {
  Script script({}, {});
  const RunResult result = PlayDeadline(Market({"++++"}), 0, JobOf(2, 4, 0), LastTick::kFull, script);
  EXPECT_TRUE(result.late);
  EXPECT_EQ(result.idle_ms, 4 * kTick);
}

Environment RandomMarket(Rng& rng, size_t zones, int64_t ticks) {
  std::vector<std::string> rows(zones);
  for (std::string& row : rows) {
    const uint64_t flips = 1 + rng.Below(6);
    bool up = rng.Chance(0.5);
    for (int64_t i = 0; i < ticks; ++i) {
      if (rng.Below(6) < flips) up = !up;
      row += up ? '+' : '.';
    }
  }
  return Market(rows);
}

// Every plan of `ticks` ticks, played.
int64_t CheapestOfAll(const Environment& environment, const Job& job, LastTick last_tick) {
  std::vector<Choice> choices = {{Mode::kIdle, -1}};
  for (int zone = 0; zone < static_cast<int>(environment.zones.size()); ++zone) {
    choices.push_back({Mode::kSpot, zone});
    choices.push_back({Mode::kOnDemand, zone});
  }
  const size_t ticks = static_cast<size_t>(job.deadline_ms / job.tick_ms);
  int64_t best = INT64_MAX;
  std::vector<size_t> digits(ticks, 0);
  for (bool more = true; more;) {
    OmniscientPlan plan;
    for (const size_t digit : digits) plan.ticks.push_back(choices[digit]);
    Playback playback(plan);
    const RunResult result = PlayDeadline(environment, 0, job, last_tick, playback);
    if (!result.late) best = std::min(best, result.cost_micros_ms);
    more = false;
    for (size_t& digit : digits) {
      if (++digit < choices.size()) {
        more = true;
        break;
      }
      digit = 0;
    }
  }
  return best;
}

TEST(Omniscient, IsTheCheapestOfAllPlans) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const size_t zones = 1 + rng.Below(2);
    const int64_t ticks = zones == 1 ? 7 : 5;
    const Job job = JobOf(1 + static_cast<int64_t>(rng.Below(3)), ticks, std::vector<int64_t>{0, 3, 5, 12}[rng.Below(4)]);
    if (!core::deadline::Feasible(job)) continue;
    const Environment market = RandomMarket(rng, zones, ticks);
    const LastTick last_tick = rng.Chance(0.5) ? LastTick::kFull : LastTick::kFree;
    const auto plan = PlanOmnisciently(market, 0, job, last_tick);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->cost_micros_ms, CheapestOfAll(market, job, last_tick));
    Playback playback(*plan);
    const RunResult played = PlayDeadline(market, 0, job, last_tick, playback);
    EXPECT_FALSE(played.late);
    EXPECT_EQ(played.cost_micros_ms, plan->cost_micros_ms) << "the plan costs what it says";
  }
}

TEST(Omniscient, NoPlanMakesAnImpossibleDeadline) { EXPECT_FALSE(PlanOmnisciently(Market({"++++"}), 0, JobOf(4, 4, 5), LastTick::kFull).ok()); }

// Random markets, and one that takes every spot machine as soon as its start is paid for.
TEST(Policies, AreNeverLateAndNeverCheaperThanOmniscient) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const size_t zones = 1 + rng.Below(3);
    const int64_t work = 6 + static_cast<int64_t>(rng.Below(20));
    const Job job = JobOf(work, work + 3 + static_cast<int64_t>(rng.Below(25)), std::vector<int64_t>{0, 2, 6, 12, 24}[rng.Below(5)]);
    if (!core::deadline::Feasible(job)) continue;
    const Environment market = RandomMarket(rng, zones, job.deadline_ms / kTick);
    const auto plan = PlanOmnisciently(market, 0, job, LastTick::kFull);
    ASSERT_TRUE(plan.ok());
    for (const std::string& name : core::deadline::PolicyNames()) {
      const RunResult result = Played(market, job, name);
      EXPECT_GE(result.cost_micros_ms, plan->cost_micros_ms) << name;
      if (name == "skynomad") continue;  // its published net may be one overhead late after a move
      EXPECT_FALSE(result.late) << name;
    }
  }
}

}  // namespace
}  // namespace spillway::sim
