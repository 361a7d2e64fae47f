#include "worker/supervisor/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace spillway::supervisor {
namespace {

constexpr size_t kRewriteFromBytes = 1 << 20;
constexpr size_t kJournalBytesMax = 1u << 30;

std::string StartedLine(const frames::AttemptRef& attempt, int64_t pid, int64_t ticks, const std::string& cgroup, const std::string& boot) {
  return absl::StrCat("S ", attempt.key, " ", attempt.id.job, " ", attempt.id.index, " ", attempt.id.number, " ", pid, " ", ticks, " ",
                      cgroup.empty() ? "-" : cgroup, " ", boot, "\n");
}

// One line into the entries so far; false when it makes no sense.
bool Take(absl::string_view line, absl::string_view boot, std::vector<JournalEntry>& entries, std::map<std::string, size_t>& by_key) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.size() < 2) return false;
  const std::string& key = words[1];
  const auto number = [&](size_t i, int64_t& out) { return absl::SimpleAtoi(words[i], &out); };
  if (words[0] == "S") {
    JournalEntry entry;
    int64_t pid = 0, ticks = 0;
    if (words.size() != 9 || !number(2, entry.attempt.id.job) || !number(3, entry.attempt.id.index) || !number(4, entry.attempt.id.number) || !number(5, pid) ||
        !number(6, ticks)) {
      return false;
    }
    entry.attempt.key = key;
    if (words[7] != "-") entry.cgroup = words[7];
    if (words[8] == boot && ticks > 0) entry.processes.emplace_back(pid, ticks);
    by_key[key] = entries.size();
    entries.push_back(std::move(entry));
    return true;
  }
  const auto known = by_key.find(key);
  if (known == by_key.end()) return false;
  JournalEntry& entry = entries[known->second];
  if (words[0] == "P" && words.size() == 4) {
    int64_t pid = 0, ticks = 0;
    if (!number(2, pid) || !number(3, ticks)) return false;
    // Written in the same boot as its S line, which was dropped when that was another one.
    if (!entry.processes.empty() && ticks > 0) entry.processes.emplace_back(pid, ticks);
    return true;
  }
  if (words[0] == "E" && words.size() == 3) {
    const auto bytes = FromHex(words[2]);
    if (!bytes.ok()) return false;
    auto event = frames::DecodeExit(*bytes);
    if (!event.ok()) return false;
    entry.exited = std::move(*event);
    return true;
  }
  if (words[0] == "A" && words.size() == 2) {
    entry.attempt.key.clear();  // owed no more
    by_key.erase(known);
    return true;
  }
  return false;
}

}  // namespace

JournalContent ParseJournal(absl::string_view text, absl::string_view boot) {
  JournalContent content;
  std::map<std::string, size_t> by_key;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty() && !Take(line, boot, content.entries, by_key)) ++content.skipped_lines;
  }
  auto& entries = content.entries;
  entries.erase(std::remove_if(entries.begin(), entries.end(), [](const JournalEntry& e) { return e.attempt.key.empty(); }), entries.end());
  return content;
}

std::string BootId() {
  const auto text = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  const std::string id(text.ok() ? absl::StripAsciiWhitespace(*text) : "");
  return id.empty() ? "unknown" : id;
}

absl::StatusOr<JournalContent> Journal::Read(const std::string& path) {
  auto text = ReadFile(path, kJournalBytesMax);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  return ParseJournal(text.ok() ? *text : "", BootId());
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& path, JournalContent* content) {
  std::unique_ptr<Journal> journal(new Journal(path, BootId()));
  ASSIGN_OR_RETURN(*content, Read(path));
  for (const JournalEntry& entry : content->entries) {
    std::string& lines = journal->owed_[entry.attempt.key];
    const auto [pid, ticks] = entry.processes.empty() ? std::pair<int64_t, int64_t>(0, 0) : entry.processes[0];
    lines = StartedLine(entry.attempt, pid, ticks, entry.cgroup, journal->boot_);
    for (size_t i = 1; i < entry.processes.size(); ++i) {
      absl::StrAppend(&lines, "P ", entry.attempt.key, " ", entry.processes[i].first, " ", entry.processes[i].second, "\n");
    }
    if (entry.exited) {
      const auto& facts = std::get<frames::Exited>(entry.exited->what).facts;
      absl::StrAppend(&lines, "E ", entry.attempt.key, " ", HexOf(frames::EncodeExit(entry.attempt, facts, entry.exited->at_boottime_ms)), "\n");
    }
    journal->owed_bytes_ += lines.size();
  }
  RETURN_IF_ERROR(journal->Rewrite());
  return journal;
}

Journal::~Journal() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Journal::Rewrite() {
  std::string text;
  for (const auto& [key, lines] : owed_) text += lines;
  RETURN_IF_ERROR(WriteFileAtomically(path_, text, 0600));
  const int fd = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path_));
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  bytes_ = text.size();
  whole_ = true;
  return absl::OkStatus();
}

absl::Status Journal::Append(const std::string& key, const std::string& line) {
  owed_bytes_ += line.size();
  owed_[key] += line;
  return Write(line);
}

absl::Status Journal::Write(const std::string& line) {
  // After one that failed, lines are missing, and half of one may stand at the end, to which the next would be joined.
  if (!whole_) return Rewrite();
  const ssize_t n = write(fd_, line.data(), line.size());
  if (n != static_cast<ssize_t>(line.size())) {
    whole_ = false;
    return ErrnoStatus(n < 0 ? errno : ENOSPC, absl::StrCat("cannot append to ", path_));
  }
  bytes_ += line.size();
  return absl::OkStatus();
}

absl::Status Journal::Started(const frames::AttemptRef& attempt, int64_t pid, int64_t ticks, const std::string& cgroup) {
  return Append(attempt.key, StartedLine(attempt, pid, ticks, cgroup, boot_));
}

absl::Status Journal::MainProcess(const std::string& key, int64_t pid, int64_t ticks) {
  return Append(key, absl::StrCat("P ", key, " ", pid, " ", ticks, "\n"));
}

absl::Status Journal::Ended(const frames::AttemptRef& attempt, const frames::ExitFacts& facts, int64_t at_boottime_ms) {
  return Append(attempt.key, absl::StrCat("E ", attempt.key, " ", HexOf(frames::EncodeExit(attempt, facts, at_boottime_ms)), "\n"));
}

absl::Status Journal::Acked(const std::string& key) {
  if (const auto it = owed_.find(key); it != owed_.end()) {
    owed_bytes_ -= it->second.size();
    owed_.erase(it);
  }
  RETURN_IF_ERROR(Write(absl::StrCat("A ", key, "\n")));
  if (bytes_ > kRewriteFromBytes && owed_bytes_ < bytes_ / 2) return Rewrite();
  return absl::OkStatus();
}

}  // namespace spillway::supervisor
