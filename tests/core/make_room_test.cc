// Room for a task of higher priority: when it is made, who gives way, and that it is kept for whom it was made.
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MakesRoom : public ::testing::Test {
 protected:
  MakesRoom() {
    world_.Configure({Cloud()});
    node_ = world_.Register("rack-1", Box(4));
  }

  void Settle() { world_.Settle(); }
  JobId Submit(int64_t priority, int64_t cores = 4, bool interruptible = true, const std::string& node = "") {
    Shape shape = Cpu(cores * 1'000);
    shape.interruptible = interruptible;
    if (!node.empty()) shape.node_names = {node};
    const JobId id = world_.SubmitJob(shape, priority);
    Settle();
    return id;
  }
  JobId Running(int64_t priority, int64_t cores = 4, bool interruptible = true, const std::string& node = "") {
    const JobId id = Submit(priority, cores, interruptible, node);
    if (world_.Living({id, 0}).number == 0) {
      ADD_FAILURE() << id << " does not run";
    } else {
      world_.Start(world_.Living({id, 0}));
    }
    return id;
  }
  const std::optional<StopRequest>& StopOf(JobId id) const { return world_.task({id, 0}).attempt->stop; }
  void Leave(JobId id) {
    const AttemptId attempt = world_.Living({id, 0});
    world_.End(attempt, EndCause::kPreempted, Initiator::kScheduler);
    world_.Seal(attempt);
  }
  void Pass(int64_t ms) {
    world_.Advance(ms);
    world_.HearFromAll();
  }
  std::vector<std::string> CodesOf(JobId id) const {
    std::vector<std::string> codes;
    for (const Why& why : Explain(world_.state, world_.soft, world_.policy, {id, 0}, world_.now_ms)) codes.push_back(why.code);
    return codes;
  }

  World world_;
  NodeId node_;
};

TEST_F(MakesRoom, TheLowerGivesWayAfterACheckpointAndGoesOnLater) {
  const JobId low = Running(10);
  const JobId high = Submit(80);
  ASSERT_TRUE(StopOf(low).has_value());
  EXPECT_EQ(StopOf(low)->cause, EndCause::kPreempted);
  EXPECT_EQ(StopOf(low)->initiator, Initiator::kScheduler);
  EXPECT_EQ(StopOf(low)->grace_ms, world_.state.jobs.at(low).job.grace_ms) << "the time to save";
  EXPECT_EQ(StopOf(low)->reason, "makes room for 2.0 (job), priority 80 over 10");
  EXPECT_THAT(CodesOf(high), ::testing::Contains("MAKING_ROOM"));
  const AttemptId first = world_.Living({low, 0});
  world_.Checkpoint(first, 40);
  Leave(low);
  Settle();
  EXPECT_EQ(world_.Living({high, 0}).number, 1);
  EXPECT_EQ(world_.task({low, 0}).preempted, 0) << "it costs no retry";
  EXPECT_THAT(CodesOf(low), ::testing::Contains("RESERVED_BUSY"));
  world_.End(world_.Living({high, 0}), EndCause::kCompleted);
  Settle();
  EXPECT_EQ(world_.task({low, 0}).attempt->from_step, 40);
}

TEST_F(MakesRoom, NotForEqualPriorityNorFromTheUninterruptible) {
  const JobId low = Running(50);
  const JobId equal = Submit(50);
  EXPECT_FALSE(StopOf(low).has_value());
  world_.Do(Cancel{equal, true, ""});
  world_.Do(Cancel{low, true, ""});
  world_.End(world_.Living({low, 0}), EndCause::kCancelled);
  const JobId precious = Running(10, 4, false);
  const JobId high = Submit(80);
  EXPECT_FALSE(StopOf(precious).has_value());
  EXPECT_THAT(CodesOf(high), ::testing::Contains("UNINTERRUPTIBLE"));
  Pass(kHour);
  EXPECT_THAT(world_.Turn(), IsEmpty());
}

TEST_F(MakesRoom, OnlyWhereNothingElseIsToBeHad) {
  const JobId low = Running(10);
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4))}});
  const JobId high = Submit(80);
  EXPECT_FALSE(StopOf(low).has_value()) << "an offer is open";
  EXPECT_THAT(world_.NodesIn(NodeState::kRequested), SizeIs(1));
  world_.Do(InstanceRefused{world_.NodesIn(NodeState::kRequested)[0], InstanceRefused::Code::kCapacity, "none left", 0});
  Settle();
  EXPECT_TRUE(StopOf(low).has_value()) << "and now it is not";
  Pass(5 * kMinute);
  Settle();
  EXPECT_THAT(world_.NodesIn(NodeState::kRequested), IsEmpty()) << "room is being made: the offer is not asked again";
  EXPECT_THAT(CodesOf(high), ::testing::Contains("MAKING_ROOM"));
}

TEST_F(MakesRoom, WhoLosesLeastGivesWayFirst) {
  const JobId old = Running(10, 2);
  Pass(kHour);
  const JobId young = Running(10, 2);
  Pass(kMinute);
  world_.Checkpoint(world_.Living({old, 0}), 7);
  Pass(kSecond);
  Submit(80, 2);
  EXPECT_TRUE(StopOf(old).has_value()) << "it saved a second ago";
  EXPECT_FALSE(StopOf(young).has_value());
}

TEST_F(MakesRoom, TheLowestPriorityGivesWayFirstAndNobodyWhoIsNotNeeded) {
  const JobId lower = Running(10, 1), lowest = Running(5, 1), small = Running(5, 1), middle = Running(30, 1);
  Submit(80, 2);
  EXPECT_TRUE(StopOf(lowest).has_value());
  EXPECT_TRUE(StopOf(small).has_value());
  EXPECT_FALSE(StopOf(lower).has_value());
  EXPECT_FALSE(StopOf(middle).has_value());
}

TEST_F(MakesRoom, OneLargeOneIsEnoughWhereASmallOneWouldBeInVain) {
  const JobId small = Running(5, 1), large = Running(10, 3);
  Submit(80, 3);
  EXPECT_FALSE(StopOf(small).has_value());
  EXPECT_TRUE(StopOf(large).has_value());
}

TEST_F(MakesRoom, WhereTheHarmIsLeast) {
  const NodeId other = world_.Register("rack-2", Box(4));
  const JobId dear = Running(40, 4, true, "rack-1"), cheap = Running(10, 4, true, "rack-2");
  Submit(80);
  EXPECT_FALSE(StopOf(dear).has_value());
  EXPECT_TRUE(StopOf(cheap).has_value());
  EXPECT_NE(other, node_);
}

TEST_F(MakesRoom, NotAtAllWhereItWouldNotBeEnough) {
  const JobId low = Running(10, 2), equal = Running(80, 2);
  Submit(80, 4);
  EXPECT_FALSE(StopOf(low).has_value());
  EXPECT_FALSE(StopOf(equal).has_value());
}

TEST_F(MakesRoom, WhatIsFreedBitByBitIsKept) {
  const JobId a = Running(10, 2), b = Running(10, 2);
  const JobId small = Submit(20, 1);
  ASSERT_TRUE(StopOf(a).has_value()) << "the older of two that lose the same";
  Leave(a);
  Settle();
  EXPECT_EQ(world_.Living({small, 0}).number, 1);
  world_.Start(world_.Living({small, 0}));
  const JobId whole = Submit(80, 4);
  EXPECT_TRUE(StopOf(b).has_value());
  EXPECT_TRUE(StopOf(small).has_value());
  Leave(b);
  Settle();
  EXPECT_EQ(world_.Living({a, 0}).number, 0) << "there is room for it, and that is kept";
  EXPECT_THAT(CodesOf(a), ::testing::Contains("ROOM_PROMISED"));
  const JobId higher = Submit(90, 2);
  EXPECT_EQ(world_.Living({higher, 0}).number, 1) << "who is of higher priority still goes first";
  world_.End(world_.Living({higher, 0}), EndCause::kCompleted);
  Leave(small);
  Settle();
  EXPECT_EQ(world_.Living({whole, 0}).number, 1);
}

TEST_F(MakesRoom, WhoMadeRoomIsLeftAloneForAWhile) {
  const JobId low = Running(10);
  const JobId first = Submit(80);
  Leave(low);
  Settle();
  world_.End(world_.Living({first, 0}), EndCause::kCompleted);
  Settle();
  world_.Start(world_.Living({low, 0}));
  Pass(kMinute);
  const JobId second = Submit(90);
  EXPECT_FALSE(StopOf(low).has_value());
  EXPECT_THAT(CodesOf(second), ::testing::Contains("MADE_ROOM_LATELY"));
  const int64_t again_ms = NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms);
  EXPECT_LE(again_ms, world_.now_ms + world_.policy.displace_again_ms - kMinute) << "it is thought of in time";
  Pass(world_.policy.displace_again_ms - kMinute);
  Settle();
  EXPECT_TRUE(StopOf(low).has_value());
}

TEST_F(MakesRoom, ARaisedPriorityIsEnough) {
  const JobId low = Running(50);
  const JobId other = Submit(50);
  EXPECT_FALSE(StopOf(low).has_value());
  world_.Do(Update{other, 60, std::nullopt});
  Settle();
  EXPECT_TRUE(StopOf(low).has_value());
}

TEST_F(MakesRoom, WhatStopsAnywayIsWaitedFor) {
  const JobId a = Running(10, 2), b = Running(10, 2);
  world_.Do(Pause{b});
  Submit(80, 2);
  EXPECT_FALSE(StopOf(a).has_value()) << "room enough comes from the pause";
}

TEST_F(MakesRoom, NobodyLowerIsStartedWhereWhatStopsWillBeEnough) {
  const JobId a = Running(10, 2);
  world_.Do(Pause{a});
  const JobId whole = Submit(80, 4);
  const JobId small = Submit(20, 1);
  EXPECT_EQ(world_.Living({small, 0}).number, 0) << "it would be stopped again at once";
  EXPECT_THAT(CodesOf(small), ::testing::Contains("ROOM_PROMISED"));
  Leave(a);
  Settle();
  EXPECT_EQ(world_.Living({whole, 0}).number, 1);
}

TEST_F(MakesRoom, WhoWouldBePlacedInTheSameCycleWaitsInstead) {
  const JobId low = Running(10, 2);
  const JobId whole = world_.SubmitJob(Cpu(4'000), 80), small = world_.SubmitJob(Cpu(1'000), 20);
  Settle();
  EXPECT_TRUE(StopOf(low).has_value());
  EXPECT_EQ(world_.Living({small, 0}).number, 0);
  Leave(low);
  Settle();
  EXPECT_EQ(world_.Living({whole, 0}).number, 1);
}

}  // namespace
}  // namespace spillway::core
