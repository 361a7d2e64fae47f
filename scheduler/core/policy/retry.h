// What becomes of a task when an attempt ends: one pure table from the cause to an account (preemptions, faults of nodes, errors of the user), a budget
// for each account, and the back-off. Owns nothing; knows neither state nor time.
#pragma once

#include <cstdint>

#include "base/attempt_words.h"
#include "scheduler/core/model.h"

namespace spillway::core {

// On whose account an end goes.
enum class Account {
  kDone,        // SUCCEEDED
  kAgain,       // the job asked to run again
  kPreemption,  // the machine was taken: no back-off
  kMove,        // we or the user moved it: costs nothing
  kNodeFault,
  kUserError,
  kFinal,  // FAILED whatever the budget
  kCancelled,
};
Account AccountOf(EndCause cause, Initiator initiator);

// The attempt could not begin since a secret that the job names is not there: a launch that failed on the user's side. Costs nothing, and waits for the user.
bool LacksSecret(EndCause cause, Initiator initiator);

struct RetryInput {
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  RetryPolicy policy;
  bool cancel_requested = false;
  bool newer_checkpoint = false;                                                      // this attempt committed a checkpoint newer than what it started from
  int64_t preempted = 0, node_faults = 0, user_errors = 0, checkpointed_in_vain = 0;  // before this end
  int64_t backoff_ms = 0;                                                             // the first; doubles up to limits::kRetryBackoffMsMax
};
struct RetryOutcome {
  EndCause cause = EndCause::kUnspecified;  // CHECKPOINTED too often without a checkpoint is USER_ERROR
  TaskState next = TaskState::kUnspecified;
  int64_t backoff_ms = 0;
  bool avoid_node = false;
  int64_t preempted = 0, node_faults = 0, user_errors = 0, checkpointed_in_vain = 0;
};
RetryOutcome AfterEnd(const RetryInput& input);

// first, 2 x first, 4 x first, ... up to max. count from 1.
int64_t Doubling(int64_t first_ms, int64_t count, int64_t max_ms);

}  // namespace spillway::core
