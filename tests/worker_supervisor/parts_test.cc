// The supervisor's pure parts: lease, event queue, job messages, journal; and the log file, with and without holes.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/attempt_log.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "tests/support/file_size_limit.h"
#include "worker/supervisor/event_queue.h"
#include "worker/supervisor/job_message.h"
#include "worker/supervisor/journal.h"
#include "worker/supervisor/lease.h"
#include "worker/supervisor/log_file.h"

namespace spillway::supervisor {
namespace {

using testing::HasSubstr;

// ---- lease ----

TEST(Lease, StagesOfALongLease) {
  const Lease lease = Lease::From({1'600'000, 600'000}, 1'000'000);
  EXPECT_EQ(lease.StageAt(1'000'000), LeaseStage::kHeld);
  EXPECT_EQ(lease.StageAt(1'539'999), LeaseStage::kHeld);
  EXPECT_EQ(lease.StageAt(1'540'000), LeaseStage::kCheckpoint);
  EXPECT_EQ(lease.StageAt(1'580'000), LeaseStage::kTerm);
  EXPECT_EQ(lease.StageAt(1'595'000), LeaseStage::kKill);
  EXPECT_EQ(lease.StageAt(1'600'000), LeaseStage::kLapsed);
  EXPECT_EQ(lease.NextChangeMs(1'000'000), 1'540'000);
  EXPECT_EQ(lease.NextChangeMs(1'540'000), 1'580'000);
  EXPECT_EQ(lease.NextChangeMs(1'600'000), INT64_MAX);
}

TEST(Lease, ShortLeasesScale) {
  const Lease lease = Lease::From({102'000, 2'000}, 100'000);
  EXPECT_EQ(lease.StageAt(101'399), LeaseStage::kHeld);
  EXPECT_EQ(lease.StageAt(101'400), LeaseStage::kCheckpoint);
  EXPECT_EQ(lease.StageAt(101'800), LeaseStage::kTerm);
  EXPECT_EQ(lease.StageAt(101'950), LeaseStage::kKill);
  // What is left of a long lease does not scale; without a length it does.
  EXPECT_EQ(Lease::From({150'000, 600'000}, 100'000).StageAt(100'000), LeaseStage::kCheckpoint);
  EXPECT_EQ(Lease::From({150'000, 0}, 100'000).StageAt(100'000), LeaseStage::kHeld);
}

TEST(Lease, NoneAndPast) {
  EXPECT_EQ(Lease().StageAt(5), LeaseStage::kNone);
  EXPECT_EQ(Lease::From({0, 600'000}, 100).StageAt(100), LeaseStage::kNone);
  EXPECT_EQ(Lease::From({-1, -1}, 100).StageAt(100), LeaseStage::kNone);
  EXPECT_EQ(Lease::From({50, 0}, 100).StageAt(100), LeaseStage::kLapsed);
  EXPECT_EQ(Lease().NextChangeMs(0), INT64_MAX);
}

// ---- events ----

frames::Event Of(const std::string& key, decltype(frames::Event::what) what) { return {0, {key, {}}, 0, std::move(what)}; }

TEST(EventQueue, NumbersAndAcks) {
  EventQueue queue;
  EXPECT_EQ(queue.After(0), nullptr);
  EXPECT_EQ(queue.Push(Of("a", frames::Started{})), 1u);
  EXPECT_EQ(queue.Push(Of("a", frames::Exited{})), 2u);
  EXPECT_EQ(queue.Push(Of("b", frames::Exited{})), 3u);
  EXPECT_EQ(queue.After(1)->number, 2u);
  EXPECT_THAT(queue.Ack(2), testing::ElementsAre("a"));
  EXPECT_THAT(queue.Ack(2), testing::IsEmpty());
  EXPECT_EQ(queue.After(0)->number, 3u);
  EXPECT_THAT(queue.Ack(~uint64_t{0}), testing::ElementsAre("b")) << "an Ack of what was never sent takes what there is";
  EXPECT_EQ(queue.Push(Of("c", frames::Started{})), 4u) << "numbers are never used again";
}

TEST(EventQueue, ProgressNeverFillsIt) {
  EventQueue queue;
  for (int i = 0; i < 1000; ++i) {
    queue.Push(Of("a", frames::Progress{i}));
    queue.Push(Of("b", frames::Progress{i}));
    queue.Push(Of("a", frames::Checkpoint{i}));
  }
  EXPECT_EQ(queue.size(), 2 + EventQueue::kCheckpointsMax);
  const frames::Event* event = queue.After(0);
  int64_t checkpoint = 0, progress = 0;
  for (; event != nullptr; event = queue.After(event->number)) {
    if (event->attempt.key != "a") continue;
    if (const auto* p = std::get_if<frames::Progress>(&event->what)) progress = p->step;
    if (const auto* c = std::get_if<frames::Checkpoint>(&event->what)) checkpoint = c->step;
  }
  EXPECT_EQ(progress, 999);
  EXPECT_EQ(checkpoint, 999);
  queue.Ack(~uint64_t{0});
  EXPECT_EQ(queue.size(), 0u);
  queue.Push(Of("a", frames::Progress{1}));
  EXPECT_EQ(queue.size(), 1u);
}

TEST(EventQueue, FullBeforeAnEndHasNoRoom) {
  EventQueue queue;
  EXPECT_FALSE(queue.Full(0));
  const size_t attempts = limits::kSupervisorEventsMax / EventQueue::kEventsOfAttemptMax;
  EXPECT_FALSE(queue.Full(attempts - 1));
  EXPECT_TRUE(queue.Full(attempts));
  for (size_t i = 0; i < limits::kSupervisorEventsMax; ++i) queue.Push(Of(absl::StrCat(i), frames::Exited{}));
  EXPECT_TRUE(queue.Full(0));
}

// ---- the job's messages ----

TEST(JobMessage, Progress) {
  ASSERT_OK_AND_ASSIGN(const JobMessage message,
                       ParseJobMessage(R"({"type":"progress","step":120,"total":1000,"metrics":{"loss":1.9,"n":3,"nan":null},"x":[]})"));
  const auto& progress = std::get<frames::Progress>(message);
  EXPECT_EQ(progress.step, 120);
  EXPECT_EQ(progress.total, 1000);
  EXPECT_THAT(progress.metrics, testing::ElementsAre(frames::Metric{"loss", 1.9}, frames::Metric{"n", 3}));
  EXPECT_EQ(std::get<frames::Progress>(*ParseJobMessage(R"({"type":"progress","step":7.0})")).step, 7);
}

TEST(JobMessage, CheckpointAndCompleted) {
  const std::string text = R"({"type":"checkpoint","step":4,"path":"step-4","sha256":"ab"})";
  ASSERT_OK_AND_ASSIGN(const JobMessage message, ParseJobMessage(text));
  EXPECT_EQ(std::get<frames::Checkpoint>(message).path, "step-4");
  EXPECT_EQ(std::get<frames::Checkpoint>(message).json, text);
  EXPECT_TRUE(std::holds_alternative<Completed>(*ParseJobMessage(R"({"type":"completed"})")));
}

TEST(JobMessage, Refusals) {
  const auto refused = [](absl::string_view text) { return std::string(ParseJobMessage(text).status().message()); };
  EXPECT_THAT(refused(""), HasSubstr("not JSON"));
  EXPECT_THAT(refused("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refused("[]"), HasSubstr("not an object"));
  EXPECT_THAT(refused("{}"), HasSubstr("no type"));
  EXPECT_THAT(refused(R"({"type":5})"), HasSubstr("no type"));
  EXPECT_THAT(refused(R"({"type":"progess","step":1})"), HasSubstr("did you mean progress?"));
  EXPECT_THAT(refused(R"({"type":"progress"})"), HasSubstr("step"));
  EXPECT_THAT(refused(R"({"type":"progress","step":-1})"), HasSubstr("step"));
  EXPECT_THAT(refused(R"({"type":"progress","step":1.5})"), HasSubstr("step"));
  EXPECT_THAT(refused(R"({"type":"progress","step":1e300})"), HasSubstr("step"));
  EXPECT_THAT(refused(R"({"type":"progress","step":1,"total":"x"})"), HasSubstr("total"));
  EXPECT_THAT(refused(R"({"type":"progress","step":1,"metrics":[1]})"), HasSubstr("metrics"));
  EXPECT_THAT(refused(R"({"type":"progress","step":1,"metrics":{"a":"b"}})"), HasSubstr("'a'"));
  EXPECT_THAT(refused(R"({"type":"checkpoint"})"), HasSubstr("step"));
  EXPECT_THAT(refused(std::string(limits::kSocketMessageBytesMax + 1, ' ')), HasSubstr("longer"));
  std::string many = R"({"type":"progress","step":1,"metrics":{)";
  for (size_t i = 0; i <= limits::kMetricsPerProgressMax; ++i) absl::StrAppend(&many, i == 0 ? "" : ",", "\"m", i, "\":1");
  EXPECT_THAT(refused(many + "}}"), HasSubstr("too many metrics"));
  EXPECT_THAT(refused(std::string(limits::kSocketMessageBytesMax, '[')), HasSubstr("not JSON"));
}

TEST(JobMessage, RandomBytes) {
  Rng rng(7);
  const std::string seed = R"({"type":"progress","step":120,"total":1000,"metrics":{"loss":1.9}})";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = seed;
    for (uint64_t flips = rng.Below(5) + 1; flips > 0; --flips) text[rng.Below(text.size())] = static_cast<char>(rng.Next());
    (void)ParseJobMessage(text.substr(0, rng.Below(text.size() + 1)));
  }
}

// ---- files ----

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    char folder[] = "/tmp/spillway-parts-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~FolderTest() override { (void)RemoveTree(folder_); }
  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }
  std::string folder_;
};

class JournalTest : public FolderTest {};

TEST_F(JournalTest, TellsASuccessorWhatIsOwed) {
  const std::string path = Path("journal");
  JournalContent content;
  {
    ASSERT_OK_AND_ASSIGN(auto journal, Journal::Open(path, &content));
    EXPECT_TRUE(content.entries.empty());
    ASSERT_OK(journal->Started({"c/1.0@1", {1, 0, 1}}, 100, 5, "/cg"));
    ASSERT_OK(journal->Started({"c/1.1@1", {1, 1, 1}}, 101, 6, ""));
    ASSERT_OK(journal->MainProcess("c/1.1@1", 102, 7));
    ASSERT_OK(journal->Started({"c/1.2@1", {1, 2, 1}}, 103, 8, ""));
    frames::ExitFacts facts;
    facts.exited = true;
    facts.exit_code = 9;
    ASSERT_OK(journal->Ended({"c/1.0@1", {1, 0, 1}}, facts, 77));
    ASSERT_OK(journal->Ended({"c/1.2@1", {1, 2, 1}}, facts, 78));
    ASSERT_OK(journal->Acked("c/1.2@1"));
  }
  for (int life = 0; life < 2; ++life) {  // the rewritten journal says the same
    ASSERT_OK_AND_ASSIGN(auto journal, Journal::Open(path, &content));
    ASSERT_EQ(content.entries.size(), 2u);
    EXPECT_EQ(content.skipped_lines, 0);
    EXPECT_EQ(content.entries[0].attempt, (frames::AttemptRef{"c/1.0@1", {1, 0, 1}}));
    EXPECT_EQ(content.entries[0].cgroup, "/cg");
    ASSERT_TRUE(content.entries[0].exited.has_value());
    EXPECT_EQ(content.entries[0].exited->at_boottime_ms, 77);
    EXPECT_EQ(std::get<frames::Exited>(content.entries[0].exited->what).facts.exit_code, 9);
    EXPECT_FALSE(content.entries[1].exited.has_value());
    EXPECT_THAT(content.entries[1].processes, testing::ElementsAre(testing::Pair(101, 6), testing::Pair(102, 7)));
  }
}

TEST_F(JournalTest, TornAndForeignLines) {
  const std::string text =
      "S c/1.0@1 1 0 1 100 5 - boot-a\nP c/1.0@1 101 6\nS c/2.0@1 2 0 1 200 5 - boot-b\nP c/2.0@1 201 6\n"
      "E c/9.0@1 00\nE c/1.0@1 zz\nnonsense\nS c/3.0@1 3 0\nA c/4.0@1\nS c/5.0@1 5 0 1 1";
  const JournalContent content = ParseJournal(text, "boot-a");
  ASSERT_EQ(content.entries.size(), 2u);
  EXPECT_EQ(content.entries[0].processes.size(), 2u);
  EXPECT_TRUE(content.entries[1].processes.empty()) << "numbers of processes mean nothing after a reboot";
  EXPECT_EQ(content.skipped_lines, 6);
}

// A disk that is full in the middle of a line: the caller is told, and nothing is lost once there is room.
TEST_F(JournalTest, ALineThatWasNotWrittenIsThereAfterTheNext) {
  const std::string path = Path("journal");
  JournalContent content;
  ASSERT_OK_AND_ASSIGN(auto journal, Journal::Open(path, &content));
  ASSERT_OK(journal->Started({"c/1", {1, 0, 1}}, 100, 5, ""));
  ASSERT_OK(journal->Started({"c/2", {2, 0, 1}}, 101, 5, ""));
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  {
    FileSizeLimit limit(info.st_size + 10);
    EXPECT_FALSE(journal->Started({"c/3", {3, 0, 1}}, 102, 5, "").ok());
    // Torn as it is now, a successor reads what was whole.
    ASSERT_OK_AND_ASSIGN(content, Journal::Read(path));
    EXPECT_EQ(content.entries.size(), 2u);
    EXPECT_EQ(content.skipped_lines, 1);
    frames::ExitFacts facts;
    facts.exited = true;
    facts.exit_code = 4;
    EXPECT_FALSE(journal->Ended({"c/2", {2, 0, 1}}, facts, 7).ok());
  }
  ASSERT_OK(journal->Acked("c/1"));
  ASSERT_OK(journal->Started({"c/4", {4, 0, 1}}, 103, 5, ""));
  ASSERT_OK_AND_ASSIGN(content, Journal::Read(path));
  EXPECT_EQ(content.skipped_lines, 0);
  std::vector<std::string> keys;
  for (const JournalEntry& entry : content.entries) keys.push_back(entry.attempt.key);
  EXPECT_THAT(keys, testing::ElementsAre("c/2", "c/3", "c/4"));
  ASSERT_TRUE(content.entries[0].exited.has_value());
  EXPECT_EQ(std::get<frames::Exited>(content.entries[0].exited->what).facts.exit_code, 4);
}

TEST_F(JournalTest, DoesNotGrowForEver) {
  const std::string path = Path("journal");
  JournalContent content;
  ASSERT_OK_AND_ASSIGN(auto journal, Journal::Open(path, &content));
  ASSERT_OK(journal->Started({"c/keep", {}}, 1, 1, ""));
  for (int i = 0; i < 12'000; ++i) {
    const frames::AttemptRef attempt{absl::StrCat("c/", i), {}};
    ASSERT_OK(journal->Started(attempt, 1, 1, ""));
    ASSERT_OK(journal->Ended(attempt, {}, 1));
    ASSERT_OK(journal->Acked(attempt.key));
  }
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_LT(info.st_size, 2 << 20);
  ASSERT_OK_AND_ASSIGN(auto again, Journal::Open(path, &content));
  ASSERT_EQ(content.entries.size(), 1u);
  EXPECT_EQ(content.entries[0].attempt.key, "c/keep");
}

class LogFileTest : public FolderTest {
 protected:
  // What a reader sees who follows from 0, and checks that each byte stands at its own offset.
  std::string ReadAll(const std::string& path, const std::string& written, int64_t limit) {
    std::string text;
    int64_t offset = 0;
    while (true) {
      const auto chunk = ReadAttemptLog(path, offset, 1'000, limit);
      EXPECT_OK(chunk);
      if (!chunk.ok() || chunk->next_offset == offset) return text;
      if (chunk->left_out == 0) {
        EXPECT_EQ(chunk->text, written.substr(static_cast<size_t>(offset), chunk->text.size()));
      }
      text += chunk->text;
      offset = chunk->next_offset;
    }
  }
};

TEST_F(LogFileTest, HeadAndTailWithinTheLimit) {
  const int64_t limit = 64 << 10;
  for (const bool holes : {true, false}) {
    SCOPED_TRACE(holes);
    const std::string path = Path(absl::StrCat("deep/er/log", holes));
    ASSERT_OK_AND_ASSIGN(auto log, LogFile::Open(path, {limit, holes}));
    Rng rng(3);
    std::string written;
    while (written.size() < 3'000'000) {
      std::string piece;
      for (uint64_t n = 1 + rng.Below(5'000); n > 0; --n) piece += static_cast<char>('a' + rng.Below(26));
      log->Append(piece);
      written += piece;
      if (rng.Chance(0.02)) (void)ReadAll(path, written, limit);  // beside the writer
    }
    EXPECT_EQ(log->end_offset(), static_cast<int64_t>(written.size()));
    log->Close();
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_size, static_cast<int64_t>(written.size()));
    EXPECT_LE(info.st_blocks * 512, limit + 16'384);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const std::string text = ReadAll(path, written, limit);
    EXPECT_TRUE(absl::StartsWith(written, text.substr(0, 32 << 10)));
    EXPECT_TRUE(absl::EndsWith(written, text.substr(text.size() - 8'000)));
    EXPECT_THAT(text, HasSubstr("bytes left out]\n"));
    EXPECT_LT(text.size(), static_cast<size_t>(limit) + 100);
  }
}

TEST_F(LogFileTest, NoGapWithinTheLimitAndAppendsAcrossLives) {
  const std::string path = Path("log");
  ASSERT_OK_AND_ASSIGN(auto log, LogFile::Open(path, {0, true}));
  log->Append("setup");
  log->Note("a note");
  log->Close();
  ASSERT_OK_AND_ASSIGN(log, LogFile::Open(path, {0, true}));
  log->Append("run\n");
  log->Note("done");
  log->Close();
  EXPECT_EQ(ReadFile(path).value(), "setup\n[spillway] a note\nrun\n[spillway] done\n");
  ASSERT_OK_AND_ASSIGN(const LogChunk chunk, ReadAttemptLog(path, 6, 10));
  EXPECT_EQ(chunk.text, "[spillway]");
  EXPECT_EQ(chunk.next_offset, 16);
  ASSERT_OK_AND_ASSIGN(const LogChunk end, ReadAttemptLog(path, 1'000, 10));
  EXPECT_EQ(end.next_offset, 1'000);
  EXPECT_TRUE(end.text.empty());
  EXPECT_THAT(ReadAttemptLog(Path("none"), 0, 10).status(), StatusIs(absl::StatusCode::kNotFound, testing::_));
  EXPECT_FALSE(ReadAttemptLog(path, -1, 10).ok());
}

TEST_F(LogFileTest, AFollowerThatLagsIsToldWhatItMissed) {
  const int64_t limit = 64 << 10;
  const std::string path = Path("log");
  ASSERT_OK_AND_ASSIGN(auto log, LogFile::Open(path, {limit, true}));
  log->Append(std::string(40'000, 'a'));
  ASSERT_OK_AND_ASSIGN(const LogChunk seen, ReadAttemptLog(path, 39'000, 1'000, limit));
  ASSERT_EQ(seen.next_offset, 40'000);
  log->Append(std::string(200'000, 'b'));
  ASSERT_OK_AND_ASSIGN(const LogChunk gap, ReadAttemptLog(path, 40'000, 1'000, limit));
  EXPECT_GT(gap.left_out, 100'000);
  EXPECT_EQ(ParseLogGapMarker(gap.text), gap.left_out);
  EXPECT_EQ(gap.next_offset, 40'000 + gap.left_out);
  ASSERT_OK_AND_ASSIGN(const LogChunk tail, ReadAttemptLog(path, gap.next_offset, 1 << 20, limit));
  EXPECT_EQ(tail.text, std::string(static_cast<size_t>(240'000 - gap.next_offset), 'b'));
}

TEST_F(LogFileTest, RefusesWhatIsNoFile) {
  EXPECT_FALSE(LogFile::Open(folder_, {0, true}).ok());
  ASSERT_EQ(symlink("/etc/passwd", Path("link").c_str()), 0);
  EXPECT_FALSE(LogFile::Open(Path("link"), {0, true}).ok());
}

}  // namespace
}  // namespace spillway::supervisor
