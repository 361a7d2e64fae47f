// What people write where a job is meant: `5`, `1-9`, `5.17`, `5.1-100`, `5.1-3,7`, `5.17@3`, `last`, `all`, a name. Owns the forms and finding the jobs meant.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "client/api.h"

namespace spillway::client {

inline constexpr int64_t kRangeMax = 10'000;
// What is meant by one or several jobs, in a verb's help.
inline constexpr char kJobForms[] = "5, 1-9, last, all, or a name";
// And where some tasks of an array may be meant too.
inline constexpr char kTaskForms[] = "5, 1-9, last, all, a name, or tasks: 5.17, 5.1-100, 5.1-3,7";

struct TaskSpan {
  TaskIndex first = 0, last = 0;  // both included
};

struct Target {
  enum class Kind { kJobs, kTask, kTasks, kAttempt, kLast, kAll, kName };
  Kind kind = Kind::kJobs;
  JobId from = 0, to = 0;       // kJobs: both ends included
  AttemptId attempt;            // kTask, kAttempt; of kTasks the job
  std::vector<TaskSpan> tasks;  // kTask: the one; kTasks: as written
  std::string name;             // kName
};

// INVALID_ARGUMENT lists the forms.
absl::StatusOr<Target> ParseTarget(absl::string_view text);

// The jobs meant by all of `texts`, in order, each once. `all` is every job that lives (and, with `ended_too`, the ended ones).
// NOT_FOUND for a name or `last` that stands for nothing; the existence of numbers is left to the call that uses them.
absl::StatusOr<std::vector<JobId>> ResolveJobs(Api& api, const std::vector<std::string>& texts, bool ended_too);

// A job as a whole, or some of its tasks.
struct JobTasks {
  JobId job = 0;
  std::vector<TaskSpan> tasks;  // empty: the whole job

  std::string ToString() const;  // "job 5", "5.17", "5.1-100,200"
};
// In the same way where tasks may be meant too; what is said of one job comes together.
absl::StatusOr<std::vector<JobTasks>> ResolveJobTasks(Api& api, const std::vector<std::string>& texts, bool ended_too);

// Exactly one task: `5` means its first. The attempt's number is 0 unless written.
absl::StatusOr<AttemptId> ResolveAttempt(Api& api, const std::string& text);
// The same for what is of a task as a whole: `5.17@3` is refused, for another attempt may live by now.
absl::StatusOr<TaskId> ResolveTask(Api& api, const std::string& text);

// One task as it is now.
absl::StatusOr<v1::Task> GetTask(Api& api, TaskId id);

// Every page of a list, at most `limit` jobs. The answer's next_page_token says whether there is more.
absl::StatusOr<v1::ListJobsResponse> ListJobs(Api& api, v1::ListJobsRequest request, int64_t limit);

// States in which a job still lives.
std::vector<std::string> LivingStates();
bool JobEnded(const v1::Job& job);
inline bool IsArray(const v1::Job& job) { return job.task_count() > 1; }
bool TaskEnded(const v1::Task& task);
// How long the task's attempts ran, the one that runs up to now.
int64_t RanMs(const v1::Task& task, int64_t now_utc_ms);

}  // namespace spillway::client
