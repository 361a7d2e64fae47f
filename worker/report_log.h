// The file in which a worker keeps the reports that have a number and are not durable at the scheduler yet, so that the next worker process
// gives the same number the same content. Owns the file's form; numbers nothing (report_book.h does).
//
// One JSON object a line: {"boot":B,"acked":N} first, then a report each, or {"ack":N}. A torn last line is what a killed writer leaves and is
// ignored; anything after a line that makes no sense is ignored too (numbering then goes on after the welcome). Not synced: power loss ends the
// supervisor's life as well, and a new life numbers anew.
//
// A write that fails (a full disk) loses nothing of what was to be written: it is kept in memory, whole() is false, and the next write that succeeds
// brings the file up to date. Until then nothing that only the file would remember may be given up elsewhere.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/report_book.h"

namespace spillway::worker {

class ReportLog {
 public:
  static constexpr int64_t kCompactAboveBytes = 1 << 20;

  // What the file holds goes to `saved`. An absent file is empty. A disk too full to clean the file up is no error: whole() says so.
  static absl::StatusOr<ReportLog> Open(const std::string& path, SavedReports* saved);
  ReportLog(ReportLog&& other) noexcept;
  ReportLog& operator=(ReportLog&&) = delete;
  ~ReportLog();

  // One write. After OK a killed worker's successor finds them.
  absl::Status Append(const std::vector<Report>& reports);
  // Everything anew, in one step.
  absl::Status Replace(SavedReports saved);
  // Up to here they are durable elsewhere. Compacts the file when it has grown and little of it is still needed.
  absl::Status Acked(int64_t seq);

  // The file says what it was told, all of it.
  bool whole() const { return whole_; }
  // Writes everything anew when it does not.
  absl::Status Mend();

 private:
  explicit ReportLog(std::string path) : path_(std::move(path)) {}
  absl::Status Write(const std::string& lines);
  absl::Status Reopen();

  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  bool whole_ = true;
  SavedReports kept_;  // as the file says, or should: for compaction, and for Mend
};

}  // namespace spillway::worker
