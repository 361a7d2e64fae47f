// The cloud's model, driven by hand: boot, notice, reclaim at the drawn time, capacity, idempotent creation, bills.
#include "playground/cloud.h"

#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "tests/playground/cloud_fixture.h"

namespace spillway::playground {
namespace {

using ::testing::HasSubstr;

constexpr char kSpot[] =
    "- {name: spot-a, market: spot, zone: z, cpus: 8, memory: 64GB, price_per_hour: \"3.60\", capacity: 2, boot: 20s, notice: 30s, "
    "billing: {increment: 1s, minimum: 60s}, reclaim: {after: [5m, 12m]}}\n"
    "- {name: steady, market: on_demand, zone: z, cpus: 8, memory: 64GB, price_per_hour: \"7.20\", capacity: 1, boot: 10s}\n";

TEST(CloudTest, BootsAfterTheDelay) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "spot-a"));
  EXPECT_EQ(pg.At(number).id, "i-000001");
  pg.RunUntil(19'999);
  EXPECT_EQ(pg.At(number).state, InstanceState::kBooting);
  EXPECT_TRUE(pg.cloud.WhatIsOwed(pg.Now()).empty());
  pg.RunUntil(20'000);
  EXPECT_EQ(pg.At(number).state, InstanceState::kRunning);
  EXPECT_EQ(pg.At(number).started_ms, 20'000);
}

TEST(CloudTest, AnnouncesThenTakesAtTheDrawnTime) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "spot-a"));
  pg.RunUntil(269'999);
  EXPECT_EQ(pg.At(number).announced_ms, -1);
  pg.RunUntil(270'000);
  EXPECT_EQ(pg.At(number).announced_ms, 270'000);
  EXPECT_EQ(pg.At(number).state, InstanceState::kRunning);
  pg.RunUntil(299'999);
  EXPECT_EQ(pg.At(number).state, InstanceState::kRunning);
  pg.RunUntil(300'000);
  EXPECT_EQ(pg.At(number).state, InstanceState::kEnded);
  EXPECT_EQ(pg.At(number).end_reason, EndReason::kReclaimed);
  EXPECT_EQ(pg.At(number).ended_ms, 300'000);
}

TEST(CloudTest, TheKthInstanceHasTheKthLifetimeAndLaterOnesStay) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t first, pg.Create("a", "spot-a"));
  ASSERT_OK_AND_ASSIGN(const int64_t second, pg.Create("b", "spot-a"));
  pg.RunUntil(300'000);
  ASSERT_OK_AND_ASSIGN(const int64_t third, pg.Create("c", "spot-a"));
  pg.RunUntil(24 * 3'600'000);
  EXPECT_EQ(pg.At(first).ended_ms, 300'000);
  EXPECT_EQ(pg.At(second).ended_ms, 720'000);
  EXPECT_EQ(pg.At(third).state, InstanceState::kRunning);
}

TEST(CloudTest, WithoutNoticeNothingIsAnnounced) {
  HandDrivenCloud pg(ConfigOf("- {name: s, market: spot, zone: z, cpus: 1, memory: 1GB, price_per_hour: 1, capacity: 1, reclaim: {after: [1m]}}"));
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "s"));
  pg.RunUntil(60'000);
  EXPECT_EQ(pg.At(number).announced_ms, -1);
  EXPECT_EQ(pg.At(number).end_reason, EndReason::kReclaimedWithoutNotice);
}

TEST(CloudTest, SameSeedSameHistoryAndAnotherSeedAnother) {
  const std::string offers =
      "- {name: s, market: spot, zone: z, cpus: 1, memory: 1GB, price_per_hour: 1, capacity: 50, boot: 7s, notice: 30s, reclaim: {mean_lifetime: 10m}}";
  auto history = [&](int64_t seed) {
    HandDrivenCloud pg(ConfigOf(offers, seed));
    for (int i = 0; i < 20; ++i) {
      EXPECT_OK(pg.Create(absl::StrCat("t", i), "s").status());
      pg.RunUntil(pg.Now() + 45'000);
    }
    pg.RunUntil(7'200'000);
    return std::vector<std::string>(pg.history.begin() + 1, pg.history.end());  // without the opening, which names the seed
  };
  EXPECT_EQ(history(1), history(1));
  EXPECT_NE(history(1), history(2));
}

TEST(CloudTest, CapacityIsGivenBackOnlyWhenTheMachineIsProvenDead) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "steady"));
  pg.RunUntil(10'000);
  EXPECT_THAT(pg.Create("b", "steady").status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("steady")));
  pg.Apply(*pg.cloud.Terminate(number, pg.Now()));
  EXPECT_THAT(pg.Create("b", "steady").status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("steady")));
  pg.Turn();
  EXPECT_OK(pg.Create("b", "steady").status());
}

TEST(CloudTest, NoMachineIsGivenWhileTheTraceHasNone) {
  sim::SpotTrace trace{60'000, {true, false, true}};
  CloudConfig config = ConfigOf("- {name: s, market: spot, zone: z, cpus: 1, memory: 1GB, price_per_hour: 1, capacity: 9, notice: 10s}", 1, 2);
  config.offers[0].market = sim::SpotModel::FromTrace(trace);
  HandDrivenCloud pg(config);  // at scale 2 a tick lasts 30 s of real time, a notice 5 s
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "s"));
  pg.RunUntil(30'000);
  EXPECT_EQ(pg.At(number).announced_ms, 25'000);
  EXPECT_EQ(pg.At(number).ended_ms, 30'000);
  EXPECT_THAT(pg.Create("b", "s").status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no machine to give")));
  pg.RunUntil(60'000);
  EXPECT_OK(pg.Create("b", "s").status());
}

TEST(CloudTest, CreationIsIdempotentByClientToken) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t first, pg.Create("a", "spot-a"));
  const size_t events = pg.history.size();
  EXPECT_EQ(*pg.Create("a", "spot-a"), first);
  EXPECT_EQ(pg.history.size(), events);
  pg.Apply(*pg.cloud.Terminate(first, pg.Now()));
  pg.Turn();
  EXPECT_EQ(*pg.Create("a", "spot-a"), first);  // even when it has ended: a retried creation never makes a second machine
  EXPECT_THAT(pg.Create("a", "steady").status(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("i-000001")));
}

TEST(CloudTest, UnknownOfferNamesTheNearest) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  EXPECT_THAT(pg.Create("a", "spot-b").status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spot-a")));
  EXPECT_THAT(pg.cloud.Create(RequestOf("", "spot-a"), 0).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("client_token")));
  CreateRequest bare = RequestOf("x", "spot-a");
  bare.worker.argv.clear();
  EXPECT_THAT(pg.cloud.Create(bare, 0).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token_file")));
}

TEST(CloudTest, BillsByRuleFromCreationToTheDecision) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "spot-a"));
  pg.RunUntil(10'000);
  EXPECT_EQ(pg.cloud.TotalsAt(pg.Now()).accruing_micros, 60'000);  // the minute's minimum at 3.60 an hour
  pg.RunUntil(90'500);
  pg.Apply(*pg.cloud.Terminate(number, pg.Now()));
  pg.clock.AdvanceMs(5'000);  // dying takes time that nobody pays
  pg.Turn();
  EXPECT_EQ(pg.At(number).billed_ms, 91'000);
  EXPECT_EQ(pg.At(number).charge_micros, 91'000);
  EXPECT_EQ(pg.cloud.TotalsAt(pg.Now()).final_micros, 91'000);
  EXPECT_EQ(pg.cloud.TotalsAt(pg.Now()).accruing_micros, 0);
  EXPECT_EQ(pg.cloud.TotalsAt(pg.Now()).alive, 0);
}

TEST(CloudTest, ScaleDividesDurationsAndMultipliesPrices) {
  HandDrivenCloud pg(ConfigOf(kSpot, 7, 60));
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "spot-a"));
  EXPECT_EQ(pg.At(number).boot_until_ms, 333);
  EXPECT_EQ(pg.At(number).gone_at_ms, 5'000);
  EXPECT_EQ(pg.At(number).announce_at_ms, 4'500);
  pg.RunUntil(5'000);
  // Five cloud minutes at 3.60 an hour cost 0.30, give or take an increment of 17 ms.
  EXPECT_NEAR(static_cast<double>(pg.At(number).charge_micros), 300'000, 1'100);
}

TEST(CloudTest, ABootFailureCostsNothing) {
  HandDrivenCloud pg(ConfigOf("- {name: s, market: on_demand, zone: z, cpus: 1, memory: 1GB, price_per_hour: 1, capacity: 9, boot: 5s, boot_failures: [2]}"));
  ASSERT_OK_AND_ASSIGN(const int64_t good, pg.Create("a", "s"));
  ASSERT_OK_AND_ASSIGN(const int64_t bad, pg.Create("b", "s"));
  ASSERT_OK_AND_ASSIGN(const int64_t broken, pg.Create("c", "s"));
  pg.clock.AdvanceMs(5'000);
  pg.Apply(pg.cloud.StartFailed(broken, "no such program", pg.Now()));
  pg.Turn();
  EXPECT_EQ(pg.At(good).state, InstanceState::kRunning);
  for (int64_t number : {bad, broken}) {
    EXPECT_EQ(pg.At(number).end_reason, EndReason::kBootFailed);
    EXPECT_EQ(pg.At(number).charge_micros, 0);
  }
}

TEST(CloudTest, AMachineThatEndsByItselfHasCrashedUnlessItWasUnderNotice) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t crashing, pg.Create("a", "spot-a"));
  ASSERT_OK_AND_ASSIGN(const int64_t draining, pg.Create("b", "spot-a"));
  pg.RunUntil(100'000);
  pg.Apply(pg.cloud.ProcessGone(crashing, 99'000, "exit status 3", pg.Now()));
  pg.Turn();
  EXPECT_EQ(pg.At(crashing).end_reason, EndReason::kCrashed);
  EXPECT_EQ(pg.At(crashing).ended_ms, 99'000);  // billed until it died, not until it was noticed
  pg.Apply(*pg.cloud.OrderReclaim(draining, 30'000, pg.Now()));
  pg.Turn();
  pg.Apply(pg.cloud.ProcessGone(draining, pg.Now(), "exit status 0", pg.Now()));
  EXPECT_EQ(pg.At(draining).end_reason, EndReason::kReclaimed);
}

TEST(CloudTest, ReclaimOnOrder) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK_AND_ASSIGN(const int64_t number, pg.Create("a", "spot-a"));
  ASSERT_OK_AND_ASSIGN(const int64_t steady, pg.Create("b", "steady"));
  pg.RunUntil(290'000);
  pg.Apply(*pg.cloud.OrderReclaim(number, 60'000, pg.Now()));
  EXPECT_EQ(pg.At(number).gone_at_ms, 300'000);  // never later than the market had fixed
  pg.Apply(*pg.cloud.OrderReclaim(number, 0, pg.Now()));
  pg.Turn();
  EXPECT_EQ(pg.At(number).ended_ms, 290'000);
  EXPECT_THAT(pg.cloud.OrderReclaim(steady, 0, pg.Now()).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("on demand")));
  EXPECT_THAT(pg.cloud.OrderReclaim(number, 0, pg.Now()).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ended")));
  EXPECT_THAT(pg.cloud.OrderReclaim(99, 0, pg.Now()).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("i-000099")));
}

TEST(CloudTest, ALeaseEndsTheMachineUnlessKept) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  CreateRequest request = RequestOf("a", "steady");
  request.self_terminate_after_ms = 60'000;
  pg.Apply(pg.cloud.Create(request, pg.Now())->events);
  pg.RunUntil(50'000);
  EXPECT_OK(pg.cloud.KeepAlive(1, pg.Now()));
  pg.RunUntil(109'999);
  EXPECT_EQ(pg.At(1).state, InstanceState::kRunning);
  pg.cloud.RestartLeases(pg.Now());  // a restarted cloud ends nobody for its own absence
  pg.RunUntil(169'998);
  EXPECT_EQ(pg.At(1).state, InstanceState::kRunning);
  pg.RunUntil(169'999);
  EXPECT_EQ(pg.At(1).end_reason, EndReason::kLeaseExpired);
  EXPECT_THAT(pg.cloud.KeepAlive(1, pg.Now()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ended")));
}

TEST(CloudTest, ReplayGivesTheSameCloud) {
  HandDrivenCloud pg(ConfigOf(kSpot));
  ASSERT_OK(pg.Create("a", "spot-a").status());
  ASSERT_OK(pg.Create("b", "spot-a").status());
  ASSERT_OK(pg.Create("c", "steady").status());
  pg.RunUntil(400'000);
  Cloud again(pg.cloud.config());
  for (const std::string& line : pg.history) {
    ASSERT_OK_AND_ASSIGN(const Event event, DecodeEvent(line));
    ASSERT_OK(again.Admissible(event));
    EXPECT_EQ(EncodeEvent(event), line);
    again.Apply(event);
  }
  EXPECT_EQ(again.TotalsAt(400'000).final_micros, pg.cloud.TotalsAt(400'000).final_micros);
  EXPECT_EQ(again.TotalsAt(400'000).accruing_micros, pg.cloud.TotalsAt(400'000).accruing_micros);
  EXPECT_EQ(again.NextDeadlineMs(400'000), pg.cloud.NextDeadlineMs(400'000));
  EXPECT_EQ(again.AliveOf("spot-a"), 1);
  EXPECT_EQ(again.Find(2)->pid, 1002);
}

}  // namespace
}  // namespace spillway::playground
