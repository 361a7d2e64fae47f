// Nodes that fall silent, never boot, or will be taken; the partition guard; leases started anew.
#include "scheduler/core/policy/silence.h"

#include "scheduler/core/admit_internal.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class SilenceTest : public ::testing::Test {
 protected:
  SilenceTest() {
    world_.Configure({Cloud("cloud", 100)});
    world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "sp", Market::kSpot, 1'000'000, Box(8, 1))}});
  }
  // `count` burst nodes, each running one job.
  std::vector<NodeId> Burst(int count) {
    for (int i = 0; i < count; ++i) world_.SubmitJob(Gpus(1));
    world_.Turn();
    const auto nodes = world_.NodesIn(NodeState::kRequested);
    for (NodeId node : nodes) world_.Boot(node);
    world_.Turn();
    for (NodeId node : nodes) {
      for (const AttemptId& attempt : WantedOn(world_.state, node)) world_.Start(attempt);
    }
    return nodes;
  }
  World world_;
};

TEST_F(SilenceTest, CreatedNodeIsFencedByEndingIt) {
  const NodeId node = Burst(1).at(0);
  world_.Advance(world_.policy.silence_ms);
  EXPECT_THAT(world_.Turn(), IsEmpty());
  EXPECT_EQ(NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms), world_.now_ms + 1);
  world_.Advance(1);
  const auto releases = Only<ReleaseNode>(world_.Turn());
  ASSERT_THAT(releases, SizeIs(1));
  EXPECT_EQ(releases[0].reason, kReasonSilent);
  EXPECT_EQ(world_.task({1, 0}).state, TaskState::kActive);
  world_.Advance(world_.policy.lease_ms * 2);
  EXPECT_THAT(world_.Turn(), IsEmpty()) << "the provider's word is waited for, however long";
  world_.Do(InstanceGone{node, false, "terminated", -1});
  EXPECT_EQ(world_.task({1, 0}).seal_owed, 1);
}

TEST_F(SilenceTest, StaticNodeWaitsForItsLeaseAndTheGrace) {
  world_.Register("rack-1", Box(8, 1));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Start({job, 0, 1});
  world_.Advance(world_.policy.lease_ms + world_.policy.lease_grace_ms);
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(1);
  EXPECT_THAT(Only<DeclareLost>(world_.Turn()), SizeIs(1));
  EXPECT_EQ(world_.task({job, 0}).history.back().cause, EndCause::kNodeLost);
}

TEST_F(SilenceTest, ImpatientJobIsFencedEarlier) {
  const NodeId rack = world_.Register("rack-1", Box(8, 2));
  NewJob impatient = MakeJob(Gpus(1));
  impatient.max_silence_ms = 90 * kSecond;
  const JobId job = world_.SubmitJobs({impatient}).jobs.front(), patient = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Start({job, 0, 1});
  world_.Start({patient, 0, 1});
  world_.Advance(90 * kSecond);
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(1);
  EXPECT_THAT(Only<FenceAttempt>(world_.Turn()), SizeIs(1));
  EXPECT_EQ(world_.task({job, 0}).state, TaskState::kQueued);
  EXPECT_EQ(world_.task({patient, 0}).state, TaskState::kActive);
  EXPECT_THAT(WantedOn(world_.state, rack), SizeIs(1)) << "when the node is back, its worker is told";
}

TEST_F(SilenceTest, TooManySilentAtOnceMeansThatWeAreThePartition) {
  Burst(4);
  world_.Advance(world_.policy.silence_ms + 1);
  EXPECT_TRUE(HoldsForPartition(world_.state, world_.soft, world_.policy, world_.now_ms));
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(world_.policy.lease_ms + world_.policy.lease_grace_ms - world_.policy.silence_ms);
  EXPECT_THAT(Only<ReleaseNode>(world_.Turn()), SizeIs(4)) << "held for one lease at most";
}

TEST_F(SilenceTest, NodesThatFallSilentOneByOneAreAPartitionToo) {
  const auto nodes = Burst(8);
  for (size_t i = 0; i < nodes.size(); ++i) world_.soft.leases[nodes[i]].heard_ms = world_.now_ms + static_cast<int64_t>(i) * kSecond;
  world_.Advance(world_.policy.silence_ms + 1);
  size_t released = 0;
  for (size_t i = 0; i < nodes.size(); ++i, world_.Advance(kSecond)) released += Only<ReleaseNode>(world_.Turn()).size();
  EXPECT_EQ(released, 3u) << "those fenced a moment ago count on";
}

TEST_F(SilenceTest, ThreeOfManyAreNotAPartition) {
  const auto nodes = Burst(8);
  world_.Advance(world_.policy.silence_ms + 1);
  for (size_t i = 3; i < nodes.size(); ++i) world_.soft.leases[nodes[i]].heard_ms = world_.now_ms;
  EXPECT_THAT(Only<ReleaseNode>(world_.Turn()), SizeIs(3));
}

TEST_F(SilenceTest, LeasesStartedAnewCountFromThen) {
  Burst(1);
  world_.Register("rack-1", Box(8, 1));
  world_.Advance(world_.policy.lease_ms * 3);
  RestartLeases(world_.state, world_.policy.lease_ms, world_.now_ms, &world_.soft);
  EXPECT_THAT(world_.soft.leases, SizeIs(2));
  EXPECT_EQ(world_.soft.leases.begin()->second.session, 1) << "living sessions stay";
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(world_.policy.silence_ms);
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(1);
  EXPECT_THAT(world_.Turn(), SizeIs(1));
  World fresh;
  RestartLeases(fresh.state, 1'000, 5'000, &fresh.soft);
  EXPECT_EQ(fresh.soft.leases_restarted_ms, 5'000);
}

TEST_F(SilenceTest, BootThatNeverEndsIsGivenUpAndItsPoolAvoided) {
  world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
  world_.Do(InstanceCreated{node, "i-1"});
  world_.Advance(600 * kSecond - 1);
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(1);
  const auto commands = world_.Turn();
  ASSERT_THAT(Only<ReleaseNode>(commands), SizeIs(1));
  EXPECT_THAT(Only<RequestNode>(commands), SizeIs(1)) << "the task asks anew at once";
  EXPECT_EQ(world_.state.offers.at({"cloud", "sp"}).last_preempted_ms, world_.now_ms);
}

TEST_F(SilenceTest, NoticeStopsWithAllTheTimeThereIs) {
  const NodeId node = Burst(1).at(0);
  world_.Do(NodeNotice{node, 30 * kSecond, "cloud"});
  const auto commands = world_.Turn();
  ASSERT_THAT(Only<StopAttempt>(commands), SizeIs(1));
  EXPECT_EQ(Only<StopAttempt>(commands)[0].stop.grace_ms, 29 * kSecond);
  EXPECT_EQ(Only<StopAttempt>(commands)[0].stop.initiator, Initiator::kProvider);
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.End({1, 0, 1}, EndCause::kPreempted, Initiator::kProvider);
  const auto after = world_.Turn();
  ASSERT_THAT(Only<ReleaseNode>(after), SizeIs(1)) << "empty before its time: no need to pay on";
  EXPECT_EQ(world_.task({1, 0}).preempted, 1);
}

TEST_F(SilenceTest, NoticeOfNoTimeStopsAtOnce) {
  const NodeId node = Burst(1).at(0);
  world_.Do(NodeNotice{node, 0, "cloud"});
  EXPECT_EQ(Only<StopAttempt>(world_.Turn()).at(0).stop.grace_ms, 0);
}

TEST_F(SilenceTest, NodePastItsNoticeIsEndedEvenWithAttempts) {
  const NodeId node = Burst(1).at(0);
  world_.Do(NodeNotice{node, 10 * kSecond, "cloud"});
  world_.Turn();
  world_.Advance(10 * kSecond + world_.policy.lease_grace_ms - 1);
  world_.HearFromAll();
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(1);
  EXPECT_THAT(Only<ReleaseNode>(world_.Turn()), SizeIs(1));
  EXPECT_EQ(world_.node(node).state, NodeState::kReleasing);
}

TEST_F(SilenceTest, DrainedStaticNodeStays) {
  const NodeId rack = world_.Register("rack-1", Box(8, 1));
  world_.Do(DrainNode{rack});
  EXPECT_THAT(world_.Turn(), IsEmpty());
  EXPECT_EQ(world_.node(rack).state, NodeState::kDraining);
}

}  // namespace
}  // namespace spillway::core
