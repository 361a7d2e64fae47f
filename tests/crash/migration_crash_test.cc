// An older database becomes a newer one, and the k-th call of that meets a crash, a full disk or an error, once or for ever. Whatever happens, the file
// is one version or the other, whole, with every row; the next start goes on from there; and an older program refuses what is newer.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/status_matchers.h"
#include "scheduler/store/schema.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/made_up_turns.h"

namespace spillway::store {
namespace {

using ::spillway::testing::FaultVfs;
using ::spillway::testing::MadeUpTurns;
using Fault = FaultVfs::Fault;

constexpr int kTurns = 8;
constexpr int64_t kCallsMax = 5'000;

// What later versions may do: a new column and an index over it; a table made anew from the old one's rows.
std::vector<Migration> Later() {
  std::vector<Migration> all = Migrations();
  all.push_back({"a column", R"sql(
      ALTER TABLE task ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
      UPDATE task SET priority = job * 10 + idx;
      CREATE INDEX task_by_priority ON task(priority);
    )sql"});
  all.push_back({"a table made anew", R"sql(
      CREATE TABLE ledger(id INTEGER PRIMARY KEY, job INTEGER NOT NULL, cents INTEGER NOT NULL, body BLOB NOT NULL);
      INSERT INTO ledger SELECT id, job, amount_micros * 2, body FROM charge;
      DROP TABLE charge;
    )sql"});
  return all;
}

class MigrationCrashTest : public ::testing::Test {
 protected:
  MigrationCrashTest() {
    for (int i = 0; i < kTurns; ++i) batches_.push_back(turns_.Next());
  }

  SqliteOptions On(const FaultVfs& vfs) const { return {.path = "scheduler.db", .vfs = vfs.name()}; }

  // A database of the shipped version with the whole story in it, as a crash left it: part of it still in the log.
  void Write(FaultVfs* vfs) {
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(On(*vfs)));
    for (const Batch& batch : batches_) ASSERT_OK(store->Commit(batch));
  }

  static absl::StatusOr<Database> OpenPlain(const FaultVfs& vfs) {
    ASSIGN_OR_RETURN(Database db, Database::Open("scheduler.db", vfs.name(), false));
    for (const char* pragma : {"PRAGMA temp_store = MEMORY", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA cache_size = 5"}) {
      RETURN_IF_ERROR(db.Execute(pragma));  // with so small a cache a migration spills into the log long before it commits
    }
    return db;
  }
  static absl::Status MigrateLater(const FaultVfs& vfs) {
    ASSIGN_OR_RETURN(Database db, OpenPlain(vfs));
    return MigrateWith(Later(), &db);
  }

  // One version, whole: that version's tables and no other's, every row of the story in them.
  void CheckWhole(const FaultVfs& vfs, int64_t* version) {
    ASSERT_OK_AND_ASSIGN(Database db, OpenPlain(vfs));
    ASSERT_OK_AND_ASSIGN(*version, StoredSchemaVersion(&db));
    const int64_t later = *version - SchemaVersion();
    ASSERT_GE(later, 0);
    ASSERT_LE(later, 2);
    const auto count = [&](const std::string& sql) { return db.QueryInt(sql).value_or(-1); };
    EXPECT_EQ(count("SELECT count(*) FROM schema_version"), *version);
    EXPECT_EQ(count("SELECT count(*) FROM task"), 2 * kTurns);
    EXPECT_EQ(count("SELECT count(*) FROM pragma_table_info('task') WHERE name = 'priority'"), later >= 1 ? 1 : 0);
    if (later >= 1) {
      EXPECT_EQ(count("SELECT count(*) FROM task WHERE priority = job * 10 + idx"), 2 * kTurns);
    }
    EXPECT_EQ(count("SELECT count(*) FROM sqlite_master WHERE name = 'task_by_priority'"), later >= 1 ? 1 : 0);
    EXPECT_EQ(count("SELECT count(*) FROM sqlite_master WHERE name = 'ledger'"), later == 2 ? 1 : 0);
    EXPECT_EQ(count("SELECT count(*) FROM sqlite_master WHERE name = 'charge'"), later == 2 ? 0 : 1);
    EXPECT_EQ(count(later == 2 ? "SELECT sum(cents) FROM ledger" : "SELECT 2 * sum(amount_micros) FROM charge"), 20 * kTurns * (kTurns + 1) / 2);
    EXPECT_EQ(db.QueryText("PRAGMA integrity_check").value_or(""), "ok");
  }

  // Every call of the migration once; `arm` says what it meets there. The number of calls that were struck.
  int EveryCall(absl::string_view name, const std::function<void(FaultVfs*, int64_t)>& arm, bool torn, absl::StatusCode expected) {
    int struck = 0;
    for (int64_t k = 1; k < kCallsMax; ++k) {
      FaultVfs vfs(absl::StrCat("migration-", std::string(name), "-", k), static_cast<uint64_t>(k));
      Write(&vfs);
      arm(&vfs, k);
      const absl::Status status = MigrateLater(vfs);
      if (!vfs.tripped()) {
        EXPECT_OK(status);
        return struck;
      }
      ++struck;
      EXPECT_TRUE(status.ok() || status.code() == expected) << status << ", call " << k;
      vfs.PowerLoss(torn);
      int64_t version = 0;
      CheckWhole(vfs, &version);
      EXPECT_TRUE(!status.ok() || version == SchemaVersion() + 2) << "call " << k;
      if (version == SchemaVersion()) {
        // As if nothing had happened: the old program would go on.
        auto store = SqliteStore::Open(On(vfs));
        EXPECT_OK(store);
        if (store.ok()) {
          const auto loaded = (*store)->Load();
          EXPECT_TRUE(loaded.ok() && EncodeState(loaded->state) == EncodeState(turns_.state())) << loaded.status();
        }
      } else {
        EXPECT_THAT(SqliteStore::Open(On(vfs)), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("newer version")));
      }
      EXPECT_OK(MigrateLater(vfs));
      CheckWhole(vfs, &version);
      EXPECT_EQ(version, SchemaVersion() + 2);
      if (HasFailure()) {
        ADD_FAILURE() << "at call " << k;
        return struck;
      }
    }
    ADD_FAILURE() << "a migration that makes more than " << kCallsMax << " calls";
    return struck;
  }

  MadeUpTurns turns_;
  std::vector<Batch> batches_;
};

TEST_F(MigrationCrashTest, ACrashAtAnyCallLeavesOneVersionWhole) {
  EXPECT_GT(EveryCall(
                "crash", [](FaultVfs* vfs, int64_t k) { vfs->FailAt(k, Fault::kCrash); }, false, absl::StatusCode::kInternal),
            30);
}

TEST_F(MigrationCrashTest, SoDoesOneThatTearsWhatWasNotSynced) {
  EXPECT_GT(EveryCall(
                "torn", [](FaultVfs* vfs, int64_t k) { vfs->FailAt(k, Fault::kCrash); }, true, absl::StatusCode::kInternal),
            30);
}

TEST_F(MigrationCrashTest, AnErrorAtAnyCallIsToldAndChangesNothing) {
  EXPECT_GT(EveryCall(
                "error", [](FaultVfs* vfs, int64_t k) { vfs->FailAt(k, Fault::kIoError); }, true, absl::StatusCode::kInternal),
            30);
}

TEST_F(MigrationCrashTest, NorADiskThatFailsForEver) {
  EXPECT_GT(EveryCall(
                "errors", [](FaultVfs* vfs, int64_t k) { vfs->FailFrom(k, Fault::kIoError); }, true, absl::StatusCode::kInternal),
            30);
}

TEST_F(MigrationCrashTest, AFullDiskIsToldAsSuch) {
  EXPECT_GT(EveryCall(
                "full", [](FaultVfs* vfs, int64_t k) { vfs->FailAt(k, Fault::kFull); }, false, absl::StatusCode::kResourceExhausted),
            30);
}

TEST_F(MigrationCrashTest, ForEverTooAndTheNextStartGoesOn) {
  EXPECT_GT(EveryCall(
                "full-for-ever", [](FaultVfs* vfs, int64_t k) { vfs->FailFrom(k, Fault::kFull); }, false, absl::StatusCode::kResourceExhausted),
            30);
}

}  // namespace
}  // namespace spillway::store
