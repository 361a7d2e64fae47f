// Where checkpoints lie: <root>/<cluster>/<job>/<task>/a<attempt>/step-<n>. Owns building and parsing these paths; touches no disk.
// A path that does not have exactly this form is refused, so that nothing outside the layout is ever read, sealed or deleted through it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"

namespace spillway::checkpoint {

// Steps are written with 12 digits, so that names sort by step.
inline constexpr int kStepDigits = 12;
inline constexpr int64_t kStepMax = 999'999'999'999;
inline constexpr int kRankDigits = 5;
inline constexpr int kWorldSizeMax = 99'999;

inline constexpr char kManifestName[] = "MANIFEST";
inline constexpr char kKeyFileName[] = "KEY";               // in an encrypted checkpoint: key_file.h
inline constexpr char kLatestName[] = "LATEST";             // a hint for people and scripts; nothing here trusts it
inline constexpr char kAttemptFileName[] = "ATTEMPT";       // whose directory it is: ownership.h
inline constexpr char kAttemptDraftPrefix[] = ".attempt-";  // + owner id: an ATTEMPT that is being written
inline constexpr char kStagePrefix[] = ".stage-";           // + step name + "." + owner id + "." + number: a save in progress, or what a crash left
inline constexpr char kDeadPrefix[] = ".dead-";             // + any: being removed
inline constexpr char kPrunedPrefix[] = ".pruned-";         // + step name: out of sight, about to be removed: retention.h
inline constexpr char kDamagedPrefix[] = ".damaged-";       // + step name + "." + k: moved out of the way of a new save, kept for inspection
inline constexpr char kGroupName[] = ".group";              // where the processes of a joint save meet: group.h
inline constexpr char kPartsName[] = "parts";               // in a stage of a joint save: what each process says of its container

struct AttemptPlace {
  std::string root;     // without a trailing slash; "" when the path is relative and starts with the cluster
  std::string cluster;  // UUID, lower case, with dashes
  AttemptId attempt;
};

struct StepPlace {
  AttemptPlace attempt;
  int64_t step = 0;
};

// <root>/<cluster>/<job>/<task>/a<attempt>. INVALID_ARGUMENT unless the cluster is a UUID and the numbers are in range.
absl::StatusOr<std::string> AttemptDirectory(absl::string_view root, absl::string_view cluster, const AttemptId& attempt);
// <root>/<cluster>/<job>/<task>: the parent of a task's attempts.
absl::StatusOr<std::string> TaskDirectory(absl::string_view root, absl::string_view cluster, const TaskId& task);
// `attempt_directory`/step-<n>. Requires 0 <= step <= kStepMax.
std::string StepDirectory(absl::string_view attempt_directory, int64_t step);

std::string StepName(int64_t step);  // "step-000000000120"
absl::StatusOr<int64_t> ParseStepName(absl::string_view name);
std::string AttemptName(AttemptNumber attempt);  // "a3"
absl::StatusOr<AttemptNumber> ParseAttemptName(absl::string_view name);
std::string RankFileName(int rank);  // "rank-00000.bin"
absl::StatusOr<int> ParseRankFileName(absl::string_view name);

absl::StatusOr<AttemptPlace> ParseAttemptDirectory(absl::string_view path);
absl::StatusOr<StepPlace> ParseStepDirectory(absl::string_view path);

// The path without its last component, and the last component. Trailing slashes are ignored.
std::string ParentOf(absl::string_view path);
std::string NameOf(absl::string_view path);

}  // namespace spillway::checkpoint
