// Reading traces: what is taken, and that what is wrong is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/deadline/trace_set.h"

namespace spillway::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(DeadlineTrace, TakesZoneRegionAvailabilityAndPrices) {
  int64_t tick_ms = 0;
  const auto zone = ParseTrace(R"({"metadata":{"gap_seconds":600,"zone":"us-central1-a","price_info":{"price":18.979008,"on_demand_price":82.52543396}},
                                   "data":[0,1,0],"prices":[18.979008,19,20]})",
                               "traces/us-central1-a_h100_16.json", &tick_ms);
  ASSERT_TRUE(zone.ok()) << zone.status().message();
  EXPECT_EQ(tick_ms, 600'000);
  EXPECT_EQ(zone->file, "us-central1-a_h100_16");
  EXPECT_EQ(zone->zone, "us-central1-a");
  EXPECT_EQ(zone->region, "us-central1");
  EXPECT_THAT(zone->available, ElementsAre(true, false, true)) << "1 means unavailable";
  EXPECT_THAT(zone->spot_micros_per_hour, ElementsAre(18'979'008, 19'000'000, 20'000'000));
  EXPECT_EQ(zone->on_demand_micros_per_hour, 82'525'434);
  EXPECT_EQ(zone->spot_at(2), 20'000'000);
}

TEST(DeadlineTrace, APriceOfAllTicksAndNamesInTheOtherStyle) {
  int64_t tick_ms = 0;
  const auto zone = ParseTrace(R"({"metadata":{"gap_seconds":300,"price_info":{"price":0.94}},"data":[0,0]})", "us-west-2c_v100_1.json", &tick_ms);
  ASSERT_TRUE(zone.ok());
  EXPECT_EQ(zone->region, "us-west-2");
  EXPECT_EQ(zone->spot_at(1), 940'000);
  EXPECT_EQ(zone->on_demand_micros_per_hour, 0);
}

TEST(DeadlineTrace, RefusesByFileAndField) {
  const auto error = [](absl::string_view json) {
    int64_t tick_ms = 0;
    return Message(ParseTrace(json, "z.json", &tick_ms).status());
  };
  EXPECT_THAT(error("[1,2]"), HasSubstr("z.json: a trace is an object"));
  EXPECT_THAT(error(R"({"metadata":{"gap_seconds":600},"data":[0,2]})"), HasSubstr("z.json: data[1]"));
  EXPECT_THAT(error(R"({"metadata":{"gap_seconds":600},"data":[0,1],"prices":[1]})"), HasSubstr("z.json: prices must be a list as long as data (2)"));
  EXPECT_THAT(error(R"({"metadata":{"gap_seconds":600},"data":[0,1],"prices":[1,-1]})"), HasSubstr("prices[1]"));
  EXPECT_THAT(error(R"({"metadata":{"gap_seconds":600,"price_info":{"price":"x"}},"data":[0]})"), HasSubstr("metadata.price_info.price"));
}

TEST(DeadlineTrace, CountsAreGangs) {
  const char* csv = "scheduled_at,us-east4-a,us-east5-a\n2025-10-03T17:10:00,16,3\n2025-10-03T17:20:00,7,8\r\n";
  const auto set = ParseCounts(csv, "c.csv", 8);
  ASSERT_TRUE(set.ok());
  ASSERT_EQ(set->zones.size(), 2u);
  EXPECT_THAT(set->zones[0].available, ElementsAre(true, false));
  EXPECT_THAT(set->zones[1].available, ElementsAre(false, true));
  EXPECT_EQ(set->zones[1].region, "us-east5");
  EXPECT_THAT(Message(ParseCounts("t,a\n1,2,3\n", "c.csv", 1).status()), HasSubstr("c.csv: line 2 has 3 cells"));
  EXPECT_THAT(Message(ParseCounts("t,a\n1,-2\n", "c.csv", 1).status()), HasSubstr("line 2, a: a count was expected"));
}

TEST(DeadlineTrace, ZonesAreChosenByFileOrZoneInTheOrderNamed) {
  TraceSet set{600'000,
               {{"us-west-2a_k80_1", "us-west-2a", "us-west-2", {true}, {}, 0},
                {"us-west-2a_k80_8", "us-west-2a", "us-west-2", {true}, {}, 0},
                {"us-west-2b_k80_1", "us-west-2b", "us-west-2", {true}, {}, 0}},
               {}};
  const auto chosen = SelectZones(set, {"us-west-2b", "us-west-2a_k80_1"});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->zones[0].file, "us-west-2b_k80_1");
  EXPECT_EQ(chosen->zones[1].file, "us-west-2a_k80_1");
  EXPECT_THAT(Message(SelectZones(set, {"us-west-2a"}).status()), HasSubstr("is 2 traces; write us-west-2a_k80_1 or us-west-2a_k80_8"));
  EXPECT_THAT(Message(SelectZones(set, {"us-west-2b_k80_2"}).status()), HasSubstr("did you mean 'us-west-2b_k80_1'"));
  EXPECT_THAT(Message(SelectZones(set, {"us-west-2b", "us-west-2b"}).status()), HasSubstr("twice"));
}

TEST(DeadlineTrace, EgressIsFreeWithinARegionAndTwoCentsWhereNothingIsKnown) {
  const EgressTable none;
  EXPECT_EQ(none.MicrosPerGb("us-east4", "us-east4"), 0);
  EXPECT_EQ(none.MicrosPerGb("us-east4", "europe-west1"), 20'000);
}

}  // namespace
}  // namespace spillway::sim
