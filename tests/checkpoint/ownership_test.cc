// Two writers of different attempts on one directory, interleaved at every call: the stale one never becomes the newest, commits nothing
// once it was overtaken, and takes nothing from the other.
#include "checkpoint/ownership.h"

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

class OwnershipTest : public ::testing::Test {
 protected:
  // Outside the layout: the only place where two attempts can meet.
  std::string Directory(int64_t k = 0) { return absl::StrCat(folder_.path(), "/run-", k); }
  static absl::StatusOr<CommittedCheckpoint> Save(Writer* writer, int64_t step) { return writer->Save(step, StateOf(step, writer->options().attempt).Views()); }
  TemporaryFolder folder_;
};

TEST_F(OwnershipTest, TheLaterAttemptHasIt) {
  ASSERT_OK_AND_ASSIGN(Writer first, Writer::Open(OptionsFor(Directory(), 1)));
  ASSERT_OK(Save(&first, 10).status());
  ASSERT_OK_AND_ASSIGN(Writer second, Writer::Open(OptionsFor(Directory(), 2)));
  EXPECT_THAT(Save(&first, 20).status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("taken over by attempt 2")));
  EXPECT_EQ(Drafts(Directory()), 0);
  ASSERT_OK(Save(&second, 15).status());
  EXPECT_THAT(Writer::Open(OptionsFor(Directory(), 1)).status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("belongs to attempt 2")));
  ASSERT_OK(Save(&second, 16).status());
}

TEST_F(OwnershipTest, TheSameAttemptOpenedAgainHasIt) {
  ASSERT_OK_AND_ASSIGN(Writer first, Writer::Open(OptionsFor(Directory(), 1)));
  ASSERT_OK_AND_ASSIGN(Writer second, Writer::Open(OptionsFor(Directory(), 1)));
  EXPECT_THAT(Save(&first, 20).status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("another writer of attempt 1")));
  ASSERT_OK(Save(&second, 20).status());
}

TEST_F(OwnershipTest, AttemptsAreCountedWhereNobodyNumbersThem) {
  for (int64_t expected = 1; expected <= 3; ++expected) {
    ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Directory(), 0)));
    EXPECT_EQ(writer.options().attempt, expected);
    ASSERT_OK(Save(&writer, expected * 10).status());
  }
  // Without ATTEMPT the manifests tell.
  ASSERT_OK(RemoveTree(Directory() + "/ATTEMPT"));
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Directory(), 0)));
  EXPECT_EQ(writer.options().attempt, 4);
  // In the layout the name of the directory tells, and a number must be that one.
  const std::string attempt = *AttemptDirectory(folder_.path(), kCluster, {5, 0, 7});
  ASSERT_OK_AND_ASSIGN(Writer named, Writer::Open(OptionsFor(attempt, 0)));
  EXPECT_EQ(named.options().attempt, 7);
  EXPECT_THAT(Writer::Open(OptionsFor(attempt, 6)).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("attempt 7, not of 6")));
}

TEST_F(OwnershipTest, ADamagedOrLostAttemptFileStopsNobody) {
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Directory(), 1)));
  for (int64_t step : {10, 20}) {
    ASSERT_OK(step == 10 ? RemoveTree(Directory() + "/ATTEMPT") : WriteFileAtomically(Directory() + "/ATTEMPT", "torn"));
    ASSERT_OK(Save(&writer, step).status());
    ASSERT_OK_AND_ASSIGN(const Owner owner, ReadOwner(RealIo(), Directory()));
    EXPECT_EQ(owner.attempt, 1);
  }
}

TEST_F(OwnershipTest, TheNewestIsOfTheLatestAttemptNotOfTheHighestStep) {
  ASSERT_OK_AND_ASSIGN(Writer first, Writer::Open(OptionsFor(Directory(), 1)));
  for (int64_t step : {10, 20, 30}) {
    ASSERT_OK(Save(&first, step).status());
  }
  ASSERT_OK_AND_ASSIGN(Writer second, Writer::Open(OptionsFor(Directory(), 2)));
  ASSERT_OK(Save(&second, 15).status());
  SampleState state;
  ASSERT_OK_AND_ASSIGN(Restored restored, RestoreNewest(Directory(), state.Targets()));
  EXPECT_EQ(restored.checkpoint.ref(), (CheckpointRef{2, 15}));
  EXPECT_TRUE(restored.skipped.empty());
  // Whoever names a step gets that one.
  ASSERT_OK_AND_ASSIGN(restored, RestoreNewest(StepDirectory(Directory(), 20), state.Targets()));
  EXPECT_EQ(restored.checkpoint.ref(), (CheckpointRef{1, 20}));
  // And the next best where it is damaged.
  ASSERT_OK(WriteFileAtomically(StepDirectory(Directory(), 15) + "/rank-00000.bin", ""));
  ASSERT_OK_AND_ASSIGN(restored, RestoreNewest(Directory(), state.Targets()));
  EXPECT_EQ(restored.checkpoint.ref(), (CheckpointRef{1, 30}));
  ASSERT_EQ(restored.skipped.size(), 1u);
}

TEST_F(OwnershipTest, WhatNobodyCommittedToIsRemovedAndNothingElse) {
  ASSERT_OK(RemoveUnlessUsed(RealIo(), Directory(7)));
  {
    ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Directory())));
    ASSERT_OK(MakeDirectories(StagePathOf(Directory(), 3, "0123", 1)));
  }
  ASSERT_OK(RemoveUnlessUsed(RealIo(), Directory()));
  EXPECT_FALSE(PathExists(Directory()));
  MustSave(Directory(1), 10);
  MustSave(Directory(2), 10);
  ASSERT_OK(RemoveTree(StepDirectory(Directory(2), 10)));
  ASSERT_OK(WriteFileAtomically(Directory(2) + "/notes.txt", "mine"));
  for (int64_t k : {1, 2}) {
    ASSERT_OK(RemoveUnlessUsed(RealIo(), Directory(k)));
    EXPECT_TRUE(PathExists(Directory(k) + "/ATTEMPT"));
  }
}

// At every call that the old writer makes, from its opening on, the new one takes over, restores and saves.
TEST_F(OwnershipTest, TakenOverAtEveryCall) {
  bool untouched = false;
  int64_t k = 1, refused = 0, saved_all_the_same = 0;
  for (; !untouched && k < kCallsMax; ++k) {
    const std::string directory = Directory(k);
    {
      ASSERT_OK_AND_ASSIGN(Writer before, Writer::Open(OptionsFor(directory, 1)));
      ASSERT_OK(Save(&before, 10).status());
    }
    std::optional<Writer> other;
    CheckpointRef found;
    FaultIo io(FaultIo::Fault::kHook, k);
    io.set_hook([&] {
      auto opened = Writer::Open(OptionsFor(directory, 3));
      ASSERT_OK(opened.status());
      other.emplace(*std::move(opened));
      SampleState state;
      ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(directory, state.Targets()));
      found = restored.checkpoint.ref();
      EXPECT_EQ(state, StateOf(found.step, found.attempt));
      EXPECT_TRUE(restored.skipped.empty());
      ASSERT_OK(Save(&*other, found.step + 1).status());
    });
    absl::Status stale;
    auto writer = Writer::Open(OptionsFor(directory, 2, &io));
    if (writer.ok()) {
      stale = Save(&*writer, 20).status();
      untouched = !io.struck();
      if (untouched) break;
      // Whatever became of that save, no other one follows.
      ASSERT_TRUE(other.has_value());
      ASSERT_OK(Save(&*other, found.step + 2).status());
      EXPECT_THAT(Save(&*writer, 40).status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("taken over by attempt 3")));
    } else {
      stale = writer.status();
    }
    EXPECT_TRUE(stale.ok() || absl::IsAborted(stale)) << stale;
    (stale.ok() ? saved_all_the_same : refused) += 1;
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored newest, RestoreNewest(directory, state.Targets()));
    EXPECT_EQ(newest.checkpoint.attempt, 3);
    EXPECT_EQ(state, StateOf(newest.checkpoint.step, 3));
    EXPECT_OK(Verify(StepDirectory(directory, found.step), VerifyLevel::kFull).status()) << "what the new one started from";
    ASSERT_OK_AND_ASSIGN(const std::vector<StepEntry> steps, ListCommitted(directory));
    for (const StepEntry& step : steps) {
      EXPECT_OK(Verify(step.path, VerifyLevel::kFull).status());
    }
    ASSERT_OK(Save(&*other, found.step + 3).status());
    ASSERT_FALSE(HasFailure()) << "at call " << k;
  }
  EXPECT_TRUE(untouched);
  EXPECT_GT(refused, 20);
  EXPECT_GT(saved_all_the_same, 1);
}

}  // namespace
}  // namespace spillway::checkpoint
