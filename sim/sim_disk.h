// The scheduler's disk: what outlives its process. One database, opened by one process at a time.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "scheduler/store/sqlite_store.h"

namespace spillway::sim {

class SimDisk {
 public:
  virtual ~SimDisk() = default;
  // A process starts. The store lives until Close.
  virtual absl::StatusOr<store::SqliteStore*> Open() = 0;
  // The process died. With `power_loss` the machine went with it: what was not synced is lost.
  virtual void Close(bool power_loss) = 0;
  // Writes are refused while set.
  virtual void SetFull(bool full) = 0;
  // Commits through here, so that a disk may fail in the middle. A disk that cannot tear does what the store does.
  virtual absl::Status Commit(const store::Batch& batch) = 0;
  // The k-th change of a file from now on is half done, and then the process is dead. False: this disk cannot do that.
  virtual bool TearAt(int64_t k) = 0;
};

// A database in memory that survives the process because the simulation keeps it.
class MemoryDisk final : public SimDisk {
 public:
  absl::StatusOr<store::SqliteStore*> Open() override;
  void Close(bool power_loss) override {}
  void SetFull(bool full) override { full_ = full; }
  absl::Status Commit(const store::Batch& batch) override;
  bool TearAt(int64_t k) override { return false; }

 private:
  std::unique_ptr<store::SqliteStore> store_;
  bool full_ = false;
};

// The options every simulated store has: small enough that snapshots and pruning happen.
store::SqliteOptions SimStoreOptions();

}  // namespace spillway::sim
