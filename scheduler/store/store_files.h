// The files beside the database: a lock that keeps a second process out, and a ballast that is given up when the disk is full so that reports can still land.
// Owns PATH.lock and PATH.ballast; never touches the database itself.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway::store {

class StoreFiles {
 public:
  StoreFiles() = default;
  ~StoreFiles();
  StoreFiles(StoreFiles&& other) noexcept;
  StoreFiles& operator=(StoreFiles&& other) noexcept;

  // FAILED_PRECONDITION when another process has the database open, or the folder is on a network file system (their locks and syncs do not hold).
  // A ballast that does not fit is not an error: HasBallast() says so.
  static absl::StatusOr<StoreFiles> Take(const std::string& database_path, int64_t ballast_bytes);

  bool HasBallast() const { return has_ballast_ || ballast_bytes_ == 0; }
  // False when there was none to give up.
  bool GiveUpBallast();
  // RESOURCE_EXHAUSTED while there is no room for it.
  absl::Status RestoreBallast();

 private:
  std::string ballast_path_;
  int64_t ballast_bytes_ = 0;
  bool has_ballast_ = false;
  int lock_fd_ = -1;
};

}  // namespace spillway::store
