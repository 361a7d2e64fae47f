// Deadlines: cheap machines while there is time, machines that stay from the last safe moment on, and what is said about it.
#include "base/units.h"
#include "scheduler/core/policy/slack.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class Deadlines : public ::testing::Test {
 protected:
  Deadlines() {
    world_.Configure({Cloud()});
    Offer();
  }

  void Offer(int64_t spot_available = -1, int64_t on_demand_available = -1) {
    core::Offer spot = MakeOffer("cloud", "spot", Market::kSpot, 1'000'000, Box(8, 1));
    core::Offer on_demand = MakeOffer("cloud", "od", Market::kOnDemand, 3'000'000, Box(8, 1));
    spot.notice_ms = 30 * kSecond;
    spot.available = spot_available;
    on_demand.available = on_demand_available;
    world_.Do(OffersListed{"cloud", {spot, on_demand}});
  }

  NewJob Due(int64_t in_ms, int64_t expected_ms) {
    NewJob job = MakeJob(Gpus(1));
    job.deadline_ms = world_.now_ms + in_ms;
    job.expected_ms = expected_ms;
    job.grace_ms = 30 * kSecond;
    return job;
  }
  TaskId Submit(const NewJob& job) { return {world_.SubmitJobs({job}).jobs.at(0), 0}; }

  // Turns in steps of a minute until `until_ms`, every session speaking; machines that were asked for come up `boot_ms` later.
  void RunUntil(int64_t until_ms, int64_t boot_ms = kMinute) {
    while (world_.now_ms < until_ms) {
      for (const NodeId id : world_.NodesIn(NodeState::kRequested)) {
        if (world_.now_ms >= world_.node(id).requested_ms + boot_ms) world_.Boot(id);
      }
      world_.Settle();
      for (const auto& [job, live] : std::map(world_.state.jobs)) {
        for (const auto& [index, task] : live.tasks) {
          if (!task.attempt) continue;
          const AttemptId id{job, index, task.attempt->number};
          if (task.attempt->state == AttemptState::kOffered) world_.Start(id);
          if (task.attempt->state == AttemptState::kStopping) {
            world_.End(id, EndCause::kMoved, Initiator::kScheduler);
            world_.Seal(id);
          }
        }
      }
      world_.Settle();
      world_.Advance(kMinute);
      world_.HearFromAll();
    }
  }
  Market MarketOf(TaskId task) const {
    const Task& it = world_.task(task);
    return it.attempt ? it.attempt->market : Market::kUnspecified;
  }
  std::vector<Market> Requested() const {
    std::vector<Market> markets;
    for (const NodeId id : world_.NodesIn(NodeState::kRequested)) markets.push_back(world_.node(id).market);
    return markets;
  }
  std::string Said(TaskId task, const std::string& code) const {
    for (const Why& why : Explain(world_.state, world_.soft, world_.policy, task, world_.now_ms)) {
      if (why.code == code) return why.message + " | " + why.unblocks;
    }
    return "";
  }
  int64_t Next() const { return NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms); }

  World world_;
  const int64_t start_ms_ = world_.now_ms;
};

TEST_F(Deadlines, WithTimeToSpareItWaitsForSpotRatherThanPayForOnDemand) {
  Offer(0);
  const TaskId patient = Submit(Due(10 * kHour, 2 * kHour)), any = Submit(MakeJob(Gpus(1)));
  world_.Settle();
  EXPECT_EQ(Requested(), (std::vector<Market>{Market::kOnDemand})) << "the job without a deadline goes there at once";
  EXPECT_EQ(world_.node(world_.NodesIn(NodeState::kRequested)[0]).for_task, any);
  // Twice: 3 min of a boot that was never seen, half as much again, the grace, and a fiftieth of the two hours to spare.
  const int64_t last_safe_ms = start_ms_ + 8 * kHour - 2 * (5 * kMinute + 144 * kSecond);
  EXPECT_EQ(SlackOf(world_.state.jobs.at(patient.job).job, nullptr, BootMs(world_.state, Gpus(1)), start_ms_).last_safe_ms, last_safe_ms);
  EXPECT_THAT(Said(patient, "WAITS_FOR_SPOT"), HasSubstr("until " + FormatUtcMs((last_safe_ms + 999) / 1000 * 1000)));
  EXPECT_THAT(Said(patient, "DEADLINE"), HasSubstr("can be met: with 2h left to run, until"));
}

TEST_F(Deadlines, AtTheLastSafeMomentItGoesOnDemandAndIsOnTime) {
  Offer(0);
  const TaskId task = Submit(Due(10 * kHour, 2 * kHour));
  world_.Settle();
  EXPECT_THAT(Requested(), IsEmpty());
  const int64_t last_safe_ms = SlackOf(world_.state.jobs.at(task.job).job, nullptr, BootMs(world_.state, Gpus(1)), world_.now_ms).last_safe_ms;
  EXPECT_EQ(Next(), last_safe_ms) << "nothing else would wake the scheduler";
  world_.Advance(last_safe_ms - world_.now_ms - 1);
  world_.Settle();
  EXPECT_THAT(Requested(), IsEmpty());
  world_.Advance(1);
  world_.Settle();
  EXPECT_EQ(Requested(), (std::vector<Market>{Market::kOnDemand}));
  RunUntil(world_.now_ms + 3 * kMinute, 2 * kMinute);
  EXPECT_EQ(MarketOf(task), Market::kOnDemand);
  EXPECT_LE(world_.task(task).attempt->started_ms + 2 * kHour, start_ms_ + 10 * kHour);
  EXPECT_THAT(Said(task, "RUNNING"), HasSubstr("its deadline left no time for machines that can be taken away; best of 1 other offer: 3."));
}

TEST_F(Deadlines, WhatRunsOnSpotIsMovedAtTheLastSafeMomentCountedFromItsCheckpoint) {
  const TaskId task = Submit(Due(6 * kHour, 4 * kHour));
  RunUntil(start_ms_ + 62 * kMinute);
  ASSERT_EQ(MarketOf(task), Market::kSpot);
  const int64_t began_ms = world_.task(task).attempt->started_ms;
  world_.Checkpoint(world_.Living(task), 100);
  EXPECT_EQ(world_.task(task).worked_ms, world_.now_ms - began_ms);
  // One more boot (it was seen to take a minute), its half, the grace to save in, a fiftieth of what is left.
  const int64_t left_ms = 4 * kHour - world_.task(task).worked_ms;
  const int64_t last_safe_ms = start_ms_ + 6 * kHour - left_ms - 90 * kSecond - left_ms / 50 - 30 * kSecond;
  EXPECT_EQ(Next(), std::min(Next(), last_safe_ms));
  RunUntil(last_safe_ms - kMinute);
  EXPECT_EQ(MarketOf(task), Market::kSpot) << "it never saved again, and there is time still";
  world_.Advance(last_safe_ms - world_.now_ms);
  world_.HearFromAll();
  const std::vector<StopAttempt> stops = Only<StopAttempt>(world_.Turn());
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].stop.cause, EndCause::kMoved);
  EXPECT_THAT(stops[0].stop.reason, HasSubstr("leaves no more time for machines that can be taken away"));
  RunUntil(world_.now_ms + 5 * kMinute);
  EXPECT_EQ(MarketOf(task), Market::kOnDemand);
  EXPECT_EQ(world_.task(task).attempt->worked_before_ms, 4 * kHour - left_ms);
  EXPECT_LE(world_.task(task).attempt->started_ms + left_ms, start_ms_ + 6 * kHour);
  RunUntil(start_ms_ + 6 * kHour - kMinute);
  EXPECT_EQ(MarketOf(task), Market::kOnDemand) << "and it stays there";
  EXPECT_EQ(world_.task(task).attempts, 2);
}

TEST_F(Deadlines, ACheckpointBuysTimeOnSpot) {
  const TaskId task = Submit(Due(6 * kHour, 4 * kHour));
  RunUntil(start_ms_ + 2 * kMinute);
  for (int64_t step = 1; step <= 24; ++step) {
    RunUntil(start_ms_ + 2 * kMinute + step * 10 * kMinute);
    ASSERT_EQ(MarketOf(task), Market::kSpot) << step;
    world_.Checkpoint(world_.Living(task), step);
  }
  EXPECT_EQ(world_.task(task).attempts, 1) << "four hours of work saved on the way, and never moved";
}

TEST_F(Deadlines, WhatWouldEndSoonerThanAMoveTakesStays) {
  const TaskId task = Submit(Due(75 * kMinute, kHour));
  RunUntil(start_ms_ + 2 * kMinute);
  ASSERT_EQ(MarketOf(task), Market::kSpot);
  world_.Advance(58 * kMinute);  // two minutes to go, nothing saved: the last safe moment was long ago
  world_.HearFromAll();
  EXPECT_THAT(Only<StopAttempt>(world_.Turn()), IsEmpty());
}

TEST_F(Deadlines, NothingIsStoppedWhereNoMachineThatStaysCanBeHad) {
  Offer(-1, 0);
  const TaskId task = Submit(Due(2 * kHour, 100 * kMinute));
  RunUntil(start_ms_ + 110 * kMinute);
  EXPECT_EQ(MarketOf(task), Market::kSpot) << "a machine that may be taken away is better than none";
  EXPECT_EQ(world_.task(task).attempts, 1);
}

TEST_F(Deadlines, AnUrgentTaskLeavesAFreeSpotMachineToOthers) {
  const TaskId filler = Submit(MakeJob(Gpus(1)));
  RunUntil(start_ms_ + 2 * kMinute);
  world_.End(world_.Living(filler), EndCause::kCompleted);
  NewJob late = Due(2 * kHour, 119 * kMinute);
  late.priority = 90;
  const TaskId urgent = Submit(late), other = Submit(MakeJob(Gpus(1)));
  world_.Settle();
  EXPECT_EQ(MarketOf(other), Market::kSpot);
  EXPECT_EQ(Requested(), (std::vector<Market>{Market::kOnDemand}));
  EXPECT_EQ(GetTask(world_.state, urgent)->state, TaskState::kQueued);
  RunUntil(world_.now_ms + 3 * kMinute);
  EXPECT_EQ(MarketOf(urgent), Market::kOnDemand);
}

TEST_F(Deadlines, ReservedIsTakenAtAnyTime) {
  world_.Register("rack-1", Box(8, 1));
  const TaskId task = Submit(Due(10 * kHour, kHour));
  world_.Settle();
  EXPECT_EQ(MarketOf(task), Market::kReserved);
  EXPECT_THAT(Said(task, "DEADLINE"), HasSubstr("it may stand still for 9h"));
}

TEST_F(Deadlines, WhereSpotIsNotCheaperNobodyWaitsForIt) {
  world_.Do(OffersListed{"cloud",
                         {MakeOffer("cloud", "spot", Market::kSpot, 3'000'000, Box(8, 1)), MakeOffer("cloud", "od", Market::kOnDemand, 2'000'000, Box(8, 1))}});
  Submit(Due(10 * kHour, kHour));
  world_.Settle();
  EXPECT_EQ(Requested(), (std::vector<Market>{Market::kOnDemand}));
}

TEST_F(Deadlines, AnArrayThatWaitsHoldsUpNobodyOfItsShape) {
  Offer(0);
  NewJob array = Due(10 * kHour, kHour);
  array.task_count = 100'000;
  array.priority = 90;
  Submit(array);
  const TaskId other = Submit(MakeJob(Gpus(1)));
  world_.Settle();
  ASSERT_THAT(world_.NodesIn(NodeState::kRequested), SizeIs(1));
  EXPECT_EQ(world_.node(world_.NodesIn(NodeState::kRequested)[0]).for_task, other);
}

TEST_F(Deadlines, ADeadlineThatCannotBeMetIsToldAtOnceAndWithWhatWouldHelp) {
  const Reply reply = world_.SubmitJobs({Due(kHour, 2 * kHour)});
  ASSERT_THAT(reply.warnings, SizeIs(1));
  const std::string ends = FormatUtcMs(start_ms_ + 2 * kHour + 5 * kMinute + 144 * kSecond);
  EXPECT_THAT(reply.warnings[0], HasSubstr("cannot be met: it ends at " + ends + " at the earliest"));
  const TaskId task{reply.jobs.at(0), 0};
  EXPECT_THAT(Said(task, "DEADLINE_LOST"), HasSubstr("| spillway update 1 --deadline " + ends));
  world_.Settle();
  EXPECT_EQ(Requested(), (std::vector<Market>{Market::kOnDemand})) << "as little late as can be";
}

TEST_F(Deadlines, AfterItsDeadlineAJobIsLikeAnyOther) {
  Offer(0, 0);
  const TaskId task = Submit(Due(kHour, 30 * kMinute));
  world_.Advance(kHour);
  Offer();
  world_.Settle();
  EXPECT_EQ(Requested(), (std::vector<Market>{Market::kSpot}));
  EXPECT_THAT(Said(task, "DEADLINE_PASSED"), HasSubstr("passed 0s ago"));
}

TEST_F(Deadlines, AnUpdateChangesIt) {
  Offer(0);
  const TaskId task = Submit(Due(10 * kHour, 2 * kHour));
  world_.Settle();
  EXPECT_THAT(Requested(), IsEmpty());
  Update update{task.job, std::nullopt, std::nullopt, start_ms_ + 2 * kHour + 5 * kMinute};
  EXPECT_THAT(world_.Do(update).message, HasSubstr("deadline " + FormatUtcMs(*update.deadline_ms) + ", was " + FormatUtcMs(start_ms_ + 10 * kHour)));
  world_.Settle();
  EXPECT_EQ(Requested(), (std::vector<Market>{Market::kOnDemand}));
  update.deadline_ms = world_.now_ms;
  EXPECT_THAT(world_.Try(update), StatusIs(Code::kInvalidArgument, HasSubstr("is over")));
  update.job = Submit(MakeJob(Gpus(1))).job;
  update.deadline_ms = world_.now_ms + kHour;
  EXPECT_THAT(world_.Try(update), StatusIs(Code::kFailedPrecondition, HasSubstr("without a deadline")));
}

TEST_F(Deadlines, WhatCannotBeAccepted) {
  NewJob over = Due(-kMinute, kHour);
  EXPECT_THAT(world_.Try(core::Submit{"", "", {over}}), StatusIs(Code::kInvalidArgument, HasSubstr("is over")));
  NewJob unknown = Due(kHour, 0);
  EXPECT_THAT(world_.Try(core::Submit{"", "", {unknown}}), StatusIs(Code::kInvalidArgument, HasSubstr("needs an expected duration")));
  NewJob only_spot = Due(10 * kHour, kHour);
  only_spot.shape.markets = {Market::kSpot};
  EXPECT_THAT(world_.Do(core::Submit{"", "", {only_spot}}).warnings, ::testing::ElementsAre(HasSubstr("no deadline can be promised")));
}

// What a seal finds counts as the same part of the running time as of the steps.
TEST_F(Deadlines, WhatASealFindsCountsByItsSteps) {
  const TaskId task = Submit(Due(10 * kHour, 4 * kHour));
  RunUntil(start_ms_ + 2 * kMinute);
  const AttemptId first = world_.Living(task);
  world_.Advance(100 * kMinute - (world_.now_ms - world_.task(task).attempt->started_ms));
  Report ended;
  ended.attempt = first;
  ended.kind = Report::Kind::kEnded;
  ended.cause = EndCause::kPreempted;
  ended.initiator = Initiator::kProvider;
  ended.last_step = 1'000;
  world_.Report(world_.NodeOf(first), ended);
  CheckpointRef found;
  found.attempt = 1;
  found.step = 600;
  found.path = "x";
  world_.Do(SealResult{first, found, 0});
  EXPECT_EQ(world_.task(task).worked_ms, 60 * kMinute);
}

}  // namespace
}  // namespace spillway::core
