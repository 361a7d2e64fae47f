// A copy of the database as it stands at one committed turn, made beside a scheduler that goes on writing: one read transaction of a connection of its own.
// The copy is one file without a log. Owns nothing of the original; blocks while it copies, so never on the engine's thread.
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

// What a backup says of itself. DATA_LOSS when it is no whole database of ours; FAILED_PRECONDITION when a newer version wrote it.
absl::StatusOr<BackupInfo> ReadBackup(const std::string& path);

}  // namespace spillway::store
