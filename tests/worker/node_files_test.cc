// What a worker keeps on disk: its home, its report log, the folders of attempts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/files.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "tests/support/file_size_limit.h"
#include "worker/node_home.h"
#include "worker/report_log.h"

namespace spillway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Files : public ::testing::Test {
 protected:
  Files() {
    char pattern[] = "/tmp/spillway-worker-test-XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~Files() override { (void)RemoveTree(folder_); }
  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }
  std::string folder_;
};

Report EndedOf(int64_t seq, const std::string& detail = "exit code 1") {
  Report report;
  report.seq = seq;
  report.attempt = {1, 2, 3};
  report.kind = Report::Kind::kEnded;
  report.end = {EndCause::kUserError, Initiator::kJob, detail, 7, 9, 11, 13};
  return report;
}

Report CheckpointOf(int64_t seq) {
  Report report;
  report.seq = seq;
  report.attempt = {1, 2, 3};
  report.kind = Report::Kind::kCheckpoint;
  report.checkpoint = {40, "c/1/2/a3/step-000000000040", "ab", 4096};
  return report;
}

TEST_F(Files, TheLogGivesBackWhatIsNotDurable) {
  SavedReports saved;
  {
    ASSERT_OK_AND_ASSIGN(ReportLog log, ReportLog::Open(Path("log"), &saved));
    EXPECT_THAT(saved.unacked, IsEmpty());
    ASSERT_OK(log.Replace({"boot-1", 4, {EndedOf(5)}}));
    ASSERT_OK(log.Append({CheckpointOf(6), EndedOf(7, "says \"no\"\nand more")}));
    ASSERT_OK(log.Acked(5));
  }
  ASSERT_OK(ReportLog::Open(Path("log"), &saved).status());
  EXPECT_EQ(saved.boot_id, "boot-1");
  EXPECT_EQ(saved.acked, 5);
  EXPECT_THAT(saved.unacked, ElementsAre(CheckpointOf(6), EndedOf(7, "says \"no\"\nand more")));
}

TEST_F(Files, ATornLastLineIsIgnoredAndGone) {
  SavedReports saved;
  {
    ASSERT_OK_AND_ASSIGN(ReportLog log, ReportLog::Open(Path("log"), &saved));
    ASSERT_OK(log.Replace({"boot-1", 0, {EndedOf(1)}}));
  }
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(Path("log")));
  {
    ASSERT_OK_AND_ASSIGN(ReportLog log, ReportLog::Open(Path("log"), &saved));
    ASSERT_OK(log.Append({EndedOf(2)}));
  }
  // A writer killed at any byte of the second report leaves the first.
  ASSERT_OK_AND_ASSIGN(const std::string longer, ReadFile(Path("log")));
  for (size_t cut = whole.size(); cut < longer.size(); ++cut) {
    ASSERT_OK(WriteFileAtomically(Path("log"), longer.substr(0, cut)));
    ASSERT_OK_AND_ASSIGN(ReportLog log, ReportLog::Open(Path("log"), &saved));
    ASSERT_THAT(saved.unacked, ElementsAre(EndedOf(1))) << cut;
    ASSERT_OK(log.Append({EndedOf(2)}));
    ASSERT_OK(ReportLog::Open(Path("log"), &saved).status());
    ASSERT_THAT(saved.unacked, SizeIs(2)) << cut;
  }
}

// A disk that is full in the middle of a line: nothing is lost once there is room, and until then the log says that it is behind.
TEST_F(Files, AReportThatWasNotWrittenIsThereAfterTheNext) {
  SavedReports saved;
  ASSERT_OK_AND_ASSIGN(ReportLog log, ReportLog::Open(Path("log"), &saved));
  ASSERT_OK(log.Replace({"boot-1", 0, {EndedOf(1)}}));
  EXPECT_TRUE(log.whole());
  struct stat info = {};
  ASSERT_EQ(stat(Path("log").c_str(), &info), 0);
  {
    FileSizeLimit limit(info.st_size + 10);
    EXPECT_FALSE(log.Append({EndedOf(2)}).ok());
    EXPECT_FALSE(log.whole());
    EXPECT_FALSE(log.Append({EndedOf(3)}).ok());
    EXPECT_FALSE(log.Mend().ok());
  }
  {
    // A worker killed now: its successor finds what was whole.
    SavedReports found;
    ASSERT_OK_AND_ASSIGN(const std::string torn, ReadFile(Path("log")));
    ASSERT_OK(WriteFileAtomically(Path("copy"), torn));
    ASSERT_OK(ReportLog::Open(Path("copy"), &found).status());
    EXPECT_THAT(found.unacked, ElementsAre(EndedOf(1)));
  }
  ASSERT_OK(log.Append({EndedOf(4)}));
  EXPECT_TRUE(log.whole());
  ASSERT_OK(log.Acked(1));
  ASSERT_OK(ReportLog::Open(Path("log"), &saved).status());
  EXPECT_THAT(saved.unacked, ElementsAre(EndedOf(2), EndedOf(3), EndedOf(4)));
  ASSERT_OK(log.Mend());
}

TEST_F(Files, GarbageIsNoReport) {
  ASSERT_OK(WriteFileAtomically(Path("log"),
                                "{\"boot\":\"b\",\"acked\":2}\n{\"seq\":3,\"job\":1}\n"
                                R"({"seq":4,"job":1,"task":0,"attempt":1,"kind":1})"
                                "\n"));
  SavedReports saved;
  ASSERT_OK(ReportLog::Open(Path("log"), &saved).status());
  EXPECT_EQ(saved.acked, 2);
  EXPECT_THAT(saved.unacked, IsEmpty());
}

TEST_F(Files, TheLogStaysSmall) {
  SavedReports saved;
  ASSERT_OK_AND_ASSIGN(ReportLog log, ReportLog::Open(Path("log"), &saved));
  ASSERT_OK(log.Replace({"boot-1", 0, {}}));
  for (int64_t seq = 1; seq <= 20'000; ++seq) {
    ASSERT_OK(log.Append({EndedOf(seq)}));
    ASSERT_OK(log.Acked(seq));
  }
  struct stat info = {};
  ASSERT_EQ(stat(Path("log").c_str(), &info), 0);
  EXPECT_LT(info.st_size, ReportLog::kCompactAboveBytes + 4'096);
  ASSERT_OK(ReportLog::Open(Path("log"), &saved).status());
  EXPECT_EQ(saved.acked, 20'000);
}

TEST_F(Files, OneWorkerAHome) {
  ASSERT_OK_AND_ASSIGN(NodeHome home, NodeHome::Open(Path("home")));
  ASSERT_OK_AND_ASSIGN(const std::string pid, ReadFile(Path("home/worker.pid")));
  ASSERT_OK_AND_ASSIGN(const int64_t ticks, ProcessStartTicks(getpid()));
  EXPECT_EQ(pid, std::to_string(getpid()) + " " + std::to_string(ticks) + "\n");
  EXPECT_THAT(NodeHome::Open(Path("home")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("(process " + std::to_string(getpid()) + ")")));
}

TEST_F(Files, AHomeIsFreeAgainWhenItsWorkerEnds) {
  { ASSERT_OK(NodeHome::Open(Path("home")).status()); }
  EXPECT_TRUE(PathExists(Path("home/worker.pid")));  // whoever looks may ask whether that process lives
  EXPECT_OK(NodeHome::Open(Path("home")).status());
}

TEST_F(Files, TheIdentityIsKept) {
  ASSERT_OK_AND_ASSIGN(const NodeHome home, NodeHome::Open(Path("home")));
  EXPECT_EQ(*home.LoadIdentity(), NodeIdentity{});
  const NodeIdentity identity{"c1", 7, "file:/store", 3};
  ASSERT_OK(home.SaveIdentity(identity));
  EXPECT_EQ(*home.LoadIdentity(), identity);
  ASSERT_OK(WriteFileAtomically(Path("home/node.json"), "{\"cluster_uuid\":7}"));
  EXPECT_THAT(home.LoadIdentity(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("node.json")));
}

TEST_F(Files, AttemptFoldersAreFoundByName) {
  ASSERT_OK_AND_ASSIGN(const NodeHome home, NodeHome::Open(Path("home")));
  ASSERT_OK(MakeDirectories(home.AttemptFolder({5, 17, 3})));
  ASSERT_OK(MakeDirectories(Path("home/attempts/notes")));
  ASSERT_OK(MakeDirectories(Path("home/attempts/5.17@03")));
  EXPECT_THAT(home.AttemptFolders(), ElementsAre(AttemptId{5, 17, 3}));
}

}  // namespace
}  // namespace spillway::worker
