// What holds jobs back and lets them go: other jobs, the user's pause, and priorities that change.
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class Holds : public ::testing::Test {
 protected:
  Holds() {
    world_.Configure({Cloud()});
    node_ = world_.Register("rack-1", Box(4));
  }

  static NewJob Named(const std::string& name, std::vector<NewNeed> needs = {}) {
    NewJob job = MakeJob(Cpu());
    job.name = name;
    job.needs = std::move(needs);
    return job;
  }
  static NewNeed On(JobId job, bool any = false, TaskState ended = TaskState::kUnspecified) { return {job, -1, any, ended}; }
  static NewNeed At(int64_t place, bool any = false) { return {0, place, any, TaskState::kUnspecified}; }

  JobId Submit(NewJob job) { return world_.SubmitJobs({std::move(job)}).jobs.at(0); }
  void Settle() { world_.Settle(); }
  JobId Running(NewJob job) {
    const JobId id = Submit(std::move(job));
    Settle();
    world_.Start(world_.Living({id, 0}));
    return id;
  }
  void Finish(JobId job, EndCause cause = EndCause::kCompleted) {
    const AttemptId attempt = world_.Living({job, 0});
    world_.End(attempt, cause);
    Settle();
  }
  const Job& job(JobId id) const { return world_.state.jobs.at(id).job; }
  std::vector<Why> WhyOf(JobId id) const { return Explain(world_.state, world_.soft, world_.policy, {id, 0}, world_.now_ms); }
  TaskState StateOf(JobId id) const {
    const Job* living = FindJob(world_.state, id);
    return FoldState(living != nullptr ? *living : world_.ended_jobs.at(id));
  }

  World world_;
  NodeId node_;
};

TEST_F(Holds, AJobStartsWhenWhatItNeedsHasSucceeded) {
  const JobId first = Running(Named("prepare"));
  const JobId second = Submit(Named("train", {On(first)}));
  EXPECT_EQ(job(second).counts.held, 1);
  EXPECT_EQ(GetTask(world_.state, {second, 0})->hold, HoldReason::kDependency);
  Settle();
  EXPECT_EQ(StateOf(second), TaskState::kHeld) << "there is room, and it waits";
  ASSERT_THAT(WhyOf(second), SizeIs(1));
  EXPECT_EQ(WhyOf(second)[0].code, "DEPENDENCY");
  EXPECT_EQ(WhyOf(second)[0].message, "waits for job 1 (prepare) to succeed; it is ACTIVE");
  Finish(first);
  EXPECT_EQ(StateOf(second), TaskState::kActive);
  EXPECT_THAT(job(second).needs, IsEmpty());
}

TEST_F(Holds, AJobWhoseNeedFailedEndsWithoutRunningAndSoDoWhoNeedsIt) {
  const JobId first = Running(Named("prepare"));
  NewJob many = Named("train", {On(first)});
  many.task_count = 3;
  const JobId second = Submit(many), third = Submit(Named("report", {On(second)})), clean_up = Submit(Named("clean-up", {On(second, true)}));
  Finish(first, EndCause::kUserError);
  EXPECT_EQ(StateOf(second), TaskState::kFailed);
  EXPECT_EQ(world_.ended_jobs.at(second).counts.failed, 3);
  EXPECT_EQ(world_.ended_jobs.at(second).cause, EndCause::kDependencyFailed);
  EXPECT_EQ(world_.ended_jobs.at(second).detail, "job 1, which it needs, ended FAILED");
  EXPECT_THAT(world_.ended_tasks, SizeIs(1)) << "what took no memory needs no row to end";
  EXPECT_EQ(TaskWithoutRow(world_.ended_jobs.at(second), 2)->state, TaskState::kFailed);
  EXPECT_EQ(world_.ended_jobs.at(third).detail, "job 2, which it needs, ended FAILED");
  EXPECT_EQ(StateOf(clean_up), TaskState::kActive) << "however it ended";
}

TEST_F(Holds, ACancelledNeedHasNotSucceeded) {
  const JobId first = Running(Named("a"));
  const JobId strict = Submit(Named("b", {On(first)})), lenient = Submit(Named("c", {On(first, true)}));
  world_.Do(Cancel{first, true, ""});
  Settle();
  EXPECT_EQ(StateOf(strict), TaskState::kHeld) << "it has not ended yet";
  Finish(first, EndCause::kCancelled);
  EXPECT_EQ(StateOf(strict), TaskState::kFailed);
  EXPECT_EQ(StateOf(lenient), TaskState::kActive);
}

TEST_F(Holds, AllNeedsMustBeMetAndTheFirstThatFailedDecides) {
  const JobId a = Running(Named("a")), b = Running(Named("b"));
  const JobId both = Submit(Named("both", {On(a), On(b)})), doomed = Submit(Named("doomed", {On(a), On(b)}));
  Finish(a);
  EXPECT_EQ(StateOf(both), TaskState::kHeld);
  EXPECT_THAT(WhyOf(both), SizeIs(1)) << "of what has come there is nothing to say";
  Finish(b, EndCause::kUserError);
  EXPECT_EQ(StateOf(both), TaskState::kFailed);
  EXPECT_EQ(StateOf(doomed), TaskState::kFailed);
}

TEST_F(Holds, JobsOfOneSubmissionMayNeedEachOtherInAnyOrderButNotInACircle) {
  EXPECT_THAT(world_.SubmitJobs({Named("last", {At(1)}), Named("first")}).jobs, ElementsAre(1, 2));
  EXPECT_EQ(job(1).needs.at(0).job, 2);
  Settle();
  EXPECT_EQ(StateOf(1), TaskState::kHeld);
  EXPECT_EQ(StateOf(2), TaskState::kActive);
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {Named("a", {At(1)}), Named("b", {At(2)}), Named("c", {At(0)})}}),
              StatusIs(Code::kInvalidArgument, "jobs[0]: jobs of this submission wait for each other: a -> b -> c -> a"));
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {Named("x", {At(1)}), Named("a", {At(2)}), Named("b", {At(1)})}}),
              StatusIs(Code::kInvalidArgument, "jobs[1]: jobs of this submission wait for each other: a -> b -> a"))
      << "who only waits for the circle is no part of it";
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {Named("a", {At(0, true)})}}), StatusIs(Code::kInvalidArgument, "jobs[0]: waits for itself"));
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {Named("a", {At(1)})}}), StatusIs(Code::kInvalidArgument, HasSubstr("not there")));
  EXPECT_EQ(world_.state.meta.next_job, 3) << "nothing is half-applied";
}

TEST_F(Holds, ALongChainIsNoCircle) {
  std::vector<NewJob> chain;
  for (int64_t i = 0; i < 2'000; ++i) chain.push_back(Named("link", i + 1 < 2'000 ? std::vector<NewNeed>{At(i + 1)} : std::vector<NewNeed>{}));
  EXPECT_OK(Admit(world_.state, core::Submit{"", "d", chain}, world_.now_ms));
  chain.back().needs.push_back(At(0));
  EXPECT_THAT(Admit(world_.state, core::Submit{"", "d", chain}, world_.now_ms), StatusIs(Code::kInvalidArgument, HasSubstr("link -> link")));
}

TEST_F(Holds, WhatHasEndedIsTakenFromWhoLookedItUp) {
  const JobId good = Running(Named("good"));
  Finish(good);
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {Named("a", {On(good)})}}), StatusIs(Code::kAborted, HasSubstr("job 1 has just ended")));
  EXPECT_EQ(job(Submit(Named("a", {On(good, false, TaskState::kSucceeded)}))).counts.queued, 1);
  EXPECT_EQ(job(Submit(Named("b", {On(good, true, TaskState::kFailed)}))).counts.queued, 1) << "any end will do";
  const Reply late = world_.SubmitJobs({Named("c", {On(good, false, TaskState::kCancelled)})});
  EXPECT_THAT(late.warnings, ElementsAre("jobs[0]: job 1 ended CANCELLED: it ends at once with DEPENDENCY_FAILED"));
  Settle();
  EXPECT_EQ(world_.ended_jobs.at(late.jobs.at(0)).cause, EndCause::kDependencyFailed);
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {Named("d", {On(99)})}}), StatusIs(Code::kInvalidArgument, HasSubstr("there is no job 99")));
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {Named("d", {On(0)})}}), StatusIs(Code::kInvalidArgument, HasSubstr("there is no job 0")));
}

TEST_F(Holds, TheStricterOfTwoNeedsOfOneJobCounts) {
  const JobId first = Running(Named("a"));
  const JobId second = Submit(Named("b", {On(first, true), On(first)}));
  ASSERT_THAT(job(second).needs, SizeIs(1));
  EXPECT_FALSE(job(second).needs[0].any);
}

TEST_F(Holds, AHeldJobCanBeCancelled) {
  const JobId first = Running(Named("a"));
  const JobId second = Submit(Named("b", {On(first)}));
  world_.Do(Cancel{second, false, ""});
  EXPECT_EQ(StateOf(second), TaskState::kCancelled);
  EXPECT_THAT(world_.state.index.needed_by, IsEmpty());
  Finish(first);
}

TEST_F(Holds, NothingIsSettledBeforeItsTime) {
  const JobId first = Running(Named("a"));
  const JobId second = Submit(Named("b", {On(first)}));
  EXPECT_THAT(world_.Try(SettleJob{second}), StatusIs(Code::kFailedPrecondition, HasSubstr("has not come")));
  EXPECT_THAT(world_.Try(SettleJob{first}), StatusIs(Code::kFailedPrecondition, HasSubstr("waits for no other")));
  EXPECT_THAT(world_.Try(SettleJob{99}), StatusIs(Code::kNotFound, HasSubstr("no job 99")));
  EXPECT_THAT(world_.Try(Place{{second, 0}, {{node_, 0, false}}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("is held: dependency")));
}

// --- pause ---

TEST_F(Holds, PauseStopsWhatRunsAfterACheckpointAndResumeGoesOnFromIt) {
  NewJob wanted = Named("train");
  wanted.grace_ms = 20'000;
  const JobId id = Running(wanted);
  const AttemptId first = world_.Living({id, 0});
  const Reply paused = world_.Do(Pause{id});
  EXPECT_EQ(paused.affected, 1);
  EXPECT_EQ(paused.message, "its running task saves and stops, then it is held until it is resumed");
  ASSERT_TRUE(world_.task({id, 0}).attempt->stop.has_value());
  EXPECT_EQ(world_.task({id, 0}).attempt->stop->grace_ms, 20'000) << "the time to save";
  EXPECT_EQ(world_.task({id, 0}).attempt->stop->cause, EndCause::kPreempted);
  world_.Checkpoint(first, 70);
  world_.End(first, EndCause::kPreempted, Initiator::kUser);
  EXPECT_EQ(world_.task({id, 0}).state, TaskState::kHeld);
  EXPECT_EQ(world_.task({id, 0}).hold, HoldReason::kPaused);
  EXPECT_EQ(world_.task({id, 0}).seal_owed, 1) << "what it left is looked at all the same";
  Settle();
  EXPECT_EQ(StateOf(id), TaskState::kHeld);
  EXPECT_EQ(WhyOf(id)[0].code, "PAUSED");
  EXPECT_EQ(WhyOf(id)[0].unblocks, "spillway resume 1");
  world_.Seal(first);
  world_.Advance(kHour);
  world_.HearFromAll();
  Settle();
  EXPECT_EQ(StateOf(id), TaskState::kHeld) << "for as long as it takes";
  EXPECT_EQ(world_.Do(Resume{id}).message, "resumed");
  Settle();
  const Attempt& second = *world_.task({id, 0}).attempt;
  EXPECT_EQ(second.number, 2);
  EXPECT_EQ(second.from_step, 70);
  EXPECT_EQ(world_.task({id, 0}).preempted, 0) << "the user's own pause costs no retry";
}

TEST_F(Holds, AJobResumedBeforeItStoppedIsQueuedWhenItHas) {
  const JobId id = Running(Named("a"));
  world_.Do(Pause{id});
  world_.Do(Resume{id});
  EXPECT_EQ(world_.task({id, 0}).attempt->state, AttemptState::kStopping);
  world_.End(world_.Living({id, 0}), EndCause::kPreempted, Initiator::kUser);
  EXPECT_EQ(world_.task({id, 0}).state, TaskState::kQueued);
}

TEST_F(Holds, APausedJobThatCompletesAllTheSameHasSucceeded) {
  const JobId id = Running(Named("a"));
  world_.Do(Pause{id});
  Finish(id);
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
}

TEST_F(Holds, TasksThatWaitAreHeldAtOnceAndLeaveTheQueue) {
  NewJob wanted = Named("many");
  wanted.task_count = 8;
  const JobId id = Submit(wanted);
  Settle();
  EXPECT_EQ(job(id).counts.active, 4);
  const Reply paused = world_.Do(Pause{id});
  EXPECT_EQ(paused.affected, 8);
  EXPECT_EQ(paused.message, "4 running tasks save and stop, then it is held until it is resumed");
  EXPECT_EQ(job(id).counts.held, 4);
  EXPECT_THAT(world_.state.index.queue, IsEmpty());
  world_.Do(Cancel{id, false, ""});
  EXPECT_EQ(job(id).counts.cancelled, 4);
  EXPECT_THAT(world_.Try(Pause{id}), StatusIs(Code::kFailedPrecondition, HasSubstr("is being cancelled")));
}

TEST_F(Holds, PauseAndResumeMayBeRepeated) {
  const JobId id = Submit(Named("a"));
  EXPECT_EQ(world_.Do(Resume{id}).message, "it was not paused");
  EXPECT_EQ(world_.Do(Pause{id}).message, "held until it is resumed");
  EXPECT_EQ(world_.Do(Pause{id}).message, "it is paused already");
  EXPECT_TRUE(world_.changes.Empty());
  world_.Do(Resume{id});
  EXPECT_EQ(job(id).counts.queued, 1);
  EXPECT_THAT(world_.Try(Pause{99}), StatusIs(Code::kNotFound, HasSubstr("no job 99")));
  EXPECT_THAT(world_.Try(Resume{99}), StatusIs(Code::kNotFound, HasSubstr("no job 99")));
}

TEST_F(Holds, AJobWhoseSecretIsNotThereIsPausedAndWhatRunsOfItGoesOn) {
  NewJob wanted = Named("many");
  wanted.task_count = 6;
  const JobId id = Submit(wanted);
  Settle();
  world_.Start(world_.Living({id, 0}));
  ASSERT_EQ(job(id).counts.active, 4);
  const std::string lacks = "secrets: HF_TOKEN is not there";
  world_.End(world_.Living({id, 1}), EndCause::kLaunchFailed, Initiator::kUser, lacks);
  Settle();
  EXPECT_TRUE(job(id).paused);
  EXPECT_EQ(job(id).detail, lacks);
  EXPECT_EQ(job(id).counts.held, 3) << "the one that could not begin, and the two that have not begun";
  EXPECT_EQ(world_.task({id, 1}).hold, HoldReason::kPaused);
  EXPECT_EQ(world_.task({id, 1}).user_errors, 0) << "nothing is lost by it";
  EXPECT_FALSE(world_.task({id, 0}).attempt->stop) << "it has its secret and goes on";
  // Its other members end as they end: what is tried again waits with the rest.
  world_.End(world_.Living({id, 2}), EndCause::kLaunchFailed, Initiator::kUser, lacks);
  world_.End(world_.Living({id, 3}), EndCause::kNodeLost, Initiator::kNode, "gone");
  Settle();
  EXPECT_EQ(job(id).counts.held, 5);
  const std::vector<Why> why = Explain(world_.state, world_.soft, world_.policy, {id, 1}, world_.now_ms);
  ASSERT_THAT(why, SizeIs(1));
  EXPECT_EQ(why[0].message, "paused after secrets: HF_TOKEN is not there");
  EXPECT_EQ(why[0].unblocks, absl::StrCat("spillway resume ", id));
  world_.Do(Resume{id});
  Settle();
  EXPECT_EQ(job(id).counts.active, 4);
  EXPECT_EQ(job(id).detail, "");
}

TEST_F(Holds, OneListOfReportsHoldsWhatEndsBesideTheOneWithoutItsSecret) {
  NewJob wanted = Named("many");
  wanted.task_count = 2;
  wanted.retry.user_error = 3;
  const JobId id = Submit(wanted);
  Settle();
  Report lacks, fails;
  lacks.kind = fails.kind = Report::Kind::kEnded;
  lacks.seq = world_.node(node_).report_ack + 1;
  lacks.attempt = world_.Living({id, 0});
  lacks.cause = EndCause::kLaunchFailed;
  lacks.initiator = Initiator::kUser;
  fails.seq = lacks.seq + 1;
  fails.attempt = world_.Living({id, 1});
  fails.cause = EndCause::kUserError;
  fails.initiator = Initiator::kJob;
  world_.Do(NodeReports{node_, world_.node(node_).boot_id, {lacks, fails}});
  EXPECT_EQ(world_.task({id, 0}).state, TaskState::kHeld);
  EXPECT_EQ(world_.task({id, 1}).state, TaskState::kHeld) << "although its own end would have it tried again";
}

TEST_F(Holds, ThePauseOfTheUserStopsAlsoWhatALackingSecretLetGoOn) {
  NewJob wanted = Named("two");
  wanted.task_count = 2;
  const JobId id = Submit(wanted);
  Settle();
  world_.Start(world_.Living({id, 0}));
  world_.End(world_.Living({id, 1}), EndCause::kLaunchFailed, Initiator::kUser, "secrets: A is not there");
  Settle();
  ASSERT_FALSE(world_.task({id, 0}).attempt->stop);
  EXPECT_EQ(world_.Do(Pause{id}).message, "its running task saves and stops, then it is held until it is resumed");
  EXPECT_TRUE(world_.task({id, 0}).attempt->stop);
  EXPECT_EQ(world_.Do(Pause{id}).message, "it is paused already");
}

TEST_F(Holds, SubmittedWithHoldItWaitsForAResumeAndForItsNeeds) {
  const JobId first = Running(Named("a"));
  NewJob wanted = Named("b", {On(first)});
  wanted.paused = true;
  const JobId second = Submit(wanted);
  EXPECT_EQ(GetTask(world_.state, {second, 0})->hold, HoldReason::kPaused);
  ASSERT_THAT(WhyOf(second), SizeIs(2)) << "both are worth knowing";
  EXPECT_EQ(WhyOf(second)[1].code, "DEPENDENCY");
  EXPECT_EQ(world_.Do(Resume{second}).message, "resumed; it waits for job 1");
  EXPECT_EQ(GetTask(world_.state, {second, 0})->hold, HoldReason::kDependency);
  EXPECT_EQ(world_.Do(Resume{second}).message, "it was not paused; it waits for job 1");
  world_.Do(Pause{second});
  Finish(first);
  EXPECT_EQ(StateOf(second), TaskState::kHeld) << "what it waited for has come, the user has not";
  world_.Do(Resume{second});
  Settle();
  EXPECT_EQ(StateOf(second), TaskState::kActive);
}

// --- update ---

TEST_F(Holds, AChangedPriorityChangesTheOrder) {
  const JobId filler = Submit([] {
    NewJob job = Named("filler");
    job.shape = Cpu(4'000);
    return job;
  }());
  Settle();
  const JobId early = Submit(Named("early")), late = Submit(Named("late"));
  const Reply updated = world_.Do(Update{late, 51, std::nullopt});
  EXPECT_EQ(updated.message, "priority 51, was 50");
  EXPECT_EQ(updated.affected, 1);
  EXPECT_EQ(world_.state.index.queue.begin()->task, (TaskId{late, 0}));
  world_.Do(Update{filler, 60, std::nullopt});
  EXPECT_EQ(world_.state.index.active_priorities, (std::map<int64_t, int64_t>{{60, 1}}));
  EXPECT_EQ(world_.Do(Update{early, 50, std::nullopt}).message, "priority 50 as before");
  EXPECT_TRUE(world_.changes.Empty());
  EXPECT_THAT(world_.Try(Update{early, 101, std::nullopt}), StatusIs(Code::kInvalidArgument, HasSubstr("0 to 100, not 101")));
  EXPECT_THAT(world_.Try(Update{early, -1, std::nullopt}), StatusIs(Code::kInvalidArgument, HasSubstr("0 to 100")));
  EXPECT_THAT(world_.Try(Update{early, std::nullopt, std::nullopt}), StatusIs(Code::kInvalidArgument, HasSubstr("nothing to change")));
  EXPECT_THAT(world_.Try(Update{99, 1, std::nullopt}), StatusIs(Code::kNotFound, HasSubstr("no job 99")));
}

}  // namespace
}  // namespace spillway::core
