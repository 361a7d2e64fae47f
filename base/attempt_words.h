// The words for jobs, tasks, attempts and nodes that core, worker, wire and command line share, each with its fixed number.
// Owns the numbers and the spelling (UPPER_CASE; parsing takes either case). Numbers are stored and sent: never reuse or reorder them.
// Never says which moves between states are legal: the core's table does.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/text.h"

namespace spillway {

// How a node is paid.
enum class Market { kUnspecified = 0, kReserved = 1, kSpot = 2, kOnDemand = 3 };

enum class TaskState { kUnspecified = 0, kQueued = 1, kHeld = 2, kActive = 3, kSucceeded = 4, kFailed = 5, kCancelled = 6 };

// Why a task is HELD. DROUGHT: the quota of every offer that fits is used up.
enum class HoldReason { kUnspecified = 0, kPaused = 1, kDependency = 2, kBudget = 3, kSweep = 4, kDrought = 5 };

enum class AttemptState { kUnspecified = 0, kOffered = 1, kStarting = 2, kRunning = 3, kStopping = 4, kEnded = 5 };

// Why an attempt ended. Known, not guessed.
enum class EndCause {
  kUnspecified = 0,
  kCompleted = 1,
  kUserError = 2,
  kCheckpointed = 3,  // exit 85 with a new checkpoint: run me again
  kPreempted = 4,
  kMoved = 5,
  kNodeLost = 6,
  kPeerFailed = 7,
  kOutOfMemory = 8,
  kDiskFull = 9,
  kGpuFault = 10,
  kHang = 11,
  kTimeout = 12,
  kBudget = 13,
  kDeadline = 14,
  kCancelled = 15,
  kLaunchFailed = 16,
  kStagingFailed = 17,
  kDependencyFailed = 18,
  kFenced = 19,  // its authority had ended: lapsed lease, or a newer attempt
};

// Whose doing the end was.
enum class Initiator { kUnspecified = 0, kUser = 1, kScheduler = 2, kProvider = 3, kNode = 4, kJob = 5 };

enum class NodeState {
  kUnspecified = 0,
  kRequested = 1,
  kBooting = 2,
  kReady = 3,
  kDraining = 4,
  kReleasing = 5,
  kReleased = 6,
  kLost = 7,
};

// Words<E>: what kind of word E is (for messages), and its names by number; index 0 is UNSPECIFIED.
template <typename E>
struct Words;

template <>
struct Words<Market> {
  static constexpr const char* kWhat = "market";
  static constexpr std::array kNames = {"UNSPECIFIED", "RESERVED", "SPOT", "ON_DEMAND"};
};
template <>
struct Words<TaskState> {
  static constexpr const char* kWhat = "task state";
  static constexpr std::array kNames = {"UNSPECIFIED", "QUEUED", "HELD", "ACTIVE", "SUCCEEDED", "FAILED", "CANCELLED"};
};
template <>
struct Words<HoldReason> {
  static constexpr const char* kWhat = "hold reason";
  static constexpr std::array kNames = {"UNSPECIFIED", "PAUSED", "DEPENDENCY", "BUDGET", "SWEEP", "DROUGHT"};
};
template <>
struct Words<AttemptState> {
  static constexpr const char* kWhat = "attempt state";
  static constexpr std::array kNames = {"UNSPECIFIED", "OFFERED", "STARTING", "RUNNING", "STOPPING", "ENDED"};
};
template <>
struct Words<EndCause> {
  static constexpr const char* kWhat = "end cause";
  static constexpr std::array kNames = {
      "UNSPECIFIED", "COMPLETED", "USER_ERROR", "CHECKPOINTED", "PREEMPTED", "MOVED",     "NODE_LOST",     "PEER_FAILED",    "OUT_OF_MEMORY",     "DISK_FULL",
      "GPU_FAULT",   "HANG",      "TIMEOUT",    "BUDGET",       "DEADLINE",  "CANCELLED", "LAUNCH_FAILED", "STAGING_FAILED", "DEPENDENCY_FAILED", "FENCED"};
};
template <>
struct Words<Initiator> {
  static constexpr const char* kWhat = "initiator";
  static constexpr std::array kNames = {"UNSPECIFIED", "USER", "SCHEDULER", "PROVIDER", "NODE", "JOB"};
};
template <>
struct Words<NodeState> {
  static constexpr const char* kWhat = "node state";
  static constexpr std::array kNames = {"UNSPECIFIED", "REQUESTED", "BOOTING", "READY", "DRAINING", "RELEASING", "RELEASED", "LOST"};
};

// "RESERVED", "QUEUED", ...; "INVALID" for a number that is no enumerator (it may have come off a wire).
template <typename E, typename = decltype(Words<E>::kNames)>
absl::string_view Name(E word) {
  const auto number = static_cast<size_t>(word);
  return number < Words<E>::kNames.size() ? absl::string_view(Words<E>::kNames[number]) : "INVALID";
}

// "on_demand" for job files, JSON and people who do not like to be shouted at.
template <typename E, typename = decltype(Words<E>::kNames)>
std::string LowerName(E word) {
  return absl::AsciiStrToLower(Name(word));
}

// Either case. UNSPECIFIED is not accepted. INVALID_ARGUMENT names the nearest valid word and lists all.
template <typename E, typename = decltype(Words<E>::kNames)>
absl::StatusOr<E> ParseWord(absl::string_view text) {
  const std::string upper = absl::AsciiStrToUpper(text);
  std::vector<std::string> valid;
  for (size_t i = 1; i < Words<E>::kNames.size(); ++i) {
    if (upper == Words<E>::kNames[i]) return static_cast<E>(i);
    valid.emplace_back(Words<E>::kNames[i]);
  }
  const std::string nearest = NearestName(upper, valid);
  return absl::InvalidArgumentError(absl::StrCat("no ", Words<E>::kWhat, " is called '", Printable(text), "'",
                                                 nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"), " (valid: ", absl::StrJoin(valid, ", "),
                                                 ")"));
}

// The enumerator with this number, or kUnspecified when there is none: for numbers off a wire or a disk.
template <typename E, typename = decltype(Words<E>::kNames)>
E WordFromNumber(int64_t number) {
  return number > 0 && number < static_cast<int64_t>(Words<E>::kNames.size()) ? static_cast<E>(number) : E::kUnspecified;
}

}  // namespace spillway
