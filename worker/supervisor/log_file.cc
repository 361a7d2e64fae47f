#include "worker/supervisor/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/attempt_log.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/status_macros.h"

namespace spillway::supervisor {
namespace {

constexpr int64_t kBlock = 4096;
constexpr int64_t kLimitMin = 64 << 10;
constexpr size_t kRingMax = 1 << 20;

int64_t AlignUp(int64_t v) { return (v + kBlock - 1) / kBlock * kBlock; }

}  // namespace

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::Open(const std::string& path, Options options) {
  if (options.limit_bytes == 0) options.limit_bytes = limits::kLogBytesMax;
  options.limit_bytes = std::max(options.limit_bytes, kLimitMin);
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) RETURN_IF_ERROR(MakeDirectories(path.substr(0, slash)));
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open the log ", path));
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat("the log ", path, " is not a regular file"));
  }
  return std::unique_ptr<LogFile>(new LogFile(fd, info.st_size, options));
}

LogFile::LogFile(int fd, int64_t end, Options options) : fd_(fd), end_(end), options_(options) {
  const int64_t head = LogHeadBytes(options_.limit_bytes);
  tail_ = head;
  if (end_ > options_.limit_bytes) {
    // Appending to a log that has its gap already.
    char marker[kLogGapMarkerBytes];
    if (pread(fd_, marker, sizeof marker, head) == kLogGapMarkerBytes) {
      tail_ += ParseLogGapMarker(absl::string_view(marker, sizeof marker)).value_or(0);
    }
  }
}

LogFile::~LogFile() { Close(); }

void LogFile::Append(absl::string_view bytes) {
  if (fd_ < 0 || bytes.empty()) return;
  at_line_start_ = bytes.back() == '\n';
  if (in_memory_) {
    HoldInMemory(bytes);
    return;
  }
  Write(bytes);
  if (end_ - tail_ > options_.limit_bytes - LogHeadBytes(options_.limit_bytes)) MoveTail();
}

void LogFile::Note(absl::string_view text) { Append(absl::StrCat(at_line_start_ ? "" : "\n", "[spillway] ", text, "\n")); }

void LogFile::Write(absl::string_view bytes) {
  if (lost_ > 0) {
    const std::string line = absl::StrCat("\n[spillway] ", lost_, " bytes of output lost: ", error_, "\n");
    if (pwrite(fd_, line.data(), line.size(), end_) != static_cast<ssize_t>(line.size())) {
      lost_ += static_cast<int64_t>(bytes.size());
      return;
    }
    end_ += static_cast<int64_t>(line.size());
    lost_ = 0;
  }
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), end_);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      error_ = strerror(n < 0 ? errno : ENOSPC);
      lost_ += static_cast<int64_t>(bytes.size());
      return;
    }
    end_ += n;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

// Leaves three quarters of the tail's room in use, so that this happens once in a quarter of it.
void LogFile::MoveTail() {
  const int64_t head = LogHeadBytes(options_.limit_bytes);
  const int64_t room = options_.limit_bytes - head;
  const int64_t tail = AlignUp(end_ - room + room / 4);
  const int64_t hole = AlignUp(head + kLogGapMarkerBytes);
  if (tail <= tail_ || tail > end_) return;
  // First what readers go by, then the hole.
  const std::string marker = LogGapMarker(tail - head);
  if (pwrite(fd_, marker.data(), marker.size(), head) != static_cast<ssize_t>(marker.size())) return;
  const int64_t from = std::max(hole, tail_ / kBlock * kBlock);
  if (!options_.punch_holes || fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, tail - from) != 0) in_memory_ = true;
  tail_ = tail;
}

void LogFile::HoldInMemory(absl::string_view bytes) {
  end_ += static_cast<int64_t>(bytes.size());
  if (bytes.size() >= kRingMax) {
    ring_.assign(bytes.data() + bytes.size() - kRingMax, kRingMax);
    return;
  }
  ring_.append(bytes.data(), bytes.size());
  // Cut only when twice as long: each byte is moved at most once.
  if (ring_.size() > 2 * kRingMax) ring_.erase(0, ring_.size() - kRingMax);
}

void LogFile::Close() {
  if (fd_ < 0) return;
  if (in_memory_ && !ring_.empty()) {
    const int64_t head = LogHeadBytes(options_.limit_bytes);
    const int64_t room = options_.limit_bytes - head;
    const size_t keep = std::min({ring_.size(), kRingMax, static_cast<size_t>(room)});
    const int64_t tail = end_ - static_cast<int64_t>(keep);
    const std::string marker = LogGapMarker(tail - head);
    const std::string newest = ring_.substr(ring_.size() - keep);
    // What lay after the head is given up for the newest bytes; the file stays sparse between.
    if (ftruncate(fd_, head) != 0 || pwrite(fd_, marker.data(), marker.size(), head) != static_cast<ssize_t>(marker.size()) ||
        pwrite(fd_, newest.data(), newest.size(), tail) != static_cast<ssize_t>(newest.size())) {
      error_ = strerror(errno);
    }
  }
  close(fd_);
  fd_ = -1;
}

}  // namespace spillway::supervisor
