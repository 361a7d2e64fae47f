#include "scheduler/store/sqlite_store.h"

#include <sqlite3.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "scheduler/store/schema.h"
#include "tests/support/made_up_turns.h"
#include "tests/support/temporary_folder.h"

namespace spillway::store {
namespace {

using ::spillway::testing::MadeUpTurns;
using ::testing::HasSubstr;

SqliteOptions At(const std::string& path) {
  SqliteOptions options;
  options.path = path;
  options.ballast_bytes = 64 << 10;
  return options;
}

TEST(SqliteStoreTest, AnEmptyStoreLoadsAsTheEmptyState) {
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(":memory:")));
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
  EXPECT_EQ(loaded.last_seq, 0);
  EXPECT_EQ(EncodeState(loaded.state), EncodeState(core::State()));
}

TEST(SqliteStoreTest, WhatWasCommittedIsLoadedByteForByte) {
  TemporaryFolder folder;
  MadeUpTurns turns;
  {
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(folder.File("db"))));
    for (int i = 0; i < 20; ++i) ASSERT_OK(store->Commit(turns.Next()));
  }
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(folder.File("db"))));
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
  EXPECT_EQ(loaded.last_seq, 20);
  EXPECT_EQ(loaded.state.jobs.size(), 3u);
  EXPECT_EQ(EncodeState(loaded.state), EncodeState(turns.state()));
}

TEST(SqliteStoreTest, WhatADamagedFileSaysOfItselfSteersNobodysTerminal) {
  TemporaryFolder folder;
  { ASSERT_OK(SqliteStore::Open(At(folder.File("db"))).status()); }
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(folder.File("db")));
  const size_t at = bytes.find("NOT NULL");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 2, "\x1b\xac");
  ASSERT_OK(WriteFileAtomically(folder.File("db"), bytes));
  const absl::Status status = SqliteStore::Open(At(folder.File("db"))).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("malformed")));
  EXPECT_EQ(std::string(status.message()).find_first_of("\x1b\xac"), std::string::npos) << status.message();
}

TEST(SqliteStoreTest, AGapInTheTurnsIsRefused) {
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(":memory:")));
  MadeUpTurns turns;
  ASSERT_OK(store->Commit(turns.Next()));
  turns.Next();
  EXPECT_THAT(store->Commit(turns.Next()), StatusIs(absl::StatusCode::kInternal, HasSubstr("turn 3 to be written after turn 1")));
}

TEST(SqliteStoreTest, AChargeIsNeverWrittenTwice) {
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(":memory:")));
  MadeUpTurns turns;
  Batch batch = turns.Next();
  ASSERT_OK(store->Commit(batch));
  Batch next = turns.Next();
  next.charges[0].id = batch.charges[0].id;
  EXPECT_FALSE(store->Commit(next).ok());
}

TEST(SqliteStoreTest, ASecondOwnerIsRefused) {
  TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(folder.File("db"))));
  EXPECT_THAT(SqliteStore::Open(At(folder.File("db"))),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is in use: one scheduler a database (process ")));
  store.reset();
  EXPECT_OK(SqliteStore::Open(At(folder.File("db"))));
}

TEST(SqliteStoreTest, AFileOfANewerVersionIsRefused) {
  TemporaryFolder folder;
  { ASSERT_OK(SqliteStore::Open(At(folder.File("db")))); }
  {
    ASSERT_OK_AND_ASSIGN(Database db, Database::Open(folder.File("db"), "", false));
    ASSERT_OK(db.Execute("INSERT INTO schema_version VALUES(99, 'from the future')"));
  }
  EXPECT_THAT(SqliteStore::Open(At(folder.File("db"))), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("schema version 99")));
}

TEST(SqliteStoreTest, OpeningAgainMigratesNothing) {
  TemporaryFolder folder;
  { ASSERT_OK(SqliteStore::Open(At(folder.File("db")))); }
  { ASSERT_OK(SqliteStore::Open(At(folder.File("db")))); }
  ASSERT_OK_AND_ASSIGN(Database db, Database::Open(folder.File("db"), "", true));
  EXPECT_THAT(StoredSchemaVersion(&db), IsOk());
  ASSERT_OK_AND_ASSIGN(const int64_t rows, db.QueryInt("SELECT count(*) FROM schema_version"));
  EXPECT_EQ(rows, SchemaVersion());
}

TEST(SqliteStoreTest, AFileThatIsNoDatabaseIsDataLoss) {
  TemporaryFolder folder;
  ASSERT_OK(WriteFileDurably(folder.File("db"), std::string(8192, 'x')));
  EXPECT_THAT(SqliteStore::Open(At(folder.File("db"))), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a database")));
}

TEST(SqliteStoreTest, AFullDiskTakesTheBallastOnceAndRoomGivesItBack) {
  TemporaryFolder folder;
  const std::string ballast = folder.File("db.ballast");
  SqliteOptions options = At(folder.File("db"));
  options.synchronous = false;
  options.pages_max = 60;
  MadeUpTurns turns;
  int64_t written = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(options));
    EXPECT_FALSE(store->DiskLow());
    ASSERT_OK_AND_ASSIGN(const std::string reserve, ReadFile(ballast));
    EXPECT_EQ(reserve.size(), 64u << 10);
    absl::Status status;
    while (written < 1'000 && status.ok()) {
      status = store->Commit(turns.Next());
      written += status.ok();
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("full")));
    EXPECT_GT(written, 5);
    EXPECT_TRUE(store->DiskLow());
    EXPECT_FALSE(PathExists(ballast));
    // Here only the bound was met: the reserve comes back at once.
    EXPECT_OK(store->Maintain());
    EXPECT_FALSE(store->DiskLow());
    EXPECT_TRUE(PathExists(ballast));
    ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
    EXPECT_EQ(loaded.last_seq, written);
  }
  options.pages_max = 0;
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(options));
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
  EXPECT_EQ(loaded.last_seq, written);
}

// Alters the closed database with plain SQL, then expects Load to name record 7.
void ExpectDamageFound(const std::string& sql, const std::string& what) {
  TemporaryFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(folder.File("db"))));
    MadeUpTurns turns;
    for (int i = 0; i < 10; ++i) ASSERT_OK(store->Commit(turns.Next()));
  }
  {
    ASSERT_OK_AND_ASSIGN(Database db, Database::Open(folder.File("db"), "", false));
    ASSERT_OK(db.Execute(sql));
  }
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(At(folder.File("db"))));
  EXPECT_THAT(store->Load(), StatusIs(absl::StatusCode::kDataLoss, ::testing::AllOf(HasSubstr("event record 7"), HasSubstr(what)))) << sql;
}

TEST(SqliteStoreTest, AnAlteredRecordIsFoundAndNamed) {
  ExpectDamageFound("UPDATE event_batch SET body = body || x'00' WHERE seq = 7", "altered");
  ExpectDamageFound("UPDATE event_batch SET now_ms = now_ms + 1 WHERE seq = 7", "altered");
  ExpectDamageFound("UPDATE event_batch SET hash = zeroblob(32) WHERE seq = 7", "altered");
  ExpectDamageFound("UPDATE event_batch SET prev_hash = zeroblob(32) WHERE seq = 7", "does not follow");
  ExpectDamageFound("DELETE FROM event_batch WHERE seq = 7", "missing");
  ExpectDamageFound("UPDATE event_batch SET n = 3 WHERE seq = 7", "number of events");
}

TEST(SqliteStoreTest, MaintenanceKeepsTheDatabaseBoundedAndTheChainWhole) {
  TemporaryFolder folder;
  SqliteOptions options = At(folder.File("db"));
  options.keep_batches_min = 10;
  options.prune_rows = 15;
  options.synchronous = false;  // durability is tested elsewhere
  options.wal_pages_idle = 20;
  MadeUpTurns turns;
  {
    ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(options));
    int64_t longest_log = 0;
    for (int i = 1; i <= 300; ++i) {
      Batch batch = turns.Next();
      if (i % 20 == 0) batch.snapshot = EncodeState(turns.state());
      ASSERT_OK(store->Commit(batch));
      longest_log = std::max(longest_log, store->wal_pages());
      ASSERT_OK(store->Maintain());
    }
    for (int i = 0; i < 20; ++i) ASSERT_OK(store->Maintain());
    ASSERT_OK_AND_ASSIGN(const int64_t pruned, store->PrunedSeq());
    EXPECT_EQ(pruned, 280);  // two snapshots: 280 and 300
    EXPECT_LT(longest_log, 100);
    int64_t first = 0;
    EXPECT_OK(store->ReadEvents(pruned, [&](EventRecord record) {
      if (first == 0) first = record.seq;
      return absl::OkStatus();
    }));
    EXPECT_EQ(first, 281);
    ASSERT_OK_AND_ASSIGN(const auto oldest, store->SnapshotFrom(0));
    ASSERT_TRUE(oldest.has_value());
    EXPECT_EQ(oldest->seq, 280);
    ASSERT_OK_AND_ASSIGN(const auto newest, store->SnapshotFrom(281));
    ASSERT_TRUE(newest.has_value());
    EXPECT_EQ(newest->seq, 300);
    ASSERT_OK_AND_ASSIGN(const auto none, store->SnapshotFrom(301));
    EXPECT_FALSE(none.has_value());
  }
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(options));
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, store->Load());
  EXPECT_EQ(EncodeState(loaded.state), EncodeState(turns.state()));
  EXPECT_OK(store->Commit(turns.Next()));
}

TEST(SqliteStoreTest, EveryRecordPrunedStillContinuesTheChain) {
  TemporaryFolder folder;
  SqliteOptions options = At(folder.File("db"));
  options.keep_batches_min = 0;
  MadeUpTurns turns;
  ASSERT_OK_AND_ASSIGN(auto store, SqliteStore::Open(options));
  for (int i = 0; i < 4; ++i) {
    Batch batch = turns.Next();
    batch.snapshot = EncodeState(turns.state());
    ASSERT_OK(store->Commit(batch));
  }
  ASSERT_OK(store->Maintain());
  const std::string hash = store->last_hash();
  store.reset();
  ASSERT_OK_AND_ASSIGN(store, SqliteStore::Open(options));
  EXPECT_EQ(store->last_seq(), 4);
  EXPECT_EQ(store->last_hash(), hash);
  EXPECT_OK(store->Load());
}

}  // namespace
}  // namespace spillway::store
