#include "base/units.h"

#include <limits>

#include "base/rng.h"
#include "base/status_matchers.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(DurationTest, ReadsWhatPeopleWrite) {
  const std::pair<const char*, int64_t> kCases[] = {
      {"90s", 90'000}, {"2h30m", 9'000'000}, {"1d", 86'400'000},          {"250ms", 250},     {"0", 0},
      {"0s", 0},       {"15m", 900'000},     {"1d2h3m4s5ms", 93'784'005}, {"90m", 5'400'000}, {"9223372036854775807ms", kMax}};
  for (const auto& [text, ms] : kCases) {
    ASSERT_OK_AND_ASSIGN(const int64_t parsed, ParseDurationMs(text));
    EXPECT_EQ(parsed, ms) << text;
  }
}

TEST(DurationTest, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "90", "00", "s", "-5s", "+5s", "1.5h", "5 s", " 5s", "5s ", "5x", "5S", "30m2h", "1h1h", "5ms1s", "9223372036854775808ms",
                           "99999999999999d", "99999999999999999999999999999999999999999s", "1h30"}) {
    EXPECT_THAT(ParseDurationMs(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("write 90s, 15m, 2h30m"))) << text;
  }
  EXPECT_THAT(ParseDurationMs("90"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unit is missing")));
  EXPECT_THAT(ParseDurationMs("5weeks"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown unit 'weeks'")));
}

TEST(DurationTest, Formats) {
  EXPECT_EQ(FormatDurationMs(9'000'000), "2h30m");
  EXPECT_EQ(FormatDurationMs(45'000), "45s");
  EXPECT_EQ(FormatDurationMs(250), "250ms");
  EXPECT_EQ(FormatDurationMs(0), "0s");
  EXPECT_EQ(FormatDurationMs(86'400'000), "1d");
  EXPECT_EQ(FormatDurationMs(-1'500), "-1s500ms");
  EXPECT_EQ(FormatDurationMs(kMin).front(), '-');
}

TEST(DurationTest, FormattedDurationsParseBack) {
  Rng rng(1);
  for (int round = 0; round < 5'000; ++round) {
    const int64_t ms = static_cast<int64_t>(rng.Next() >> (1 + rng.Below(63)));
    ASSERT_OK_AND_ASSIGN(const int64_t parsed, ParseDurationMs(FormatDurationMs(ms)));
    ASSERT_EQ(parsed, ms);
  }
}

TEST(BytesTest, ReadsWhatPeopleWrite) {
  const std::pair<const char*, int64_t> kCases[] = {
      {"24GB", 24LL << 30},   {"512MiB", 512LL << 20}, {"1.5TB", 3LL << 39},          {"100B", 100}, {"0", 0}, {"1KB", 1024},
      {"0.1GB", 107'374'182}, {"7EB", 7LL << 60},      {"9223372036854775807B", kMax}};
  for (const auto& [text, bytes] : kCases) {
    ASSERT_OK_AND_ASSIGN(const int64_t parsed, ParseBytes(text));
    EXPECT_EQ(parsed, bytes) << text;
  }
}

TEST(BytesTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "GB", "-1GB", "+1", "1.GB", ".5GB", "1.5B", "24 GB", "24gb", "24G", "1e3", "8EB", "9223372036854775808", "1.2.3GB",
                           "1.0000000001GB", "99999999999999999999999999999999999999999999GB"}) {
    EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("write 24GB, 512MiB, 1.5TB"))) << text;
  }
  EXPECT_THAT(ParseBytes("24gb"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean GB?")));
  EXPECT_THAT(ParseBytes("24gib"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean GiB?")));
}

TEST(BytesTest, ANumberWithoutItsUnitIsNotTakenForBytes) {
  const std::pair<const char*, const char*> kCases[] = {{"16", "'16' is not a size: the unit is missing; write 16GB"},
                                                        {"1.5", "'1.5' is not a size: the unit is missing; write 1.5GB"},
                                                        {"1048576", "'1048576' is not a size: the unit is missing; write 1048576B"}};
  for (const auto& [text, why] : kCases) EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument, why)) << text;
}

TEST(BytesTest, Formats) {
  EXPECT_EQ(FormatBytes(24LL << 30), "24GB");
  EXPECT_EQ(FormatBytes(3LL << 29), "1.5GB");
  EXPECT_EQ(FormatBytes(100), "100B");
  EXPECT_EQ(FormatBytes(0), "0B");
  EXPECT_EQ(FormatBytes(1023), "1023B");
  EXPECT_EQ(FormatBytes(1024), "1KB");
  EXPECT_EQ(FormatBytes((5LL << 30) / 4), "1.25GB");
  EXPECT_EQ(FormatBytes((1LL << 30) - 1), "1GB");  // not 1024MB
  EXPECT_EQ(FormatBytes((1LL << 20) + (1LL << 20) / 20), "1.05MB");
  EXPECT_EQ(FormatBytes(kMax), "8EB");
  EXPECT_EQ(FormatBytes(-2048), "-2KB");
}

TEST(UtcTest, ReadsRfc3339) {
  const std::pair<const char*, int64_t> kCases[] = {{"1970-01-01T00:00:00Z", 0},
                                                    {"2026-12-24T08:00:00Z", 1'798'099'200'000},
                                                    {"2026-12-24T08:00:00.25Z", 1'798'099'200'250},
                                                    {"2026-12-24T08:00:00.123999Z", 1'798'099'200'123},
                                                    {"2000-02-29T23:59:59Z", 951'868'799'000},
                                                    {"1969-12-31T23:59:59.999Z", -1}};
  for (const auto& [text, ms] : kCases) {
    ASSERT_OK_AND_ASSIGN(const int64_t parsed, ParseUtcMs(text));
    EXPECT_EQ(parsed, ms) << text;
  }
}

TEST(UtcTest, RefusesWhatIsNoTime) {
  for (const char* text : {"", "2026-12-24", "2026-12-24T08:00:00", "2026-12-24 08:00:00Z", "2026-12-24T08:00:00+08:00", "2026-13-01T00:00:00Z",
                           "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-00T00:00:00Z",
                           "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-1-1T00:00:00Z", "2026-01-01T00:00:00.Z",
                           "2026-01-01T00:00:00Zx", "2026-01-01T00:00:00.0000000001Z", "tomorrow at noon, please"}) {
    EXPECT_THAT(ParseUtcMs(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("write 2026-12-24T08:00:00Z"))) << text;
  }
}

TEST(UtcTest, Formats) {
  EXPECT_EQ(FormatUtcMs(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatUtcMs(1'798'099'200'000), "2026-12-24T08:00:00Z");
  EXPECT_EQ(FormatUtcMs(1'798'099'200'007), "2026-12-24T08:00:00.007Z");
  EXPECT_EQ(FormatUtcMs(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_FALSE(FormatUtcMs(kMin).empty());
  EXPECT_FALSE(FormatUtcMs(kMax).empty());
}

TEST(UtcTest, EveryDayOfFourCenturiesParsesBack) {
  constexpr int64_t kDayMs = 86'400'000;
  for (int64_t day = 0; day < 146'097; ++day) {
    const int64_t ms = day * kDayMs + (day * 7919) % kDayMs;
    ASSERT_OK_AND_ASSIGN(const int64_t parsed, ParseUtcMs(FormatUtcMs(ms)));
    ASSERT_EQ(parsed, ms);
  }
}

}  // namespace
}  // namespace spillway
