// Makes a scheduler's data folder out of a backup: what was in it, and a new incarnation that says what may have been lost (core/policy/restored.h).
// Offline: nobody serves the home meanwhile. All or nothing: the database appears under its name as the last step, and a restore that was cut off is begun anew.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/core/core.h"
#include "scheduler/store/backup.h"

namespace spillway::engine {

struct RestoreOptions {
  std::string backup;      // a file that `spillway backup` wrote
  std::string database;    // where the scheduler will look for it; must not be there
  std::string store_path;  // checkpoints and logs tell which ids were given since; the incarnation is kept beside them, so that none is lived twice
  core::Policy policy;
  int64_t now_ms = 0;
};
struct RestoreDone {
  store::BackupInfo backup;
  int64_t incarnation = 0;
  JobId first_job = 0;         // new jobs begin here
  int64_t adopt_until_ms = 0;  // nothing that the backup knew of starts before
};

// FAILED_PRECONDITION: there is a database already. DATA_LOSS: the backup is damaged; its events do not give its rows.
absl::StatusOr<RestoreDone> Restore(const RestoreOptions& options);

}  // namespace spillway::engine
