// The promise of Save, tried at every call it makes to the file system: the process ends there, the call fails, the disk is full from
// there on, the power goes. Afterwards the new checkpoint or the one before it is there, bit for bit, and saving works again. All of it with
// plain checkpoints and with encrypted ones.
#include <sys/wait.h>
#include <unistd.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

absl::StatusOr<CommittedCheckpoint> SaveStep(Io* io, const std::string& directory, int64_t step, const std::optional<SecretKey>& key = {}) {
  WriterOptions options = OptionsFor(directory, 1, io);
  options.key = key;
  auto writer = Writer::Open(options);
  if (!writer.ok()) return writer.status();
  return writer->Save(step, StateOf(step).Views());
}

class CrashTest : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  // The first parameter says whether a checkpoint is there before, or not even the attempt's directory; the second whether they are encrypted.
  bool had_one() const { return std::get<0>(GetParam()); }
  std::optional<SecretKey> key() const { return std::get<1>(GetParam()) ? std::optional<SecretKey>(KeyOf('k')) : std::nullopt; }
  absl::StatusOr<CommittedCheckpoint> Save(Io* io, const std::string& directory, int64_t step) const { return SaveStep(io, directory, step, key()); }
  absl::StatusOr<Restored> Newest(const std::string& directory, SampleState* state, Io* io = RealIo()) const {
    const std::optional<SecretKey> user_key = key();
    return RestoreNewest(directory, state->Targets(), "", io, user_key ? &*user_key : nullptr);
  }

  // A fresh attempt directory, with step 10 committed where there should be one.
  std::string FreshAttempt(int64_t k) {
    const std::string directory = absl::StrCat(folder_.path(), "/k", k, "/", kCluster, "/5/0/a1");
    if (had_one())
      MustSave(directory, 10, 1, {}, key());
    else
      EXPECT_OK(MakeDirectories(absl::StrCat(folder_.path(), "/k", k)));
    return directory;
  }

  // New or previous, bit for bit; never neither, never a mixture. `must` when Save had said OK.
  void CheckNewOrPrevious(const std::string& directory, bool must_be_new) {
    SampleState state;
    auto restored = Newest(directory, &state);
    if (!restored.ok()) {
      ASSERT_TRUE(absl::IsNotFound(restored.status())) << restored.status();
      ASSERT_FALSE(had_one());
      ASSERT_FALSE(must_be_new);
      return;
    }
    EXPECT_TRUE(restored->skipped.empty()) << restored->skipped[0].why;
    EXPECT_TRUE(restored->checkpoint.step == 20 || (!must_be_new && had_one() && restored->checkpoint.step == 10)) << restored->checkpoint.path;
    EXPECT_EQ(state, StateOf(restored->checkpoint.step));
    EXPECT_OK(Verify(restored->checkpoint.path, VerifyLevel::kFull).status());
  }

  // What was left behind is in nobody's way.
  void CheckSavingWorksAgain(const std::string& directory) {
    for (int64_t step : {20, 30}) {
      auto saved = Save(RealIo(), directory, step);
      EXPECT_TRUE(saved.ok() || (step == 20 && absl::IsAlreadyExists(saved.status()))) << saved.status();
    }
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored restored, Newest(directory, &state));
    EXPECT_EQ(restored.checkpoint.step, 30);
    EXPECT_EQ(state, StateOf(30));
    ASSERT_OK_AND_ASSIGN(const ScanResult scan, ScanAttempt(directory));
    EXPECT_TRUE(scan.bad.empty());
    EXPECT_EQ(scan.committed.size(), had_one() ? 3u : 2u);
  }

  // A checkpoint is saved again and again, with the fault at one call later each time, until the fault comes too late.
  void TryEveryCall(FaultIo::Fault fault, const absl::Status& error) {
    bool untouched = false;
    for (int64_t k = 1; !untouched && k < kCallsMax; ++k) {
      const std::string directory = FreshAttempt(k);
      FaultIo io(fault, k, error);
      const auto saved = Save(&io, directory, 20);
      untouched = !io.struck();
      EXPECT_TRUE(saved.ok() || saved.status().code() == error.code()) << saved.status();
      CheckNewOrPrevious(directory, saved.ok());
      // A disk that refuses to remove anything keeps its stage; a full one must get its space back.
      if (fault != FaultIo::Fault::kAllFail && fault != FaultIo::Fault::kReadOnly) {
        EXPECT_EQ(Drafts(directory), 0) << "the space was not given back";
      }
      CheckSavingWorksAgain(directory);
      if (HasFatalFailure()) FAIL() << "at call " << k;
    }
    EXPECT_TRUE(untouched);
  }

  TemporaryFolder folder_;
};

TEST_P(CrashTest, TheProcessEndsAtEveryCall) {
  bool completed = false;
  int64_t k = 1;
  for (; !completed && k < kCallsMax; ++k) {
    const std::string directory = FreshAttempt(k);
    const pid_t child = fork();
    if (child == 0) {
      FaultIo io(FaultIo::Fault::kExit, k);
      _exit(Save(&io, directory, 20).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 0)) << status;
    completed = WEXITSTATUS(status) == 0;
    CheckNewOrPrevious(directory, completed);
    CheckSavingWorksAgain(directory);
    if (HasFatalFailure()) FAIL() << "at call " << k;
  }
  EXPECT_TRUE(completed);
  EXPECT_GT(k, 20);  // there was something to try
}

TEST_P(CrashTest, EveryCallFailsOnce) { TryEveryCall(FaultIo::Fault::kErrorOnce, absl::UnavailableError("input/output error")); }

TEST_P(CrashTest, EveryCallFailsForEver) { TryEveryCall(FaultIo::Fault::kAllFail, absl::UnavailableError("input/output error")); }

TEST_P(CrashTest, TheDiskIsFullFromEveryCallOn) { TryEveryCall(FaultIo::Fault::kErrorStays, absl::ResourceExhaustedError("no space left on device")); }

TEST_P(CrashTest, TheDiskIsReadOnlyFromEveryCallOn) { TryEveryCall(FaultIo::Fault::kReadOnly, absl::InternalError("read-only file system")); }

// Somebody removes the directory while a checkpoint is being saved: the save says so or had no need of it, and the next one of the same
// writer makes the directory again.
TEST_P(CrashTest, TheDirectoryIsDeletedAtEveryCall) {
  bool untouched = false;
  for (int64_t k = 1; !untouched && k < kCallsMax; ++k) {
    const std::string directory = FreshAttempt(k);
    FaultIo io(FaultIo::Fault::kHook, k);
    io.set_hook([&] { ASSERT_OK(RemoveTree(ParentOf(directory))); });
    WriterOptions options = OptionsFor(directory, 1, &io);
    options.key = key();
    auto opened = Writer::Open(options);
    if (opened.ok()) {
      const auto saved = opened->Save(20, StateOf(20).Views());
      untouched = !io.struck();
      if (saved.ok() && PathExists(saved->path)) CheckNewOrPrevious(directory, true);
      const auto next = opened->Save(30, StateOf(30).Views());
      EXPECT_TRUE(next.ok()) << next.status();
    } else {
      WriterOptions again_options = OptionsFor(directory);
      again_options.key = key();
      ASSERT_OK_AND_ASSIGN(Writer again, Writer::Open(again_options));
      ASSERT_OK(again.Save(30, StateOf(30).Views()).status());
    }
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored restored, Newest(directory, &state));
    EXPECT_EQ(restored.checkpoint.step, 30);
    EXPECT_EQ(state, StateOf(30));
    ASSERT_FALSE(HasFailure()) << "at call " << k;
  }
  EXPECT_TRUE(untouched);
}

// A read that fails once or for ever never gives wrong bytes: the newest, the one before, or the disk's word.
TEST_P(CrashTest, EveryReadOfARestoreFails) {
  const std::string directory = FreshAttempt(0);
  MustSave(directory, 20, 1, {}, key());
  for (FaultIo::Fault fault : {FaultIo::Fault::kErrorOnce, FaultIo::Fault::kAllFail}) {
    bool untouched = false;
    for (int64_t k = 1; !untouched && k < kCallsMax; ++k) {
      FaultIo io(fault, k, absl::InternalError("input/output error"));
      SampleState state;
      const auto restored = Newest(directory, &state, &io);
      untouched = !io.struck();
      if (!restored.ok()) {
        EXPECT_EQ(restored.status().code(), absl::StatusCode::kInternal) << restored.status();
        continue;
      }
      EXPECT_EQ(state, StateOf(restored->checkpoint.step)) << "at call " << k;
      EXPECT_EQ(restored->skipped.size(), restored->checkpoint.step == 20 ? 0u : 1u) << "what was skipped must be told";
    }
    EXPECT_TRUE(untouched);
  }
}

TEST_P(CrashTest, ThePowerGoesAtEveryCall) {
  Rng rng(2024);
  for (int round = 0; round < 4; ++round) {  // what is lost differs each time
    bool untouched = false;
    for (int64_t k = 1; !untouched && k < kCallsMax; ++k) {
      const std::string directory = FreshAttempt(10'000 * (round + 1) + k);
      TemporaryFolder graveyard;
      FaultIo io(FaultIo::Fault::kPowerCut, k);
      io.set_graveyard(graveyard.path());
      const auto saved = Save(&io, directory, 20);
      untouched = !io.struck();
      io.LosePower(&rng, graveyard.path());
      CheckNewOrPrevious(directory, saved.ok());
      CheckSavingWorksAgain(directory);
      if (HasFatalFailure()) FAIL() << "at call " << k << " of round " << round;
    }
    EXPECT_TRUE(untouched);
  }
}

INSTANTIATE_TEST_SUITE_P(, CrashTest, ::testing::Combine(::testing::Bool(), ::testing::Bool()), [](const auto& info) {
  return absl::StrCat(std::get<0>(info.param) ? "WithOneBefore" : "TheFirst", std::get<1>(info.param) ? "Encrypted" : "");
});

// Directories that an earlier process made and could not sync before it was stopped must not take a commit with them.
TEST(PowerCut, SparesACommitInDirectoriesMadeEarlier) {
  Rng rng(3);
  for (int round = 0; round < 30; ++round) {
    TemporaryFolder folder, graveyard;
    FaultIo io(FaultIo::Fault::kNone, 1);
    std::string directory = folder.path();
    for (const std::string name : {kCluster, "5", "0", "a1"}) {
      directory += "/" + name;
      ASSERT_OK(io.MakeDirectory(directory));
    }
    ASSERT_OK(SaveStep(&io, directory, 20).status());
    io.LosePower(&rng, graveyard.path());
    SampleState state;
    ASSERT_OK(RestoreNewest(directory, state.Targets()).status());
    EXPECT_EQ(state, StateOf(20));
  }
}

// The model of a power cut must be able to lose a checkpoint, or the tests above say nothing.
TEST(PowerCut, LosesWhatWasNotSynced) {
  Rng rng(1);
  int lost = 0;
  for (int round = 0; round < 50; ++round) {
    TemporaryFolder folder, graveyard;
    FaultIo io;
    ASSERT_OK(io.MakeDirectory(folder.path() + "/d"));
    {
      ASSERT_OK_AND_ASSIGN(auto file, io.Create(folder.path() + "/d/f"));
      ASSERT_OK(file->WriteAt("content", 7, 0));
      if (round % 2 == 0) {
        ASSERT_OK(file->Sync());
      }
    }
    if (round % 2 == 1) {
      ASSERT_OK(io.SyncDirectory(folder.path() + "/d"));
    }
    ASSERT_OK(io.SyncDirectory(folder.path()));
    io.LosePower(&rng, graveyard.path());
    auto content = ReadFile(folder.path() + "/d/f");
    if (round % 2 == 1) {
      ASSERT_OK(content.status());
    }  // its name was synced, its bytes were not
    lost += !content.ok() || *content != "content";
  }
  EXPECT_GT(lost, 10);
}

}  // namespace
}  // namespace spillway::checkpoint
