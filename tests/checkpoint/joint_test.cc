// One checkpoint out of several processes: whoever fails or dies at whichever call, all of them and every reader see the new one whole or
// the one before.
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/forwarding_io.h"
#include "tests/checkpoint/ranks.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

enum Outcome { kSaved = 0, kRefused = 1, kSavedAndStruck = 2, kOpenRefused = 3, kDied = 77 };

class JointTest : public ::testing::Test {
 protected:
  std::string Attempt(int64_t n = 1, int64_t k = 0) { return *AttemptDirectory(absl::StrCat(folder_.path(), "/", k), kCluster, {5, 0, n}); }

  // Both ranks save `step`; `io` gives each its file system.
  std::vector<int> SaveBoth(
      const std::string& directory, int64_t step, const std::function<FaultIo(int rank)>& io = [](int) { return FaultIo(); }) {
    return RunTwoInTurns([&](int rank, Turns* turns) -> int {
      FaultIo disk = io(rank);
      WriterOptions options = JointOptions(directory, rank, turns, &disk);
      options.key = key_;
      auto writer = Writer::Open(options);
      if (!writer.ok()) return kOpenRefused;
      const auto saved = writer->Save(step, HalfOf(StateOf(step), rank));
      if (!saved.ok()) return kRefused;
      if (saved->step != step || saved->path != StepDirectory(directory, step) || saved->manifest_sha256.size() != 64) return 99;
      return disk.struck() ? kSavedAndStruck : kSaved;
    });
  }
  absl::StatusOr<Restored> Newest(const std::string& directory, SampleState* state) {
    return RestoreNewest(directory, state->Targets(), "", RealIo(), key_ ? &*key_ : nullptr);
  }
  void CheckRestores(const std::string& directory, int64_t step) {
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored restored, Newest(directory, &state));
    EXPECT_EQ(restored.checkpoint.step, step);
    EXPECT_EQ(state, StateOf(step));
    EXPECT_TRUE(restored.skipped.empty());
    EXPECT_OK(Verify(restored.checkpoint.path, VerifyLevel::kFull).status());
  }

  // Fault at each call of one rank, one later each time, until it comes too late.
  void TryEveryCall(int struck_rank, FaultIo::Fault fault) {
    bool untouched = false;
    int64_t k = 1;
    for (; !untouched && k < kCallsMax; ++k) {
      const std::string directory = Attempt(1, k);
      ASSERT_EQ(SaveBoth(directory, 10), (std::vector<int>{kSaved, kSaved}));
      const std::vector<int> codes =
          SaveBoth(directory, 20, [&](int rank) { return rank == struck_rank ? FaultIo(fault, k, absl::UnavailableError("input/output error")) : FaultIo(); });
      untouched = codes[static_cast<size_t>(struck_rank)] == kSaved;
      SampleState state;
      ASSERT_OK_AND_ASSIGN(const Restored restored, Newest(directory, &state));
      const int64_t step = restored.checkpoint.step;
      EXPECT_TRUE(step == 10 || step == 20);
      EXPECT_EQ(state, StateOf(step));
      EXPECT_OK(Verify(restored.checkpoint.path, VerifyLevel::kFull).status());
      EXPECT_TRUE(restored.skipped.empty());
      for (int code : codes) {
        EXPECT_TRUE(code == kSaved || code == kSavedAndStruck || code == kRefused || code == kOpenRefused || code == kDied) << code;
        if (code == kSaved || code == kSavedAndStruck) {
          EXPECT_EQ(step, 20) << "a process was told that it is saved";
        }
      }
      // The next run of the same attempt is not disturbed by what lies there.
      ASSERT_EQ(SaveBoth(directory, 30), (std::vector<int>{kSaved, kSaved}));
      CheckRestores(directory, 30);
      EXPECT_EQ(Drafts(directory), 0);
      ASSERT_FALSE(HasFailure()) << "at call " << k << " of rank " << struck_rank << ", exits " << codes[0] << " and " << codes[1];
    }
    EXPECT_TRUE(untouched);
    EXPECT_GT(k, 20);  // there was something to try
  }

  TemporaryFolder folder_;
  std::optional<SecretKey> key_;  // of both
};

class EncryptedJointTest : public JointTest {
 protected:
  EncryptedJointTest() { key_ = KeyOf('j'); }
  // What each process hears when their keys are these.
  std::vector<int> SaveWith(const std::optional<SecretKey>& of_rank_0, const std::optional<SecretKey>& of_rank_1) {
    return RunTwoInTurns([&](int rank, Turns* turns) -> int {
      WriterOptions options = JointOptions(Attempt(), rank, turns);
      options.key = rank == 0 ? of_rank_0 : of_rank_1;
      auto writer = Writer::Open(options);
      if (!writer.ok()) return kOpenRefused;
      const int64_t before_ms = turns->clock.NowSteadyMs();
      const absl::StatusCode code = writer->Save(20, HalfOf(StateOf(20), rank)).status().code();
      return turns->clock.NowSteadyMs() != before_ms ? 98 : static_cast<int>(code);  // 98: only the time limit ended it
    });
  }
};

TEST_F(JointTest, BothAreToldTheSame) {
  ASSERT_EQ(SaveBoth(Attempt(), 10), (std::vector<int>{kSaved, kSaved}));
  CheckRestores(Attempt(), 10);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(StepDirectory(Attempt(), 10)));
  EXPECT_EQ(names, (std::vector<std::string>{"MANIFEST", "rank-00000.bin", "rank-00001.bin"}));
  EXPECT_EQ(Drafts(Attempt()), 0);
}

// At their own pace: two processes write a 4 x 12 matrix by rows and a scalar that both have; any number of processes reads columns.
TEST_F(JointTest, TwoProcessesSaveAndAnyNumberRestores) {
  std::vector<int32_t> all(48);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  const double lr = 0.25;
  const std::vector<int> saved = RunRanks(2, [&](int rank) {
    WriterOptions options = OptionsFor(Attempt());
    options.rank = rank;
    options.world_size = 2;
    auto writer = Writer::Open(options);
    if (!writer.ok()) return 1;
    for (int64_t step : {7, 8, 9}) {
      const Slice rows{{4, 12}, {2 * rank, 0}, {2, 12}};
      if (!writer->Save(step, {{"m", DType::kI32, {2, 12}, all.data() + 24 * rank, 96, rows}, {"lr", DType::kF64, {}, &lr, 8}}).ok()) return 2;
    }
    return 0;
  });
  ASSERT_EQ(saved, (std::vector<int>{0, 0}));
  for (int readers : {1, 2, 3, 4, 6, 12}) {
    const std::vector<int> read = RunRanks(readers, [&](int reader) {
      const int64_t columns = 12 / readers, first = reader * columns;
      std::vector<int32_t> part(static_cast<size_t>(4 * columns), -1);
      double back = 0;
      const auto restored =
          Restore(StepDirectory(Attempt(), 9),
                  {{"m", DType::kI32, {4, columns}, part.data(), 16 * columns, Slice{{4, 12}, {0, first}, {4, columns}}}, {"lr", DType::kF64, {}, &back, 8}});
      if (!restored.ok() || back != lr) return 1;
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          if (part[static_cast<size_t>(r * columns + c)] != r * 12 + first + c) return 2;
        }
      }
      return 0;
    });
    EXPECT_EQ(read, std::vector<int>(static_cast<size_t>(readers), 0));
  }
}

TEST_F(JointTest, ARankThatNeverComesIsNamed) {
  Turns turns;
  WriterOptions options = JointOptions(Attempt(), 0, &turns);
  options.world_size = 4;
  options.sleep_ms = [&](int64_t) { turns.clock.AdvanceMs(60'000); };
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
  EXPECT_THAT(writer.Save(7, HalfOf(StateOf(7), 0)).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("waited 10m for 3 of 4 processes: rank 1, 2, 3")));
  EXPECT_EQ(Drafts(Attempt()), 0);
  options.rank = 2;
  ASSERT_OK_AND_ASSIGN(Writer other, Writer::Open(options));
  EXPECT_THAT(other.Save(7, HalfOf(StateOf(7), 0)).status(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("for rank 0 to save step 7")));
}

// The disk of one is full: all hear why, at once, and the next save works for the same writers.
TEST_F(JointTest, OneThatFailsFailsTheSaveForAllAndNotTheNext) {
  for (int struck : {0, 1}) {
    const std::string directory = Attempt(1, 50 + struck);
    const std::vector<int> codes = RunTwoInTurns([&](int rank, Turns* turns) -> int {
      class FullForAWhile final : public ForwardingIo {
       public:
        absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
          if (full && path.ends_with(".bin")) return absl::ResourceExhaustedError("no space left on device");
          return RealIo()->Create(path);
        }
        bool full = false;
      } disk;
      auto writer = Writer::Open(JointOptions(directory, rank, turns, &disk));
      if (!writer.ok()) return 1;
      if (!writer->Save(1, HalfOf(StateOf(1), rank)).ok()) return 2;
      const int64_t before_ms = turns->clock.NowSteadyMs();
      disk.full = rank == struck;
      const absl::Status refused = writer->Save(2, HalfOf(StateOf(2), rank)).status();
      if (!absl::IsResourceExhausted(refused) || refused.message().find("no space left") == absl::string_view::npos) return 3;
      if (turns->clock.NowSteadyMs() != before_ms) return 4;  // nobody ran into the time limit
      disk.full = false;
      return writer->Save(3, HalfOf(StateOf(3), rank)).ok() ? 0 : 5;
    });
    EXPECT_EQ(codes, (std::vector<int>{0, 0})) << "rank " << struck;
    CheckRestores(directory, 3);
    EXPECT_EQ(Drafts(directory), 0);
  }
}

// A crash of the whole group left a stage and answers; the next run of the same attempt must not take any of it for its own.
TEST_F(JointTest, NothingOfAnEarlierRunGoesIntoACheckpoint) {
  bool left_an_answer = false;
  for (int64_t k = 1; !left_an_answer && k < kCallsMax; ++k) {
    const std::vector<int> codes = SaveBoth(Attempt(), 20, [&](int rank) { return rank == 0 ? FaultIo(FaultIo::Fault::kExit, k) : FaultIo(); });
    ASSERT_EQ(codes[0], kDied);
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(Attempt()));
    for (const std::string& name : names) left_an_answer |= PathExists(absl::StrCat(Attempt(), "/", name, "/parts/rank-00001"));
  }
  ASSERT_TRUE(left_an_answer);
  // Rank 1 of the new run does not come at all: what its predecessor wrote must not stand in for it.
  Turns turns;
  WriterOptions options = JointOptions(Attempt(), 0, &turns);
  options.sleep_ms = [&](int64_t) { turns.clock.AdvanceMs(60'000); };
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
  EXPECT_TRUE(absl::IsDeadlineExceeded(writer.Save(20, HalfOf(StateOf(20), 0)).status()));
  EXPECT_EQ(Drafts(Attempt()), 0);
}

TEST_F(JointTest, ARankThatIsStartedAgainFindsItsGroup) {
  const std::vector<int> codes = RunTwoInTurns([&](int rank, Turns* turns) -> int {
    auto writer = Writer::Open(JointOptions(Attempt(), rank, turns));
    if (!writer.ok()) return 1;
    for (int64_t step : {1, 2, 3, 4}) {
      if (rank == 1 && step == 3) writer = Writer::Open(JointOptions(Attempt(), rank, turns));
      if (!writer.ok() || !writer->Save(step, HalfOf(StateOf(step), rank)).ok()) return static_cast<int>(10 + step);
    }
    return 0;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  CheckRestores(Attempt(), 4);
}

TEST_F(EncryptedJointTest, BothSaveUnderOneDataKey) {
  ASSERT_EQ(SaveBoth(Attempt(), 10), (std::vector<int>{kSaved, kSaved}));
  CheckRestores(Attempt(), 10);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(StepDirectory(Attempt(), 10)));
  EXPECT_EQ(names, (std::vector<std::string>{"KEY", "MANIFEST", "rank-00000.bin", "rank-00001.bin"}));
}

TEST_F(EncryptedJointTest, AllOrNoneHaveAKeyAndItIsTheSame) {
  const int refused = static_cast<int>(absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(SaveWith(KeyOf('a'), {}), (std::vector<int>{refused, refused}));
  EXPECT_EQ(SaveWith({}, KeyOf('a')), (std::vector<int>{refused, refused}));
  EXPECT_EQ(SaveWith(KeyOf('a'), KeyOf('b')), (std::vector<int>{refused, refused}));
  ASSERT_OK_AND_ASSIGN(const std::vector<StepEntry> steps, ListCommitted(Attempt()));
  EXPECT_TRUE(steps.empty());
  EXPECT_EQ(Drafts(Attempt()), 0);
  EXPECT_EQ(SaveWith(KeyOf('a'), KeyOf('a')), (std::vector<int>{0, 0}));
}

TEST_F(EncryptedJointTest, RankZeroDiesAtEveryCall) { TryEveryCall(0, FaultIo::Fault::kExit); }
TEST_F(EncryptedJointTest, AnotherRankDiesAtEveryCall) { TryEveryCall(1, FaultIo::Fault::kExit); }
TEST_F(EncryptedJointTest, EveryCallOfRankZeroFailsOnce) { TryEveryCall(0, FaultIo::Fault::kErrorOnce); }
TEST_F(EncryptedJointTest, EveryCallOfAnotherRankFailsOnce) { TryEveryCall(1, FaultIo::Fault::kErrorOnce); }

TEST_F(JointTest, RankZeroDiesAtEveryCall) { TryEveryCall(0, FaultIo::Fault::kExit); }
TEST_F(JointTest, AnotherRankDiesAtEveryCall) { TryEveryCall(1, FaultIo::Fault::kExit); }
TEST_F(JointTest, EveryCallOfRankZeroFailsOnce) { TryEveryCall(0, FaultIo::Fault::kErrorOnce); }
TEST_F(JointTest, EveryCallOfAnotherRankFailsOnce) { TryEveryCall(1, FaultIo::Fault::kErrorOnce); }
TEST_F(JointTest, EveryCallOfRankZeroFailsForEver) { TryEveryCall(0, FaultIo::Fault::kAllFail); }
TEST_F(JointTest, EveryCallOfAnotherRankFailsForEver) { TryEveryCall(1, FaultIo::Fault::kAllFail); }

}  // namespace
}  // namespace spillway::checkpoint
