// Deadlines and the state machine: how much time a job gets from what was said, and what is worth passing on.
#include "worker/preemption/notice.h"

#include <gtest/gtest.h>

namespace spillway::preemption {
namespace {

constexpr int64_t kUtc = 1'750'000'000'000;
constexpr int64_t kSteady = 5'000'000;
constexpr ProviderLead kLead{120'000, 30'000};
constexpr Margin kMargin;

Reading At(int64_t gone_at_utc_ms) {
  Reading reading;
  reading.kind = Reading::Kind::kNotice;
  reading.gone_at_utc_ms = gone_at_utc_ms;
  return reading;
}

Reading WithLead(int64_t lead_ms) {
  Reading reading;
  reading.kind = Reading::Kind::kNotice;
  reading.lead_ms = lead_ms;
  return reading;
}

Reading Unreadable() {
  Reading reading;
  reading.kind = Reading::Kind::kNotice;
  reading.readable = false;
  return reading;
}

Reading Advisory() {
  Reading reading;
  reading.kind = Reading::Kind::kAdvisory;
  return reading;
}

TEST(DeadlineTest, TheNamedTimeLessTheMargin) {
  EXPECT_EQ(LeftMs(At(kUtc + 100'000), kLead, kMargin, kUtc), 90'000);  // a tenth
  EXPECT_EQ(LeftMs(At(kUtc + 40'000), kLead, kMargin, kUtc), 35'000);   // five seconds at least
  EXPECT_EQ(LeftMs(At(kUtc + 50'000), kLead, kMargin, kUtc), 45'000);   // both
}

TEST(DeadlineTest, NeverMoreThanTheProvidersLead) {
  // Our wall clock is an hour slow: the time named seems far away. It is not.
  EXPECT_EQ(LeftMs(At(kUtc + 3'600'000), kLead, kMargin, kUtc), 108'000);
}

TEST(DeadlineTest, NeverNegative) {
  EXPECT_EQ(LeftMs(At(kUtc - 1'000), kLead, kMargin, kUtc), 0);
  EXPECT_EQ(LeftMs(At(kUtc + 3'000), kLead, kMargin, kUtc), 0);
  EXPECT_EQ(LeftMs(WithLead(0), kLead, kMargin, kUtc), 0);
  EXPECT_EQ(LeftMs(At(INT64_MIN / 2), kLead, kMargin, kUtc), 0);
}

TEST(DeadlineTest, WithoutATimeTheUsualLeadAndUnreadableTheMinimum) {
  Reading plain;
  plain.kind = Reading::Kind::kNotice;
  EXPECT_EQ(LeftMs(plain, kLead, kMargin, kUtc), 108'000);
  EXPECT_EQ(LeftMs(Unreadable(), kLead, kMargin, kUtc), 25'000);
  EXPECT_EQ(LeftMs(WithLead(60'000), kLead, kMargin, kUtc), 54'000);
}

TEST(DeadlineTest, TheMarginIsConfigurable) {
  EXPECT_EQ(LeftMs(At(kUtc + 2'000), kLead, Margin{50, 10}, kUtc), 1'800);
  EXPECT_EQ(LeftMs(At(kUtc + 200), kLead, Margin{50, 10}, kUtc), 150);
  EXPECT_EQ(LeftMs(At(kUtc + 200), kLead, Margin{0, 0}, kUtc), 200);
  EXPECT_EQ(LeftMs(At(kUtc + 99), kLead, Margin{0, 10}, kUtc), 90);
}

class TrackerTest : public ::testing::Test {
 protected:
  std::optional<Notice> Feed(const Reading& reading, int64_t after_ms) { return tracker_.Feed(reading, kUtc + after_ms, kSteady + after_ms); }
  NoticeTracker tracker_{"aws", kLead, kMargin};
};

TEST_F(TrackerTest, NothingSaidNothingPassedOn) {
  EXPECT_FALSE(Feed(Reading{}, 0).has_value());
  EXPECT_EQ(tracker_.state(), NoticeTracker::State::kNone);
  EXPECT_FALSE(tracker_.has_deadline());
}

TEST_F(TrackerTest, AdvisoryOnceThenNoticeOnce) {
  const std::optional<Notice> advice = Feed(Advisory(), 0);
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->kind, NoticeKind::kAdvisory);
  EXPECT_EQ(advice->source, "aws");
  EXPECT_FALSE(Feed(Advisory(), 5'000).has_value());
  const std::optional<Notice> notice = Feed(At(kUtc + 130'000), 10'000);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->kind, NoticeKind::kNotice);
  EXPECT_EQ(notice->left_ms, 108'000);
  EXPECT_EQ(notice->deadline_steady_ms, kSteady + 118'000);
  EXPECT_FALSE(Feed(At(kUtc + 130'000), 15'000).has_value());
  EXPECT_EQ(tracker_.state(), NoticeTracker::State::kNotice);
}

TEST_F(TrackerTest, RepetitionsNeverPostponeTheEnd) {
  ASSERT_TRUE(Feed(Unreadable(), 0).has_value());
  for (int64_t after_ms = 1'000; after_ms < 60'000; after_ms += 1'000) EXPECT_FALSE(Feed(Unreadable(), after_ms).has_value());
  EXPECT_EQ(tracker_.deadline_steady_ms(), kSteady + 25'000);
}

TEST_F(TrackerTest, AnEndThatComesCloserIsPassedOn) {
  ASSERT_TRUE(Feed(At(kUtc + 100'000), 0).has_value());
  EXPECT_FALSE(Feed(At(kUtc + 99'000), 0).has_value());  // jitter
  const std::optional<Notice> closer = Feed(At(kUtc + 40'000), 0);
  ASSERT_TRUE(closer.has_value());
  EXPECT_EQ(closer->left_ms, 35'000);
  EXPECT_FALSE(Feed(At(kUtc + 100'000), 0).has_value());
  EXPECT_EQ(tracker_.deadline_steady_ms(), kSteady + 35'000);
}

TEST_F(TrackerTest, AWallClockJumpAfterTheNoticeMovesNothingBack) {
  ASSERT_TRUE(Feed(At(kUtc + 60'000), 0).has_value());
  EXPECT_FALSE(tracker_.Feed(At(kUtc + 60'000), kUtc - 3'600'000, kSteady + 5'000).has_value());
  EXPECT_EQ(tracker_.deadline_steady_ms(), kSteady + 54'000);
}

TEST_F(TrackerTest, NothingIsTakenBack) {
  ASSERT_TRUE(Feed(At(kUtc + 100'000), 0).has_value());
  EXPECT_FALSE(Feed(Reading{}, 5'000).has_value());
  EXPECT_FALSE(Feed(Advisory(), 5'000).has_value());
  EXPECT_EQ(tracker_.state(), NoticeTracker::State::kNotice);
  tracker_.BeginDraining();
  EXPECT_FALSE(Feed(Reading{}, 6'000).has_value());
  EXPECT_EQ(tracker_.state(), NoticeTracker::State::kDraining);
  ASSERT_TRUE(Feed(At(kUtc + 20'000), 6'000).has_value());  // a draining machine still learns that it has less time
  EXPECT_EQ(tracker_.state(), NoticeTracker::State::kDraining);
}

TEST_F(TrackerTest, ANoticeMayComeWithoutAdviceAndWhileDraining) {
  tracker_.BeginDraining();
  ASSERT_TRUE(Feed(At(kUtc + 100'000), 0).has_value());
  EXPECT_EQ(tracker_.deadline_steady_ms(), kSteady + 90'000);
}

}  // namespace
}  // namespace spillway::preemption
