// What the policies learn and expect: lifetimes, the outlook, and the choices that follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "scheduler/core/policy/deadline/lifetimes.h"
#include "scheduler/core/policy/deadline/outlook.h"
#include "scheduler/core/policy/deadline/skynomad.h"
#include "scheduler/core/policy/deadline/spillway.h"

namespace spillway::core::deadline {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kHour = 3'600'000;
constexpr int64_t kTick = kHour / 6;
const Job kJob{.work_ms = 10 * kHour, .deadline_ms = 16 * kHour, .overhead_ms = kHour / 5, .tick_ms = kTick};

TEST(Lifetimes, StepsByHand) {
  Lifetimes zone(1.0 / 6);
  EXPECT_GT(zone.ExpectedHours(0), 1e6) << "nothing was ever taken";
  for (const auto& [from, to] : {std::pair{0.0, 1.0}, std::pair{2.0, 4.0}}) {
    zone.Began(from, /*ours=*/true);
    zone.Ended(to, /*preempted=*/true);
  }
  // At 1 h one of two ended (step 1/2), at 2 h one of one (step 1); the tail goes on at the last step.
  const double tail = std::exp(-1.5) * (1.0 / 6) / (1 - std::exp(-1.0));
  EXPECT_NEAR(zone.ExpectedHours(5), 1 + std::exp(-0.5) + tail, 1e-12);
  zone.Began(5, /*ours=*/false);
  EXPECT_NEAR(zone.ExpectedHours(6.5), 0.5 + std::exp(-1.0) * (1.0 / 6) / (1 - std::exp(-1.0)), 1e-12) << "an hour and a half old";
}

TEST(Lifetimes, ALifeThatWeEndedIsCensored) {
  Lifetimes zone(1.0 / 6);
  zone.Began(0, true);
  zone.Ended(1, /*preempted=*/true);
  zone.Began(1, true);
  zone.Ended(4, /*preempted=*/false);
  // One of the two at risk at 1 h ended.
  const double tail = std::exp(-0.5) * (1.0 / 6) / (1 - std::exp(-0.5));
  EXPECT_NEAR(zone.ExpectedHours(9), 1 + tail, 1e-12);
}

TEST(Lifetimes, AvailabilityLooksBackOverTheWindow) {
  Lifetimes zone(1.0 / 6);
  EXPECT_EQ(zone.Availability(0, 12), 0);
  zone.Began(0, true);
  zone.Ended(2, true);
  EXPECT_NEAR(zone.Availability(4, 12), 0.5, 1e-12);
  zone.Began(4, false);
  EXPECT_NEAR(zone.Availability(8, 4), 1.0, 1e-12);
}

TEST(Lifetimes, ABurstOfPreemptionsShortensWhatIsExpected) {
  Lifetimes zone(1.0 / 6);
  double hour = 0;
  const auto live = [&](int ticks) {
    zone.Began(hour, true);
    for (int i = 0; i < ticks; ++i) {
      hour += 1.0 / 6;
      if (i + 1 < ticks) zone.Tick(hour);
    }
    zone.Ended(hour, true);
    zone.Tick(hour);
  };
  live(30);
  live(30);
  const double calm = zone.ExpectedHours(hour);
  for (int i = 0; i < 6; ++i) live(2);
  EXPECT_LT(zone.ExpectedHours(hour), calm / 3);
}

TEST(Outlook, BucketsGrowByDoubling) {
  std::vector<int> buckets;
  for (const int64_t age : {1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 1000}) buckets.push_back(AgeBucket(age));
  EXPECT_THAT(buckets, ElementsAre(0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5));
}

TEST(Outlook, MoreSlackNeverCostsMoreAndAllIsBetweenSpotAndOnDemand) {
  const Outlook outlook(kJob, 3.0, {{1, 1, 0}, {0.5, 1.5, 0}});
  const std::vector<double> weights = {0.5, 0.5};
  for (const int bucket : {0, 2, 5}) {
    double before = 1e9;
    for (double slack = 3; slack <= 30; slack += 0.5) {
      const Outlook::Rest rest = outlook.At(weights, 80, slack, true, bucket, Mode::kIdle);
      const double best = std::min({rest.idle, rest.spot, rest.on_demand});
      EXPECT_LE(best, before + 1e-3) << slack;
      EXPECT_GE(best, 80 - slack - 1e-3) << "not below spot for all the work";
      EXPECT_LE(best, 3.0 * (80 - slack + 3)) << "not above on demand for all of it";
      before = best;
    }
  }
}

TEST(Outlook, ACalmMarketIsCheaperAndObservationsTellWhichItIs) {
  const Outlook outlook(kJob, 3.0, {{0.2, 1.5, 0}, {3, 0.4, 0}});
  const double calm = outlook.At({1, 0}, 90, 20, true, 2, Mode::kIdle).spot;
  const double wild = outlook.At({0, 1}, 90, 20, true, 2, Mode::kIdle).spot;
  EXPECT_LT(calm, wild);
  SpellCounts counts;
  EXPECT_THAT(outlook.Weights(counts, 1), ElementsAre(0.5, 0.5));
  counts.up_went_on.fill(20);
  EXPECT_GT(outlook.Weights(counts, 1)[0], 0.99);
  counts.up_ended[0] = 60;
  EXPECT_LT(outlook.Weights(counts, 1)[0], 0.01);
  EXPECT_GT(outlook.Weights(counts, 0.05)[0], outlook.Weights(counts, 1)[0]) << "less trust, less certainty";
}

TEST(Outlook, IsSharedByJobsAlikeOnly) {
  const Market market{.zones = {{1'000'000, 3'000'000}}, .egress_micros = {{0}}};
  const auto outlook = OutlookFor(kJob, market, nullptr);
  EXPECT_EQ(OutlookFor(kJob, market, outlook), outlook);
  Job other = kJob;
  other.work_ms += kHour;
  EXPECT_NE(OutlookFor(other, market, outlook), outlook);
  const Market dearer{.zones = {{1'000'000, 4'000'000}}, .egress_micros = {{0}}};
  EXPECT_NE(OutlookFor(kJob, dearer, outlook), outlook);
}

class SpillwayPolicy : public ::testing::Test {
 protected:
  const Market market_{.zones = {{1'000'000, 3'000'000}}, .egress_micros = {{0}}};
  const std::shared_ptr<const Outlook> outlook_ = OutlookFor(kJob, market_, nullptr);
};

TEST_F(SpillwayPolicy, IdlesWhileAheadAndNeverPastTheLastSafeMoment) {
  Spillway policy(kJob, market_, outlook_);
  Standing standing;
  standing.spot = Sight::kNo;
  EXPECT_THAT(policy.Options(standing, market_), ElementsAre(Choice{Mode::kIdle, -1})) << "six hours of slack";
  standing.elapsed_ms = kJob.deadline_ms - NeedMs(kJob, kJob.work_ms, 1);
  EXPECT_THAT(policy.Options(standing, market_), ElementsAre(Choice{Mode::kOnDemand, 0}));
}

TEST_F(SpillwayPolicy, TakesSpotWhenThereIsSomeAndStays) {
  Spillway policy(kJob, market_, outlook_);
  Standing standing;
  standing.spot = Sight::kYes;
  EXPECT_THAT(policy.Options(standing, market_), ElementsAre(Choice{Mode::kSpot, 0}));
  standing.now = {Mode::kSpot, 0};
  standing.elapsed_ms = kTick;
  EXPECT_THAT(policy.Options(standing, market_), ElementsAre(Choice{Mode::kSpot, 0}));
}

TEST_F(SpillwayPolicy, NeedsNoMarginOnceDone) {
  Spillway policy(kJob, market_, outlook_);
  const Standing done{.elapsed_ms = 12 * kHour, .done_ms = kJob.work_ms, .now = {Mode::kSpot, 0}, .spot = Sight::kYes};
  EXPECT_EQ(policy.Options(done, market_).front().mode, Mode::kIdle);
}

TEST(SkyNomadPolicy, TriesTheCheapZoneFirstAndLatchesAtTheEnd) {
  const Market market{.zones = {{19'000'000, 82'000'000}, {16'000'000, 90'000'000}}, .egress_micros = {{0, 1'000'000}, {1'000'000, 0}}};
  SkyNomad policy(kJob, 2, 50);
  Standing standing;
  const std::vector<Choice> first = policy.Options(standing, market);
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first.front(), (Choice{Mode::kSpot, 1}));
  policy.Tried(first.front(), true);
  EXPECT_THAT(policy.Probes(), ElementsAre(0));
  policy.Probed(0, true);
  standing = {.elapsed_ms = kJob.deadline_ms - NeedMs(kJob, kJob.work_ms, 1), .done_ms = 0, .now = {Mode::kSpot, 1}};
  EXPECT_THAT(policy.Options(standing, market), ElementsAre(Choice{Mode::kOnDemand, 1})) << "where it runs";
  standing.now = {Mode::kOnDemand, 1};
  standing.elapsed_ms += kTick;
  EXPECT_THAT(policy.Options(standing, market), ElementsAre(Choice{Mode::kOnDemand, 1}));
  EXPECT_TRUE(policy.Probes().empty());
}

}  // namespace
}  // namespace spillway::core::deadline
