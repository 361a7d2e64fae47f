// HOME/supervisor.journal: which attempts this supervisor has started, how they ended, and which ends the worker has taken; for its successor.
//
// Lines, appended with one write each, not synced: it has to survive this process, not the machine (whose death ends the processes too).
//   S KEY JOB INDEX NUMBER PID TICKS CGROUP|- BOOT   started: PID is our child, and with TICKS is named for ever within BOOT
//   P KEY PID TICKS                                  its main process, when that is a reaper's child
//   E KEY HEX                                        ended: frames::EncodeExit in hex
//   A KEY                                            the end was acknowledged: nothing is owed any more
// A line that makes no sense (a torn last one) is skipped and counted.
// A line that could not be written (a full disk) is an error for its caller and is kept: the next write that succeeds brings the file up to date.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/frames/frames.h"

namespace spillway::supervisor {

struct JournalEntry {
  frames::AttemptRef attempt;
  std::vector<std::pair<int64_t, int64_t>> processes;  // (pid, start ticks); empty when another boot wrote it
  std::string cgroup;
  std::optional<frames::Event> exited;  // its end, when it was written
};

struct JournalContent {
  std::vector<JournalEntry> entries;  // not acknowledged, in the order they started
  int64_t skipped_lines = 0;
};

// Pure.
JournalContent ParseJournal(absl::string_view text, absl::string_view boot);
std::string BootId();

class Journal {
 public:
  // Only reads. An absent file is empty.
  static absl::StatusOr<JournalContent> Read(const std::string& path);
  // Reads what is there and rewrites the file with only what is still owed.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& path, JournalContent* content);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  absl::Status Started(const frames::AttemptRef& attempt, int64_t pid, int64_t ticks, const std::string& cgroup);
  absl::Status MainProcess(const std::string& key, int64_t pid, int64_t ticks);
  absl::Status Ended(const frames::AttemptRef& attempt, const frames::ExitFacts& facts, int64_t at_boottime_ms);
  absl::Status Acked(const std::string& key);

 private:
  Journal(std::string path, std::string boot) : path_(std::move(path)), boot_(std::move(boot)) {}
  absl::Status Append(const std::string& key, const std::string& line);
  absl::Status Write(const std::string& line);
  absl::Status Rewrite();
  const std::string path_;
  const std::string boot_;
  int fd_ = -1;
  bool whole_ = true;                        // the file says what it was told, all of it
  std::map<std::string, std::string> owed_;  // by key, its lines
  size_t bytes_ = 0;                         // of the file
  size_t owed_bytes_ = 0;
};

}  // namespace spillway::supervisor
