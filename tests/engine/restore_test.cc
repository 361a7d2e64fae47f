#include "scheduler/engine/restore.h"

#include "base/files.h"
#include "scheduler/engine/verify.h"
#include "tests/engine/harness.h"
#include "tests/support/temporary_folder.h"

namespace spillway::engine {
namespace {

using ::testing::HasSubstr;

// A scheduler's database in a folder, with jobs in it, and a backup of it.
class RestoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const auto store, store::SqliteStore::Open({.path = folder_.File("db"), .ballast_bytes = 0}));
    core::World world;
    core::Configure configure;
    configure.cluster_uuid = "c1";
    int64_t seq = 0;
    const auto commit = [&](const core::Command& command) {
      const size_t before = world.events.size();
      world.Do(command);
      ASSERT_OK(store->Commit(store::MakeBatch(world.state, world.changes, ++seq, {world.events.begin() + static_cast<long>(before), world.events.end()}, {})));
    };
    commit(configure);
    core::Submit submit;
    submit.jobs = {MakeJob(Cpu())};
    submit.request_id = "r";
    for (int i = 0; i < 20; ++i) {
      submit.request_id += "r";
      commit(submit);
    }
    now_ms_ = world.now_ms + kMinute;
    ASSERT_OK(store::BackUp(folder_.File("db"), folder_.File("backup"), [] { return true; }).status());
  }
  RestoreOptions Options(const std::string& database = "new") {
    RestoreOptions options;
    options.backup = folder_.File("backup");
    options.database = folder_.File(database);
    options.store_path = folder_.File("store");
    options.now_ms = now_ms_;
    return options;
  }

  TemporaryFolder folder_;
  int64_t now_ms_ = 0;
};

TEST_F(RestoreTest, MakesADatabaseThatVerifiesInAnIncarnationOfItsOwn) {
  ASSERT_OK(MakeDirectories(folder_.File("store/logs/44/0")));
  ASSERT_OK(MakeDirectories(folder_.File("store/checkpoints/c1/45")));
  ASSERT_OK_AND_ASSIGN(const RestoreDone done, Restore(Options()));
  EXPECT_EQ(done.incarnation, 2);
  EXPECT_GT(done.first_job, 1'000'045) << "the store shows that 45 were given";
  ASSERT_OK_AND_ASSIGN(const auto store, store::SqliteStore::Open({.path = folder_.File("new"), .ballast_bytes = 0}));
  ASSERT_OK(Verify(store.get()).status());
  ASSERT_OK_AND_ASSIGN(const store::Loaded loaded, store->Load());
  EXPECT_EQ(loaded.last_seq, done.backup.seq + 1);
  EXPECT_EQ(loaded.state.jobs.size(), 20u);
  EXPECT_EQ(loaded.state.meta.next_job, done.first_job);
  for (const char* left : {"new.restoring", "new.restoring-wal", "new.restoring.lock"}) EXPECT_FALSE(PathExists(folder_.File(left))) << left;
}

TEST_F(RestoreTest, TheSameBackupAgainIsAnotherLife) {
  ASSERT_OK_AND_ASSIGN(const RestoreDone first, Restore(Options("new")));
  ASSERT_OK_AND_ASSIGN(const RestoreDone second, Restore(Options("newer")));
  EXPECT_EQ(second.incarnation, 3);
  EXPECT_GE(second.first_job, first.first_job + 1'000'000);
}

TEST_F(RestoreTest, ReplacesNothingAndTakesNothingDamaged) {
  EXPECT_THAT(Restore(Options("db")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("replaces nothing")));
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(folder_.File("backup")));
  // A byte of an event, which SQLite does not notice.
  const size_t at = bytes.rfind("rrrrr");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'x';
  ASSERT_OK(WriteFileAtomically(folder_.File("backup"), bytes));
  EXPECT_THAT(Restore(Options()), StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  EXPECT_FALSE(PathExists(folder_.File("new")));
  EXPECT_FALSE(PathExists(folder_.File("new.restoring")));
}

}  // namespace
}  // namespace spillway::engine
