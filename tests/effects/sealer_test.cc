// Seals over checkpoints that the checkpoint library really wrote.
#include "scheduler/effects/sealer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "base/status_matchers.h"
#include "checkpoint/checkpoint.h"
#include "tests/effects/posted.h"
#include "tests/support/temporary_folder.h"

namespace spillway::effects {
namespace {

constexpr char kCluster[] = "0b1f6e0c-7a54-4d0e-9a51-5d2f6c3a9e10";

class SealerTest : public ::testing::Test {
 protected:
  engine::SealOrder OrderOf(const AttemptId& attempt, const std::string& job_uid = "uid-1") const {
    engine::SealOrder order;
    order.attempt = attempt;
    order.job_uid = job_uid;
    order.checkpoint_dir =
        checkpoint::AttemptDirectory("", kCluster, attempt).value_or(absl::StrCat(kCluster, "/", attempt.job, "/", attempt.index, "/a", attempt.number));
    return order;
  }
  std::string Directory(const AttemptId& attempt) const { return JoinPath(folder.path(), OrderOf(attempt).checkpoint_dir); }
  checkpoint::CommittedCheckpoint Save(const AttemptId& attempt, int64_t step, const std::string& job_uid = "uid-1") {
    checkpoint::WriterOptions options;
    options.directory = Directory(attempt);
    options.job_uid = job_uid;
    options.attempt = attempt.number;
    std::vector<float> weights(1'000, static_cast<float>(step));
    auto writer = checkpoint::Writer::Open(options);
    EXPECT_OK(writer);
    auto saved = writer->Save(step, {{"weights", checkpoint::DType::kF32, {1'000}, weights.data(), 4'000}});
    EXPECT_OK(saved);
    return saved.value_or(checkpoint::CommittedCheckpoint());
  }
  // One byte of a tensor becomes another.
  void Damage(const AttemptId& attempt, int64_t step) {
    const std::string path = JoinPath(checkpoint::StepDirectory(Directory(attempt), step), checkpoint::RankFileName(0));
    auto content = ReadFile(path);
    ASSERT_OK(content);
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const char other = static_cast<char>(content->back() ^ 1);
    ASSERT_EQ(pwrite(fd, &other, 1, static_cast<off_t>(content->size() - 1)), 1);
    close(fd);
  }

  TemporaryFolder folder;
};

TEST_F(SealerTest, TheNewestCommittedCheckpointIsTheSeal) {
  const AttemptId attempt{5, 17, 3};
  Save(attempt, 10);
  const auto newest = Save(attempt, 20);
  ASSERT_OK_AND_ASSIGN(const core::SealResult result, SealNow(folder.path(), OrderOf(attempt)));
  EXPECT_EQ(result.attempt, attempt);
  EXPECT_EQ(result.damaged, 0);
  ASSERT_TRUE(result.newest.has_value());
  EXPECT_EQ(result.newest->attempt, 3);
  EXPECT_EQ(result.newest->step, 20);
  EXPECT_EQ(result.newest->manifest_sha256, newest.manifest_sha256);
  EXPECT_EQ(result.newest->bytes, newest.bytes);
  EXPECT_TRUE(result.newest->sealed);
  EXPECT_EQ(JoinPath(folder.path(), result.newest->path), newest.path) << "relative to the root, and it is there";
}

TEST_F(SealerTest, AnAttemptThatWroteNothingHasAnEmptySeal) {
  ASSERT_OK_AND_ASSIGN(const core::SealResult result, SealNow(folder.path(), OrderOf({1, 0, 1})));
  EXPECT_FALSE(result.newest.has_value());
  EXPECT_EQ(result.damaged, 0);
}

TEST_F(SealerTest, ADamagedCheckpointFallsBackToTheOneBefore) {
  const AttemptId attempt{1, 0, 1};
  Save(attempt, 10);
  Save(attempt, 20);
  Damage(attempt, 20);
  ASSERT_OK_AND_ASSIGN(const core::SealResult result, SealNow(folder.path(), OrderOf(attempt)));
  ASSERT_TRUE(result.newest.has_value());
  EXPECT_EQ(result.newest->step, 10);
  EXPECT_EQ(result.damaged, 1);
  Damage(attempt, 10);
  ASSERT_OK_AND_ASSIGN(const core::SealResult nothing, SealNow(folder.path(), OrderOf(attempt)));
  EXPECT_FALSE(nothing.newest.has_value());
  EXPECT_EQ(nothing.damaged, 2);
}

TEST_F(SealerTest, WhatAnotherJobOrAnUnfinishedSaveLeftIsNoCheckpoint) {
  const AttemptId attempt{1, 0, 1};
  Save(attempt, 10, "the uid of another job");
  ASSERT_OK(MakeDirectories(JoinPath(Directory(attempt), ".stage-step-000000000030")));
  ASSERT_OK(MakeDirectories(checkpoint::StepDirectory(Directory(attempt), 40)));
  ASSERT_OK_AND_ASSIGN(const core::SealResult result, SealNow(folder.path(), OrderOf(attempt)));
  EXPECT_FALSE(result.newest.has_value());
  EXPECT_GE(result.damaged, 1);
}

TEST_F(SealerTest, EveryOrderIsAnswered) {
  Posted posted;
  Save({1, 0, 1}, 7);
  Sealer sealer(folder.path(), posted.post());
  for (JobId job = 1; job <= 50; ++job) sealer.Seal(OrderOf({job, 0, 1}));
  ASSERT_TRUE(posted.WaitFor<core::SealResult>(50));
  std::set<JobId> jobs;
  for (const core::SealResult& result : posted.Of<core::SealResult>()) {
    EXPECT_TRUE(jobs.insert(result.attempt.job).second) << "twice";
    EXPECT_EQ(result.newest.has_value(), result.attempt.job == 1);
  }
}

TEST_F(SealerTest, AStoreThatCannotBeReadIsTriedAgainAndHoldsUpNobodyElse) {
  Posted posted;
  const AttemptId blocked{1, 0, 1};
  // A file stands where the attempt's directory should be.
  ASSERT_OK(MakeDirectories(checkpoint::ParentOf(Directory(blocked))));
  ASSERT_OK(WriteFileAtomically(Directory(blocked), "not a directory"));
  ASSERT_FALSE(SealNow(folder.path(), OrderOf(blocked)).ok());
  Sealer sealer(folder.path(), posted.post(), /*retry_ms=*/1);
  sealer.Seal(OrderOf(blocked));
  for (JobId job = 2; job <= 9; ++job) sealer.Seal(OrderOf({job, 0, 1}));
  ASSERT_TRUE(posted.WaitFor<core::SealResult>(8));
  for (const core::SealResult& result : posted.Of<core::SealResult>()) EXPECT_NE(result.attempt, blocked);
  ASSERT_EQ(unlink(Directory(blocked).c_str()), 0);
  Save(blocked, 3);
  sealer.Seal(OrderOf(blocked));  // ordered again meanwhile: still one answer
  ASSERT_TRUE(posted.WaitFor<core::SealResult>(9));
  EXPECT_EQ(posted.Of<core::SealResult>().back().attempt, blocked);
}

TEST_F(SealerTest, StopsWithOrdersThatWait) {
  Posted posted;
  ASSERT_OK(MakeDirectories(checkpoint::ParentOf(Directory({1, 0, 1}))));
  ASSERT_OK(WriteFileAtomically(Directory({1, 0, 1}), "not a directory"));
  Sealer sealer(folder.path(), posted.post(), /*retry_ms=*/3'600'000);
  sealer.Seal(OrderOf({1, 0, 1}));
  sealer.Seal(OrderOf({2, 0, 1}));
  ASSERT_TRUE(posted.WaitFor<core::SealResult>(1));
  sealer.Stop();
  sealer.Stop();
}

}  // namespace
}  // namespace spillway::effects
