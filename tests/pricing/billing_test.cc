// Billing rules are checked exhaustively over small numbers against a definition that counts increment by increment, and at the far end
// of the integers, where a careless product would overflow.
#include "pricing/billing.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/money.h"
#include "base/status_matchers.h"

namespace spillway::pricing {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kHour = kMsPerHour;

// The definition, spelt out: add increments until what ran (and the minimum) is covered.
int64_t BilledByCounting(const BillingRule& rule, int64_t run_ms) {
  if (run_ms <= 0) return 0;
  int64_t billed = 0;
  while (billed < run_ms || billed < rule.minimum_ms) billed += rule.increment_ms;
  return billed;
}

template <typename Body>
void ForEachSmallRule(Body body) {
  for (int64_t increment = 1; increment <= 7; ++increment) {
    for (int64_t minimum = 0; minimum <= 15; ++minimum) {
      for (int64_t price : {int64_t{0}, int64_t{1}, kHour - 1, kHour, 7 * kHour + 13}) body(BillingRule{increment, minimum, price});
    }
  }
}

TEST(BillingTest, WholeHoursAreRoundedUp) {
  const BillingRule rule{kHour, 0, 3'000'000};
  EXPECT_EQ(ChargeMicros(rule, 0), 0);
  EXPECT_EQ(ChargeMicros(rule, 1), 3'000'000);
  EXPECT_EQ(ChargeMicros(rule, kHour), 3'000'000);
  EXPECT_EQ(ChargeMicros(rule, kHour + 1), 6'000'000);
}

TEST(BillingTest, PerSecondWithAMinuteMinimum) {
  const BillingRule rule{1'000, 60'000, 3'600'000};  // a micro a millisecond
  EXPECT_EQ(ChargeMicros(rule, 1), 60'000);
  EXPECT_EQ(ChargeMicros(rule, 60'000), 60'000);
  EXPECT_EQ(ChargeMicros(rule, 60'001), 61'000);
  EXPECT_EQ(ChargeMicros(rule, 61'000), 61'000);
}

TEST(BillingTest, PerMillisecondChargesExactlyWhatRan) {
  const BillingRule rule{1, 0, 3'600'000};
  for (int64_t ms = 0; ms < 500; ++ms) EXPECT_EQ(ChargeMicros(rule, ms), ms);
}

TEST(BillingTest, AgreesWithCountingIncrements) {
  ForEachSmallRule([](const BillingRule& rule) {
    for (int64_t run = 0; run <= 40; ++run) ASSERT_EQ(BilledMs(rule, run), BilledByCounting(rule, run)) << rule.increment_ms << " " << run;
  });
}

TEST(BillingTest, NeverDecreasesAndNeverBillsLessThanRan) {
  ForEachSmallRule([](const BillingRule& rule) {
    for (int64_t run = 0; run < 40; ++run) {
      ASSERT_LE(ChargeMicros(rule, run), ChargeMicros(rule, run + 1));
      ASSERT_GE(BilledMs(rule, run), run);
    }
  });
}

TEST(BillingTest, PartsAddUpToTheWholeForEveryPairOfCuts) {
  ForEachSmallRule([](const BillingRule& rule) {
    constexpr int64_t kRun = 24;
    for (int64_t a = 0; a <= kRun; ++a) {
      for (int64_t b = a; b <= kRun; ++b) {
        ASSERT_EQ(ChargeBetweenMicros(rule, 0, a) + ChargeBetweenMicros(rule, a, b) + ChargeBetweenMicros(rule, b, kRun), ChargeMicros(rule, kRun));
      }
    }
  });
}

TEST(BillingTest, PaidUntilIsTheLastMomentOfTheSameCharge) {
  ForEachSmallRule([](const BillingRule& rule) {
    for (int64_t run = 1; run <= 30; ++run) {
      const int64_t until = PaidUntilMs(rule, run);
      ASSERT_EQ(BilledMs(rule, until), BilledMs(rule, run));
      ASSERT_GT(BilledMs(rule, until + 1), BilledMs(rule, run));
    }
  });
}

TEST(BillingTest, AffordableIsTheLongestRunWithinTheBudget) {
  ForEachSmallRule([](const BillingRule& rule) {
    if (rule.price_micros_per_hour < kHour - 1) return;  // a free or nearly free machine affords more than can be counted here
    for (int64_t budget = 0; budget <= 60; ++budget) {
      int64_t longest = 0;
      for (int64_t run = 1; run <= 200; ++run) {
        if (ChargeMicros(rule, run) <= budget) longest = run;
      }
      ASSERT_EQ(AffordableMs(rule, budget), longest) << rule.increment_ms << "/" << rule.minimum_ms << " " << budget;
    }
  });
  EXPECT_EQ(AffordableMs({1, 0, 0}, 0), kMax);
}

TEST(BillingTest, SaturatesInsteadOfOverflowing) {
  for (int64_t increment : {int64_t{1}, int64_t{1'000}, kHour, kMax}) {
    for (int64_t minimum : {int64_t{0}, kMax}) {
      for (int64_t price : {int64_t{0}, int64_t{1}, kMax}) {
        const BillingRule rule{increment, minimum, price};
        for (int64_t run : {int64_t{1}, kMax - 1, kMax}) {
          EXPECT_GE(BilledMs(rule, run), run);
          EXPECT_GE(ChargeMicros(rule, run), 0);
          EXPECT_GE(AffordableMs(rule, kMax), 0);
        }
      }
    }
  }
  EXPECT_EQ(BilledMs({kHour, 0, 1}, kMax), kMax);
  EXPECT_EQ(ChargeMicros({1, 0, kMax}, kMax), kMax);
}

TEST(BillingTest, RefusesRulesOutOfRangeByName) {
  EXPECT_OK(ValidateRule({1, 0, 0}));
  EXPECT_THAT(ValidateRule({0, 0, 0}), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("increment_ms")));
  EXPECT_THAT(ValidateRule({1, -1, 0}), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("minimum_ms")));
  EXPECT_THAT(ValidateRule({1, 0, -1}), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("price_micros_per_hour")));
}

TEST(AmortisationTest, FeeOverAYearByTheHourIsRoundedUp) {
  const int64_t year = 365 * 24 * kHour;
  EXPECT_EQ(AmortisedMicrosPerHour(8'760'000'000, year), 1'000'000);
  EXPECT_EQ(AmortisedMicrosPerHour(8'760'000'001, year), 1'000'001);
  EXPECT_EQ(AmortisedMicrosPerHour(0, year), 0);
  EXPECT_EQ(AmortisedMicrosPerHour(kMax, 1), kMax);
}

TEST(AmortisationTest, SharesOfTheTermAddUpToTheFee) {
  for (int64_t fee : {int64_t{0}, int64_t{1}, int64_t{10}, int64_t{97}, kMax}) {
    for (int64_t term = 1; term <= 12; ++term) {
      for (int64_t step = 1; step <= 5; ++step) {
        int64_t sum = 0;
        for (int64_t from = -3; from < term + 3; from += step) {
          const int64_t share = AmortisedBetweenMicros(fee, term, from, from + step);
          ASSERT_GE(share, 0);
          sum += share;
        }
        ASSERT_EQ(sum, fee) << term << "/" << step;
      }
    }
  }
}

TEST(AmortisationTest, TimeOutsideTheTermCarriesNothing) {
  EXPECT_EQ(AmortisedBetweenMicros(100, 10, -20, 0), 0);
  EXPECT_EQ(AmortisedBetweenMicros(100, 10, 10, 50), 0);
  EXPECT_EQ(AmortisedBetweenMicros(100, 10, -5, 5), 50);
}

}  // namespace
}  // namespace spillway::pricing
