// A sample of the published figures, from the recorded traces beside the checkout (../shared/data, or SPILLWAY_DATA). The whole tables are `./dev bench
// placement`. Where the traces are absent there is nothing to compare and it says so.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "sim/deadline/deadline_report.h"

namespace spillway::sim {
namespace {

constexpr int64_t kHour = 3'600'000;

std::string Data() {
  const char* named = std::getenv("SPILLWAY_DATA");
  const char* source = std::getenv("SPILLWAY_SOURCE");
  return named != nullptr ? named : JoinPath(source != nullptr ? source : ".", "../shared/data");
}

class Reference : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!PathExists(Data())) GTEST_SKIP() << "there are no recorded traces at " << Data() << ": nothing to compare with";
  }

  static DeadlineReport OneZone(const std::string& policy, int64_t deadline_hours, int64_t overhead_s) {
    DeadlineRequest request;
    request.traces = {JoinPath(Data(), "cant-be-late")};
    request.job = {.work_ms = 48 * kHour, .deadline_ms = deadline_hours * kHour, .overhead_ms = overhead_s * 1000};
    request.on_demand_micros_per_hour = 3'060'000;
    request.spot_micros_per_hour = 973'100;
    request.policy = policy;
    const auto report = RunDeadline(request);
    EXPECT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->runs.size(), 2400u);
    EXPECT_EQ(report->late_runs, 0);
    return *report;
  }

  static DeadlineReport Zones(const std::string& policy, double ratio) {
    DeadlineRequest request;
    request.traces = {JoinPath(Data(), "skynomad/h100_16")};
    request.zones = {"us-central1-a", "us-west1-a", "europe-west1-c", "europe-west3-c", "asia-southeast1-b", "asia-south2-b"};
    request.job = {.work_ms = static_cast<int64_t>(311 * 600'000 / ratio), .deadline_ms = 311 * 600'000, .overhead_ms = 720'000};
    request.policy = policy;
    const auto report = RunDeadline(request);
    EXPECT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->runs.size(), 6u);
    EXPECT_EQ(report->late_runs, 0);
    return *report;
  }
};

TEST_F(Reference, OneZoneToFourDigits) {
  EXPECT_NEAR(OneZone("greedy", 60, 720).mean_cost_over_on_demand, 0.7898, 0.00005);
  EXPECT_NEAR(OneZone("up", 60, 720).mean_cost_over_on_demand, 0.7279, 0.00005);
  EXPECT_NEAR(OneZone("up-without-hysteresis", 60, 720).mean_cost_over_on_demand, 0.7276, 0.00005);
  EXPECT_NEAR(OneZone("up", 60, 72).mean_cost_over_on_demand, 0.6077, 0.00005);
  EXPECT_NEAR(OneZone("omniscient", 52, 720).mean_cost_over_on_demand, 0.7155, 0.00005);
}

TEST_F(Reference, ZonesWithinHalfAPercent) {
  EXPECT_NEAR(Zones("skynomad", 1.2).mean_cost, 766, 766 * 0.005);
  EXPECT_NEAR(Zones("skynomad", 2).mean_cost, 444, 444 * 0.005);
  EXPECT_NEAR(Zones("omniscient", 2).mean_cost, 426, 426 * 0.005);
}

TEST_F(Reference, OursIsBelowBothPublishedRules) {
  const double ours = OneZone("spillway", 60, 720).mean_cost_over_on_demand;
  EXPECT_LT(ours, 0.7070) << "the better published rule has 0.7276";
  EXPECT_GT(ours, 0.6534) << "not below omniscient";
  EXPECT_LE(Zones("spillway", 1.2).mean_cost, 745) << "SkyNomad has 766";
}

}  // namespace
}  // namespace spillway::sim
