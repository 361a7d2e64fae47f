#include "scheduler/store/backup.h"

#include <sys/stat.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/support/made_up_turns.h"
#include "tests/support/temporary_folder.h"

namespace spillway::store {
namespace {

using ::spillway::testing::MadeUpTurns;
using ::testing::HasSubstr;

class BackupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SqliteOptions options;
    options.path = folder_.File("db");
    options.ballast_bytes = 0;
    options.synchronous = false;
    ASSERT_OK_AND_ASSIGN(store_, SqliteStore::Open(options));
  }
  std::string Made() const { return folder_.File("made.backup"); }

  TemporaryFolder folder_;
  MadeUpTurns turns_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(BackupTest, IsTheStateOfOneTurnThoughTheWriterGoesOn) {
  // Enough that it is copied in several steps.
  for (int i = 0; i < 3'000; ++i) ASSERT_OK(store_->Commit(turns_.Next()));
  const int64_t begun_at = turns_.seq();
  const std::string state = EncodeState(turns_.state());
  int steps = 0;
  ASSERT_OK_AND_ASSIGN(const BackupInfo info, BackUp(folder_.File("db"), Made(), [&] {
                         ++steps;
                         EXPECT_OK(store_->Commit(turns_.Next()));
                         EXPECT_OK(store_->Maintain());
                         return true;
                       }));
  EXPECT_GE(steps, 2) << "nothing was written meanwhile";
  EXPECT_EQ(info.seq, begun_at);
  EXPECT_EQ(info.cluster_uuid, "made-up");
  struct stat file;
  ASSERT_EQ(stat(Made().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(file.st_size, info.bytes);
  EXPECT_FALSE(PathExists(Made() + "-wal"));
  ASSERT_OK_AND_ASSIGN(const BackupInfo read, ReadBackup(Made()));
  EXPECT_EQ(read.seq, begun_at);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SqliteStore> copy, SqliteStore::Open({.path = Made(), .ballast_bytes = 0}));
  ASSERT_OK_AND_ASSIGN(const Loaded loaded, copy->Load());
  EXPECT_EQ(loaded.last_seq, begun_at);
  EXPECT_EQ(EncodeState(loaded.state), state);
}

TEST_F(BackupTest, AGivenUpOneLeavesNothing) {
  for (int i = 0; i < 3'000; ++i) ASSERT_OK(store_->Commit(turns_.Next()));
  EXPECT_THAT(BackUp(folder_.File("db"), Made(), [] { return false; }), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  EXPECT_FALSE(PathExists(Made()));
}

TEST_F(BackupTest, WhatIsNoneIsRefused) {
  EXPECT_THAT(ReadBackup(Made()), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  ASSERT_OK(WriteFileAtomically(Made(), "not a database, though long enough to be looked at as one"));
  EXPECT_THAT(ReadBackup(Made()), StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  ASSERT_OK(WriteFileAtomically(Made(), ""));
  EXPECT_THAT(ReadBackup(Made()), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no backup")));
}

TEST_F(BackupTest, ADamagedOneIsFound) {
  for (int i = 0; i < 200; ++i) ASSERT_OK(store_->Commit(turns_.Next()));
  ASSERT_OK(BackUp(folder_.File("db"), Made(), [] { return true; }).status());
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(Made()));
  bytes.resize(bytes.size() / 2);
  ASSERT_OK(WriteFileAtomically(Made(), bytes));
  EXPECT_THAT(ReadBackup(Made()), StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
}

}  // namespace
}  // namespace spillway::store
