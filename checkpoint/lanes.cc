#include "checkpoint/lanes.h"

#include <sys/mman.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace spillway::checkpoint {
namespace {

constexpr size_t kPage = 4096;

// The pieces that are left, and what went wrong first.
class Pieces {
 public:
  explicit Pieces(int64_t count) : count_(count) {}

  // -1: nothing is left to begin.
  int64_t Next() {
    MutexLock lock(&mutex_);
    return next_ < count_ && why_.ok() ? next_++ : -1;
  }
  void Fail(int64_t piece, absl::Status why) {
    MutexLock lock(&mutex_);
    if (!why_.ok() && failed_ < piece) return;
    failed_ = piece;
    why_ = std::move(why);
  }
  absl::Status why() {
    MutexLock lock(&mutex_);
    return why_;
  }

 private:
  const int64_t count_;
  Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::pair<size_t, int64_t> PieceNumbers::Of(int64_t piece) const {
  const auto thing = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), piece) - ends_.begin());
  return {thing, piece - (thing == 0 ? 0 : ends_[thing - 1])};
}

Lanes::Lanes(int64_t pieces, size_t buffer_bytes) : pieces_(pieces), buffer_bytes_((buffer_bytes + kPage - 1) / kPage * kPage) {
  const auto fit = static_cast<int64_t>(kLaneBuffersBytesMax / std::max(buffer_bytes_, kPage));
  count_ = static_cast<int>(std::clamp<int64_t>(std::min(pieces, fit), 1, kLanesMax));
  const size_t bytes = std::max(buffer_bytes_, kPage) * static_cast<size_t>(count_);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  madvise(mapped, bytes, MADV_HUGEPAGE);  // a wish
  buffers_ = static_cast<char*>(mapped);
}

Lanes::~Lanes() {
  if (buffers_ != nullptr) munmap(buffers_, std::max(buffer_bytes_, kPage) * static_cast<size_t>(count_));
}

absl::Status Lanes::Run(const std::function<absl::Status(int lane, int64_t piece)>& work) const {
  if (buffers_ == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", count_, " buffers of ", buffer_bytes_, " bytes"));
  Pieces left(pieces_);
  const auto drive = [&](int lane) {
    for (int64_t piece = left.Next(); piece >= 0; piece = left.Next()) {
      if (absl::Status done = work(lane, piece); !done.ok()) left.Fail(piece, std::move(done));
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int lane = 1; lane < count_; ++lane) threads.emplace_back(drive, lane);
  } catch (const std::system_error&) {
    // A limit on threads: those there are do all of it.
  }
  drive(0);
  for (std::thread& thread : threads) thread.join();
  return left.why();
}

}  // namespace spillway::checkpoint
