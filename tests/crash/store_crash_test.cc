// Promise 1, at the store: a turn whose Commit said OK is there after any crash, whole; no turn is there by half; the chain holds.
// The k-th call to the file system kills the process, for every k; power is lost; what was not synced is gone, or partly there.
#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/made_up_turns.h"

namespace spillway::store {
namespace {

using ::spillway::testing::FaultVfs;
using ::spillway::testing::MadeUpTurns;
using Fault = FaultVfs::Fault;

constexpr int kTurns = 5;

// States after turn 0, 1, ..., and the batches that lead there.
struct Story {
  std::vector<Batch> batches;
  std::vector<std::string> states;
  Story() {
    MadeUpTurns turns;
    states.push_back(EncodeState(turns.state()));
    for (int i = 1; i <= kTurns; ++i) {
      batches.push_back(turns.Next());
      states.push_back(EncodeState(turns.state()));
      if (i % 2 == 0) batches.back().snapshot = states.back();
    }
  }
};

SqliteOptions On(const FaultVfs& vfs, bool synchronous) {
  SqliteOptions options;
  options.path = "scheduler.db";
  options.vfs = vfs.name();
  options.synchronous = synchronous;
  options.wal_pages_idle = 8;    // so that Maintain moves the log several times within the story
  options.keep_batches_min = 0;  // and prunes
  return options;
}

// Opens and writes what of the story is not there yet, until something fails. The seq that was acknowledged last; -1 when opening failed.
int64_t Live(const FaultVfs& vfs, const Story& story, bool synchronous, absl::Status* end) {
  auto store = SqliteStore::Open(On(vfs, synchronous));
  *end = store.status();
  if (!store.ok()) return -1;
  auto loaded = (*store)->Load();
  *end = loaded.status();
  if (!loaded.ok()) return -1;
  int64_t acknowledged = loaded->last_seq;
  while (acknowledged < kTurns) {
    *end = (*store)->Commit(story.batches[static_cast<size_t>(acknowledged)]);
    if (!end->ok()) break;
    ++acknowledged;
    *end = (*store)->Maintain();
    if (!end->ok()) break;
  }
  return acknowledged;
}

struct Outcome {
  int crashes = 0;
  int losses = 0;     // acknowledged turns that were gone
  int damages = 0;    // the store would not open or load, or held a state that never was
  std::string first;  // what the first loss or damage was
};

// Every `stride`-th call.
Outcome CrashEverywhere(bool synchronous, bool torn, int64_t stride = 1) {
  const Story story;
  Outcome outcome;
  for (int64_t k = 1;; k += stride) {
    FaultVfs vfs(absl::StrCat("crash-", synchronous, torn, "-", k), static_cast<uint64_t>(k));
    vfs.FailAt(k, Fault::kCrash);
    absl::Status end;
    const int64_t acknowledged = Live(vfs, story, synchronous, &end);
    if (!vfs.tripped()) return outcome;  // the story was over before call k
    ++outcome.crashes;
    vfs.PowerLoss(torn);
    const auto note = [&](int* count, absl::string_view what) {
      ++*count;
      if (outcome.first.empty()) outcome.first = absl::StrCat("crash at call ", k, " after turn ", acknowledged, ": ", std::string(what));
    };
    {
      auto store = SqliteStore::Open(On(vfs, synchronous));
      if (!store.ok()) {
        note(&outcome.damages, store.status().ToString());
        continue;
      }
      auto loaded = (*store)->Load();
      if (!loaded.ok()) {
        note(&outcome.damages, loaded.status().ToString());
        continue;
      }
      if (loaded->last_seq < acknowledged) {
        note(&outcome.losses, absl::StrCat("only turn ", loaded->last_seq, " is there"));
        continue;
      }
      // A turn that was being written may be there, whole.
      if (loaded->last_seq > std::max<int64_t>(acknowledged, 0) + 1 || EncodeState(loaded->state) != story.states[static_cast<size_t>(loaded->last_seq)]) {
        note(&outcome.damages, absl::StrCat("turn ", loaded->last_seq, " is there, and its state is not what it was"));
        continue;
      }
    }
    // And the rest of the story goes on from there.
    const int64_t finished = Live(vfs, story, synchronous, &end);
    if (finished != kTurns) note(&outcome.damages, absl::StrCat("the next life stopped at turn ", finished, ": ", end.ToString()));
  }
}

TEST(StoreCrashTest, ACrashAtAnyCallLosesNothingAcknowledged) {
  const Outcome outcome = CrashEverywhere(true, false);
  EXPECT_GT(outcome.crashes, 100);
  EXPECT_EQ(outcome.losses, 0) << outcome.first;
  EXPECT_EQ(outcome.damages, 0) << outcome.first;
}

TEST(StoreCrashTest, NorWhenAnyPartOfWhatWasNotSyncedReachedTheDisk) {
  const Outcome outcome = CrashEverywhere(true, true);
  EXPECT_GT(outcome.crashes, 100);
  EXPECT_EQ(outcome.losses, 0) << outcome.first;
  EXPECT_EQ(outcome.damages, 0) << outcome.first;
}

// The failing control: were the test unable to see a loss, this would pass too.
TEST(StoreCrashTest, WithoutSynchronousTheSameTestFindsLosses) {
  const Outcome outcome = CrashEverywhere(false, false, 7);
  EXPECT_GT(outcome.losses + outcome.damages, 0);
  EXPECT_GT(outcome.losses, 0);
}

class RefusedWrites : public ::testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(StoreCrashTest, RefusedWrites, ::testing::Values(Fault::kFull, Fault::kReadOnly));

TEST_P(RefusedWrites, LeaveNothingBehindAndTheSameTurnSucceedsLater) {
  const Story story;
  int refusals = 0;
  for (int64_t k = 1;; ++k) {
    FaultVfs vfs(absl::StrCat("refused-", GetParam() == Fault::kFull ? "full-" : "read-only-", k), static_cast<uint64_t>(k));
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
    vfs.FailAt(k, GetParam());
    bool refused = false;
    for (const Batch& batch : story.batches) {
      absl::Status status = store->Commit(batch);
      if (!status.ok()) {
        refused = true;
        ASSERT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
        ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
        ASSERT_EQ(loaded.last_seq, batch.seq - 1);
        ASSERT_EQ(EncodeState(loaded.state), story.states[static_cast<size_t>(batch.seq - 1)]);
        ASSERT_OK(store->Commit(batch));
      }
      const absl::Status maintained = store->Maintain();
      if (!maintained.ok()) {
        refused = true;
        ASSERT_THAT(maintained, StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
      }
    }
    ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
    ASSERT_EQ(EncodeState(loaded.state), story.states[kTurns]);
    if (!vfs.tripped()) break;
    refusals += refused;
  }
  EXPECT_GT(refusals, 20);
}

TEST(StoreCrashTest, ADiskThatStaysFullRefusesUntilThereIsRoom) {
  const Story story;
  FaultVfs vfs("stays-full");
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
  ASSERT_OK(store->Commit(story.batches[0]));
  vfs.SetFull(true);
  for (int i = 0; i < 5; ++i) ASSERT_THAT(store->Commit(story.batches[1]), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("full")));
  vfs.SetFull(false);
  ASSERT_OK(store->Commit(story.batches[1]));
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
  EXPECT_EQ(EncodeState(loaded.state), story.states[2]);
}

// The k-th call fails, or with `stays` every call from the k-th on.
void CheckErrors(bool stays) {
  const Story story;
  int errors = 0;
  for (int64_t k = 1;; ++k) {
    FaultVfs vfs(absl::StrCat("error-", stays, "-", k), static_cast<uint64_t>(k));
    if (stays) {
      vfs.FailFrom(k, Fault::kIoError);
    } else {
      vfs.FailAt(k, Fault::kIoError);
    }
    absl::Status end;
    const int64_t acknowledged = Live(vfs, story, true, &end);
    if (!vfs.tripped()) break;
    // A failed sync is never taken for a full disk: that would be tried again.
    if (!end.ok()) {
      ++errors;
      ASSERT_THAT(end, StatusIs(absl::StatusCode::kInternal, ::testing::_)) << "call " << k;
    }
    vfs.PowerLoss(true);
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
    ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
    ASSERT_GE(loaded.last_seq, acknowledged) << "call " << k;
    ASSERT_LE(loaded.last_seq, std::max<int64_t>(acknowledged, 0) + 1) << "call " << k;
    ASSERT_EQ(EncodeState(loaded.state), story.states[static_cast<size_t>(loaded.last_seq)]) << "call " << k;
  }
  EXPECT_GT(errors, 50);
}

TEST(StoreCrashTest, AnyOtherErrorIsInternalAndWhatWasAcknowledgedIsThereAfterwards) { CheckErrors(false); }

TEST(StoreCrashTest, SoIsADiskThatFailsFromAnyCallOn) { CheckErrors(true); }

// From the k-th call on there is no room, until there is; then the power goes.
TEST(StoreCrashTest, ADiskThatIsFullFromAnyCallOnLosesNothingAcknowledged) {
  const Story story;
  int refusals = 0;
  for (int64_t k = 1;; ++k) {
    FaultVfs vfs(absl::StrCat("full-from-", k), static_cast<uint64_t>(k));
    int64_t acknowledged = 0;
    {
      ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
      vfs.FailFrom(k, Fault::kFull);
      for (const Batch& batch : story.batches) {
        const absl::Status status = store->Commit(batch);
        if (!status.ok()) {
          ASSERT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_)) << "call " << k;
          ++refusals;
          if (k % 2 == 0) break;  // and there the power goes
          vfs.FailAt(0, Fault::kNone);
          ASSERT_OK(store->Commit(batch)) << "call " << k;
        }
        ++acknowledged;
        const absl::Status kept = store->Maintain();
        ASSERT_TRUE(kept.ok() || absl::IsResourceExhausted(kept)) << kept.ToString() << ", call " << k;
      }
    }
    const bool tripped = vfs.tripped();
    vfs.PowerLoss(true);
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
    ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
    ASSERT_GE(loaded.last_seq, acknowledged) << "call " << k;
    ASSERT_EQ(EncodeState(loaded.state), story.states[static_cast<size_t>(loaded.last_seq)]) << "call " << k;
    if (!tripped && acknowledged == kTurns) {
      if (refusals > 20) break;
      ASSERT_LT(k, 1'000) << "too few calls were refused";
    }
  }
}

// The log's index takes space too, when the database is opened after a crash.
TEST(StoreCrashTest, NoRoomForTheLogsIndexIsAFullDisk) {
  const Story story;
  FaultVfs vfs("index");
  {
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
    ASSERT_OK(store->Commit(story.batches[0]));
  }
  vfs.PowerLoss(false);
  vfs.SetIndexFull(true);
  EXPECT_THAT(SqliteStore::Open(On(vfs, true)), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  vfs.SetIndexFull(false);
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
  EXPECT_EQ(EncodeState(loaded.state), story.states[1]);
}

TEST(StoreCrashTest, OneSyncACommit) {
  const Story story;
  FaultVfs vfs("syncs");
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(vfs, true)));
  ASSERT_OK(store->Commit(story.batches[0]));
  const int64_t before = vfs.syncs();
  ASSERT_OK(store->Commit(story.batches[1]));
  EXPECT_EQ(vfs.syncs() - before, 1);
}

}  // namespace
}  // namespace spillway::store
