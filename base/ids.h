// The written forms of ids: `5` a job, `5.17` a task, `5.17@3` an attempt; cluster UUIDs, job UIDs and tokens.
// Owns parsing and printing; never allocates ids (counters in the scheduler's state do).
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

using JobId = int64_t;          // from 1
using TaskIndex = int64_t;      // from 0 within the job
using AttemptNumber = int64_t;  // from 1 within the task; 0 means none
using NodeId = int64_t;         // from 1; 0 means none

struct TaskId {
  JobId job = 0;
  TaskIndex index = 0;
  auto operator<=>(const TaskId&) const = default;
  std::string ToString() const;  // "5.17"
};

struct AttemptId {
  JobId job = 0;
  TaskIndex index = 0;
  AttemptNumber number = 0;
  auto operator<=>(const AttemptId&) const = default;
  TaskId task() const { return {job, index}; }
  std::string ToString() const;  // "5.17@3"
};

// INVALID_ARGUMENT with the text and the expected form when `text` is not exactly one.
absl::StatusOr<TaskId> ParseTaskId(absl::string_view text);        // "5" means 5.0
absl::StatusOr<AttemptId> ParseAttemptId(absl::string_view text);  // "5.17@3"; without "@n" the number is 0

std::string NewUuid();   // version 4, lower case, with dashes
std::string NewToken();  // 32 random bytes as 64 hex digits

}  // namespace spillway
