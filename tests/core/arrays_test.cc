// Arrays: many tasks of one job that take no memory before they begin, a limit of how many run at once, and tasks that are cancelled one by one.
#include "base/rng.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class Arrays : public ::testing::Test {
 protected:
  Arrays() {
    world_.Configure({Cloud()});
    world_.Register("rack-1", Box(8));
  }

  JobId Submit(int64_t count, int64_t parallel = 0, int64_t priority = 50) {
    NewJob array = MakeJob(Cpu(), priority);
    array.task_count = count;
    array.parallel = parallel;
    return world_.SubmitJobs({array}).jobs.at(0);
  }
  Reply CancelTasks(JobId id, std::vector<TaskRange> tasks, bool now = false) { return world_.Do(Cancel{id, now, "", std::move(tasks)}); }
  absl::Status Refused(JobId id, std::vector<TaskRange> tasks) { return world_.Try(Cancel{id, false, "", std::move(tasks)}).status(); }
  void Finish(TaskId task, EndCause cause = EndCause::kCompleted) { world_.End(world_.Living(task), cause); }
  const Job& job(JobId id) const { return world_.state.jobs.at(id).job; }
  std::vector<TaskIndex> ActiveOf(JobId id) const {
    std::vector<TaskIndex> active;
    for (const auto& [index, task] : world_.state.jobs.at(id).tasks) {
      if (task.attempt) active.push_back(index);
    }
    return active;
  }
  std::vector<Why> WhyOf(TaskId id) const { return Explain(world_.state, world_.soft, world_.policy, id, world_.now_ms); }

  World world_;
};

TEST_F(Arrays, NoMoreThanTheLimitIsActiveAtOnce) {
  const JobId id = Submit(10, 3);
  world_.Settle();
  EXPECT_THAT(ActiveOf(id), ElementsAre(0, 1, 2)) << "though there is room for eight";
  Finish({id, 1});
  world_.Settle();
  EXPECT_THAT(ActiveOf(id), ElementsAre(0, 2, 3));
  EXPECT_THAT(world_.Try(Place{{id, 4}, {{1, 0, false}}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("as many tasks ACTIVE as it may at once, 3")));
}

TEST_F(Arrays, WhatStopsCountsUntilItHasStopped) {
  const JobId id = Submit(10, 1);
  world_.Settle();
  world_.Start(world_.Living({id, 0}));
  world_.Do(Preempt{{id, 0}, 0});
  world_.Settle();
  EXPECT_THAT(ActiveOf(id), ElementsAre(0));
}

TEST_F(Arrays, AnArrayAtItsLimitHoldsUpNobodyBehindIt) {
  const JobId array = Submit(1'000'000, 2, 90), other = Submit(3, 0, 10);
  EXPECT_THAT(Only<Place>(Decide(world_.state, world_.soft, world_.policy, world_.now_ms)), SizeIs(5));
  world_.Settle();
  EXPECT_THAT(ActiveOf(array), SizeIs(2));
  EXPECT_THAT(ActiveOf(other), SizeIs(3)) << "within the budget of one cycle";
}

TEST_F(Arrays, NodesAreAskedForUpToTheLimitAlone) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(1, 1))}});
  NewJob array = MakeJob(Gpus(1));
  array.task_count = 100;
  array.parallel = 2;
  world_.SubmitJobs({array});
  world_.Settle();
  EXPECT_THAT(world_.NodesIn(NodeState::kRequested), SizeIs(2));
}

TEST_F(Arrays, AtTheLimitExplainSaysSoAndWhatWouldHelp) {
  const JobId id = Submit(10, 3);
  world_.Settle();
  const std::vector<Why> whys = WhyOf({id, 7});
  ASSERT_THAT(whys, SizeIs(1));
  EXPECT_EQ(whys[0].code, "ARRAY_LIMIT");
  EXPECT_EQ(whys[0].message, "3 tasks of its job are active, and at most 3 may be at once");
  EXPECT_EQ(whys[0].unblocks, "the end of one of them; or spillway update 1 --parallel N with a higher one");
}

TEST_F(Arrays, AnUpdateChangesTheLimit) {
  const JobId id = Submit(10, 1);
  world_.Settle();
  EXPECT_EQ(world_.Do(Update{id, std::nullopt, 4}).message, "parallel 4, was 1");
  world_.Settle();
  EXPECT_THAT(ActiveOf(id), SizeIs(4));
  EXPECT_EQ(world_.Do(Update{id, 60, 2}).message, "priority 60, was 50; parallel 2, was 4");
  Finish({id, 0});
  world_.Settle();
  EXPECT_THAT(ActiveOf(id), SizeIs(3)) << "what runs goes on, and nothing new starts";
  EXPECT_EQ(world_.Do(Update{id, std::nullopt, 10}).message, "parallel without limit, was 2");
  world_.Settle();
  EXPECT_THAT(ActiveOf(id), SizeIs(8));
  EXPECT_THAT(world_.Try(Update{id, std::nullopt, 0}), StatusIs(Code::kInvalidArgument, HasSubstr("1 or more")));
  EXPECT_THAT(world_.Try(Update{Submit(1), std::nullopt, 2}), StatusIs(Code::kFailedPrecondition, HasSubstr("one task only")));
}

// --- cancelling some ---

TEST_F(Arrays, ATaskThatIsCancelledBeforeItBeganNeverStartsAndHasNoRow) {
  const JobId id = Submit(12, 2);
  world_.Settle();
  EXPECT_EQ(CancelTasks(id, {{3, 4}}).affected, 1);
  EXPECT_EQ(CancelTasks(id, {{8, 10}, {2, 3}}).affected, 3);
  EXPECT_EQ(job(id).skipped, (std::vector<TaskRange>{{2, 4}, {8, 10}})) << "those that touch are one";
  EXPECT_EQ(job(id).next_index, 4);
  EXPECT_THAT(world_.ended_tasks, IsEmpty());
  EXPECT_EQ(GetTask(world_.state, {id, 3}), std::nullopt) << "it does not live";
  EXPECT_EQ(TaskWithoutRow(job(id), 3)->state, TaskState::kCancelled);
  EXPECT_THAT(Refused(id, {{3, 4}}), StatusIs(Code::kFailedPrecondition, "task 1.3 has ended"));
  EXPECT_EQ(CancelTasks(id, {{2, 5}}).affected, 1) << "of a range only what lives";
  for (TaskIndex index : {0, 1, 5, 6, 7, 10, 11}) {
    world_.Settle();
    Finish({id, index});
  }
  EXPECT_EQ(world_.ended_jobs.at(id).counts.succeeded, 7);
  EXPECT_EQ(world_.ended_jobs.at(id).counts.cancelled, 5);
  EXPECT_EQ(FoldState(world_.ended_jobs.at(id)), TaskState::kCancelled);
}

TEST_F(Arrays, ATaskThatRunsIsAskedToStopAloneAndIsNotRunAgain) {
  const JobId id = Submit(3);
  world_.Settle();
  for (TaskIndex index : {0, 1, 2}) world_.Start(world_.Living({id, index}));
  EXPECT_EQ(CancelTasks(id, {{1, 2}}).message, "being cancelled: stopping within its grace of 30s");
  EXPECT_EQ(CancelTasks(id, {{1, 2}}).message, "is being cancelled already");
  EXPECT_TRUE(world_.changes.Empty());
  EXPECT_EQ(CancelTasks(id, {{1, 2}}, true).message, "being cancelled: killed at once");
  EXPECT_EQ(world_.task({id, 0}).attempt->stop, std::nullopt);
  Finish({id, 1}, EndCause::kCancelled);
  EXPECT_EQ(world_.ended_tasks.at({id, 1}).state, TaskState::kCancelled);
  Finish({id, 0});
  Finish({id, 2});
  EXPECT_EQ(world_.ended_jobs.at(id).counts.cancelled, 1);
}

TEST_F(Arrays, ACancelAfterAPreemptionCountsAsOne) {
  const JobId id = Submit(2);
  world_.Settle();
  world_.Start(world_.Living({id, 0}));
  world_.Do(Preempt{{id, 0}, 0});
  CancelTasks(id, {{0, 1}});
  Finish({id, 0}, EndCause::kPreempted);
  EXPECT_EQ(world_.ended_tasks.at({id, 0}).state, TaskState::kCancelled) << "it would be queued again";
}

TEST_F(Arrays, ARetryIsEachTasksOwn) {
  NewJob array = MakeJob(Cpu());
  array.task_count = 2;
  array.retry.user_error = 1;
  const JobId id = world_.SubmitJobs({array}).jobs.at(0);
  world_.Settle();
  Finish({id, 0}, EndCause::kUserError);
  Finish({id, 1}, EndCause::kUserError);
  EXPECT_EQ(world_.task({id, 0}).user_errors, 1);
  EXPECT_EQ(job(id).counts.queued, 2) << "each has its own";
  EXPECT_EQ(CancelTasks(id, {{0, 1}}).affected, 1) << "one that waits for its retry ends at once";
  EXPECT_EQ(world_.ended_tasks.at({id, 0}).state, TaskState::kCancelled);
}

TEST_F(Arrays, HeldTasksCanBeCancelledToo) {
  const JobId id = Submit(5);
  world_.Do(Pause{id});
  CancelTasks(id, {{0, 2}});
  EXPECT_EQ(job(id).counts.held, 3);
  world_.Do(Resume{id});
  EXPECT_EQ(job(id).counts.queued, 3);
  world_.Settle();
  EXPECT_THAT(ActiveOf(id), ElementsAre(2, 3, 4));
}

TEST_F(Arrays, TheLastTaskThatIsCancelledEndsTheJob) {
  const JobId id = Submit(5);
  CancelTasks(id, {{0, 2}});
  CancelTasks(id, {{2, 5}});
  EXPECT_EQ(world_.ended_jobs.at(id).counts.cancelled, 5);
  EXPECT_THAT(world_.state.jobs, IsEmpty());
}

TEST_F(Arrays, WhatIsNoTaskIsRefused) {
  const JobId id = Submit(5);
  EXPECT_THAT(Refused(id, {{5, 6}}), StatusIs(Code::kNotFound, "job 1 has no task 5; its tasks are 0 to 4"));
  EXPECT_THAT(Refused(id, {{3, 9}}), StatusIs(Code::kNotFound, HasSubstr("no task 5")));
  EXPECT_THAT(Refused(id, {{-1, 2}}), StatusIs(Code::kNotFound, HasSubstr("no task -1")));
  EXPECT_THAT(Refused(id, {{3, 3}}), StatusIs(Code::kInvalidArgument, HasSubstr("ends before it begins")));
  EXPECT_THAT(Refused(99, {{0, 1}}), StatusIs(Code::kNotFound, HasSubstr("no job 99")));
}

TEST_F(Arrays, HolesAreBounded) {
  const JobId id = Submit(10'000);
  std::vector<TaskRange> holes;
  for (TaskIndex index = 1; index < 2'000; index += 2) holes.push_back({index, index + 1});
  CancelTasks(id, holes);
  EXPECT_THAT(Refused(id, {{5'000, 5'001}}), StatusIs(Code::kFailedPrecondition, HasSubstr("cancel longer ranges")));
}

// Any ranges in any order, before, while and after tasks run: each task is what a plain list of all of them says.
TEST_F(Arrays, RandomCancelsAreWhatAListOfAllTasksSays) {
  Rng rng(4);
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    const int64_t count = rng.Between(1, 40);
    const JobId id = Submit(count, rng.Between(0, 4));
    std::vector<TaskState> tasks(static_cast<size_t>(count), TaskState::kQueued);
    while (world_.state.jobs.contains(id) && !HasFailure()) {
      world_.Settle();
      const std::vector<TaskIndex> active = ActiveOf(id);
      for (const TaskIndex index : active) tasks[static_cast<size_t>(index)] = TaskState::kActive;
      if (!active.empty() && rng.Chance(0.6)) {
        const TaskIndex index = active[rng.Below(active.size())];
        Finish({id, index});
        tasks[static_cast<size_t>(index)] = TaskState::kSucceeded;
      } else {
        const TaskIndex first = rng.Between(0, count - 1), end = rng.Between(first + 1, std::min(count, first + 6));
        int64_t living = 0;
        for (TaskIndex index = first; index < end; ++index) {
          TaskState& task = tasks[static_cast<size_t>(index)];
          living += task == TaskState::kQueued || task == TaskState::kActive;
          if (task == TaskState::kQueued) task = TaskState::kCancelled;
        }
        if (living == 0) {
          EXPECT_THAT(Refused(id, {{first, end}}), StatusIs(Code::kFailedPrecondition, HasSubstr("ended")));
        } else {
          EXPECT_EQ(CancelTasks(id, {{first, end}}).affected, living);
        }
      }
      const Job& now = world_.state.jobs.contains(id) ? job(id) : world_.ended_jobs.at(id);
      for (TaskIndex index = 0; index < count; ++index) {
        const TaskState expected = tasks[static_cast<size_t>(index)];
        const auto ended = world_.ended_tasks.find({id, index});
        const std::optional<Task> living = GetTask(world_.state, {id, index});
        const std::optional<Task> told = living ? living : ended != world_.ended_tasks.end() ? ended->second : TaskWithoutRow(now, index);
        EXPECT_EQ(told ? told->state : TaskState::kUnspecified, expected) << "task " << index << " of " << count << ", round " << round;
      }
    }
  }
}

// --- a million ---

TEST_F(Arrays, AMillionTasksAreOneRowUntilTheyStartAndWhenTheyEnd) {
  const JobId id = Submit(1'000'000);
  EXPECT_THAT(world_.state.jobs.at(id).tasks, IsEmpty());
  EXPECT_THAT(world_.state.index.queue, SizeIs(1));
  world_.Settle();
  EXPECT_THAT(world_.state.jobs.at(id).tasks, SizeIs(8));
  EXPECT_EQ(world_.Do(Cancel{id, false, "", {}}).affected, 1'000'000);
  EXPECT_EQ(world_.changes.tasks.size() + world_.changes.ended_tasks.size(), 8u) << "rows are written of those that run";
  EXPECT_EQ(job(id).counts.cancelled, 999'992);
  EXPECT_EQ(job(id).skipped, (std::vector<TaskRange>{{8, 1'000'000}}));
}

TEST_F(Arrays, ADependencyOfAMillionTasksThatFailsWritesOneRow) {
  const JobId first = Submit(1);
  NewJob array = MakeJob(Cpu());
  array.task_count = 1'000'000;
  array.needs = {{first, -1, false, TaskState::kUnspecified}};
  const JobId id = world_.SubmitJobs({array}).jobs.at(0);
  world_.Settle();
  CancelTasks(id, {{10, 20}});
  Finish({first, 0}, EndCause::kUserError);
  world_.Do(SettleJob{id});
  EXPECT_THAT(world_.changes.ended_tasks, IsEmpty());
  const Job& ended = world_.ended_jobs.at(id);
  EXPECT_EQ(ended.counts.failed, 999'990);
  EXPECT_EQ(TaskWithoutRow(ended, 999'999)->state, TaskState::kFailed);
  EXPECT_EQ(TaskWithoutRow(ended, 15)->state, TaskState::kCancelled);
}

}  // namespace
}  // namespace spillway::core
