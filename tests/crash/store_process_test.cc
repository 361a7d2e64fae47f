// Promise 1 with a real process on a real file system: at its k-th call that changes a file the writer dies, or the call fails, once or for ever.
// What it had said is committed is there afterwards, whole, and the next process goes on. (What power loss takes is store_crash_test.cc's story.)
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/crash/shim.h"
#include "tests/support/made_up_turns.h"

namespace spillway::store {
namespace {

using ::spillway::testing::MadeUpTurns;

constexpr int64_t kTurns = 3;         // the second with a snapshot; housekeeping after each moves the log
constexpr int64_t kCallsMax = 2'000;  // a writer that makes more has gone wrong
constexpr int kTriesMax = 3;          // of one turn on a full disk
constexpr int kExitError = 1, kExitFull = 3;

SqliteOptions On(const std::string& database) { return {.path = database, .ballast_bytes = 16 << 10, .wal_pages_idle = 8, .keep_batches_min = 0}; }

// A scheduler's store and nothing else: commits what is not there yet, and says each turn once Commit has said OK.
int Write(const std::string& database, int said_fd) {
  const auto code = [](const absl::Status& status) { return absl::IsResourceExhausted(status) ? kExitFull : kExitError; };
  auto store = SqliteStore::Open(On(database));
  if (!store.ok()) return code(store.status());
  const auto loaded = (*store)->Load();
  if (!loaded.ok()) return code(loaded.status());
  MadeUpTurns story;
  for (int64_t turn = 1; turn <= kTurns; ++turn) {
    Batch batch = story.Next();
    if (turn <= loaded->last_seq) continue;
    if (turn % 2 == 0) batch.snapshot = EncodeState(story.state());
    absl::Status written;
    for (int tries = 0; tries < kTriesMax; ++tries) {
      written = (*store)->Commit(batch);
      if (!absl::IsResourceExhausted(written)) break;
    }
    if (!written.ok()) return code(written);
    if (::write(said_fd, &turn, sizeof turn) != sizeof turn) return kExitError;
    if (const absl::Status kept = (*store)->Maintain(); !kept.ok() && !absl::IsResourceExhausted(kept)) return kExitError;
  }
  return 0;
}

struct Life {
  int exit_code = -1;
  int64_t said = 0;  // the newest turn that it called committed
};

Life Live(const std::string& database) {
  Life life;
  int said[2];
  EXPECT_EQ(pipe(said), 0);
  const pid_t child = fork();
  if (child == 0) _exit(Write(database, said[1]));
  close(said[1]);
  for (int64_t turn; read(said[0], &turn, sizeof turn) == sizeof turn;) life.said = turn;
  close(said[0]);
  int status = 0;
  if (waitpid(child, &status, 0) == child) life.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return life;
}

class StoreProcessTest : public ::testing::TestWithParam<IoShimMode> {
 protected:
  StoreProcessTest() {
    MadeUpTurns turns;
    states_.push_back(EncodeState(turns.state()));
    for (int64_t i = 1; i <= kTurns; ++i) {
      turns.Next();
      states_.push_back(EncodeState(turns.state()));
    }
  }

  // Everything said is there, and at most the turn that was being written beside it.
  void CheckHolds(const std::string& database, int64_t said) {
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(database)));
    ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
    ASSERT_GE(loaded.last_seq, said);
    ASSERT_LE(loaded.last_seq, said + 1);
    ASSERT_EQ(EncodeState(loaded.state), states_[static_cast<size_t>(loaded.last_seq)]);
  }

  std::vector<std::string> states_;
};

TEST_P(StoreProcessTest, AtEveryCallWhatWasCommittedIsThereAndTheNextLifeGoesOn) {
  const IoShimMode mode = GetParam();
  Shim* const shim = Shim::Own();
  const std::string folder = shim->folder() + "/data", database = folder + "/spillway.db";
  int struck = 0, ended = 0;
  // Death at every call, errors at every third: which three begins elsewhere for each.
  for (int64_t k = 1 + (mode == IO_SHIM_DIES ? 0 : mode % 3);; k += mode == IO_SHIM_DIES ? 1 : 3) {
    ASSERT_LT(k, kCallsMax);
    ASSERT_OK(RemoveTree(folder));
    ASSERT_OK(MakeDirectories(folder));
    shim->FailAt(k, mode);
    const Life first = Live(database);
    shim->Disarm();
    SCOPED_TRACE(absl::StrCat("call ", k, ": ", shim->what(), "; exit ", first.exit_code, " after turn ", first.said));
    if (!shim->struck()) {
      ASSERT_EQ(first.exit_code, 0);
      break;
    }
    ++struck;
    ended += first.exit_code != 0;
    switch (mode) {
      case IO_SHIM_DIES: ASSERT_EQ(first.exit_code, IO_SHIM_EXIT); break;
      // An error ends it, or was none of the store's business; it is never taken for a full disk, which would be tried again.
      case IO_SHIM_ERROR_ONCE: ASSERT_TRUE(first.exit_code == 0 || first.exit_code == kExitError); break;
      case IO_SHIM_ERROR_STAYS: ASSERT_TRUE(first.exit_code == kExitError || first.said == kTurns); break;
      // Once there is room the same turn succeeds. A start may be refused; what it says then is SQLite's word ("unable to open").
      case IO_SHIM_FULL_ONCE: ASSERT_TRUE(first.exit_code == 0 || first.said == 0); break;
      default: ASSERT_TRUE(first.exit_code == kExitFull || first.said == 0 || first.said == kTurns); break;
    }
    CheckHolds(database, first.said);
    if (HasFatalFailure()) return;
    ASSERT_EQ(Live(database).exit_code, 0);
    CheckHolds(database, kTurns);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(struck, mode == IO_SHIM_DIES ? 100 : 50);
  EXPECT_TRUE(ended > 30 || mode == IO_SHIM_FULL_ONCE) << ended;
}

INSTANTIATE_TEST_SUITE_P(, StoreProcessTest, ::testing::Values(IO_SHIM_DIES, IO_SHIM_ERROR_ONCE, IO_SHIM_ERROR_STAYS, IO_SHIM_FULL_ONCE, IO_SHIM_FULL_STAYS),
                         [](const auto& info) { return std::string(IoShimModeName(info.param)); });

}  // namespace
}  // namespace spillway::store
