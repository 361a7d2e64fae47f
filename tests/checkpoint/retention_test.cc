// What may go and what stays, and that a removal that is cut short anywhere takes nothing that should have stayed.
#include "checkpoint/retention.h"

#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/forwarding_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Removed(const RetentionPolicy& policy, const std::vector<RetentionItem>& items, std::optional<CheckpointRef> resumed_from = {},
                             int64_t attempt_max = 1) {
  std::vector<int64_t> steps;
  for (const CheckpointRef& ref : ChooseForRemoval(policy, items, resumed_from, attempt_max)) steps.push_back(ref.step);
  return steps;
}

TEST(Retention, KeepsTheLastTheBestEveryKthAndTheOneResumedFrom) {
  const std::vector<RetentionItem> items = {{{1, 10}, 3.0}, {{1, 20}, 1.0}, {{1, 30}, 2.0}, {{1, 40}}, {{1, 50}, 1.0}, {{1, 60}, 9.0}, {{1, 70}, 8.0}};
  EXPECT_THAT(Removed({}, items), ElementsAre(10, 20, 30, 40, 50));
  EXPECT_THAT(Removed({.keep_last = 4}, items), ElementsAre(10, 20, 30));
  EXPECT_THAT(Removed({.keep_last = 9}, items), ElementsAre());
  EXPECT_THAT(Removed({.keep_best = 1, .metric = "loss"}, items), ElementsAre(10, 20, 30, 40));  // of equals the newest
  EXPECT_THAT(Removed({.keep_best = 3, .metric = "loss"}, items), ElementsAre(10, 40));
  EXPECT_THAT(Removed({.keep_best = 3, .metric = "loss", .maximize = true}, items), ElementsAre(20, 30, 40, 50));
  EXPECT_THAT(Removed({.keep_every = 20}, items), ElementsAre(10, 30, 50));
  EXPECT_THAT(Removed({}, items, CheckpointRef{1, 20}), ElementsAre(10, 30, 40, 50));
}

TEST(Retention, LaterAttemptsAreNewerAndNotOursToRemove) {
  const std::vector<RetentionItem> items = {{{1, 40}}, {{1, 50}}, {{2, 30}}, {{2, 35}}, {{3, 10}}, {{3, 20}}, {{3, 25}}};
  EXPECT_THAT(Removed({}, items, {}, 3), ElementsAre(40, 50, 30, 35, 10));
  EXPECT_THAT(Removed({}, items, {}, 2), ElementsAre(40, 50, 30, 35));
  EXPECT_THAT(Removed({}, items, {}, 1), ElementsAre(40, 50));
}

TEST(Retention, RefusesAPolicyThatCouldLoseEverything) {
  EXPECT_THAT(CheckPolicy({.keep_last = 1}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("keep_last is 1; want 2 or more")));
  EXPECT_THAT(CheckPolicy({.keep_best = 1}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a metric")));
  EXPECT_FALSE(CheckPolicy({.keep_best = -1}).ok());
  EXPECT_FALSE(CheckPolicy({.keep_every = -1}).ok());
}

class PruneTest : public ::testing::Test {
 protected:
  std::string Directory(int64_t k = 0) { return absl::StrCat(folder_.path(), "/run-", k); }
  static WriterOptions Options(const std::string& directory, Io* io = RealIo(), int64_t attempt = 1) {
    WriterOptions options = OptionsFor(directory, attempt, io);
    options.retention = RetentionPolicy{};
    return options;
  }
  static void Fill(const std::string& directory, const std::vector<int64_t>& steps) {
    for (int64_t step : steps) MustSave(directory, step);
  }
  static std::vector<int64_t> Steps(const std::string& directory) {
    std::vector<int64_t> steps;
    auto listed = ListCommitted(directory);
    EXPECT_OK(listed.status());
    for (const StepEntry& entry : *listed) {
      EXPECT_OK(Verify(entry.path, VerifyLevel::kFull).status());
      steps.push_back(entry.step);
    }
    return steps;
  }
  TemporaryFolder folder_;
};

TEST_F(PruneTest, PrunesAfterEachCommitAndNotBefore) {
  Fill(Directory(), {10, 20, 30, 40});
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(Options(Directory())));
  EXPECT_THAT(Steps(Directory()), ElementsAre(40, 30, 20, 10));
  FaultIo full(FaultIo::Fault::kAllFail, 1);
  EXPECT_FALSE(writer.Save(50, {{"", DType::kF32, {}, nullptr, 0}}).ok());
  EXPECT_THAT(Steps(Directory()), ElementsAre(40, 30, 20, 10));
  ASSERT_OK(writer.Save(50, StateOf(50).Views()).status());
  EXPECT_OK(writer.standing().pruning);
  EXPECT_THAT(Steps(Directory()), ElementsAre(50, 40));
}

TEST_F(PruneTest, DamagedOnesCountForNothingAndStay) {
  Fill(Directory(), {10, 20, 30, 40, 50});
  ASSERT_OK(WriteFileAtomically(StepDirectory(Directory(), 50) + "/rank-00000.bin", "damaged"));
  ASSERT_OK_AND_ASSIGN(const Pruned pruned, Prune(Directory(), {}));
  ASSERT_EQ(pruned.damaged.size(), 1u);
  EXPECT_EQ(pruned.damaged[0], StepDirectory(Directory(), 50));
  ASSERT_EQ(pruned.kept.size(), 2u);
  EXPECT_EQ(pruned.kept[0].ref, (CheckpointRef{1, 40}));
  EXPECT_EQ(pruned.removed.size(), 2u);
  EXPECT_GT(pruned.bytes(), 2 * 18'000);
  EXPECT_TRUE(PathExists(StepDirectory(Directory(), 50)));
  EXPECT_FALSE(PathExists(StepDirectory(Directory(), 20)));
}

TEST_F(PruneTest, KeepsTheBestByAKeyOfTheMetadata) {
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Directory())));
  const std::pair<int64_t, const char*> losses[] = {{10, "0.5"}, {20, "0.25"}, {30, "nan"}, {40, "0.75"}, {50, "1e-3 or so"}, {60, "2"}, {70, "3"}};
  for (const auto& [step, loss] : losses) {
    ASSERT_OK(writer.Save(step, StateOf(step).Views(), {{"loss", loss}}).status());
  }
  const RetentionPolicy policy{.keep_best = 2, .metric = "loss"};
  ASSERT_OK_AND_ASSIGN(const Pruned tried, Prune(Directory(), policy, {.dry_run = true}));
  EXPECT_EQ(tried.removed.size(), 3u);
  EXPECT_EQ(Steps(Directory()).size(), 7u);
  ASSERT_OK(Prune(Directory(), policy).status());
  EXPECT_THAT(Steps(Directory()), ElementsAre(70, 60, 20, 10));
}

TEST_F(PruneTest, KeepsWhatThePresentWriterResumedFrom) {
  Fill(Directory(), {10, 20, 30, 40});
  WriterOptions options = Options(Directory(), RealIo(), 2);
  options.parent = CheckpointRef{1, 10};
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
  ASSERT_OK(Prune(Directory(), {}).status());  // before that writer has committed anything
  EXPECT_THAT(Steps(Directory()), ElementsAre(40, 30, 10));
  ASSERT_OK(writer.Save(11, StateOf(11).Views()).status());
  ASSERT_OK(writer.Save(12, StateOf(12).Views()).status());
  EXPECT_THAT(Steps(Directory()), ElementsAre(12, 11, 10));
}

TEST_F(PruneTest, LeavesDeletionsUnderSpillwayToTheScheduler) {
  const std::string attempt = *AttemptDirectory(folder_.path(), kCluster, {5, 0, 1});
  MustSave(attempt, 10);
  EXPECT_THAT(Prune(attempt, {}).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("only the scheduler")));
  EXPECT_THAT(Writer::Open(Options(attempt)).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("only the scheduler")));
}

// A failed pruning is not a failed save: it is told until one works.
TEST_F(PruneTest, AFailureIsStickyAndTheTrainingGoesOn) {
  class CannotRename final : public ForwardingIo {
   public:
    absl::Status RenameNoReplace(const std::string& from, const std::string& to) override {
      if (broken && to.find(".pruned-") != std::string::npos) return absl::UnavailableError("input/output error");
      return RealIo()->RenameNoReplace(from, to);
    }
    absl::StatusOr<int64_t> FreeBytes(const std::string&) override { return free_bytes; }
    bool broken = true;
    int64_t free_bytes = int64_t{1} << 40;
  } disk;
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(Options(Directory(), &disk)));
  for (int64_t step : {10, 20, 30}) {
    ASSERT_OK(writer.Save(step, StateOf(step).Views()).status());
  }
  EXPECT_TRUE(absl::IsUnavailable(writer.standing().pruning));
  EXPECT_THAT(Steps(Directory()), ElementsAre(30, 20, 10));

  // A disk without room is told with figures, before anything is written, and until a save works again.
  disk.free_bytes = 1 << 20;
  for (int64_t failed : {1, 2}) {
    EXPECT_THAT(writer.Save(40, StateOf(40).Views()).status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the disk 1MB")));
    EXPECT_TRUE(absl::IsResourceExhausted(writer.standing().saving));
    EXPECT_EQ(writer.standing().failed_saves, failed);
    EXPECT_EQ(writer.standing().committed_step, 30);
  }
  EXPECT_TRUE(absl::IsUnavailable(writer.standing().pruning));
  disk.free_bytes = int64_t{1} << 40;
  disk.broken = false;
  ASSERT_OK(writer.Save(50, StateOf(50).Views()).status());
  EXPECT_OK(writer.standing().saving);
  EXPECT_EQ(writer.standing().failed_saves, 0);
  EXPECT_OK(writer.standing().pruning);
  EXPECT_THAT(Steps(Directory()), ElementsAre(50, 30));
}

// ---- Cut short at every call ----

class PruneCrashTest : public PruneTest {
 protected:
  // Old ones may be gone or not; what the policy keeps is there and good, and nothing is half.
  void CheckNothingLost(const std::string& directory) {
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(directory, state.Targets()));
    EXPECT_TRUE(restored.checkpoint.step == 60 || restored.checkpoint.step == 50) << restored.checkpoint.path;
    EXPECT_EQ(state, StateOf(restored.checkpoint.step));
    EXPECT_TRUE(restored.skipped.empty());
    const std::vector<int64_t> steps = Steps(directory);
    ASSERT_GE(steps.size(), 2u);
    EXPECT_EQ(steps[steps[0] == 60 ? 1 : 0], 50);
  }
  void CheckGoesOn(const std::string& directory) {
    ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(Options(directory)));
    ASSERT_OK(writer.Save(70, StateOf(70).Views()).status());
    ASSERT_OK(writer.standing().pruning);
    const std::vector<int64_t> steps = Steps(directory);
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps[0], 70);
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(directory));
    for (const std::string& name : names) EXPECT_EQ(name.find(".pruned-"), std::string::npos);
  }
  static int SaveAndPrune(FaultIo* io, const std::string& directory) {
    auto writer = Writer::Open(Options(directory, io));
    if (!writer.ok()) return 1;
    if (!writer->Save(60, StateOf(60).Views()).ok()) return 1;
    return writer->standing().pruning.ok() && !io->struck() ? 0 : 1;
  }
  void TryEveryCall(FaultIo::Fault fault) {
    bool untouched = false;
    int64_t k = 1;
    for (; !untouched && k < kCallsMax; ++k) {
      const std::string directory = Directory(k);
      Fill(directory, {10, 20, 30, 40, 50});
      if (fault == FaultIo::Fault::kExit) {
        const pid_t child = fork();
        if (child == 0) {
          FaultIo io(fault, k);
          _exit(SaveAndPrune(&io, directory));
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        untouched = WEXITSTATUS(status) == 0;
      } else if (fault == FaultIo::Fault::kPowerCut) {
        TemporaryFolder graveyard;
        FaultIo io(fault, k);
        io.set_graveyard(graveyard.path());
        untouched = SaveAndPrune(&io, directory) == 0;
        Rng rng(static_cast<uint64_t>(k));
        io.LosePower(&rng, graveyard.path());
      } else {
        FaultIo io(fault, k, absl::UnavailableError("input/output error"));
        untouched = SaveAndPrune(&io, directory) == 0;
      }
      CheckNothingLost(directory);
      CheckGoesOn(directory);
      ASSERT_FALSE(HasFailure()) << "at call " << k;
    }
    EXPECT_TRUE(untouched);
    EXPECT_GT(k, 50);
  }
};

TEST_F(PruneCrashTest, TheProcessEndsAtEveryCall) { TryEveryCall(FaultIo::Fault::kExit); }
TEST_F(PruneCrashTest, EveryCallFailsOnce) { TryEveryCall(FaultIo::Fault::kErrorOnce); }
TEST_F(PruneCrashTest, EveryCallFailsForEver) { TryEveryCall(FaultIo::Fault::kAllFail); }
TEST_F(PruneCrashTest, ThePowerGoesAtEveryCall) { TryEveryCall(FaultIo::Fault::kPowerCut); }

// The old writer prunes while a new one takes over and resumes from what the old one is about to remove.
TEST_F(PruneCrashTest, TakenOverAtEveryCall) {
  bool untouched = false;
  for (int64_t k = 1; !untouched && k < kCallsMax; ++k) {
    const std::string directory = Directory(k);
    Fill(directory, {10, 20, 30, 40, 50});
    ASSERT_OK_AND_ASSIGN(const Owner old, ReadOwner(RealIo(), directory));
    std::optional<Writer> other;
    std::vector<int64_t> found;
    FaultIo io(FaultIo::Fault::kHook, k);
    io.set_hook([&] {
      WriterOptions options = OptionsFor(directory, 2);
      options.parent = CheckpointRef{1, 20};
      auto opened = Writer::Open(options);
      ASSERT_OK(opened.status());
      other.emplace(*std::move(opened));
      found = Steps(directory);
    });
    const auto pruned = Prune(directory, {}, {.owner_id = old.id, .io = &io});
    untouched = !io.struck();
    EXPECT_TRUE(pruned.ok() || absl::IsAborted(pruned.status()) || absl::IsNotFound(pruned.status())) << pruned.status();
    EXPECT_EQ(Steps(directory), untouched ? (std::vector<int64_t>{50, 40}) : found) << "what the new writer saw when it had taken over is there";
    if (other) {
      ASSERT_OK(other->Save(21, StateOf(21).Views()).status());
    }
    ASSERT_FALSE(HasFailure()) << "at call " << k;
  }
  EXPECT_TRUE(untouched);
}

}  // namespace
}  // namespace spillway::checkpoint
