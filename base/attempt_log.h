// How the log file of an attempt keeps head and tail within a bound, and how to read it. One file, written by the supervisor only.
//
// A byte's offset in the file is its offset in what the job wrote, always. When more than `limit_bytes` were written, the file has a gap:
//   [0, H)        the head, H = LogHeadBytes(limit_bytes)
//   [H, H + N)    the gap. It begins with one marker line of kLogGapMarkerBytes, "\n[spillway: 000000012345678 bytes left out]\n", that says N;
//                 the rest is a hole: no disk space, reads as zeros. N grows while the job writes
//   [H + N, end)  the tail, at most limit_bytes - H
// ReadAttemptLog hides all that: it hands out text and the offset to go on from, and one marker line where bytes are missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"

namespace spillway {

inline constexpr int64_t kLogGapMarkerBytes = 45;

constexpr int64_t LogHeadBytes(int64_t limit_bytes) { return limit_bytes / 2; }

// Exactly kLogGapMarkerBytes long; 0 <= left_out.
std::string LogGapMarker(int64_t left_out);
std::optional<int64_t> ParseLogGapMarker(absl::string_view text);

struct LogChunk {
  std::string text;
  int64_t next_offset = 0;  // ask from here next; equal to the offset asked for when nothing is there yet
  int64_t left_out = 0;     // > 0: `text` is a marker line that stands for so many bytes
  int64_t end_offset = 0;   // of the file, as it was then
};

// At most `max_bytes` of text from `offset`. NOT_FOUND while there is no file. Safe beside the writer.
absl::StatusOr<LogChunk> ReadAttemptLog(const std::string& path, int64_t offset, int64_t max_bytes, int64_t limit_bytes = limits::kLogBytesMax);

// The offset that leaves about `max_bytes` to the end, for a look at the tail; 0 when the log is shorter.
absl::StatusOr<int64_t> AttemptLogTailOffset(const std::string& path, int64_t max_bytes);

}  // namespace spillway
