#include "worker/disk_quota.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/subprocess.h"

namespace spillway::worker {
namespace {

constexpr int64_t kProbeBytes = 1 << 20;
// What ext4 keeps for itself: inode tables (1/64), what it never gives out (1/50), bitmaps.
constexpr int64_t kImageExtraBytes = 4 << 20;
constexpr int64_t kImageExtraPart = 24;
// A program that got ENOSPC leaves a rest: the last blocks are kept for what was promised already.
constexpr int64_t kRestPart = 50;
constexpr int64_t kRestBytesMin = 1 << 20, kRestBytesMax = 64 << 20;
constexpr int64_t kEntriesMax = 1'000'000;  // of one look

std::string QuotaOf(const std::string& folder) { return folder + ".quota"; }
std::string ImageOf(const std::string& folder) { return folder + ".image"; }

// Runs to its end. What it says is thrown away: its exit code tells enough.
absl::Status RunTool(std::vector<std::string> argv) {
  SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.stdout_path = spawn.stderr_path = "/dev/null";
  spawn.env = std::vector<std::string>{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(spawn));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(spawn.argv[0], WIFEXITED(status) ? absl::StrCat(" ended with exit code ", WEXITSTATUS(status)) : std::string(" was killed")));
}

absl::Status MakeImage(const std::string& image, int64_t bytes) {
  const int fd = open(image.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot create ", image));
  const int64_t size = bytes + bytes / kImageExtraPart + kImageExtraBytes;
  const int failed = ftruncate(fd, size) == 0 ? 0 : errno;
  close(fd);
  if (failed != 0) return ErrnoStatus(failed, absl::StrCat("cannot size ", image));
  // No journal: it holds nothing that outlives the machine. No reserve for root: the job may be root.
  return RunTool({"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard", image});
}

absl::Status Mount(const std::string& folder, int64_t bytes) {
  const std::string image = ImageOf(folder);
  absl::Cleanup forget = [&] { unlink(image.c_str()); };
  RETURN_IF_ERROR(MakeImage(image, bytes));
  struct stat before;
  if (stat(folder.c_str(), &before) != 0) return ErrnoStatus(errno, folder);
  RETURN_IF_ERROR(RunTool({"mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", image, folder}));
  rmdir(JoinPath(folder, "lost+found").c_str());  // the program expects an empty folder
  (void)!chown(folder.c_str(), before.st_uid, before.st_gid);
  chmod(folder.c_str(), before.st_mode & 07777);
  std::move(forget).Cancel();
  return absl::OkStatus();
}

bool IsMountPoint(const std::string& folder) {
  struct stat own, above;
  return stat(folder.c_str(), &own) == 0 && stat(JoinPath(folder, "..").c_str(), &above) == 0 && own.st_dev != above.st_dev;
}

int64_t RestBytes(const struct statvfs& fs) {
  return std::clamp<int64_t>(static_cast<int64_t>(fs.f_blocks) * static_cast<int64_t>(fs.f_frsize) / kRestPart, kRestBytesMin, kRestBytesMax);
}

// What the files of a tree occupy; linked ones once. Does not leave its file system. A tree that changes meanwhile is counted as it is met.
int64_t OccupiedBytes(const std::string& folder) {
  std::string path = folder;
  char* roots[] = {path.data(), nullptr};
  FTS* const walk = fts_open(roots, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, nullptr);
  if (walk == nullptr) return 0;
  int64_t bytes = 0, entries = 0;
  std::set<ino_t> linked;
  while (const FTSENT* entry = fts_read(walk)) {
    if (entry->fts_info == FTS_DP || entry->fts_info == FTS_NS || entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR) continue;
    if (++entries > kEntriesMax) break;
    const struct stat& info = *entry->fts_statp;
    if (!S_ISDIR(info.st_mode) && info.st_nlink > 1 && !linked.insert(info.st_ino).second) continue;
    bytes += static_cast<int64_t>(info.st_blocks) * 512;
  }
  fts_close(walk);
  return bytes;
}

}  // namespace

DiskLimits ProbeDiskLimits(const std::string& home) {
  if (geteuid() != 0) return {false, "not root"};
  const std::string folder = JoinPath(home, "disk-probe");
  (void)TakeDiskBack(folder);
  absl::Status status = MakeDirectories(folder, 0700);
  if (status.ok()) status = GiveDisk(folder, kProbeBytes, true);
  const bool mounted = status.ok() && IsMountPoint(folder);
  (void)TakeDiskBack(folder);
  rmdir(folder.c_str());
  if (mounted) return {true, ""};
  return {false, status.ok() ? "a mount does not show" : std::string(status.message())};
}

absl::Status GiveDisk(const std::string& folder, int64_t bytes, bool mount) {
  RETURN_IF_ERROR(WriteFileAtomically(QuotaOf(folder), absl::StrCat(bytes, "\n"), 0600));
  return mount ? Mount(folder, bytes) : absl::OkStatus();
}

absl::Status TakeDiskBack(const std::string& folder) {
  // Lazily: what still looks at it (nothing of the job: its tree is gone) does not keep it.
  while (umount2(folder.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
  }
  const int error = errno;
  unlink(ImageOf(folder).c_str());
  unlink(QuotaOf(folder).c_str());
  if (error == EINVAL || error == ENOENT || (error == EPERM && !IsMountPoint(folder))) return absl::OkStatus();
  return ErrnoStatus(error, absl::StrCat("cannot unmount ", folder));
}

bool HasDiskQuota(const std::string& folder) { return PathExists(QuotaOf(folder)); }

absl::StatusOr<DiskUse> LookAtDisk(const std::string& folder) {
  DiskUse use;
  const auto quota = ReadFile(QuotaOf(folder), 100);
  if (absl::IsNotFound(quota.status())) return use;
  RETURN_IF_ERROR(quota.status());
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(*quota), &use.limit_bytes) || use.limit_bytes <= 0) {
    return absl::DataLossError(absl::StrCat(QuotaOf(folder), " is not a number of bytes"));
  }
  use.mounted = IsMountPoint(folder);
  if (!use.mounted) {
    use.used_bytes = OccupiedBytes(folder);
    use.full = use.used_bytes > use.limit_bytes;
    return use;
  }
  struct statvfs fs = {};
  if (statvfs(folder.c_str(), &fs) != 0) return ErrnoStatus(errno, folder);
  use.used_bytes = static_cast<int64_t>(fs.f_blocks - fs.f_bfree) * static_cast<int64_t>(fs.f_frsize);
  use.full = static_cast<int64_t>(fs.f_bavail) * static_cast<int64_t>(fs.f_frsize) < RestBytes(fs) || (fs.f_files > 0 && fs.f_favail == 0);
  return use;
}

bool FileSystemFull(const std::string& path) {
  struct statvfs fs = {};
  if (statvfs(path.c_str(), &fs) != 0 || fs.f_blocks == 0) return false;
  // What is kept for root counts for root.
  const auto free = static_cast<int64_t>(geteuid() == 0 ? fs.f_bfree : fs.f_bavail);
  return free * static_cast<int64_t>(fs.f_frsize) < kRestBytesMin;
}

}  // namespace spillway::worker
