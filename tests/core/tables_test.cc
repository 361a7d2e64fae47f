// The pure tables: legal moves, what becomes of a task after each end, the names of the events.
#include <set>

#include "base/limits.h"
#include "scheduler/core/policy/retry.h"
#include "scheduler/core/transitions.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

template <typename E>
std::set<std::pair<std::string, std::string>> LegalMoves() {
  std::set<std::pair<std::string, std::string>> moves;
  for (size_t from = 0; from < Words<E>::kNames.size(); ++from) {
    for (size_t to = 0; to < Words<E>::kNames.size(); ++to) {
      if (LegalMove(static_cast<E>(from), static_cast<E>(to))) moves.insert({Words<E>::kNames[from], Words<E>::kNames[to]});
    }
  }
  return moves;
}

TEST(Transitions, OfTasks) {
  EXPECT_EQ(LegalMoves<TaskState>(), (std::set<std::pair<std::string, std::string>>{{"QUEUED", "HELD"},
                                                                                    {"QUEUED", "ACTIVE"},
                                                                                    {"QUEUED", "CANCELLED"},
                                                                                    {"HELD", "QUEUED"},
                                                                                    {"HELD", "FAILED"},
                                                                                    {"HELD", "CANCELLED"},
                                                                                    {"ACTIVE", "QUEUED"},
                                                                                    {"ACTIVE", "HELD"},
                                                                                    {"ACTIVE", "SUCCEEDED"},
                                                                                    {"ACTIVE", "FAILED"},
                                                                                    {"ACTIVE", "CANCELLED"}}));
}

TEST(Transitions, OfAttemptsNeverGoBack) {
  for (const auto& [from, to] : LegalMoves<AttemptState>()) {
    EXPECT_LT(*ParseWord<AttemptState>(from), *ParseWord<AttemptState>(to));
    EXPECT_NE(from, "ENDED");
  }
  EXPECT_EQ(LegalMoves<AttemptState>().size(), 9u);
  EXPECT_FALSE(LegalMove(AttemptState::kStopping, AttemptState::kRunning));
}

TEST(Transitions, OfNodesEndInReleasedOrLost) {
  const auto moves = LegalMoves<NodeState>();
  EXPECT_EQ(moves.size(), 20u);
  for (const auto& [from, to] : moves) {
    EXPECT_NE(from, "RELEASED");
    EXPECT_NE(from, "LOST");
    EXPECT_TRUE(from != "RELEASING" || to == "RELEASED" || to == "LOST") << to;
  }
}

struct RetryRow {
  EndCause cause;
  Initiator initiator;
  Account account;
};

TEST(Retry, EveryCauseHasAnAccount) {
  const RetryRow rows[] = {
      {EndCause::kCompleted, Initiator::kJob, Account::kDone},           {EndCause::kUserError, Initiator::kJob, Account::kUserError},
      {EndCause::kCheckpointed, Initiator::kJob, Account::kAgain},       {EndCause::kPreempted, Initiator::kProvider, Account::kPreemption},
      {EndCause::kPreempted, Initiator::kNode, Account::kPreemption},    {EndCause::kPreempted, Initiator::kUser, Account::kMove},
      {EndCause::kPreempted, Initiator::kScheduler, Account::kMove},     {EndCause::kMoved, Initiator::kUser, Account::kMove},
      {EndCause::kMoved, Initiator::kScheduler, Account::kMove},         {EndCause::kNodeLost, Initiator::kNode, Account::kNodeFault},
      {EndCause::kPeerFailed, Initiator::kScheduler, Account::kMove},    {EndCause::kOutOfMemory, Initiator::kNode, Account::kUserError},
      {EndCause::kDiskFull, Initiator::kNode, Account::kNodeFault},      {EndCause::kDiskFull, Initiator::kJob, Account::kUserError},
      {EndCause::kGpuFault, Initiator::kNode, Account::kNodeFault},      {EndCause::kHang, Initiator::kNode, Account::kUserError},
      {EndCause::kTimeout, Initiator::kScheduler, Account::kUserError},  {EndCause::kBudget, Initiator::kScheduler, Account::kFinal},
      {EndCause::kDeadline, Initiator::kScheduler, Account::kFinal},     {EndCause::kCancelled, Initiator::kUser, Account::kCancelled},
      {EndCause::kLaunchFailed, Initiator::kNode, Account::kNodeFault},  {EndCause::kLaunchFailed, Initiator::kJob, Account::kUserError},
      {EndCause::kStagingFailed, Initiator::kNode, Account::kNodeFault}, {EndCause::kDependencyFailed, Initiator::kScheduler, Account::kFinal},
      {EndCause::kFenced, Initiator::kNode, Account::kNodeFault},        {EndCause::kLaunchFailed, Initiator::kUser, Account::kMove},
  };
  std::set<EndCause> covered;
  for (const RetryRow& row : rows) {
    EXPECT_EQ(AccountOf(row.cause, row.initiator), row.account) << Name(row.cause) << " by " << Name(row.initiator);
    covered.insert(row.cause);
  }
  EXPECT_EQ(covered.size(), Words<EndCause>::kNames.size() - 1);
}

RetryInput After(EndCause cause, Initiator initiator = Initiator::kNode) {
  RetryInput input;
  input.cause = cause;
  input.initiator = initiator;
  input.backoff_ms = 1'000;
  return input;
}

TEST(Retry, BudgetsAreCountedApart) {
  RetryInput input = After(EndCause::kNodeLost);
  input.policy = {0, 2, 0};
  input.preempted = 7;
  input.user_errors = 7;
  input.node_faults = 1;
  RetryOutcome out = AfterEnd(input);
  EXPECT_EQ(out.next, TaskState::kQueued);
  EXPECT_EQ(out.node_faults, 2);
  EXPECT_EQ(out.preempted, 7);
  EXPECT_TRUE(out.avoid_node);
  input.node_faults = 2;
  EXPECT_EQ(AfterEnd(input).next, TaskState::kFailed);

  input = After(EndCause::kUserError, Initiator::kJob);
  EXPECT_EQ(AfterEnd(input).next, TaskState::kFailed) << "no second try unless asked for";
  input.policy.user_error = 1;
  EXPECT_EQ(AfterEnd(input).next, TaskState::kQueued);
  EXPECT_FALSE(AfterEnd(input).avoid_node);

  input = After(EndCause::kPreempted, Initiator::kProvider);
  input.preempted = 1'000;
  EXPECT_EQ(AfterEnd(input).next, TaskState::kQueued) << "unlimited";
  input.policy.preempted = 1'000;
  EXPECT_EQ(AfterEnd(input).next, TaskState::kFailed);
  input.initiator = Initiator::kUser;
  EXPECT_EQ(AfterEnd(input).next, TaskState::kQueued) << "the user's own preemption costs nothing";
  EXPECT_EQ(AfterEnd(input).preempted, 1'000);
}

TEST(Retry, BackOffDoublesForFaultsAndNotForPreemptions) {
  RetryInput input = After(EndCause::kGpuFault);
  input.policy.node_fault = -1;
  for (int64_t n = 0, want = 1'000; n < 20; ++n, want = std::min(want * 2, limits::kRetryBackoffMsMax)) {
    input.node_faults = n;
    EXPECT_EQ(AfterEnd(input).backoff_ms, want) << n;
  }
  EXPECT_EQ(AfterEnd(After(EndCause::kPreempted, Initiator::kProvider)).backoff_ms, 0);
  EXPECT_EQ(AfterEnd(After(EndCause::kMoved, Initiator::kScheduler)).backoff_ms, 0);
}

TEST(Retry, ThreeCheckpointExitsWithoutACheckpointAreAnError) {
  RetryInput input = After(EndCause::kCheckpointed, Initiator::kJob);
  RetryOutcome out = AfterEnd(input);
  EXPECT_EQ(out.next, TaskState::kQueued);
  EXPECT_EQ(out.checkpointed_in_vain, 1);
  input.checkpointed_in_vain = 2;
  out = AfterEnd(input);
  EXPECT_EQ(out.cause, EndCause::kUserError);
  EXPECT_EQ(out.next, TaskState::kFailed);
  EXPECT_EQ(out.user_errors, 1);
  input.newer_checkpoint = true;
  out = AfterEnd(input);
  EXPECT_EQ(out.next, TaskState::kQueued);
  EXPECT_EQ(out.checkpointed_in_vain, 0);
  EXPECT_EQ(out.backoff_ms, 0);
}

TEST(Retry, CancelledJobsNeverGoOnButMayStillSucceed) {
  for (size_t cause = 1; cause < Words<EndCause>::kNames.size(); ++cause) {
    RetryInput input = After(static_cast<EndCause>(cause));
    input.cancel_requested = true;
    input.policy = {-1, -1, -1};
    EXPECT_EQ(AfterEnd(input).next, input.cause == EndCause::kCompleted ? TaskState::kSucceeded : TaskState::kCancelled) << Name(input.cause);
  }
}

TEST(EventKinds, AreDistinctAndInStoredOrder) {
  EXPECT_STREQ(EventKind(Configured()), "configured");
  EXPECT_STREQ(EventKind(AttemptEnded()), "attempt_ended");
  EXPECT_STREQ(EventKind(OrphanAdopted()), "orphan_adopted");
  EXPECT_STREQ(EventKind(ReportsTaken()), "reports_taken");
  // The stored number of an event is its place: these must never move.
  EXPECT_EQ(Event(AttemptOffered()).index(), 5u);
  EXPECT_EQ(Event(NodeGone()).index(), 21u);
}

}  // namespace
}  // namespace spillway::core
