#include "checkpoint/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "checkpoint/layout.h"

namespace spillway::checkpoint {
namespace {

class RealFile final : public File {
 public:
  RealFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~RealFile() override {  // nothing is lost: whoever needs the bytes has called Sync
    if (direct_fd_ >= 0) ::close(direct_fd_);
    ::close(fd_);
  }

  absl::Status WriteAt(const void* data, size_t bytes, int64_t offset) override {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      ssize_t n = -1;
      const bool direct = FitsDirect(at, bytes, offset);
      if (direct) n = ::pwrite(direct_fd_, at, bytes, offset);
      if (!direct || (n < 0 && errno == EINVAL)) n = ::pwrite(fd_, at, bytes, offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, absl::StrCat("write ", path_));
      at += n;
      offset += n;
      bytes -= static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

  absl::Status ReadAt(void* data, size_t bytes, int64_t offset) override {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      ssize_t n = -1;
      const bool direct = FitsDirect(at, bytes, offset);
      if (direct) n = ::pread(direct_fd_, at, bytes, offset);
      if (!direct || (n < 0 && errno == EINVAL)) n = ::pread(fd_, at, bytes, offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path_));
      if (n == 0) return absl::OutOfRangeError(absl::StrCat(path_, " ends at byte ", offset, ", ", bytes, " bytes short"));
      at += n;
      offset += n;
      bytes -= static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

  absl::Status Allocate(int64_t bytes) override {
    if (::ftruncate(fd_, bytes) != 0) return ErrnoStatus(errno, absl::StrCat("size ", path_));
    if (bytes == 0) return absl::OkStatus();
    while (::fallocate(fd_, 0, 0, bytes) != 0) {
      if (errno == EINTR) continue;
      if (errno == EOPNOTSUPP || errno == ENOSYS) break;  // the writes themselves will find a full disk
      return ErrnoStatus(errno, absl::StrCat("allocate ", bytes, " bytes for ", path_));
    }
    return absl::OkStatus();
  }

  int64_t PreferDirect() override {
    if (direct_fd_ >= 0) return direct_alignment_;
    direct_alignment_ = DirectAlignment();
    if (direct_alignment_ == 1) return 1;
    // The same file, wherever it has been moved to since.
    const int flags = ::fcntl(fd_, F_GETFL);
    direct_fd_ = ::open(absl::StrCat("/proc/self/fd/", fd_).c_str(), (flags & O_ACCMODE) | O_DIRECT | O_CLOEXEC);
    return direct_fd_ >= 0 ? direct_alignment_ : 1;
  }

  absl::Status Sync() override {
    if (::fdatasync(fd_) != 0) return ErrnoStatus(errno, absl::StrCat("fdatasync ", path_));
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Bytes() override {
    struct stat st;
    if (::fstat(fd_, &st) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path_));
    return st.st_size;
  }

  // Locks it, which may take a while, and says whether it is the file at `path` then.
  absl::StatusOr<bool> LockAt(const std::string& path) {
    while (::flock(fd_, LOCK_EX) != 0) {
      if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("lock ", path_));
    }
    struct stat held, there;
    if (::fstat(fd_, &held) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path_));
    if (::lstat(path.c_str(), &there) == 0) return held.st_dev == there.st_dev && held.st_ino == there.st_ino;
    if (errno == ENOENT) return false;
    return ErrnoStatus(errno, absl::StrCat("stat ", path));
  }

 private:
  // What memory must be aligned to; 1 when this file cannot be written past the page cache in blocks of 4096.
  int64_t DirectAlignment() const {
#ifdef STATX_DIOALIGN
    struct statx st;
    if (::statx(fd_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && (st.stx_mask & STATX_DIOALIGN) != 0) {
      return st.stx_dio_offset_align == 0 || st.stx_dio_offset_align > kBlock || st.stx_dio_mem_align > kBlock ? 1 : st.stx_dio_mem_align;
    }
#endif
    return kBlock;  // a kernel that does not tell: enough for every file system, and EINVAL says if not
  }
  bool FitsDirect(const void* data, size_t bytes, int64_t offset) const {
    return direct_fd_ >= 0 && reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(direct_alignment_) == 0 && bytes % kBlock == 0 && offset % kBlock == 0;
  }

  static constexpr int64_t kBlock = 4096;
  const int fd_;
  int direct_fd_ = -1;  // the same file with O_DIRECT
  int64_t direct_alignment_ = 1;
  const std::string path_;
};

class RealFileSystem final : public Io {
 public:
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return OpenWith(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, "create ");
  }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    ASSIGN_OR_RETURN(auto file, OpenWith(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, "open "));  // a fifo must not hang us
    return file;
  }

  absl::Status MakeDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat st;
    if (error == EEXIST && ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return absl::OkStatus();
    return ErrnoStatus(error, absl::StrCat("mkdir ", path));
  }

  absl::Status SyncDirectory(const std::string& path) override { return FsyncDirectory(path); }

  absl::Status RenameNoReplace(const std::string& from, const std::string& to) override {
    if (::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
    if (errno == EINVAL || errno == ENOSYS) {
      // A file system without the flag. An attempt's directory has one writer, so looking first is enough.
      ASSIGN_OR_RETURN(const bool taken, Exists(to));
      if (taken) return absl::AlreadyExistsError(absl::StrCat(to, " exists"));
      return RenameReplace(from, to);
    }
    if (errno == EEXIST || errno == ENOTEMPTY) return absl::AlreadyExistsError(absl::StrCat(to, " exists"));
    return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
  }

  absl::Status RenameReplace(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
    return absl::OkStatus();
  }

  absl::Status RemoveTree(const std::string& path) override { return spillway::RemoveTree(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override { return ListDirectory(path); }

  absl::StatusOr<bool> Exists(const std::string& path) override {
    struct stat st;
    if (::lstat(path.c_str(), &st) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return ErrnoStatus(errno, absl::StrCat("stat ", path));
  }

  absl::StatusOr<std::unique_ptr<File>> CreateAlone(const std::string& path) override {
    for (;;) {
      ASSIGN_OR_RETURN(std::unique_ptr<RealFile> file, OpenWith(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, "create "));
      ASSIGN_OR_RETURN(const bool is_there, file->LockAt(path));
      if (!is_there) continue;  // whoever had it has renamed or removed it
      RETURN_IF_ERROR(file->Allocate(0));
      return file;
    }
  }

  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override {
    struct statvfs st;
    if (::statvfs(path.c_str(), &st) != 0) return ErrnoStatus(errno, absl::StrCat("statvfs ", path));
    int64_t bytes = 0;
    if (__builtin_mul_overflow(st.f_bavail, st.f_frsize, &bytes)) return INT64_MAX;
    return bytes;
  }

 private:
  static absl::StatusOr<std::unique_ptr<RealFile>> OpenWith(const std::string& path, int flags, absl::string_view verb) {
    const int fd = ::open(path.c_str(), flags, 0644);
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat(verb, path));
    auto file = std::make_unique<RealFile>(fd, path);
    struct stat st;
    if (::fstat(fd, &st) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
    if (!S_ISREG(st.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
    return file;
  }
};

}  // namespace

Io* RealIo() {
  static RealFileSystem* const io = new RealFileSystem;
  return io;
}

absl::StatusOr<std::string> ReadWhole(Io* io, const std::string& path, int64_t bytes_max) {
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, io->Open(path));
  ASSIGN_OR_RETURN(const int64_t bytes, file->Bytes());
  if (bytes > bytes_max) return absl::InvalidArgumentError(absl::StrCat(path, " has ", bytes, " bytes; at most ", bytes_max, " are allowed"));
  std::string content(static_cast<size_t>(bytes), '\0');
  RETURN_IF_ERROR(file->ReadAt(content.data(), content.size(), 0));
  return content;
}

absl::Status MakeDirectoriesDurably(Io* io, const std::string& path) {
  ASSIGN_OR_RETURN(const bool exists, io->Exists(path));
  if (exists) return io->MakeDirectory(path);  // OK for a directory, a clear error for anything else
  const std::string parent = ParentOf(path);
  RETURN_IF_ERROR(MakeDirectoriesDurably(io, parent));
  RETURN_IF_ERROR(io->MakeDirectory(path));
  return io->SyncDirectory(parent);
}

}  // namespace spillway::checkpoint
