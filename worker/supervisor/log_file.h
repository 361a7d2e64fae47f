// Writes the log file of one attempt as base/attempt_log.h lays it out: head and tail within a bound, the gap a hole with one marker line.
// A log that cannot be written never harms the job: the bytes are counted as lost, and a line says so as soon as writing works again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::supervisor {

class LogFile {
 public:
  struct Options {
    int64_t limit_bytes = 0;  // at least 64 KiB; smaller is raised to that
    bool punch_holes = true;  // false acts as on a file system that cannot: the tail is held in memory until Close
  };
  // Appends to what is there already. Parent folders are created.
  static absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path, Options options);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void Append(absl::string_view bytes);
  // One line of the supervisor's own, "[spillway] TEXT", on a line of its own.
  void Note(absl::string_view text);
  void Close();

  int64_t end_offset() const { return end_; }
  const std::string& error() const { return error_; }  // "" while nothing was lost

 private:
  LogFile(int fd, int64_t end, Options options);
  void Write(absl::string_view bytes);
  void MoveTail();
  void HoldInMemory(absl::string_view bytes);

  int fd_;
  int64_t end_;
  int64_t tail_ = 0;  // where the tail begins; the head's end while there is no gap
  Options options_;
  bool in_memory_ = false;  // holes cannot be made: `ring_` holds the newest bytes
  std::string ring_;
  bool at_line_start_ = true;
  int64_t lost_ = 0;  // since the last time that writing worked
  std::string error_;
};

}  // namespace spillway::supervisor
