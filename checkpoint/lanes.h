// Threads that share out numbered pieces of work among them, each with a buffer of its own: so many requests are under way on the disk at a
// time, and checksums and ciphers keep every core busy beside them. Knows nothing of what the pieces are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace spillway::checkpoint {

inline constexpr int kLanesMax = 8;
inline constexpr size_t kLaneBuffersBytesMax = 64 << 20;  // of all lanes together, but for the first

// The pieces of several things, numbered through.
class PieceNumbers {
 public:
  void Add(int64_t pieces) { ends_.push_back(count() + pieces); }  // of the next thing; it may have none
  int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  // Which thing a piece is of, and which of its pieces it is.
  std::pair<size_t, int64_t> Of(int64_t piece) const;

 private:
  std::vector<int64_t> ends_;
};

class Lanes {
 public:
  // At most as many lanes as there are pieces.
  Lanes(int64_t pieces, size_t buffer_bytes);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  int count() const { return count_; }
  // Of this lane alone, reused by all its pieces: aligned to a page, in huge pages where it has that size.
  char* buffer(int lane) const { return buffers_ + static_cast<size_t>(lane) * buffer_bytes_; }
  // Calls work(lane, piece) once for each piece, begun in their order, from several threads at a time: the caller's is lane 0. After an error no
  // other piece begins; that of the first piece that failed is returned when all threads have ended.
  absl::Status Run(const std::function<absl::Status(int lane, int64_t piece)>& work) const;

 private:
  const int64_t pieces_;
  const size_t buffer_bytes_;
  int count_ = 1;
  char* buffers_ = nullptr;  // nullptr: there was no memory, and Run says so
};

}  // namespace spillway::checkpoint
