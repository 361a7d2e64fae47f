#include "base/rng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

namespace spillway {
namespace {

TEST(RngTest, TheSequenceIsTheSameEverywhere) {
  // xoshiro256** over a splitmix64-filled state, computed independently.
  Rng zero(0);
  EXPECT_EQ(zero.Next(), 0x99ec5f36cb75f2b4u);
  EXPECT_EQ(zero.Next(), 0xbf6e1f784956452au);
  EXPECT_EQ(zero.Next(), 0x1a5f849d4933e6e0u);
  EXPECT_EQ(zero.Next(), 0x6aa594f1262d2d2cu);
  Rng other(42);
  EXPECT_EQ(other.Next(), 0x15780b2e0c2ec716u);
  EXPECT_EQ(other.Next(), 0x6104d9866d113a7eu);
}

TEST(RngTest, BelowStaysBelowAndReachesEverything) {
  Rng rng(1);
  EXPECT_EQ(rng.Below(0), 0u);
  EXPECT_EQ(rng.Below(1), 0u);
  std::array<int, 7> seen{};
  for (int i = 0; i < 70'000; ++i) ++seen[rng.Below(7)];
  for (int count : seen) {
    EXPECT_GT(count, 9'500);
    EXPECT_LT(count, 10'500);
  }
  const uint64_t large = (uint64_t{1} << 63) + 1;  // half of all draws are rejected
  for (int i = 0; i < 1'000; ++i) EXPECT_LT(rng.Below(large), large);
}

TEST(RngTest, BetweenIncludesBothEnds) {
  Rng rng(2);
  std::set<int64_t> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(rng.Between(-2, 2));
  EXPECT_THAT(seen, ::testing::ElementsAre(-2, -1, 0, 1, 2));
  EXPECT_EQ(rng.Between(5, 5), 5);
  bool negative = false;
  bool positive = false;
  for (int i = 0; i < 100; ++i) {
    const int64_t any = rng.Between(INT64_MIN, INT64_MAX);
    negative |= any < 0;
    positive |= any > 0;
  }
  EXPECT_TRUE(negative && positive);
}

TEST(RngTest, UnitIsInTheHalfOpenInterval) {
  Rng rng(3);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = rng.Unit();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.01);
  EXPECT_FALSE(rng.Chance(0.0));
  EXPECT_TRUE(rng.Chance(1.0));
}

TEST(RngTest, AForkDoesNotFeelWhatOthersDraw) {
  Rng quiet(9);
  Rng busy(9);
  for (int i = 0; i < 17; ++i) busy.Next();
  EXPECT_EQ(quiet.Fork(4).Next(), busy.Fork(4).Next());
  EXPECT_NE(quiet.Fork(4).Next(), quiet.Fork(5).Next());
  EXPECT_NE(quiet.Fork(0).Next(), Rng(9).Next());
  EXPECT_NE(Rng(9).Fork(4).Next(), Rng(10).Fork(4).Next());
  EXPECT_NE(Rng(9).Fork(1).Fork(2).Next(), Rng(9).Fork(2).Fork(1).Next());
}

TEST(RngTest, KernelBytesFillTheWholeRange) {
  // 64 bytes of zeros from a good source: 2^-512.
  unsigned char bytes[66] = {};
  FillRandom(bytes + 1, 64);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[65], 0);
  int zeros = 0;
  for (int i = 1; i <= 64; ++i) zeros += bytes[i] == 0 ? 1 : 0;
  EXPECT_LT(zeros, 20);
  FillRandom(bytes, 0);
  EXPECT_EQ(bytes[0], 0);
}

TEST(RngDeathTest, AnEmptyRangeIsABrokenInvariant) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Rng rng(1);
  EXPECT_DEATH(rng.Between(2, 1), "CHECK failed: low <= high");
}

}  // namespace
}  // namespace spillway
