#include "base/money.h"

#include <limits>
#include <numeric>

#include "base/rng.h"
#include "base/status_matchers.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(MoneyTest, PriceIsRateTimesTimeRoundedDown) {
  EXPECT_EQ(PriceForMs(3'600'000, kMsPerHour), 3'600'000);
  EXPECT_EQ(PriceForMs(3'600'000, 1), 1);
  EXPECT_EQ(PriceForMs(3'599'999, 1), 0);
  EXPECT_EQ(PriceForMs(2'500'000, 90 * 60'000), 3'750'000);
  EXPECT_EQ(PriceForMs(0, kMax), 0);
  EXPECT_EQ(PriceForMs(kMax, 0), 0);
}

TEST(MoneyTest, LargeProductsAreExactAndThenSaturate) {
  EXPECT_EQ(PriceForMs(kMax, kMsPerHour), kMax);  // the product needs 85 bits, the price fits
  EXPECT_EQ(PriceForMs(kMax - 1, kMsPerHour), kMax - 1);
  EXPECT_EQ(PriceForMs(kMax, kMsPerHour + 1), kMax);
  EXPECT_EQ(PriceForMs(kMax, kMax), kMax);
}

TEST(MoneyTest, SplittingGivesTheRestToTheLargestRemainders) {
  EXPECT_THAT(SplitByLargestRemainder(100, {1, 1, 1}), ElementsAre(34, 33, 33));
  EXPECT_THAT(SplitByLargestRemainder(10, {5, 3, 2}), ElementsAre(5, 3, 2));
  EXPECT_THAT(SplitByLargestRemainder(7, {1, 2, 4}), ElementsAre(1, 2, 4));
  EXPECT_THAT(SplitByLargestRemainder(10, {1, 2, 4}), ElementsAre(1, 3, 6));  // remainders 3/7, 6/7, 5/7
  EXPECT_THAT(SplitByLargestRemainder(1, {0, 1, 0, 1}), ElementsAre(0, 1, 0, 0));
}

TEST(MoneyTest, SplittingHandlesTheEdges) {
  EXPECT_THAT(SplitByLargestRemainder(5, {}), IsEmpty());
  EXPECT_THAT(SplitByLargestRemainder(5, {0, 0}), ElementsAre(5, 0));
  EXPECT_THAT(SplitByLargestRemainder(0, {3, 4}), ElementsAre(0, 0));
  EXPECT_THAT(SplitByLargestRemainder(-100, {1, 1, 1}), ElementsAre(-34, -33, -33));
  EXPECT_THAT(SplitByLargestRemainder(kMin, {1}), ElementsAre(kMin));
  EXPECT_THAT(SplitByLargestRemainder(kMax, {kMax, kMax}), ElementsAre(kMax / 2 + 1, kMax / 2));
}

TEST(MoneyTest, PartsAlwaysAddUpAndAreWithinOneOfTheirShare) {
  Rng rng(20'261'201);
  for (int round = 0; round < 5'000; ++round) {
    const int64_t total = rng.Between(-1'000'000'000, 1'000'000'000);
    std::vector<int64_t> weights(rng.Below(12) + 1);
    for (int64_t& weight : weights) weight = rng.Chance(0.2) ? 0 : rng.Between(0, 1'000'000);
    const std::vector<int64_t> parts = SplitByLargestRemainder(total, weights);
    ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t{0}), total);
    const int64_t sum = std::accumulate(weights.begin(), weights.end(), int64_t{0});
    for (size_t i = 0; sum > 0 && i < parts.size(); ++i) {
      const double share = static_cast<double>(total) * static_cast<double>(weights[i]) / static_cast<double>(sum);
      ASSERT_LT(std::abs(static_cast<double>(parts[i]) - share), 1.001);
      if (weights[i] == 0) {
        ASSERT_EQ(parts[i], 0);
      }
    }
  }
}

TEST(MoneyTest, AmountsReadAsPeopleWriteThem) {
  EXPECT_EQ(FormatMicros(12'340'000), "12.34");
  EXPECT_EQ(FormatMicros(12), "0.000012");
  EXPECT_EQ(FormatMicros(0), "0.00");
  EXPECT_EQ(FormatMicros(3'000'000), "3.00");
  EXPECT_EQ(FormatMicros(3'100'000), "3.10");
  EXPECT_EQ(FormatMicros(973'100), "0.9731");
  EXPECT_EQ(FormatMicros(-1'500'000), "-1.50");
  EXPECT_EQ(FormatMicros(kMin), "-9223372036854.775808");
}

TEST(MoneyTest, AmountsParseExactly) {
  const std::pair<const char*, int64_t> kCases[] = {{"120.00", 120'000'000}, {"3", 3'000'000},   {"0.9731", 973'100},
                                                    {"0.000001", 1},         {"007", 7'000'000}, {"9223372036854.775807", kMax}};
  for (const auto& [text, micros] : kCases) {
    ASSERT_OK_AND_ASSIGN(const int64_t parsed, ParseMicros(text));
    EXPECT_EQ(parsed, micros) << text;
  }
}

TEST(MoneyTest, WhatIsNoAmountIsRefused) {
  for (const char* text : {"", ".", "3.", ".5", "-1", "+1", "1e3", " 1", "1 ", "1,5", "1.2.3", "1.0000001", "9223372036854.775808", "$5",
                           "99999999999999999999999999999999999999999999"}) {
    EXPECT_THAT(ParseMicros(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("120.00"))) << text;
  }
}

TEST(MoneyTest, FormattedAmountsParseBack) {
  Rng rng(7);
  for (int round = 0; round < 5'000; ++round) {
    const int64_t micros = static_cast<int64_t>(rng.Next() >> (1 + rng.Below(63)));
    ASSERT_OK_AND_ASSIGN(const int64_t parsed, ParseMicros(FormatMicros(micros)));
    ASSERT_EQ(parsed, micros);
  }
}

}  // namespace
}  // namespace spillway
