#include "base/process_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/subprocess.h"

namespace spillway {
namespace {

constexpr int kTries = 200;  // two seconds: a child that waits for memory or a slow disk at its exec
constexpr auto kBetweenTries = std::chrono::milliseconds(10);

struct Holder {
  int64_t pid = 0, start_ticks = 0;
};

// As the file says it; pid 0 where it says nothing, as on a disk that was full.
Holder HolderIn(int fd) {
  char text[64] = "";
  const ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(absl::string_view(text, std::max<ssize_t>(bytes, 0))), ' ');
  Holder holder;
  if (!absl::SimpleAtoi(words.first, &holder.pid) || !absl::SimpleAtoi(words.second, &holder.start_ticks)) return {};
  return holder;
}

// Over what stood there and only then cut off: that takes no space on a full disk. It only makes messages better and waiting shorter, so it may fail.
void Name(int fd) {
  const auto ticks = ProcessStartTicks(getpid());
  const std::string text = ticks.ok() ? absl::StrCat(getpid(), " ", *ticks, "\n") : "";
  if (pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) || ftruncate(fd, static_cast<off_t>(text.size())) != 0) errno = 0;
}

}  // namespace

absl::StatusOr<int> LockFile(const std::string& path, const std::string& taken) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  for (int tries = 0;; ++tries) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      Name(fd);
      return fd;
    }
    const int error = errno;
    const Holder holder = HolderIn(fd);
    const bool lives = holder.pid > 0 && ProcessAlive(static_cast<pid_t>(holder.pid), holder.start_ticks);
    if (error == EWOULDBLOCK && !lives && tries < kTries) {
      std::this_thread::sleep_for(kBetweenTries);
      continue;
    }
    close(fd);
    if (error != EWOULDBLOCK) return ErrnoStatus(error, absl::StrCat("cannot lock ", path));
    return absl::FailedPreconditionError(absl::StrCat(taken, lives ? absl::StrCat(" (process ", holder.pid, ")") : ""));
  }
}

}  // namespace spillway
