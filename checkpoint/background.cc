#include "checkpoint/background.h"

#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "checkpoint/lanes.h"

namespace spillway::checkpoint {
namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kPiece = 8 << 20;  // of a copy, which several threads make

int64_t RoundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

// Past the caches, where the processor can: they would read every line that is to be overwritten, which is half as much traffic again, and keep
// nothing of GiB. `to` begins at a page.
void CopyStreaming(char* to, const char* from, size_t bytes) {
#ifdef __SSE2__
  constexpr size_t kLine = 64;
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace

HostBuffer::~HostBuffer() { Release(); }

void HostBuffer::Release() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
  data_ = nullptr;
  bytes_ = 0;
}

absl::Status HostBuffer::Reserve(int64_t bytes) {
  if (bytes <= bytes_) return absl::OkStatus();
  Release();
  const int64_t rounded = RoundUp(bytes, kHugePage);
  void* mapped = mmap(nullptr, static_cast<size_t>(rounded), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("no memory for a copy of ", FormatBytes(bytes)));
  madvise(mapped, static_cast<size_t>(rounded), MADV_HUGEPAGE);  // a wish
  data_ = static_cast<char*>(mapped);
  bytes_ = rounded;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BackgroundWriter>> BackgroundWriter::Open(WriterOptions options, int64_t memory_bytes_max) {
  ASSIGN_OR_RETURN(Writer writer, Writer::Open(std::move(options)));
  std::unique_ptr<BackgroundWriter> made(new BackgroundWriter(std::move(writer), memory_bytes_max));
  try {
    made->thread_ = std::thread([self = made.get()] { self->Write(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread to write checkpoints: ", error.what()));
  }
  return made;
}

BackgroundWriter::~BackgroundWriter() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

// A copy that is free and may have so many bytes; nullptr when it may never have them.
BackgroundWriter::Copy* BackgroundWriter::AwaitCopy(int64_t bytes) {
  MutexLock lock(&mutex_);
  while (true) {
    int64_t others = 0;  // what is held by the copies in use
    for (const Copy* copy : waiting_) others += copy->buffer.bytes();
    if (bytes > memory_bytes_max_) {
      if (waiting_.empty()) return nullptr;
    } else if (!free_.empty() && bytes <= memory_bytes_max_ - others) {
      // Rather one that has the room already; what the other free one holds may be too much beside it.
      const auto best = std::max_element(free_.begin(), free_.end(), [](const Copy* a, const Copy* b) { return a->buffer.bytes() < b->buffer.bytes(); });
      Copy* const copy = *best;
      free_.erase(best);
      for (Copy* other : free_) {
        if (std::max(bytes, copy->buffer.bytes()) > memory_bytes_max_ - others - other->buffer.bytes()) other->buffer.Release();
      }
      if (copy->buffer.bytes() > memory_bytes_max_ - others) copy->buffer.Release();
      return copy;
    }
    changed_.Wait(&mutex_);
  }
}

absl::Status BackgroundWriter::Save(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata) {
  int64_t bytes = 0;
  for (const TensorView& tensor : tensors) {
    Slice checked;
    RETURN_IF_ERROR(CheckTensor(tensor.name, tensor.dtype, tensor.shape, tensor.slice, tensor.bytes, &checked));
    bytes = RoundUp(bytes, kAlignment) + tensor.bytes;
  }
  // Whole huge pages are what a buffer takes.
  Copy* const copy = AwaitCopy(RoundUp(std::max<int64_t>(bytes, 1), kHugePage));
  if (copy == nullptr) {
    auto saved = writer_.Save(step, tensors, metadata);  // the thread has nothing to write
    MutexLock lock(&mutex_);
    ended_.push_back({step, std::move(saved)});
    return absl::OkStatus();
  }
  const absl::Status copied = [&]() -> absl::Status {
    RETURN_IF_ERROR(copy->buffer.Reserve(std::max<int64_t>(bytes, 1)));
    copy->step = step;
    copy->metadata = metadata;
    copy->tensors = tensors;
    PieceNumbers pieces;
    int64_t at = 0;
    for (TensorView& tensor : copy->tensors) {
      tensor.data = copy->buffer.data() + RoundUp(at, kAlignment);
      at = RoundUp(at, kAlignment) + tensor.bytes;
      pieces.Add((tensor.bytes + kPiece - 1) / kPiece);
    }
    const Lanes lanes(pieces.count(), 0);
    return lanes.Run([&](int, int64_t piece) {
      const auto [i, of_tensor] = pieces.Of(piece);
      const int64_t begin = of_tensor * kPiece;
      char* const to = copy->buffer.data() + (static_cast<const char*>(copy->tensors[i].data) - copy->buffer.data());
      CopyStreaming(to + begin, static_cast<const char*>(tensors[i].data) + begin, static_cast<size_t>(std::min(kPiece, tensors[i].bytes - begin)));
      return absl::OkStatus();
    });
  }();
  MutexLock lock(&mutex_);
  (copied.ok() ? static_cast<void>(waiting_.push_back(copy)) : free_.push_back(copy));
  changed_.SignalAll();
  return copied;
}

void BackgroundWriter::Write() {
  while (true) {
    Copy* copy = nullptr;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !closing_) changed_.Wait(&mutex_);
      if (waiting_.empty()) return;
      copy = waiting_.front();
    }
    auto saved = writer_.Save(copy->step, copy->tensors, copy->metadata);
    MutexLock lock(&mutex_);
    ended_.push_back({copy->step, std::move(saved)});
    waiting_.pop_front();
    free_.push_back(copy);
    changed_.SignalAll();
  }
}

std::vector<BackgroundWriter::Ended> BackgroundWriter::Collect() {
  MutexLock lock(&mutex_);
  return std::exchange(ended_, {});
}

std::vector<BackgroundWriter::Ended> BackgroundWriter::Drain() {
  MutexLock lock(&mutex_);
  while (!waiting_.empty()) changed_.Wait(&mutex_);
  return std::exchange(ended_, {});
}

bool BackgroundWriter::busy() const {
  MutexLock lock(&mutex_);
  return !waiting_.empty();
}

}  // namespace spillway::checkpoint
