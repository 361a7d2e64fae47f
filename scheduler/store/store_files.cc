#include "scheduler/store/store_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/process_lock.h"
#include "base/status_macros.h"

namespace spillway::store {
namespace {

absl::Status RefuseNetworkFileSystem(const std::string& folder) {
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return ErrnoStatus(errno, folder);
  switch (static_cast<uint32_t>(info.f_type)) {
    case 0x6969:      // NFS
    case 0x517b:      // SMB
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB2
    case 0x01021997:  // 9p
    case 0x0bd00bd0:  // Lustre
    case 0x47504653:  // GPFS
      return absl::FailedPreconditionError(
          absl::StrCat(folder, " is on a network file system, where a database is not safe: put the scheduler's data on a local disk"));
    default: return absl::OkStatus();
  }
}

}  // namespace

StoreFiles::~StoreFiles() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

StoreFiles::StoreFiles(StoreFiles&& other) noexcept { *this = std::move(other); }

StoreFiles& StoreFiles::operator=(StoreFiles&& other) noexcept {
  std::swap(ballast_path_, other.ballast_path_);
  std::swap(ballast_bytes_, other.ballast_bytes_);
  std::swap(has_ballast_, other.has_ballast_);
  std::swap(lock_fd_, other.lock_fd_);
  return *this;
}

absl::StatusOr<StoreFiles> StoreFiles::Take(const std::string& database_path, int64_t ballast_bytes) {
  RETURN_IF_ERROR(RefuseNetworkFileSystem(FolderOf(database_path)));
  StoreFiles files;
  const std::string taken = absl::StrCat("database ", database_path, " is in use: one scheduler a database");
  ASSIGN_OR_RETURN(files.lock_fd_, LockFile(database_path + ".lock", taken));

  // What it holds (environments, names) is not for everybody's eyes. SQLite gives its log the same mode.
  const int database_fd = open(database_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (database_fd < 0) return ErrnoStatus(errno, database_path);
  close(database_fd);
  // SQLite syncs the names in this folder when it makes its log; that the folder itself is still there after a power loss is for us to see to.
  std::string above = FolderOf(database_path);
  for (int levels = 0; levels < 3 && above != "/" && above != "."; ++levels) {
    const absl::Status synced = FsyncDirectory(above);
    if (!synced.ok() && !absl::IsPermissionDenied(synced)) return synced;
    above = FolderOf(above);
  }

  files.ballast_path_ = database_path + ".ballast";
  files.ballast_bytes_ = ballast_bytes;
  const absl::Status ballast = files.RestoreBallast();
  if (!ballast.ok() && !absl::IsResourceExhausted(ballast)) return ballast;
  return files;
}

bool StoreFiles::GiveUpBallast() {
  if (!has_ballast_) return false;
  unlink(ballast_path_.c_str());
  has_ballast_ = false;
  return true;
}

absl::Status StoreFiles::RestoreBallast() {
  if (HasBallast()) return absl::OkStatus();
  const int fd = open(ballast_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EROFS) return absl::ResourceExhaustedError(absl::StrCat(ballast_path_, ": the disk is read-only"));
  if (fd < 0) return ErrnoStatus(errno, ballast_path_);
  const int error = posix_fallocate(fd, 0, ballast_bytes_);
  close(fd);
  if (error != 0) {
    unlink(ballast_path_.c_str());
    return ErrnoStatus(error, ballast_path_);
  }
  has_ballast_ = true;
  return absl::OkStatus();
}

}  // namespace spillway::store
