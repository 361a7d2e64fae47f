#include "worker/report_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Report Of(AttemptId attempt, Report::Kind kind, int64_t step = 0) {
  Report report;
  report.attempt = attempt;
  report.kind = kind;
  report.checkpoint.step = step;
  return report;
}

std::vector<int64_t> Seqs(const std::vector<Report>& reports) {
  std::vector<int64_t> seqs;
  for (const Report& report : reports) seqs.push_back(report.seq);
  return seqs;
}

const AttemptId kA{1, 0, 1}, kB{2, 0, 1};

TEST(ReportBook, NumbersFromOneWithoutGaps) {
  ReportBook book;
  book.SetBoot("boot-1");
  std::set<uint64_t> events;
  book.Add(Of(kA, Report::Kind::kAccepted), 0);
  book.Add(Of(kA, Report::Kind::kStarted), 7);
  EXPECT_THAT(Seqs(book.NumberWaiting(events)), ElementsAre(1, 2));
  EXPECT_THAT(events, ElementsAre(7));
  book.Add(Of(kB, Report::Kind::kAccepted), 0);
  EXPECT_THAT(Seqs(book.NumberWaiting(events)), ElementsAre(3));
  EXPECT_THAT(Seqs(book.Acked(2)), ElementsAre(1, 2));
  EXPECT_THAT(Seqs(book.Acked(2)), IsEmpty());
  EXPECT_EQ(book.acked(), 2);
  EXPECT_FALSE(book.empty());
  EXPECT_THAT(Seqs(book.Acked(99)), ElementsAre(3));  // an ack speaks only for numbers that were given
  EXPECT_EQ(book.acked(), 3);
  EXPECT_TRUE(book.empty());
}

TEST(ReportBook, ARestartKeepsNumbersAndContent) {
  ReportBook book;
  SavedReports saved{"boot-1", 4, {Of(kA, Report::Kind::kStarted), Of(kA, Report::Kind::kEnded)}};
  saved.unacked[0].seq = 5;
  saved.unacked[1].seq = 6;
  book.Restore(saved);
  book.SetBoot("boot-1");
  ASSERT_EQ(book.unacked().size(), 2u);
  EXPECT_EQ(book.unacked()[1].seq, 6);
  EXPECT_EQ(book.unacked()[1].kind, Report::Kind::kEnded);
  std::set<uint64_t> events;
  EXPECT_THAT(Seqs(book.Welcomed(5)), ElementsAre(5));
  book.Add(Of(kB, Report::Kind::kAccepted), 0);
  EXPECT_THAT(Seqs(book.NumberWaiting(events)), ElementsAre(7));
}

TEST(ReportBook, ANewBootNumbersAnewAndInOrder) {
  ReportBook book;
  SavedReports saved{"boot-1", 4, {Of(kA, Report::Kind::kStarted), Of(kA, Report::Kind::kEnded)}};
  saved.unacked[0].seq = 5;
  saved.unacked[1].seq = 6;
  book.Restore(saved);
  book.SetBoot("boot-2");
  EXPECT_TRUE(book.unacked().empty());
  book.Add(Of(kB, Report::Kind::kEnded), 3);
  std::set<uint64_t> events;
  const std::vector<Report> numbered = book.NumberWaiting(events);
  EXPECT_THAT(Seqs(numbered), ElementsAre(1, 2, 3));
  EXPECT_EQ(numbered[0].kind, Report::Kind::kStarted);
  EXPECT_EQ(numbered[1].kind, Report::Kind::kEnded);
  EXPECT_EQ(numbered[2].attempt, kB);
}

TEST(ReportBook, ALostLogGoesOnAfterWhatIsDurable) {
  ReportBook book;
  book.SetBoot("boot-1");
  book.Add(Of(kA, Report::Kind::kEnded), 0);
  std::set<uint64_t> events;
  EXPECT_THAT(book.Welcomed(41), IsEmpty());  // nothing of ours was acked by a number we never gave
  EXPECT_THAT(Seqs(book.NumberWaiting(events)), ElementsAre(42));
}

TEST(ReportBook, ASchedulerThatForgotNumbersGetsThemAnew) {
  ReportBook book;
  book.SetBoot("boot-1");
  std::set<uint64_t> events;
  for (int i = 0; i < 4; ++i) book.Add(Of(kA, Report::Kind::kCheckpoint, i), 0);
  book.NumberWaiting(events);
  book.Acked(3);
  EXPECT_THAT(book.Welcomed(1), IsEmpty());  // it was restored from a backup
  const std::vector<Report> numbered = book.NumberWaiting(events);
  EXPECT_THAT(Seqs(numbered), ElementsAre(2));
  EXPECT_EQ(numbered[0].checkpoint.step, 3);
}

TEST(ReportBook, RestoreKeepsOnlyAnUnbrokenRun) {
  ReportBook book;
  SavedReports saved{"b", 4, {Of(kA, Report::Kind::kStarted), Of(kA, Report::Kind::kEnded), Of(kB, Report::Kind::kEnded)}};
  saved.unacked[0].seq = 3;  // acked already
  saved.unacked[1].seq = 5;
  saved.unacked[2].seq = 9;  // after a hole
  book.Restore(saved);
  ASSERT_EQ(book.unacked().size(), 1u);
  EXPECT_EQ(book.unacked()[0].seq, 5);
  EXPECT_EQ(book.waiting(), 1u);
  EXPECT_EQ(book.PendingEnds().size(), 2u);
}

TEST(ReportBook, WaitingCheckpointsOfAnAttemptAreBounded) {
  ReportBook book;
  book.SetBoot("boot-1");
  book.Add(Of(kB, Report::Kind::kStarted), 0);
  std::vector<uint64_t> dropped;
  for (uint64_t i = 1; i <= 20; ++i) {
    for (const uint64_t event : book.Add(Of(kA, Report::Kind::kCheckpoint, i), i)) dropped.push_back(event);
  }
  EXPECT_THAT(dropped, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(book.waiting(), 1 + ReportBook::kWaitingCheckpointsMax);
}

TEST(ReportBook, TheWindowBoundsWhatIsUnacked) {
  ReportBook book;
  book.SetBoot("boot-1");
  for (size_t i = 0; i < ReportBook::kWindow + 10; ++i) book.Add(Of(kA, Report::Kind::kStarted), 0);
  std::set<uint64_t> events;
  EXPECT_EQ(book.NumberWaiting(events).size(), ReportBook::kWindow);
  EXPECT_TRUE(book.NumberWaiting(events).empty());
  book.Acked(3);
  EXPECT_EQ(book.NumberWaiting(events).size(), 3u);
}

TEST(ReportBook, KnowsWhatIsPending) {
  ReportBook book;
  book.SetBoot("boot-1");
  std::set<uint64_t> events;
  EXPECT_FALSE(book.Pending(kA, Report::Kind::kEnded));
  book.Add(Of(kA, Report::Kind::kEnded), 0);
  EXPECT_TRUE(book.Pending(kA, Report::Kind::kEnded));
  book.NumberWaiting(events);
  EXPECT_TRUE(book.Pending(kA, Report::Kind::kEnded));
  EXPECT_FALSE(book.Pending(kA, Report::Kind::kStarted));
  EXPECT_FALSE(book.Pending(kB, Report::Kind::kEnded));
  book.Acked(1);
  EXPECT_FALSE(book.Pending(kA, Report::Kind::kEnded));
}

}  // namespace
}  // namespace spillway::worker
