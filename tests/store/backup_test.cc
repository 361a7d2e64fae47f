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
  ASSERT_OK_AND_ASSIGN(const BackupInfo read, TakeOut(Made(), folder_.File("out")));
  EXPECT_EQ(read.seq, begun_at);
  EXPECT_EQ(read.bytes, info.bytes);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SqliteStore> copy, SqliteStore::Open({.path = folder_.File("out"), .ballast_bytes = 0}));
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
  const auto take = [&] { return TakeOut(Made(), folder_.File("out")).status(); };
  EXPECT_THAT(take(), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  for (const std::string& text : {std::string(), std::string("not a database, though long enough to be looked at as one"), std::string(9'000, '\0')}) {
    ASSERT_OK(WriteFileAtomically(Made(), text));
    EXPECT_THAT(take(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no backup")));
  }
  ASSERT_OK(RemoveTree(Made()));
  ASSERT_OK(MakeDirectories(Made()));
  EXPECT_THAT(take(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no backup")));
  ASSERT_OK(RemoveTree(Made()));
  ASSERT_EQ(mkfifo(Made().c_str(), 0600), 0);
  EXPECT_THAT(take(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no backup"))) << "and nobody waits for its writer";
  EXPECT_FALSE(PathExists(folder_.File("out")));
}

// The record of events vouches for what still lives alone: rows of what has ended, specs and the ledger have nothing but the seal.
TEST_F(BackupTest, EveryFlippedBitAndEveryCutIsFound) {
  for (int i = 0; i < 200; ++i) ASSERT_OK(store_->Commit(turns_.Next()));
  ASSERT_OK(BackUp(folder_.File("db"), Made(), [] { return true; }).status());
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(Made()));
  const auto refused = [&](const std::string& bytes, size_t at) {
    ASSERT_OK(WriteFileAtomically(Made(), bytes));
    EXPECT_THAT(TakeOut(Made(), folder_.File("out")), StatusIs(absl::StatusCode::kDataLoss, ::testing::_)) << at;
    EXPECT_FALSE(PathExists(folder_.File("out"))) << at;
  };
  for (size_t at = 0; at<whole.size(); at += at + 60> whole.size() ? 1 : whole.size() / 60) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    refused(bytes, at);
    refused(whole.substr(0, at), at);
  }
  refused(whole + "x", whole.size());
}

}  // namespace
}  // namespace spillway::store
