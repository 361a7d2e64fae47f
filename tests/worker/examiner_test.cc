// Checkpoints in a store: those of the job, and what a hostile job calls one.
#include "worker/examiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "checkpoint/checkpoint.h"

namespace spillway::worker {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const char kOwn[] = "11111111-2222-4333-8444-555555555555/1/0/a1";
const char kOther[] = "11111111-2222-4333-8444-555555555555/2/0/a1";

class ExaminerTest : public ::testing::Test {
 protected:
  ExaminerTest() {
    char pattern[] = "/tmp/spillway-examiner-test-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  ~ExaminerTest() override { (void)RemoveTree(root_); }

  checkpoint::CommittedCheckpoint Save(const std::string& dir, int64_t step, const std::string& uid = "uid") {
    checkpoint::WriterOptions options;
    options.directory = JoinPath(root_, dir);
    options.job_uid = uid;
    options.attempt = 1;
    auto writer = checkpoint::Writer::Open(options);
    EXPECT_OK(writer.status());
    auto saved = writer->Save(step, {});
    EXPECT_OK(saved.status());
    return *saved;
  }
  std::string root_;
};

TEST_F(ExaminerTest, FindsACheckpointOfTheAttempt) {
  const checkpoint::CommittedCheckpoint saved = Save(kOwn, 40);
  for (const std::string& said : {saved.path, saved.path + "/", std::string("step-000000000040")}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointFound found, ExamineCheckpoint(root_, kOwn, "uid", said));
    EXPECT_EQ(found.step, 40);
    EXPECT_EQ(found.path, std::string(kOwn) + "/step-000000000040");
    EXPECT_EQ(found.manifest_sha256, saved.manifest_sha256);
    EXPECT_EQ(found.bytes, saved.bytes);
  }
}

TEST_F(ExaminerTest, RefusesPathsOutside) {
  const checkpoint::CommittedCheckpoint other = Save(kOther, 40);
  Save(kOwn, 40);
  const std::string own = JoinPath(root_, kOwn);
  for (const std::string& said : {other.path, std::string("/etc"), std::string(""), std::string("/"), own, own + "/../../../2/0/a1/step-000000000040",
                                  own + "/./step-000000000040", std::string("../a1/step-000000000040"), own + "/step-40", own + "/MANIFEST"}) {
    EXPECT_THAT(ExamineCheckpoint(root_, kOwn, "uid", said), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("own"))) << said;
  }
}

TEST_F(ExaminerTest, RefusesLinksThatLeadOutside) {
  const checkpoint::CommittedCheckpoint other = Save(kOther, 40);
  const std::string own = JoinPath(root_, kOwn);
  ASSERT_OK(MakeDirectories(own));
  ASSERT_EQ(symlink(other.path.c_str(), (own + "/step-000000000040").c_str()), 0);
  EXPECT_THAT(ExamineCheckpoint(root_, kOwn, "uid", own + "/step-000000000040"), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("leads out")));
  // The whole directory swapped for a link.
  ASSERT_OK(RemoveTree(own));
  ASSERT_EQ(symlink(JoinPath(root_, kOther).c_str(), own.c_str()), 0);
  EXPECT_THAT(ExamineCheckpoint(root_, kOwn, "uid", own + "/step-000000000040"), StatusIs(absl::StatusCode::kPermissionDenied, _));
  EXPECT_THAT(ScanCheckpointDir(root_, kOwn, "uid"), StatusIs(absl::StatusCode::kPermissionDenied, _));
}

TEST_F(ExaminerTest, RefusesWhatIsNotCommittedOrOfAnotherJob) {
  EXPECT_FALSE(ExamineCheckpoint(root_, kOwn, "uid", "step-000000000040").ok());
  ASSERT_OK(MakeDirectories(JoinPath(root_, kOwn) + "/step-000000000040"));
  EXPECT_FALSE(ExamineCheckpoint(root_, kOwn, "uid", "step-000000000040").ok());
  const checkpoint::CommittedCheckpoint saved = Save(kOwn, 50);
  EXPECT_THAT(ExamineCheckpoint(root_, kOwn, "another uid", saved.path), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  ASSERT_OK(WriteFileAtomically(JoinPath(saved.path, "MANIFEST"), "{}"));
  EXPECT_FALSE(ExamineCheckpoint(root_, kOwn, "uid", saved.path).ok());
}

TEST_F(ExaminerTest, ScansEverythingThatIsGood) {
  ASSERT_OK_AND_ASSIGN(std::vector<CheckpointFound> found, ScanCheckpointDir(root_, kOwn, "uid"));
  EXPECT_THAT(found, IsEmpty());
  Save(kOwn, 10);
  const checkpoint::CommittedCheckpoint bad = Save(kOwn, 20);
  Save(kOwn, 30);
  ASSERT_OK(WriteFileAtomically(JoinPath(bad.path, "MANIFEST"), "no"));
  ASSERT_OK_AND_ASSIGN(found, ScanCheckpointDir(root_, kOwn, "uid"));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].step + found[1].step, 40);
}

TEST_F(ExaminerTest, AnswersCarryTheQuestion) {
  CheckCheckpoint check{{1, 0, 1}, 77, kOwn, "uid", {5, "/etc", "{}"}};
  const CheckpointChecked checked = Answer(root_, check);
  EXPECT_EQ(checked.event, 77u);
  EXPECT_FALSE(checked.ok);
  EXPECT_THAT(checked.why, HasSubstr("/etc"));
  Save(kOwn, 10);
  const ScanResult scanned = Answer(root_, ScanCheckpoints{{1, 0, 1}, kOwn, "uid"});
  EXPECT_EQ(scanned.error, "");
  EXPECT_THAT(scanned.committed, SizeIs(1));
  EXPECT_NE(Answer(root_, ScanCheckpoints{{1, 0, 1}, "../x", "uid"}).error, "");
}

}  // namespace
}  // namespace spillway::worker
