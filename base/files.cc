// Whole files, folders and paths. Every descriptor is close-on-exec; every error carries the path.
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace spillway {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

int OpenRetrying(const char* path, int flags) {
  int fd;
  do {
    fd = open(path, flags | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

absl::Status FillTemporary(Descriptor file, absl::string_view content, int mode, bool sync, const std::string& path) {
  RETURN_IF_ERROR(WriteAll(file.get(), content, path));
  if (fchmod(file.get(), static_cast<mode_t>(mode)) != 0) return ErrnoStatus(errno, absl::StrCat("cannot set the mode of ", path));
  if (sync && fsync(file.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", path));
  // Some file systems report a failed write only here.
  if (close(file.Release()) != 0 && errno != EINTR) return ErrnoStatus(errno, absl::StrCat("cannot close ", path));
  return absl::OkStatus();
}

// The temporary file lies beside the target (rename does not cross file systems) and starts private (mkostemp: 0600).
absl::Status Replace(const std::string& path, absl::string_view content, int mode, bool sync) {
  const std::string folder = FolderOf(path);
  std::string temporary = JoinPath(folder, ".tmp-XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot create a temporary file in ", folder));
  absl::Status status = FillTemporary(Descriptor(fd), content, mode, sync, path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = ErrnoStatus(errno, absl::StrCat("cannot rename to ", path));
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return sync ? FsyncDirectory(folder) : absl::OkStatus();
}

// Empties a tree without following links. Only descriptors name folders, so that a folder swapped for a link under way leads
// nowhere. Two descriptors are open a level; what lies deeper than kDepthMax is first moved up to the root of the removal.
class TreeRemover {
 public:
  explicit TreeRemover(std::string path) : path_(std::move(path)) {}

  absl::Status EmptyRoot(int root) {
    root_ = root;
    do {
      moved_up_ = false;
      RETURN_IF_ERROR(Empty(root, 0));
    } while (moved_up_);
    return absl::OkStatus();
  }

 private:
  static constexpr int kDepthMax = 32;

  absl::Status Error() const { return ErrnoStatus(errno, absl::StrCat("cannot remove ", path_)); }

  absl::Status Empty(int folder, int depth) {
    Descriptor reading(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!reading.ok()) return Error();
    Directory entries(fdopendir(reading.get()), &closedir);
    if (entries == nullptr) return Error();
    reading.Release();
    while (true) {
      errno = 0;
      const dirent* entry = readdir(entries.get());
      if (entry == nullptr) break;
      const absl::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      RETURN_IF_ERROR(RemoveEntry(folder, entry->d_name, depth));
    }
    return errno == 0 ? absl::OkStatus() : Error();
  }

  absl::Status RemoveEntry(int folder, const char* name, int depth) {
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return absl::OkStatus();
    if (errno != EISDIR && errno != EPERM) return Error();  // Linux says EISDIR, POSIX EPERM
    if (unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
    if (errno != ENOTEMPTY && errno != EEXIST) return Error();
    if (depth >= kDepthMax) {
      const std::string moved = absl::StrCat(".rm-", getpid(), "-", counter_++);
      if (renameat(folder, name, root_, moved.c_str()) != 0) return Error();
      moved_up_ = true;
      return absl::OkStatus();
    }
    {
      const Descriptor inner(openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!inner.ok()) return Error();
      RETURN_IF_ERROR(Empty(inner.get(), depth + 1));
    }
    return unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? absl::OkStatus() : Error();
  }

  const std::string path_;
  int root_ = -1;
  bool moved_up_ = false;
  int64_t counter_ = 0;
};

// HOME, or the user's entry in the password database (services often run without HOME).
std::string HomeFolder() {
  const char* home = getenv("HOME");
  if (home != nullptr && *home != '\0') return home;
  passwd entry;
  passwd* found = nullptr;
  char buffer[4096];
  if (getpwuid_r(getuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found != nullptr) return found->pw_dir;
  return "/";
}

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT: return absl::StatusCode::kNotFound;
    case EEXIST: return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM: return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT: return absl::StatusCode::kResourceExhausted;
    case EINVAL:
    case ENAMETOOLONG: return absl::StatusCode::kInvalidArgument;
    case EAGAIN:
    case ECONNREFUSED:
    case ETIMEDOUT: return absl::StatusCode::kUnavailable;
    default: return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view what) {
  const char* text = strerrordesc_np(error);
  return absl::Status(CodeOf(error), absl::StrCat(what, ": ", text != nullptr ? text : absl::StrCat("errno ", error).c_str()));
}

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("cannot write ", path));
    content.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit_bytes) {
  const Descriptor file(OpenRetrying(path.c_str(), O_RDONLY));
  if (!file.ok()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot stat ", path));
  // The size is a hint only: files in /proc have none, and others may grow.
  std::string content(std::min<size_t>(static_cast<size_t>(std::max<off_t>(info.st_size, 0)), limit_bytes) + 1, '\0');
  size_t used = 0;
  while (true) {
    if (used > limit_bytes) return absl::InvalidArgumentError(absl::StrCat(path, " is larger than ", limit_bytes, " bytes"));
    if (used == content.size()) content.resize(std::min(std::max<size_t>(content.size() * 2, 4096), limit_bytes + 1));
    const ssize_t n = read(file.get(), content.data() + used, content.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
    if (n == 0) break;
    used += static_cast<size_t>(n);
  }
  content.resize(used);
  return content;
}

absl::Status WriteFileDurably(const std::string& path, absl::string_view content, int mode) { return Replace(path, content, mode, true); }

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content, int mode) { return Replace(path, content, mode, false); }

absl::Status FsyncDirectory(const std::string& path) {
  const Descriptor folder(OpenRetrying(path.c_str(), O_RDONLY | O_DIRECTORY));
  if (!folder.ok()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  if (fsync(folder.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", path));
  return absl::OkStatus();
}

absl::Status MakeDirectories(const std::string& path, int mode) {
  if (path.empty()) return absl::InvalidArgumentError("cannot create a folder without a name");
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end < path.size() && path[end] != '/') continue;
    const std::string prefix = path.substr(0, end);
    if (mkdir(prefix.c_str(), static_cast<mode_t>(mode)) == 0) continue;
    // Whatever mkdir says (EEXIST, or EROFS and EACCES above a mount), a folder that is there will do.
    const int error = errno;
    struct stat info;
    if (stat(prefix.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
    return ErrnoStatus(error, absl::StrCat("cannot create folder ", prefix));
  }
  return absl::OkStatus();
}

absl::Status RemoveTree(const std::string& path) {
  // A slash at the end would follow a link; the tree above and the root are never meant.
  absl::string_view bare = path;
  while (absl::EndsWith(bare, "/")) bare.remove_suffix(1);
  const absl::string_view last = bare.substr(bare.rfind('/') + 1);
  if (last.empty() || last == "." || last == "..") return absl::InvalidArgumentError(absl::StrCat("refusing to remove '", path, "'"));
  const std::string name(bare);
  struct stat info;
  if (lstat(name.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("cannot remove ", name));
  }
  if (!S_ISDIR(info.st_mode)) {
    return unlink(name.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("cannot remove ", name));
  }
  {
    const Descriptor root(OpenRetrying(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    if (!root.ok()) return ErrnoStatus(errno, absl::StrCat("cannot remove ", name));
    RETURN_IF_ERROR(TreeRemover(name).EmptyRoot(root.get()));
  }
  return rmdir(name.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("cannot remove ", name));
}

absl::Status RemoveFolderOfFiles(const std::string& path, int64_t files_max) {
  const Descriptor folder(OpenRetrying(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (!folder.ok()) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  Descriptor reading(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!reading.ok()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  Directory entries(fdopendir(reading.get()), &closedir);
  if (entries == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
  reading.Release();
  absl::Status first;
  for (int64_t seen = 0; seen < files_max;) {
    const dirent* entry = readdir(entries.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    ++seen;
    if (unlinkat(folder.get(), entry->d_name, 0) != 0 && errno != ENOENT && first.ok()) {
      first = ErrnoStatus(errno, absl::StrCat("cannot remove ", JoinPath(path, name)));
    }
  }
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  if (!first.ok()) return first;
  if (errno == ENOTEMPTY || errno == EEXIST) return absl::FailedPreconditionError(absl::StrCat(path, " holds more than ", files_max, " files"));
  return ErrnoStatus(errno, absl::StrCat("cannot remove ", path));
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  const Directory folder(opendir(path.c_str()), &closedir);
  if (folder == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot list ", path));
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, absl::StrCat("cannot list ", path));
  std::sort(names.begin(), names.end());
  return names;
}

bool PathExists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

std::string JoinPath(absl::string_view a, absl::string_view b) {
  if (a.empty() || absl::StartsWith(b, "/")) return std::string(b);
  if (b.empty()) return std::string(a);
  return absl::StrCat(a, absl::EndsWith(a, "/") ? "" : "/", b);
}

std::string ExpandHome(absl::string_view path) {
  if (path != "~" && !absl::StartsWith(path, "~/")) return std::string(path);
  return JoinPath(HomeFolder(), absl::StripPrefix(path.substr(1), "/"));
}

std::string AbsolutePath(absl::string_view path) {
  std::string joined(path);
  if (!absl::StartsWith(path, "/")) {
    const std::unique_ptr<char, void (*)(void*)> here(getcwd(nullptr, 0), &free);
    joined = JoinPath(here != nullptr ? here.get() : "/", path);
  }
  std::string absolute;
  for (absl::string_view part : absl::StrSplit(joined, '/')) {
    // ".." stays: the part before it may be a link.
    if (!part.empty() && part != ".") absl::StrAppend(&absolute, "/", part);
  }
  return absolute.empty() ? "/" : absolute;
}

std::string SpillwayHome() {
  const char* home = getenv("SPILLWAY_HOME");
  return home != nullptr && *home != '\0' ? AbsolutePath(ExpandHome(home)) : ExpandHome("~/.spillway");
}

}  // namespace spillway
