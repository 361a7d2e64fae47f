// The scheduler's disk on a file system that forgets what was not synced, tears the write that was under way, and fills up.
#pragma once

#include <memory>
#include <string>

#include "sim/sim_disk.h"
#include "tests/support/fault_vfs.h"

namespace spillway::sim {

class FaultDisk final : public SimDisk {
 public:
  FaultDisk(uint64_t seed, bool synchronous);
  absl::StatusOr<store::SqliteStore*> Open() override;
  void Close(bool power_loss) override;
  void SetFull(bool full) override { vfs_.SetFull(full); }
  absl::Status Commit(const store::Batch& batch) override { return store_->Commit(batch); }
  bool TearAt(int64_t k) override;

 private:
  testing::FaultVfs vfs_;
  const bool synchronous_;
  std::unique_ptr<store::SqliteStore> store_;
  bool torn_ = false;
};

}  // namespace spillway::sim
