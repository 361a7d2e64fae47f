// The configuration: what it means at scale, and that everything wrong is refused with its line.
#include "playground/config.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace spillway::playground {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kGood[] = R"(seed: 9
scale: 600
throttle: {requests_per_second: 5}
offers:
  - name: spot-a
    market: spot
    instance_type: pg.8xh100
    zone: east-1a
    region: east-1
    gpus: {model: H100, count: 8, memory: 80GB}
    cpus: 96
    memory: 1TB
    disk: 2TB
    price_per_hour: "31.20"
    billing: {increment: 1h, minimum: 60s}
    capacity: 8
    boot: 20s
    notice: 120s
    reclaim: {mean_lifetime: 10m}
)";

absl::StatusOr<CloudConfig> Parse(const std::string& yaml) { return ParseCloudConfig(yaml, "pg.yaml", "/nowhere", {}); }

// The good file with one piece of text replaced.
std::string With(const std::string& from, const std::string& to) {
  std::string yaml = kGood;
  const size_t at = yaml.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return yaml.replace(at, from.size(), to);
}

TEST(ConfigTest, ReadsAndScales) {
  ASSERT_OK_AND_ASSIGN(const CloudConfig config, Parse(kGood));
  EXPECT_EQ(config.seed, 9u);
  EXPECT_EQ(config.scale, 600);
  EXPECT_EQ(config.requests_per_second, 5);
  EXPECT_EQ(config.request_burst, 5);
  const Offer& offer = config.offers.at(0);
  EXPECT_TRUE(offer.spot);
  EXPECT_EQ(offer.gpus, (GpuShape{"H100", 8, 80LL << 30}));
  EXPECT_EQ(offer.boot_ms, 33);
  EXPECT_EQ(offer.notice_ms, 200);
  EXPECT_EQ(offer.billing, (pricing::BillingRule{6'000, 100, 31'200'000LL * 600}));
  EXPECT_EQ(config.Find("spot-a"), &offer);
  EXPECT_EQ(config.Find("spot-b"), nullptr);
}

TEST(ConfigTest, TheCommandLineOverrides) {
  ConfigOverrides overrides;
  overrides.seed = 4;
  overrides.scale = 1;
  ASSERT_OK_AND_ASSIGN(const CloudConfig config, ParseCloudConfig(kGood, "pg.yaml", "/", overrides));
  EXPECT_EQ(config.seed, 4u);
  EXPECT_EQ(config.offers[0].boot_ms, 20'000);
}

TEST(ConfigTest, ScalingRoundsToTheNearestAndNeverToNothing) {
  EXPECT_EQ(ScaledMs(0, 600), 0);
  EXPECT_EQ(ScaledMs(1, 600), 1);
  EXPECT_EQ(ScaledMs(899, 600), 1);
  EXPECT_EQ(ScaledMs(900, 600), 2);
  EXPECT_EQ(ScaledMs(7, 1), 7);
  EXPECT_EQ(ScaledMs(3, 2), 2);
}

TEST(ConfigTest, TracesAreReadFromTheFoldersSide) {
  TemporaryFolder folder;
  ASSERT_OK(WriteFileAtomically(JoinPath(folder.path(), "t.json"), R"({"metadata":{"gap_seconds":600},"data":[0,1,0]})"));
  ASSERT_OK_AND_ASSIGN(const CloudConfig config,
                       ParseCloudConfig(With("{mean_lifetime: 10m}", "{trace: t.json, trace_offset: 5m}"), "pg.yaml", folder.path(), {}));
  EXPECT_EQ(config.offers[0].market.GoneAtMs(0, 0), 300'000);
}

TEST(ConfigTest, RefusesWithLineAndNearestKey) {
  auto refused = [](const std::string& yaml, const char* place, const char* what) {
    EXPECT_THAT(Parse(yaml), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(place), HasSubstr(what)))) << yaml;
  };
  refused(With("scale:", "scales:"), "pg.yaml:2:", "did you mean `scale`");
  refused(With("notice: 120s", "notise: 120s"), "pg.yaml:18:", "did you mean `notice`");
  refused(With("mean_lifetime", "mean_lifetyme"), "pg.yaml:19:", "mean_lifetime");
  refused(With("{mean_lifetime: 10m}", "{mean_lifetime: 10m, after: [5m]}"), "pg.yaml:19:", "exactly one");
  refused(With("{mean_lifetime: 10m}", "{after: [5m, x]}"), "pg.yaml:19:", "after");
  refused(With("{mean_lifetime: 10m}", "{trace: missing.json}"), "pg.yaml:19:", "missing.json");
  refused(With("cpus: 96", "cpus: 010"), "pg.yaml:11:", "cpus");
  refused(With("cpus: 96", "cpus: -1"), "pg.yaml:11:", "cpus");
  refused(With("    cpus: 96\n", "    cpus: 96\n    cpus: 97\n"), "pg.yaml:12:", "twice");
  refused(With("    cpus: 96\n", ""), "pg.yaml:5:", "`cpus` is missing");
  refused(With("market: spot", "market: sport"), "pg.yaml:6:", "spot or on_demand");
  refused(With("market: spot", "market: on_demand"), "pg.yaml:18:", "never reclaimed");
  refused(With("memory: 1TB", "memory: lots"), "pg.yaml:12:", "memory");
  refused(With("boot: 20s", "boot: 20"), "pg.yaml:17:", "boot");
  refused(With("increment: 1h", "increment: 0"), "pg.yaml:15:", "increment");
  refused(With("\"31.20\"", "-1"), "pg.yaml:14:", "price_per_hour");
  refused(With("\"31.20\"", "\"9000000.00\""), "pg.yaml:14:", "too large");
  refused(With("scale: 600", "scale: 0"), "pg.yaml:2:", "scale");
  refused(With("count: 8", "count: [8]"), "pg.yaml:10:", "single value");
  refused(With("model: H100", "model: 'H100:8'"), "pg.yaml:10:", "model");
  refused(With(", memory: 80GB", ""), "pg.yaml:10:", "`memory` is missing in gpus");
  refused("offers: [{name: [", "pg.yaml:1:", "");
  refused("offers: []", "pg.yaml:1:", "offers");
  refused("seed: 1", "pg.yaml", "offers");
  refused("", "pg.yaml", "mapping");
  refused(absl::StrCat(kGood, std::string(kGood).substr(std::string(kGood).find("  - name"))), "pg.yaml:20:", "appears twice");
}

}  // namespace
}  // namespace spillway::playground
