#include "sim/sim_disk.h"

namespace spillway::sim {

store::SqliteOptions SimStoreOptions() {
  store::SqliteOptions options;
  options.ballast_bytes = 0;
  options.wal_pages_idle = 200;
  options.keep_batches_min = 50;
  options.prune_rows = 100;
  return options;
}

absl::StatusOr<store::SqliteStore*> MemoryDisk::Open() {
  if (store_ == nullptr) {
    store::SqliteOptions options = SimStoreOptions();
    options.path = ":memory:";
    auto opened = store::SqliteStore::Open(options);
    if (!opened.ok()) return opened.status();
    store_ = *std::move(opened);
  }
  return store_.get();
}

absl::Status MemoryDisk::Commit(const store::Batch& batch) {
  if (full_) return absl::ResourceExhaustedError("no space left on device");
  return store_->Commit(batch);
}

}  // namespace spillway::sim
