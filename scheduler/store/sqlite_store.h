// The store on SQLite: WAL, synchronous=FULL, one writer, prepared statements kept. The log is moved into the file by Maintain, never by a commit.
// Owns the database file, the lock and the ballast beside it. Not thread-safe: one thread commits; readers use reader.h on connections of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/store/sqlite.h"
#include "scheduler/store/store.h"
#include "scheduler/store/store_files.h"

namespace spillway::store {

struct SqliteOptions {
  std::string path;         // ":memory:" for a database that lives as long as the store
  std::string vfs;          // "" the system's; another one brings no lock and no ballast
  bool synchronous = true;  // false only as the failing control of the durability tests
  int64_t ballast_bytes = 16 << 20;
  int64_t wal_pages_idle = 1'000;     // Maintain moves the log when it is longer than this,
  int64_t wal_pages_max = 16'384;     // and waits for readers (50 ms at most) when it is longer than this
  int64_t keep_batches_min = 20'000;  // records kept even when two snapshots cover less
  int64_t prune_rows = 2'000;         // of one Maintain
  int64_t pages_max = 0;              // of the database file (4 KiB each); reached, it is a full disk. 0: no bound
};

class SqliteStore final : public Store {
 public:
  // Creates or migrates. FAILED_PRECONDITION: in use by another process, written by a newer version, on a network file system. RESOURCE_EXHAUSTED: no room,
  // not even with the ballast given up.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(SqliteOptions options);
  ~SqliteStore() override;

  absl::StatusOr<Loaded> Load() override;
  absl::Status Commit(const Batch& batch) override;
  absl::Status Maintain() override;
  bool DiskLow() const override { return !files_.HasBallast(); }

  int64_t last_seq() const { return last_seq_; }
  // What `Load` would replay from, for verification and tests.
  struct Snapshot {
    int64_t seq = 0;
    std::string body;
  };
  // The oldest snapshot with this seq or a later one; nullopt when there is none.
  absl::StatusOr<std::optional<Snapshot>> SnapshotFrom(int64_t seq);
  // Every kept record with seq > `after`, in order, its hash checked against the one before. Stops at the first error of `visit`.
  absl::Status ReadEvents(int64_t after, const std::function<absl::Status(EventRecord)>& visit);
  absl::StatusOr<int64_t> PrunedSeq();  // newest record that is no longer there; 0: all are
  std::string last_hash() const { return last_hash_; }
  int64_t wal_pages() const { return wal_pages_; }

 private:
  struct Statements;
  explicit SqliteStore(SqliteOptions options);
  absl::Status OpenDatabase();
  absl::Status ReadHead();
  absl::Status Write(const Batch& batch, const std::string& hash, const std::string& body);
  absl::Status Prune();

  SqliteOptions options_;
  StoreFiles files_;
  Database db_;
  std::unique_ptr<Statements> statements_;
  int64_t last_seq_ = 0;
  std::string last_hash_;
  int64_t wal_pages_ = 0;
  int64_t prune_again_seq_ = 0;  // until this turn there is nothing to prune
};

// SHA-256(prev_hash, seq, now_ms, body): what chains a record to the one before. 32 bytes.
std::string ChainHash(absl::string_view prev_hash, int64_t seq, int64_t now_ms, absl::string_view body);
// What the first record's prev_hash is: 32 zero bytes.
std::string ChainStart();

}  // namespace spillway::store
