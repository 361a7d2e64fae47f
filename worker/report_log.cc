#include "worker/report_log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace spillway::worker {
namespace {

using nlohmann::json;

std::string Line(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

std::string Encode(const Report& report) {
  json value = {{"seq", report.seq},
                {"job", report.attempt.job},
                {"task", report.attempt.index},
                {"attempt", report.attempt.number},
                {"kind", static_cast<int>(report.kind)}};
  if (!report.rendezvous.empty()) value["rendezvous"] = report.rendezvous;
  if (report.kind == Report::Kind::kCheckpoint) {
    value["step"] = report.checkpoint.step;
    value["path"] = report.checkpoint.path;
    value["sha256"] = report.checkpoint.manifest_sha256;
    value["bytes"] = report.checkpoint.bytes;
  }
  if (report.kind == Report::Kind::kEnded) {
    value["cause"] = static_cast<int>(report.end.cause);
    value["initiator"] = static_cast<int>(report.end.initiator);
    value["detail"] = report.end.detail;
    value["last_step"] = report.end.last_step;
    value["total_steps"] = report.end.total_steps;
    value["log_bytes"] = report.end.log_bytes;
    value["run_ms"] = report.end.run_ms;
  }
  return Line(value);
}

// Throws json's exceptions for missing or wrong fields.
Report Decode(const json& value) {
  Report report;
  report.seq = value.at("seq").get<int64_t>();
  report.attempt = {value.at("job").get<int64_t>(), value.at("task").get<int64_t>(), value.at("attempt").get<int64_t>()};
  report.kind = static_cast<Report::Kind>(value.at("kind").get<int>());
  switch (report.kind) {
    case Report::Kind::kAccepted: report.rendezvous = value.value("rendezvous", std::string()); break;
    case Report::Kind::kStarted: break;
    case Report::Kind::kCheckpoint:
      report.checkpoint = {value.at("step").get<int64_t>(), value.at("path").get<std::string>(), value.at("sha256").get<std::string>(),
                           value.at("bytes").get<int64_t>()};
      break;
    case Report::Kind::kEnded:
      report.end = {WordFromNumber<EndCause>(value.at("cause").get<int64_t>()),
                    WordFromNumber<Initiator>(value.at("initiator").get<int64_t>()),
                    value.at("detail").get<std::string>(),
                    value.at("last_step").get<int64_t>(),
                    value.at("total_steps").get<int64_t>(),
                    value.at("log_bytes").get<int64_t>(),
                    value.at("run_ms").get<int64_t>()};
      break;
    default: throw std::invalid_argument("no such kind of report");
  }
  return report;
}

void Drop(SavedReports& saved, int64_t acked) {
  saved.acked = acked;
  auto first = saved.unacked.begin();
  while (first != saved.unacked.end() && first->seq <= acked) ++first;
  saved.unacked.erase(saved.unacked.begin(), first);
}

// False when the line makes no sense.
bool Apply(absl::string_view line, SavedReports& saved) {
  try {
    const json value = json::parse(line.begin(), line.end());
    if (value.contains("boot")) {
      saved = {value.at("boot").get<std::string>(), value.at("acked").get<int64_t>(), {}};
    } else if (value.contains("ack")) {
      Drop(saved, value.at("ack").get<int64_t>());
    } else {
      saved.unacked.push_back(Decode(value));
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

absl::StatusOr<ReportLog> ReportLog::Open(const std::string& path, SavedReports* saved) {
  ReportLog log(path);
  auto text = ReadFile(path);
  if (text.ok()) {
    size_t from = 0;
    for (size_t end; (end = text->find('\n', from)) != std::string::npos; from = end + 1) {
      if (!Apply(absl::string_view(*text).substr(from, end - from), log.kept_)) break;
    }
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  *saved = log.kept_;
  // Without what was torn. What stands there is readable all the same, and this node's jobs must not wait for somebody to clean up its disk.
  const absl::Status clean = log.Replace(log.kept_);
  if (!clean.ok() && !absl::IsResourceExhausted(clean)) return clean;
  return log;
}

ReportLog::ReportLog(ReportLog&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_), whole_(other.whole_), kept_(std::move(other.kept_)) {}

ReportLog::~ReportLog() {
  if (fd_ >= 0) close(fd_);
}

absl::Status ReportLog::Append(const std::vector<Report>& reports) {
  std::string lines;
  for (const Report& report : reports) lines += Encode(report);
  kept_.unacked.insert(kept_.unacked.end(), reports.begin(), reports.end());
  return Write(lines);
}

absl::Status ReportLog::Replace(SavedReports saved) {
  kept_ = std::move(saved);
  whole_ = false;
  std::string lines = Line({{"boot", kept_.boot_id}, {"acked", kept_.acked}});
  for (const Report& report : kept_.unacked) lines += Encode(report);
  RETURN_IF_ERROR(WriteFileAtomically(path_, lines, 0600));
  RETURN_IF_ERROR(Reopen());
  whole_ = true;
  return absl::OkStatus();
}

absl::Status ReportLog::Mend() { return whole_ ? absl::OkStatus() : Replace(std::move(kept_)); }

absl::Status ReportLog::Acked(int64_t seq) {
  Drop(kept_, seq);
  if (bytes_ > kCompactAboveBytes && kept_.unacked.size() < 256) return Replace(std::move(kept_));
  return Write(Line({{"ack", seq}}));
}

absl::Status ReportLog::Write(const std::string& lines) {
  // A line behind a gap would be read as if nothing were missing.
  if (!whole_) return Mend();
  size_t written = 0;
  while (written < lines.size()) {
    const ssize_t n = write(fd_, lines.data() + written, lines.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const absl::Status status = ErrnoStatus(errno, absl::StrCat("cannot write ", path_));
      whole_ = false;
      return status;
    }
    written += static_cast<size_t>(n);
  }
  bytes_ += static_cast<int64_t>(lines.size());
  return absl::OkStatus();
}

absl::Status ReportLog::Reopen() {
  if (fd_ >= 0) close(fd_);
  fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path_));
  bytes_ = lseek(fd_, 0, SEEK_END);
  return absl::OkStatus();
}

}  // namespace spillway::worker
