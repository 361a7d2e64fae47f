// The life of a job as a whole: from the submission through preemption and loss to the end, on static and on created machines.
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Life, JobRunsOnAStaticNodeAndSucceeds) {
  World world;
  world.Configure({});
  const NodeId node = world.Register("rack-1", Box(8, 2));
  const JobId job = world.SubmitJob(Gpus(1));
  EXPECT_THAT(Only<Place>(world.Turn()), SizeIs(1));
  const AttemptId attempt = world.Living({job, 0});
  EXPECT_EQ(attempt.number, 1);
  EXPECT_EQ(world.NodeOf(attempt), node);
  EXPECT_EQ(world.task({job, 0}).attempt->state, AttemptState::kOffered);
  const auto effects = Effects(world.state, nullptr);
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_EQ(std::get<OfferAttempt>(effects[0]).attempt, attempt);
  world.Accept(attempt);
  EXPECT_EQ(world.task({job, 0}).attempt->state, AttemptState::kStarting);
  world.Start(attempt);
  EXPECT_EQ(world.task({job, 0}).attempt->state, AttemptState::kRunning);
  EXPECT_THAT(Effects(world.state, nullptr), IsEmpty());
  world.Checkpoint(attempt, 10);
  world.End(attempt, EndCause::kCompleted);
  EXPECT_THAT(world.state.jobs, IsEmpty());
  EXPECT_EQ(world.ended_jobs[job].counts.succeeded, 1);
  EXPECT_EQ(world.ended_tasks[(TaskId{job, 0})].state, TaskState::kSucceeded);
  EXPECT_EQ(world.ended_tasks[(TaskId{job, 0})].history.back().saved_step, 10);
  EXPECT_GT(world.node(node).idle_since_ms, 0);
}

TEST(Life, SpillsToACreatedNodeWhenReservedIsFull) {
  World world;
  world.Configure({Cloud()}, {{"year", {"rack-1"}, 1'000'000, 0, 0}});
  world.Do(OffersListed{"cloud",
                        {MakeOffer("cloud", "od", Market::kOnDemand, 3'000'000, Box(8, 1)), MakeOffer("cloud", "sp", Market::kSpot, 1'000'000, Box(8, 1))}});
  world.Register("rack-1", Box(8, 1));
  const JobId first = world.SubmitJob(Gpus(1)), second = world.SubmitJob(Gpus(1));
  const auto commands = world.Turn();
  EXPECT_THAT(Only<Place>(commands), SizeIs(1));
  ASSERT_THAT(Only<RequestNode>(commands), SizeIs(1));
  EXPECT_EQ(Only<RequestNode>(commands)[0].offer.second, "sp");
  EXPECT_EQ(Only<RequestNode>(commands)[0].for_task, (TaskId{second, 0}));
  EXPECT_THAT(world.Turn(), IsEmpty());
  EXPECT_EQ(world.task({first, 0}).attempt->market, Market::kReserved);
  const NodeId burst = world.NodesIn(NodeState::kRequested).at(0);
  world.Advance(30 * kSecond);
  world.Boot(burst);
  world.HearFromAll();
  EXPECT_THAT(Only<Place>(world.Turn()), SizeIs(1));
  EXPECT_EQ(world.NodeOf(world.Living({second, 0})), burst);
  EXPECT_EQ(world.task({second, 0}).attempt->market, Market::kSpot);
}

TEST(Life, ReclaimedNodeSendsTheJobBackFromItsCheckpoint) {
  World world;
  world.Configure({Cloud()});
  world.Do(OffersListed{"cloud", {MakeOffer("cloud", "sp", Market::kSpot, 3'600'000, Box(8, 1))}});
  const JobId job = world.SubmitJob(Gpus(1));
  world.Turn();
  const NodeId first = world.NodesIn(NodeState::kRequested).at(0);
  world.Boot(first);
  world.Turn();
  const AttemptId one = world.Living({job, 0});
  world.Start(one);
  world.Advance(10 * kSecond);
  world.Checkpoint(one, 42);
  world.Do(NodeNotice{first, 30 * kSecond, "cloud", false});
  const auto stops = Only<StopAttempt>(world.Turn());
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].stop.cause, EndCause::kPreempted);
  EXPECT_EQ(world.task({job, 0}).attempt->state, AttemptState::kStopping);
  world.Advance(5 * kSecond);
  world.Do(InstanceGone{first, true, "reclaimed", 20'000});
  EXPECT_FALSE(world.state.nodes.contains(first));
  EXPECT_EQ(world.gone_nodes[first].state, NodeState::kLost);
  EXPECT_EQ(world.gone_nodes[first].charged_micros, 20'000);
  const Task& task = world.task({job, 0});
  EXPECT_EQ(task.state, TaskState::kQueued);
  EXPECT_EQ(task.seal_owed, 1);
  EXPECT_EQ(task.preempted, 1);
  EXPECT_EQ(task.history.back().cause, EndCause::kPreempted);
  EXPECT_THAT(world.Turn(), IsEmpty()) << "nothing happens before the seal";
  world.Seal(one);
  world.Turn();
  world.Boot(world.NodesIn(NodeState::kRequested).at(0));
  world.Turn();
  const AttemptId two = world.Living({job, 0});
  EXPECT_EQ(two.number, 2);
  EXPECT_EQ(world.task({job, 0}).attempt->resume_path, "a1/step-42");
  EXPECT_EQ(world.task({job, 0}).attempt->from_step, 42);
}

}  // namespace
}  // namespace spillway::core
