// The market's fates: fixed by seed and ordinal alone, traces with the published polarity (1 = unavailable), refusals that name the place.
#include "sim/spot_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/status_matchers.h"

namespace spillway::sim {
namespace {

using ::testing::HasSubstr;

SpotTrace Trace(const char* data) { return SpotTrace::Parse(std::string(R"({"metadata":{"gap_seconds":10},"data":)") + data + "}", "t.json").value(); }

TEST(SpotModelTest, NeverTakesNothing) {
  EXPECT_EQ(SpotModel::Never().GoneAtMs(0, 5), std::nullopt);
  EXPECT_TRUE(SpotModel::Never().AvailableAt(1'000'000));
}

TEST(SpotModelTest, ListGivesTheKthLifetimeAndThenNone) {
  const SpotModel model = SpotModel::Lifetimes({300, 700});
  EXPECT_EQ(model.GoneAtMs(0, 1'000), 1'300);
  EXPECT_EQ(model.GoneAtMs(1, 1'000), 1'700);
  EXPECT_EQ(model.GoneAtMs(2, 1'000), std::nullopt);
}

TEST(SpotModelTest, SameSeedSameFateInAnyOrder) {
  const SpotModel model = SpotModel::MeanLifetime(600'000, 7);
  std::vector<int64_t> forward, backward(50);
  for (int k = 0; k < 50; ++k) forward.push_back(*model.GoneAtMs(k, 0));
  const SpotModel again = SpotModel::MeanLifetime(600'000, 7);
  for (int k = 49; k >= 0; --k) backward[k] = *again.GoneAtMs(k, 0);
  EXPECT_EQ(forward, backward);
  EXPECT_NE(*SpotModel::MeanLifetime(600'000, 8).GoneAtMs(0, 0), forward[0]);
}

TEST(SpotModelTest, MeanLifetimeIsTheMean) {
  const SpotModel model = SpotModel::MeanLifetime(600'000, 3);
  int64_t sum = 0;
  int longer_than_mean = 0;
  constexpr int kDraws = 20'000;
  for (int k = 0; k < kDraws; ++k) {
    const int64_t lifetime = *model.GoneAtMs(k, 50) - 50;
    ASSERT_GE(lifetime, 0);
    sum += lifetime;
    longer_than_mean += lifetime > 600'000;
  }
  EXPECT_NEAR(static_cast<double>(sum) / kDraws, 600'000, 15'000);
  EXPECT_NEAR(static_cast<double>(longer_than_mean) / kDraws, 0.3679, 0.015);  // 1/e: the distribution is exponential
}

TEST(SpotModelTest, OffersDoNotShareTheirFate) {
  EXPECT_EQ(SpotSeed(1, "a"), SpotSeed(1, "a"));
  EXPECT_NE(SpotSeed(1, "a"), SpotSeed(1, "b"));
  EXPECT_NE(SpotSeed(1, "a"), SpotSeed(2, "a"));
}

TEST(SpotTraceTest, OneMeansUnavailable) {
  const SpotModel model = SpotModel::FromTrace(Trace("[0,0,1,0]"));
  EXPECT_TRUE(model.AvailableAt(0));
  EXPECT_TRUE(model.AvailableAt(19'999));
  EXPECT_FALSE(model.AvailableAt(20'000));
  EXPECT_TRUE(model.AvailableAt(30'000));
  EXPECT_EQ(model.GoneAtMs(0, 5'000), 20'000);
  EXPECT_EQ(model.NextAvailableMs(20'001), 30'000);
  EXPECT_EQ(model.NextAvailableMs(5'000), 5'000);
}

TEST(SpotTraceTest, TheTraceBeginsAgain) {
  const SpotModel model = SpotModel::FromTrace(Trace("[0,0,1,0]"));
  EXPECT_EQ(model.GoneAtMs(9, 30'000), 60'000);
  EXPECT_FALSE(model.AvailableAt(60'000));
}

TEST(SpotTraceTest, OffsetOpensTheMarketWithinTheTrace) {
  const SpotModel model = SpotModel::FromTrace(Trace("[0,0,1,0]"), 15'000);
  EXPECT_EQ(model.GoneAtMs(0, 0), 5'000);
  EXPECT_FALSE(model.AvailableAt(5'000));
  EXPECT_EQ(model.NextAvailableMs(5'000), 15'000);
}

TEST(SpotTraceTest, AlwaysAvailableTakesNothing) { EXPECT_EQ(SpotModel::FromTrace(Trace("[0,0]")).GoneAtMs(0, 3), std::nullopt); }

TEST(SpotTraceTest, RefusesByPlace) {
  auto refused = [](const char* json, const char* what) {
    EXPECT_THAT(SpotTrace::Parse(json, "t.json"), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::AllOf(HasSubstr("t.json"), HasSubstr(what)))) << json;
  };
  refused("{", "not JSON");
  refused("[]", "object");
  refused(R"({"data":[0]})", "gap_seconds");
  refused(R"({"metadata":{"gap_seconds":0},"data":[0]})", "gap_seconds");
  refused(R"({"metadata":{"gap_seconds":600}})", "data");
  refused(R"({"metadata":{"gap_seconds":600},"data":[]})", "data");
  refused(R"({"metadata":{"gap_seconds":600},"data":[0,2]})", "data[1]");
  refused(R"({"metadata":{"gap_seconds":600},"data":[0,"1"]})", "data[1]");
  refused(R"({"metadata":{"gap_seconds":600},"data":[1,1]})", "no available");
}

}  // namespace
}  // namespace spillway::sim
