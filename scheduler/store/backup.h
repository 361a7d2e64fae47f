// A copy of the database as it stands at one committed turn, made beside a scheduler that goes on writing: one read transaction of a connection of its own.
// The copy is one file without a log, and behind its pages "SPWBACK1" and their SHA-256. Owns nothing of the original; blocks while it copies, so never on the engine's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace spillway::store {

struct BackupInfo {
  std::string cluster_uuid;
  int64_t incarnation = 0;
  int64_t seq = 0;     // the newest turn in it
  int64_t now_ms = 0;  // of that turn
  int64_t bytes = 0;
};

// Writes `to` (mode 0600, durable; what was there is replaced). RESOURCE_EXHAUSTED, with nothing left behind, when the disk has no room for the copy and
// as much again. CANCELLED as soon as `go_on` says no.
absl::StatusOr<BackupInfo> BackUp(const std::string& database, const std::string& to, const std::function<bool()>& go_on);

// Writes the database that is in a backup to `to` (mode 0600, durable; what was there is replaced), and tells what it is. With nothing left there: DATA_LOSS
// when a bit of the backup is not as it was written, FAILED_PRECONDITION when a newer version wrote it.
absl::StatusOr<BackupInfo> TakeOut(const std::string& backup, const std::string& to);

}  // namespace spillway::store
