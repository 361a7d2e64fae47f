#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

class ReaderTest : public ::testing::Test {
 protected:
  std::string Attempt(int64_t n = 1) { return *AttemptDirectory(folder_.path(), kCluster, {5, 0, n}); }
  std::string Step(int64_t attempt, int64_t step) { return StepDirectory(Attempt(attempt), step); }
  // One bit in the middle of the container's data.
  void Damage(const std::string& step_directory) {
    const std::string path = step_directory + "/rank-00000.bin";
    auto bytes = ReadFile(path);
    ASSERT_OK(bytes.status());
    (*bytes)[5000] = static_cast<char>((*bytes)[5000] ^ 1);
    ASSERT_OK(WriteFileAtomically(path, *bytes));
  }
  TemporaryFolder folder_;
};

TEST_F(ReaderTest, ListsNewestFirstAndOnlySteps) {
  for (int64_t step : {10, 30, 20}) MustSave(Attempt(), step);
  ASSERT_OK(MakeDirectories(Attempt() + "/.stage-step-000000000040"));
  ASSERT_OK(MakeDirectories(Attempt() + "/step-50"));
  ASSERT_OK_AND_ASSIGN(const std::vector<StepEntry> steps, ListCommitted(Attempt()));
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].step, 30);
  EXPECT_EQ(steps[2].path, Step(1, 10));
  ASSERT_OK_AND_ASSIGN(const std::vector<StepEntry> none, ListCommitted(Attempt(9)));
  EXPECT_TRUE(none.empty());
}

TEST_F(ReaderTest, VerifiesToTheLevelAsked) {
  const std::string path = MustSave(Attempt(), 10).path;
  for (VerifyLevel level : {VerifyLevel::kManifest, VerifyLevel::kHeaders, VerifyLevel::kFull}) EXPECT_OK(Verify(path, level).status());
  Damage(path);
  EXPECT_OK(Verify(path, VerifyLevel::kHeaders).status());
  EXPECT_THAT(Verify(path, VerifyLevel::kFull).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("model/weights")));
  ASSERT_EQ(unlink((path + "/rank-00000.bin").c_str()), 0);
  EXPECT_OK(Verify(path, VerifyLevel::kManifest).status());
  EXPECT_TRUE(absl::IsDataLoss(Verify(path, VerifyLevel::kHeaders).status()));
  EXPECT_TRUE(absl::IsNotFound(Verify(Step(1, 11), VerifyLevel::kManifest).status()));
}

TEST_F(ReaderTest, ACheckpointInAnotherPlaceIsNotThatCheckpoint) {
  MustSave(Attempt(1), 10);
  ASSERT_EQ(rename(Step(1, 10).c_str(), Step(1, 20).c_str()), 0);
  EXPECT_THAT(Verify(Step(1, 20), VerifyLevel::kManifest).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("of step 10")));
  MustSave(Attempt(2), 20, 2);
  ASSERT_OK(RemoveTree(Step(1, 20)));
  ASSERT_EQ(rename(Step(2, 20).c_str(), Step(1, 20).c_str()), 0);
  EXPECT_THAT(Verify(Step(1, 20), VerifyLevel::kManifest).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("of attempt 2")));
}

TEST_F(ReaderTest, SaysWhatDoesNotFit) {
  const std::string path = MustSave(Attempt(), 10).path;
  float x[4500];
  auto restore = [&](TensorTarget target) { return Restore(path, {target}).status(); };
  EXPECT_THAT(restore({"model/weight", DType::kF32, {3, 1500}, x, 18000}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nearest: model/weights")));
  EXPECT_THAT(restore({"model/weights", DType::kF32, {1500, 3}, x, 18000}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is f32[3, 1500] in the checkpoint, wanted f32[1500, 3]")));
  EXPECT_THAT(restore({"model/weights", DType::kI32, {3, 1500}, x, 18000}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("wanted i32")));
  EXPECT_THAT(restore({"model/weights", DType::kF32, {3, 1500}, x, 100}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("100 bytes")));
}

TEST_F(ReaderTest, RestoresTheOneItIsGivenAndNothingNewer) {
  for (int64_t step : {10, 20, 30}) MustSave(Attempt(), step);
  SampleState state;
  ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(Step(1, 20), state.Targets()));
  EXPECT_EQ(restored.checkpoint.path, Step(1, 20));
  EXPECT_TRUE(restored.skipped.empty());
  EXPECT_EQ(state, StateOf(20));
}

TEST_F(ReaderTest, FallsBackToEarlierStepsThenAlongTheParents) {
  for (int64_t step : {10, 20, 30}) MustSave(Attempt(1), step);
  for (int64_t step : {30, 40}) MustSave(Attempt(2), step, 2, CheckpointRef{1, 20});  // 1.30 came after the seal: never to be read
  MustSave(Attempt(4), 50, 4, CheckpointRef{2, 40});
  const std::vector<std::string> order = {Step(4, 50), Step(2, 40), Step(2, 30), Step(1, 20), Step(1, 10)};
  for (size_t damaged = 0; damaged < order.size(); ++damaged) {
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(Step(4, 50), state.Targets()));
    EXPECT_EQ(restored.checkpoint.path, order[damaged]);
    EXPECT_EQ(state, StateOf(restored.checkpoint.step, restored.checkpoint.attempt));
    ASSERT_EQ(restored.skipped.size(), damaged);
    for (size_t i = 0; i < damaged; ++i) EXPECT_EQ(restored.skipped[i].path, order[i]);
    Damage(order[damaged]);
  }
  SampleState state;
  EXPECT_THAT(RestoreNewest(Step(4, 50), state.Targets()).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no usable checkpoint")));
}

TEST_F(ReaderTest, FallsBackWhenTheManifestOrTheWholeDirectoryIsGone) {
  MustSave(Attempt(1), 10);
  MustSave(Attempt(2), 20, 2, CheckpointRef{1, 10});
  MustSave(Attempt(2), 30, 2, CheckpointRef{1, 10});
  ASSERT_OK(WriteFileAtomically(Step(2, 20) + "/MANIFEST", ""));
  ASSERT_OK(RemoveTree(Step(2, 25)));
  SampleState state;
  // 2.25 was registered once and is gone, 2.20 has no manifest; 2.30 is newer than what was asked for, yet still tells the parent.
  ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(Step(2, 25), state.Targets()));
  EXPECT_EQ(restored.checkpoint.path, Step(1, 10));
  ASSERT_EQ(restored.skipped.size(), 2u);
  EXPECT_TRUE(absl::IsNotFound(restored.skipped[0].why));
  EXPECT_TRUE(absl::IsDataLoss(restored.skipped[1].why));
}

TEST_F(ReaderTest, TellsNothingThereFromAllDamagedFromAMisfit) {
  SampleState state;
  EXPECT_TRUE(absl::IsNotFound(RestoreNewest(Attempt(1), state.Targets()).status()));
  EXPECT_TRUE(absl::IsNotFound(RestoreNewest(Step(1, 10), state.Targets()).status()));
  MustSave(Attempt(1), 10);
  EXPECT_TRUE(absl::IsFailedPrecondition(RestoreNewest(Step(1, 10), state.Targets(), "another-job").status()));
  float x = 0;
  EXPECT_TRUE(absl::IsFailedPrecondition(RestoreNewest(Step(1, 10), {{"model/weights", DType::kF32, {}, &x, 4}}).status()));
}

TEST_F(ReaderTest, AParentOfItselfDoesNotLoop) {
  MustSave(Attempt(1), 10, 1, CheckpointRef{1, 10});
  MustSave(Attempt(2), 10, 2, CheckpointRef{3, 10});
  MustSave(Attempt(3), 10, 3, CheckpointRef{2, 10});
  for (int64_t n : {1, 2, 3}) Damage(Step(n, 10));
  SampleState state;
  for (int64_t n : {1, 2, 3}) EXPECT_TRUE(absl::IsDataLoss(RestoreNewest(Step(n, 10), state.Targets()).status()));
}

// An error of the disk is not damage: with nothing else to restore, the caller hears of it and may try again.
TEST_F(ReaderTest, EveryReadMayFailAndTheRestoreIsStillRight) {
  for (int64_t step : {10, 20}) MustSave(Attempt(), step);
  bool untouched = false;
  for (int64_t k = 1; !untouched && k < 200; ++k) {
    FaultIo io(FaultIo::Fault::kErrorOnce, k, absl::UnavailableError("input/output error"));
    SampleState state;
    auto restored = RestoreNewest(Step(1, 20), state.Targets(), "", &io);
    untouched = !io.struck();
    if (!restored.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(restored.status())) << restored.status();
      continue;
    }
    EXPECT_EQ(restored->skipped.size(), untouched ? 0u : 1u);
    EXPECT_EQ(state, StateOf(restored->checkpoint.step));
  }
  EXPECT_TRUE(untouched);
}

TEST_F(ReaderTest, AScanReportsTheBadAndFindsTheNewestGood) {
  for (int64_t step : {10, 20, 30, 40}) MustSave(Attempt(), step);
  Damage(Step(1, 40));
  ASSERT_OK(WriteFileAtomically(Step(1, 30) + "/MANIFEST", "{}"));
  ASSERT_OK_AND_ASSIGN(const ScanResult all, ScanAttempt(Attempt()));
  ASSERT_EQ(all.committed.size(), 2u);
  EXPECT_EQ(all.committed[0].step, 20);
  EXPECT_EQ(all.committed[1].step, 10);
  ASSERT_EQ(all.bad.size(), 2u);
  EXPECT_EQ(all.bad[0].path, Step(1, 40));
  EXPECT_EQ(all.bad[1].path, Step(1, 30));
  ASSERT_OK_AND_ASSIGN(const ScanResult newest, ScanAttempt(Attempt(), {.newest_only = true, .job_uid = "job-uid-1"}));
  ASSERT_EQ(newest.committed.size(), 1u);
  EXPECT_EQ(newest.committed[0].step, 20);
  ASSERT_OK_AND_ASSIGN(const ScanResult foreign, ScanAttempt(Attempt(), {.job_uid = "another"}));
  EXPECT_TRUE(foreign.committed.empty());
  EXPECT_EQ(foreign.bad.size(), 4u);
  ASSERT_OK_AND_ASSIGN(const ScanResult nothing, ScanAttempt(Attempt(7)));
  EXPECT_TRUE(nothing.committed.empty() && nothing.bad.empty());
}

TEST_F(ReaderTest, StrangeThingsInThePlaceOfFilesAreDamage) {
  MustSave(Attempt(), 10);
  const std::string path = MustSave(Attempt(), 20).path;
  ASSERT_EQ(unlink((path + "/rank-00000.bin").c_str()), 0);
  ASSERT_EQ(mkfifo((path + "/rank-00000.bin").c_str(), 0600), 0);  // must not hang
  EXPECT_FALSE(Verify(path, VerifyLevel::kFull).ok());
  ASSERT_EQ(unlink((path + "/MANIFEST").c_str()), 0);
  ASSERT_OK(MakeDirectories(path + "/MANIFEST"));
  EXPECT_FALSE(Verify(path, VerifyLevel::kFull).ok());
  SampleState state;
  ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(Attempt(), state.Targets()));
  EXPECT_EQ(restored.checkpoint.step, 10);
}

}  // namespace
}  // namespace spillway::checkpoint
