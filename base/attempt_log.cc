#include "base/attempt_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"

namespace spillway {
namespace {

constexpr absl::string_view kMarkerHead = "\n[spillway: ";
constexpr absl::string_view kMarkerTail = " bytes left out]\n";
constexpr size_t kMarkerDigits = 16;
static_assert(kMarkerHead.size() + kMarkerDigits + kMarkerTail.size() == kLogGapMarkerBytes);

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return fd_ >= 0; }
  // Bytes read, short only at the end of the file; -1 with errno.
  ssize_t ReadAt(int64_t offset, char* out, size_t n) const {
    size_t done = 0;
    while (done < n) {
      const ssize_t got = pread(fd_, out + done, n - done, offset + static_cast<int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return -1;
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return static_cast<ssize_t>(done);
  }
  int64_t Size() const {
    struct stat info;
    return fstat(fd_, &info) == 0 ? static_cast<int64_t>(info.st_size) : -1;
  }

 private:
  const int fd_;
};

// N, or 0 while the log has no gap.
int64_t GapAt(const File& file, int64_t head) {
  char marker[kLogGapMarkerBytes];
  const ssize_t n = file.ReadAt(head, marker, sizeof marker);
  if (n != kLogGapMarkerBytes) return 0;
  return ParseLogGapMarker(absl::string_view(marker, sizeof marker)).value_or(0);
}

}  // namespace

std::string LogGapMarker(int64_t left_out) { return absl::StrFormat("%s%0*d%s", kMarkerHead, static_cast<int>(kMarkerDigits), left_out, kMarkerTail); }

std::optional<int64_t> ParseLogGapMarker(absl::string_view text) {
  if (text.size() != kLogGapMarkerBytes || text.substr(0, kMarkerHead.size()) != kMarkerHead ||
      text.substr(kMarkerHead.size() + kMarkerDigits) != kMarkerTail) {
    return std::nullopt;
  }
  int64_t n = 0;
  const absl::string_view digits = text.substr(kMarkerHead.size(), kMarkerDigits);
  if (digits.find_first_not_of("0123456789") != absl::string_view::npos || !absl::SimpleAtoi(digits, &n)) return std::nullopt;
  return n;
}

absl::StatusOr<LogChunk> ReadAttemptLog(const std::string& path, int64_t offset, int64_t max_bytes, int64_t limit_bytes) {
  if (offset < 0 || max_bytes <= 0) return absl::InvalidArgumentError("a log is read from an offset >= 0, at least one byte at a time");
  const File file(path);
  if (!file.ok()) return ErrnoStatus(errno, absl::StrCat("cannot open the log ", path));
  const int64_t head = LogHeadBytes(limit_bytes);
  LogChunk chunk;
  chunk.next_offset = offset;
  chunk.end_offset = std::max<int64_t>(file.Size(), 0);
  const bool may_have_gap = chunk.end_offset > limit_bytes;
  // A chunk never spans the place where a gap may open: what is before it is final.
  if (offset < head) max_bytes = std::min(max_bytes, head - offset);
  std::string text(static_cast<size_t>(std::min(max_bytes, std::max<int64_t>(chunk.end_offset - offset, 0))), '\0');
  const ssize_t n = file.ReadAt(offset, text.data(), text.size());
  if (n < 0) return ErrnoStatus(errno, absl::StrCat("cannot read the log ", path));
  text.resize(static_cast<size_t>(n));
  if (offset >= head && may_have_gap) {
    // Looked at after the bytes: the writer says how large the gap is before it makes the hole.
    const int64_t tail = head + GapAt(file, head);
    if (offset < tail) {
      chunk.left_out = tail - offset;
      chunk.text = LogGapMarker(chunk.left_out);
      chunk.next_offset = tail;
      return chunk;
    }
  }
  chunk.next_offset = offset + n;
  chunk.text = std::move(text);
  return chunk;
}

absl::StatusOr<int64_t> AttemptLogTailOffset(const std::string& path, int64_t max_bytes) {
  const File file(path);
  if (!file.ok()) return ErrnoStatus(errno, absl::StrCat("cannot open the log ", path));
  return std::max<int64_t>(0, file.Size() - max_bytes);
}

}  // namespace spillway
