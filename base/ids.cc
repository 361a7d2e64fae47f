// Parsing and printing of ids. The written form is unique: no signs, no leading zeros, no spaces.
#include "base/ids.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "base/text.h"

namespace spillway {
namespace {

bool ParseNumber(absl::string_view text, int64_t least, int64_t* out) {
  if (text.empty() || text.size() > 19 || (text.size() > 1 && text[0] == '0')) return false;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return absl::SimpleAtoi(text, out) && *out >= least;
}

bool ParseTask(absl::string_view text, TaskId* out) {
  const size_t dot = text.find('.');
  if (!ParseNumber(text.substr(0, dot), 1, &out->job)) return false;
  out->index = 0;
  return dot == absl::string_view::npos || ParseNumber(text.substr(dot + 1), 0, &out->index);
}

}  // namespace

std::string TaskId::ToString() const { return absl::StrCat(job, ".", index); }
std::string AttemptId::ToString() const { return absl::StrCat(job, ".", index, "@", number); }

absl::StatusOr<TaskId> ParseTaskId(absl::string_view text) {
  TaskId id;
  if (ParseTask(text, &id)) return id;
  return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not a task id; write JOB or JOB.TASK, such as 5 or 5.17"));
}

absl::StatusOr<AttemptId> ParseAttemptId(absl::string_view text) {
  const size_t at = text.find('@');
  TaskId task;
  int64_t number = 0;
  if (ParseTask(text.substr(0, at), &task) && (at == absl::string_view::npos || ParseNumber(text.substr(at + 1), 1, &number))) {
    return AttemptId{task.job, task.index, number};
  }
  return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not an attempt id; write JOB.TASK@ATTEMPT, such as 5.17@3"));
}

std::string NewUuid() {
  uint8_t bytes[16];
  FillRandom(bytes, sizeof(bytes));
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);  // version 4
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);  // RFC 4122 variant
  const std::string hex = HexOf(absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4), "-", hex.substr(20));
}

std::string NewToken() {
  char bytes[32];
  FillRandom(bytes, sizeof(bytes));
  return HexOf(absl::string_view(bytes, sizeof(bytes)));
}

}  // namespace spillway
