#include "scheduler/core/policy/retry.h"

#include <algorithm>

#include "base/limits.h"

namespace spillway::core {
namespace {

bool Exceeded(int64_t count, int64_t budget) { return budget >= 0 && count > budget; }

}  // namespace

Account AccountOf(EndCause cause, Initiator initiator) {
  const bool by_us = initiator == Initiator::kUser || initiator == Initiator::kScheduler;
  switch (cause) {
    case EndCause::kCompleted: return Account::kDone;
    case EndCause::kCheckpointed: return Account::kAgain;
    case EndCause::kPreempted:
    case EndCause::kMoved: return by_us ? Account::kMove : Account::kPreemption;
    case EndCause::kPeerFailed: return Account::kMove;
    case EndCause::kDiskFull:  // its own quota, or the machine's disk
    case EndCause::kLaunchFailed:
      if (LacksSecret(cause, initiator)) return Account::kMove;
      return initiator == Initiator::kJob || initiator == Initiator::kUser ? Account::kUserError : Account::kNodeFault;
    case EndCause::kNodeLost:
    case EndCause::kFenced:
    case EndCause::kStagingFailed:
    case EndCause::kGpuFault:
    case EndCause::kUnspecified: return Account::kNodeFault;
    case EndCause::kUserError:
    case EndCause::kOutOfMemory:
    case EndCause::kTimeout:
    case EndCause::kHang: return Account::kUserError;
    case EndCause::kBudget:
    case EndCause::kDeadline:
    case EndCause::kDependencyFailed: return Account::kFinal;
    case EndCause::kCancelled: return Account::kCancelled;
  }
  return Account::kNodeFault;
}

bool LacksSecret(EndCause cause, Initiator initiator) { return cause == EndCause::kLaunchFailed && initiator == Initiator::kUser; }

int64_t Doubling(int64_t first_ms, int64_t count, int64_t max_ms) {
  int64_t wait_ms = std::min(first_ms, max_ms);
  for (int64_t i = 1; i < count && wait_ms < max_ms; ++i) wait_ms = std::min(wait_ms * 2, max_ms);
  return wait_ms;
}

RetryOutcome AfterEnd(const RetryInput& input) {
  RetryOutcome out;
  out.cause = input.cause;
  out.preempted = input.preempted;
  out.node_faults = input.node_faults;
  out.user_errors = input.user_errors;
  out.checkpointed_in_vain = 0;

  Account account = AccountOf(input.cause, input.initiator);
  if (account == Account::kAgain && !input.newer_checkpoint) {
    out.checkpointed_in_vain = input.checkpointed_in_vain + 1;
    if (out.checkpointed_in_vain >= limits::kExit85WithoutCheckpointMax) {
      out.cause = EndCause::kUserError;
      out.checkpointed_in_vain = 0;
      account = Account::kUserError;
    }
  }
  int64_t count = 0, budget = -1;
  switch (account) {
    case Account::kDone: out.next = TaskState::kSucceeded; return out;
    case Account::kFinal: out.next = TaskState::kFailed; break;
    case Account::kCancelled: out.next = TaskState::kCancelled; break;
    case Account::kMove: out.next = TaskState::kQueued; break;
    case Account::kAgain:
      out.next = TaskState::kQueued;
      count = out.checkpointed_in_vain;
      break;
    case Account::kPreemption: out.next = Exceeded(++out.preempted, input.policy.preempted) ? TaskState::kFailed : TaskState::kQueued; break;
    case Account::kNodeFault:
      count = ++out.node_faults;
      budget = input.policy.node_fault;
      out.avoid_node = true;
      out.next = Exceeded(count, budget) ? TaskState::kFailed : TaskState::kQueued;
      break;
    case Account::kUserError:
      count = ++out.user_errors;
      budget = input.policy.user_error;
      out.next = Exceeded(count, budget) ? TaskState::kFailed : TaskState::kQueued;
      break;
  }
  if (input.cancel_requested) out.next = TaskState::kCancelled;
  if (out.next == TaskState::kQueued && count > 0) out.backoff_ms = Doubling(input.backoff_ms, count, limits::kRetryBackoffMsMax);
  return out;
}

}  // namespace spillway::core
