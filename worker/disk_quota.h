// The disk that an attempt may use in its own folder (`resources.disk`).
//
// Where this worker may mount (root, mkfs.ext4, loop devices), the folder is a file system of that size of its own: writing more gives the program
// ENOSPC, whatever it does. Elsewhere the folder is looked at now and then (disk_watch.h) and who holds too much is killed.
// Beside the folder lie FOLDER.quota (the bytes, so that a restarted worker knows) and FOLDER.image (sparse; deleted with the attempt).
// Bounds the folder only: checkpoints, logs and a `workdir` elsewhere are not counted.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace spillway::worker {

// How this node bounds disks: found out by doing it once, with a small file system in `home`.
struct DiskLimits {
  bool mounts = false;
  std::string because;  // why not
};
DiskLimits ProbeDiskLimits(const std::string& home);

// `folder` exists and is empty. With `mount` it becomes a file system that holds at least `bytes`; whether or not, the quota is remembered.
// An error of the mount leaves the folder as it was, to be looked at.
absl::Status GiveDisk(const std::string& folder, int64_t bytes, bool mount);
// Unmounts, and removes what lies beside the folder. What is absent is no error.
absl::Status TakeDiskBack(const std::string& folder);

bool HasDiskQuota(const std::string& folder);

struct DiskUse {
  int64_t limit_bytes = 0;  // 0: the attempt has no quota
  int64_t used_bytes = 0;
  bool mounted = false;
  bool full = false;  // next to nothing can be written there, or more is used than may be
};
// Walks the folder where nothing is mounted: may take long.
absl::StatusOr<DiskUse> LookAtDisk(const std::string& folder);
// Is there next to nothing left on the file system of this path? False also when nobody can say.
bool FileSystemFull(const std::string& path);

}  // namespace spillway::worker
