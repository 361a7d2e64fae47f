#include "checkpoint/layout.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::checkpoint {
namespace {

absl::Status Malformed(absl::string_view text, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("\"", Printable(text), "\" is not ", expected));
}

bool AllDigits(absl::string_view text) {
  for (char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return !text.empty();
}

// One spelling a number: digits only, no leading zero, no sign, no overflow.
bool ParseNumber(absl::string_view text, int64_t low, int64_t* out) {
  if (!AllDigits(text) || text.size() > 19 || (text.size() > 1 && text[0] == '0')) return false;
  return absl::SimpleAtoi(text, out) && *out >= low;
}

bool ParsePadded(absl::string_view text, int digits, int64_t* out) {
  return text.size() == static_cast<size_t>(digits) && AllDigits(text) && absl::SimpleAtoi(text, out);
}

bool IsUuid(absl::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

absl::string_view WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

absl::StatusOr<std::string> TaskDirectory(absl::string_view root, absl::string_view cluster, const TaskId& task) {
  if (!IsUuid(cluster)) return Malformed(cluster, "a cluster UUID (lower case, with dashes)");
  if (task.job < 1 || task.index < 0) return Malformed(task.ToString(), "a task (job from 1, index from 0)");
  return JoinPath(root, absl::StrCat(cluster, "/", task.job, "/", task.index));
}

absl::StatusOr<std::string> AttemptDirectory(absl::string_view root, absl::string_view cluster, const AttemptId& attempt) {
  if (attempt.number < 1) return Malformed(attempt.ToString(), "an attempt (numbered from 1)");
  ASSIGN_OR_RETURN(const std::string task, TaskDirectory(root, cluster, attempt.task()));
  return JoinPath(task, AttemptName(attempt.number));
}

std::string StepDirectory(absl::string_view attempt_directory, int64_t step) { return JoinPath(attempt_directory, StepName(step)); }

std::string StepName(int64_t step) { return absl::StrFormat("step-%0*d", kStepDigits, step); }

absl::StatusOr<int64_t> ParseStepName(absl::string_view name) {
  int64_t step = 0;
  if (!absl::StartsWith(name, "step-") || !ParsePadded(name.substr(5), kStepDigits, &step)) {
    return Malformed(name, "a step name like step-000000000120");
  }
  return step;
}

std::string AttemptName(AttemptNumber attempt) { return absl::StrCat("a", attempt); }

absl::StatusOr<AttemptNumber> ParseAttemptName(absl::string_view name) {
  int64_t attempt = 0;
  if (!absl::StartsWith(name, "a") || !ParseNumber(name.substr(1), 1, &attempt)) return Malformed(name, "an attempt name like a3");
  return attempt;
}

std::string RankFileName(int rank) { return absl::StrFormat("rank-%0*d.bin", kRankDigits, rank); }

absl::StatusOr<int> ParseRankFileName(absl::string_view name) {
  int64_t rank = 0;
  if (!absl::StartsWith(name, "rank-") || !absl::EndsWith(name, ".bin") || name.size() != 9 + kRankDigits ||
      !ParsePadded(name.substr(5, kRankDigits), kRankDigits, &rank)) {
    return Malformed(name, "a container name like rank-00000.bin");
  }
  return static_cast<int>(rank);
}

absl::StatusOr<AttemptPlace> ParseAttemptDirectory(absl::string_view path) {
  static constexpr absl::string_view kForm = "an attempt directory <root>/<cluster uuid>/<job>/<task>/a<attempt>";
  absl::string_view rest = WithoutTrailingSlashes(path);
  absl::string_view last[4];  // cluster, job, task, attempt
  for (int i = 3; i >= 0; --i) {
    const size_t slash = rest.rfind('/');
    if (slash == absl::string_view::npos) {
      if (i != 0) return Malformed(path, kForm);
      last[0] = rest;
      rest = "";
    } else {
      last[i] = rest.substr(slash + 1);
      rest = slash == 0 && i == 0 ? absl::string_view("/") : rest.substr(0, slash);
    }
  }
  AttemptPlace place;
  place.root = std::string(rest);
  place.cluster = std::string(last[0]);
  if (!IsUuid(last[0]) || !ParseNumber(last[1], 1, &place.attempt.job) || !ParseNumber(last[2], 0, &place.attempt.index)) {
    return Malformed(path, kForm);
  }
  auto number = ParseAttemptName(last[3]);
  if (!number.ok()) return Malformed(path, kForm);
  place.attempt.number = *number;
  return place;
}

absl::StatusOr<StepPlace> ParseStepDirectory(absl::string_view path) {
  StepPlace place;
  ASSIGN_OR_RETURN(place.step, ParseStepName(NameOf(path)));
  ASSIGN_OR_RETURN(place.attempt, ParseAttemptDirectory(ParentOf(path)));
  return place;
}

std::string ParentOf(absl::string_view path) {
  path = WithoutTrailingSlashes(path);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(WithoutTrailingSlashes(path.substr(0, slash == 0 ? 1 : slash)));
}

std::string NameOf(absl::string_view path) {
  path = WithoutTrailingSlashes(path);
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace spillway::checkpoint
