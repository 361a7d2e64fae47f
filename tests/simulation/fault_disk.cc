#include "tests/simulation/fault_disk.h"

#include "absl/strings/str_cat.h"

namespace spillway::sim {

FaultDisk::FaultDisk(uint64_t seed, bool synchronous) : vfs_(absl::StrCat("sim-", seed), seed), synchronous_(synchronous) {}

absl::StatusOr<store::SqliteStore*> FaultDisk::Open() {
  store::SqliteOptions options = SimStoreOptions();
  options.path = "spillway.db";
  options.vfs = vfs_.name();
  options.synchronous = synchronous_;
  auto opened = store::SqliteStore::Open(options);
  if (!opened.ok()) return opened.status();
  store_ = *std::move(opened);
  return store_.get();
}

void FaultDisk::Close(bool power_loss) {
  // Nothing is written on the way out: a process that dies does not tidy up. On this disk every death is a loss of power, the harder case.
  if (!torn_) vfs_.FailAt(1, testing::FaultVfs::Fault::kCrash);
  store_.reset();
  vfs_.PowerLoss(true);
  torn_ = false;
}

bool FaultDisk::TearAt(int64_t k) {
  vfs_.FailAt(k, testing::FaultVfs::Fault::kCrash);
  return torn_ = true;
}

}  // namespace spillway::sim
