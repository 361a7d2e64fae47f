// Following a job to its end: waiting, and its log as it comes, across attempts. Owns no clock: time is the context's.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "client/targets.h"
#include "client/verb.h"

namespace spillway::client {

// The job once it has ended, or as it stands when `timeout_ms` (0: none) has passed.
absl::StatusOr<v1::Job> WaitForEnd(Context& context, Api& api, JobId job, int64_t timeout_ms);

// Waits until all these tasks have ended, or the time has passed, and says on context.err how they ended; the exit code.
absl::StatusOr<int> WaitForTasks(Context& context, Api& api, const JobTasks& tasks, int64_t timeout_ms);

// Copies the log of every attempt after `after_attempt` of the task to context.out until it has ended; says on context.err when a new attempt begins.
absl::StatusOr<v1::Job> FollowLogs(Context& context, Api& api, TaskId task, AttemptNumber after_attempt, int32_t member = 0);

// One attempt's log, of one of its members. With `follow` until it has ended. An attempt that never wrote anything has an empty one.
absl::Status CopyLog(Context& context, Api& api, const AttemptId& attempt, bool follow, int32_t member = 0);

// "job 5 (bert) SUCCEEDED after 2 attempts" on context.err; the exit code for a job that was waited for.
int ReportEnd(Context& context, const v1::Job& job);

}  // namespace spillway::client
