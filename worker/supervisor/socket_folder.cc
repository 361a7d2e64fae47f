#include "worker/supervisor/socket_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace spillway::supervisor {
namespace {

constexpr int kTriesMax = 100;
constexpr size_t kFoldersMax = 10'000;  // looked at by one supervisor
constexpr size_t kNameBytes = 12;

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsHash(const std::string& name) { return name.size() == kNameBytes && name.find_first_not_of("0123456789abcdef") == std::string::npos; }

// /run/spillway/0123456789ab, /tmp/spillway-1000/0123456789ab: what the worker makes when it is told no path.
bool IsOurs(const std::string& folder) {
  const std::string root = NameOf(ParentOf(folder));
  return IsHash(NameOf(folder)) && (root == "spillway" || absl::StartsWith(root, "spillway-"));
}

// The descriptor, or -1 when the path leads elsewhere by now: somebody removed the folder while we waited for its lock.
int OpenLocked(const std::string& folder, int how) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  struct stat here = {}, there = {};
  const bool locked = flock(fd, how) == 0 && fstat(fd, &here) == 0 && stat(folder.c_str(), &there) == 0 && here.st_ino == there.st_ino;
  if (locked) return fd;
  close(fd);
  return -1;
}

bool UnusedFor(const std::string& folder, int64_t unused_ms) {
  struct stat info = {};
  if (stat(folder.c_str(), &info) != 0 || info.st_uid != geteuid()) return false;
  return RealClock().NowUtcMs() - (static_cast<int64_t>(info.st_mtim.tv_sec) * 1000 + info.st_mtim.tv_nsec / 1'000'000) >= unused_ms;
}

bool RemoveOne(const std::string& folder, absl::string_view bound, int64_t unused_ms) {
  if (!UnusedFor(folder, unused_ms) || absl::StrContains(bound, folder + "/")) return false;
  const int fd = OpenLocked(folder, LOCK_EX | LOCK_NB);
  if (fd < 0) return false;
  bool removed = UnusedFor(folder, unused_ms);  // still, now that nobody else can take it
  const auto names = ListDirectory(folder);
  if (removed && names.ok()) {
    for (const std::string& name : *names) {
      if (name == "s" || absl::StartsWith(name, "s.")) unlink(JoinPath(folder, name).c_str());
    }
    removed = rmdir(folder.c_str()) == 0;
  }
  close(fd);
  return removed;
}

}  // namespace

absl::StatusOr<SocketFolder> SocketFolder::Take(const std::string& socket_path) {
  const std::string folder = ParentOf(socket_path);
  if (!IsOurs(folder)) return SocketFolder("", -1);
  for (int i = 0; i < kTriesMax; ++i) {
    RETURN_IF_ERROR(MakeDirectories(folder, 0700));
    if (const int fd = OpenLocked(folder, LOCK_SH); fd >= 0) return SocketFolder(folder, fd);
  }
  return ErrnoStatus(errno, absl::StrCat("cannot lock ", folder));
}

SocketFolder::SocketFolder(SocketFolder&& other) noexcept : folder_(std::exchange(other.folder_, "")), fd_(std::exchange(other.fd_, -1)) {}

SocketFolder::~SocketFolder() {
  if (fd_ < 0) return;
  rmdir(folder_.c_str());
  close(fd_);
}

int SocketFolder::RemoveLeftOnes(int64_t unused_ms) const {
  if (fd_ < 0) return 0;
  const std::string root = ParentOf(folder_);
  const auto names = ListDirectory(root);
  // One of an earlier version has no lock, but its socket is there.
  const auto bound = ReadFile("/proc/net/unix");
  if (!names.ok() || !bound.ok()) return 0;
  int removed = 0;
  for (size_t i = 0; i < std::min(names->size(), kFoldersMax); ++i) {
    const std::string folder = JoinPath(root, (*names)[i]);
    if (IsHash((*names)[i]) && folder != folder_ && RemoveOne(folder, *bound, unused_ms)) ++removed;
  }
  return removed;
}

}  // namespace spillway::supervisor
