// Tasks on several nodes: placed on all or none, started when all have accepted, over when every member has stopped, for the first true cause. And that nothing
// is held for one that does not come together.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/rng.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Kind = core::Report::Kind;

Shape Gang(int64_t nodes, int64_t cores = 4) {
  Shape shape = Cpu(cores * 1'000);
  shape.nodes = nodes;
  return shape;
}

class GangWorld {
 public:
  GangWorld() { world_.Configure({Cloud()}); }

  NodeId Rack(int number, int64_t cores = 4) { return world_.Register(absl::StrCat("rack-", number), Box(cores)); }
  const Attempt& AttemptOf(JobId job) { return *world_.task({job, 0}).attempt; }
  NodeId NodeOf(JobId job, size_t rank) { return AttemptOf(job).members[rank].node; }
  void Say(JobId job, size_t rank, Kind kind, EndCause cause = EndCause::kUnspecified, Initiator initiator = Initiator::kJob, const std::string& detail = "") {
    core::Report report;
    report.attempt = world_.Living({job, 0});
    report.kind = kind;
    report.rendezvous = absl::StrCat("host-", rank, ":4242");
    report.cause = cause;
    report.initiator = initiator;
    report.detail = detail;
    world_.Report(NodeOf(job, rank), report);
  }
  void SayAll(JobId job, Kind kind) {
    for (size_t rank = 0; rank < AttemptOf(job).members.size(); ++rank) Say(job, rank, kind);
  }
  JobId Running(int64_t nodes = 2, int64_t priority = 50) {
    const JobId job = world_.SubmitJob(Gang(nodes), priority);
    world_.Settle();
    SayAll(job, Kind::kAccepted);
    SayAll(job, Kind::kStarted);
    EXPECT_EQ(AttemptOf(job).state, AttemptState::kRunning);
    return job;
  }
  void Pass(int64_t ms) {
    world_.Advance(ms);
    world_.HearFromAll();
  }
  std::vector<NodeId> OfferedTo(JobId job) {
    std::vector<NodeId> nodes;
    for (const Effect& effect : Effects(world_.state, nullptr)) {
      const auto* offer = std::get_if<OfferAttempt>(&effect);
      if (offer != nullptr && offer->attempt.job == job) nodes.push_back(offer->node);
    }
    return nodes;
  }
  std::vector<Why> WhyOf(JobId job) { return Explain(world_.state, world_.soft, world_.policy, {job, 0}, world_.now_ms); }

  World world_;
};

class Gangs : public ::testing::Test, protected GangWorld {};

TEST_F(Gangs, ArePlacedOnAllTheirNodesOrOnNone) {
  Rack(1);
  Rack(2, 2);
  Rack(3);
  const JobId three = world_.SubmitJob(Gang(2, 4)), small = world_.SubmitJob(Cpu(1'000));
  const auto commands = Only<Place>(world_.Turn());
  ASSERT_THAT(commands, SizeIs(2));
  EXPECT_EQ(commands[0].task.job, three);
  EXPECT_NE(commands[0].members[0].node, commands[0].members[1].node);
  EXPECT_EQ(NodeOf(small, 0), 2) << "the node that is too small for the gang";
  const JobId more = world_.SubmitJob(Gang(2, 2));
  EXPECT_THAT(world_.Turn(), IsEmpty());
  EXPECT_THAT(WhyOf(more), Contains(Field(&Why::code, "GANG_INCOMPLETE")));
}

TEST_F(Gangs, WhatNeverFitsIsRefusedByCount) {
  world_.Configure({});
  Rack(1);
  Rack(2);
  EXPECT_THAT(world_.Try(Submit{"", "digest", {MakeJob(Gang(3))}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("never fits: needs 3 nodes, each with 4 cpus; only 2 fit")));
  EXPECT_THAT(world_.Try(Submit{"", "digest", {MakeJob(Gang(limits::kGangMembersMax + 1))}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(".resources.nodes: must be 1 to 256, not 257")));
  EXPECT_THAT(world_.Try(Submit{"", "digest", {MakeJob(Gang(0))}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not 0")));
}

TEST_F(Gangs, WhatAProviderMayMakeCountsOnce) {
  world_.Configure({Cloud("cloud", 2)});
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4)), MakeOffer("cloud", "sp", Market::kSpot, 500'000, Box(4))}});
  EXPECT_THAT(world_.Try(Submit{"", "digest", {MakeJob(Gang(3))}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only 2 fit")));
  Rack(1);
  EXPECT_OK(world_.Try(Submit{"", "digest", {MakeJob(Gang(3))}}));
}

TEST_F(Gangs, OneListingMayEndSeveralMembers) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4))}});
  const JobId job = world_.SubmitJob(Gang(2));
  world_.Settle();
  for (const NodeId id : world_.NodesIn(NodeState::kRequested)) world_.Boot(id);
  world_.Settle();
  SayAll(job, Kind::kAccepted);
  SayAll(job, Kind::kStarted);
  InstanceListing listing;
  listing.provider = "cloud";
  listing.asked_ms = world_.now_ms;
  for (const Member& member : AttemptOf(job).members) listing.instances.push_back({world_.node(member.node).instance_id, "", false, true, "taken", -1, -1});
  world_.Do(listing);
  EXPECT_EQ(world_.task({job, 0}).state, TaskState::kQueued);
  EXPECT_EQ(world_.task({job, 0}).history.back().cause, EndCause::kPreempted);
  EXPECT_EQ(world_.task({job, 0}).preempted, 1);
}

TEST_F(Gangs, StartWhenAllHaveAccepted) {
  const NodeId a = Rack(1), b = Rack(2);
  const JobId job = world_.SubmitJob(Gang(2));
  world_.Settle();
  EXPECT_THAT(OfferedTo(job), UnorderedElementsAre(a, b));
  Say(job, 1, Kind::kAccepted);
  Say(job, 1, Kind::kStarted);  // a liar, or a fool
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kOffered);
  EXPECT_EQ(AttemptOf(job).rendezvous, "");
  EXPECT_THAT(WhyOf(job), Contains(Field(&Why::message, HasSubstr("is not accepted yet by rack-1"))));
  Say(job, 0, Kind::kAccepted);
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kStarting);
  EXPECT_EQ(AttemptOf(job).rendezvous, "host-0:4242");
  EXPECT_THAT(OfferedTo(job), UnorderedElementsAre(a, b)) << "now as the word to start";
  Say(job, 0, Kind::kStarted);
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kStarting);
  EXPECT_THAT(OfferedTo(job), ElementsAre(NodeOf(job, 1)));
  Say(job, 1, Kind::kStarted);
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kRunning);
  EXPECT_THAT(OfferedTo(job), IsEmpty());
}

TEST_F(Gangs, MemberNoughtMustSayWhereItListens) {
  Rack(1);
  Rack(2);
  const JobId job = world_.SubmitJob(Gang(2));
  world_.Settle();
  core::Report report;
  report.attempt = world_.Living({job, 0});
  report.seq = 1;
  const NodeId node = NodeOf(job, 0);
  EXPECT_THAT(world_.Try(NodeReports{node, world_.node(node).boot_id, {report}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("where it listens")));
}

TEST_F(Gangs, SucceedWhenEveryMemberHasCompleted) {
  const NodeId a = Rack(1);
  Rack(2);
  const JobId job = Running();
  Say(job, 0, Kind::kEnded, EndCause::kCompleted);
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kRunning) << "one that is done does not end the others";
  EXPECT_FALSE(AttemptOf(job).stop.has_value());
  EXPECT_THAT(WantedOn(world_.state, a), IsEmpty()) << "and holds its node no longer";
  Say(job, 1, Kind::kEnded, EndCause::kCompleted);
  EXPECT_EQ(world_.ended_tasks.at({job, 0}).state, TaskState::kSucceeded);
}

TEST_F(Gangs, OneThatFailsTakesTheOthersAlong) {
  const NodeId a = Rack(1), b = Rack(2);
  const JobId job = Running();
  Say(job, 1, Kind::kEnded, EndCause::kOutOfMemory, Initiator::kJob, "out of memory");
  ASSERT_TRUE(AttemptOf(job).stop.has_value());
  EXPECT_EQ(AttemptOf(job).stop->cause, EndCause::kPeerFailed);
  EXPECT_EQ(AttemptOf(job).stop->reason, "member 1 on rack-2: out of memory");
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kStopping);
  world_.SubmitJob(Gang(1));
  const auto placed = Only<Place>(world_.Turn());
  ASSERT_THAT(placed, SizeIs(1)) << "the node of the one that is gone is free";
  EXPECT_EQ(placed[0].members[0].node, b);
  EXPECT_EQ(world_.task({job, 0}).attempts, 1) << "no second attempt before the first is over";
  Say(job, 0, Kind::kEnded, EndCause::kPeerFailed, Initiator::kScheduler);
  const Task& ended = world_.ended_tasks.at({job, 0});
  EXPECT_EQ(ended.state, TaskState::kFailed);
  EXPECT_EQ(ended.history.back().cause, EndCause::kOutOfMemory);
  EXPECT_EQ(ended.history.back().detail, "member 1 on rack-2: out of memory");
  EXPECT_THAT(WantedOn(world_.state, a), IsEmpty());
}

TEST_F(Gangs, ALostNodeExplainsTheErrorsOfItsPeers) {
  Rack(1);
  const NodeId b = Rack(2);
  const JobId job = Running();
  Say(job, 0, Kind::kEnded, EndCause::kUserError, Initiator::kJob, "connection reset by peer");
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kStopping);
  Pass(0);
  world_.soft.leases[b].lease_end_ms = world_.now_ms - kHour;
  world_.soft.leases[b].heard_ms = world_.now_ms - kHour;
  world_.Do(DeclareLost{b, "its lease has lapsed"});
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.history.back().cause, EndCause::kNodeLost);
  EXPECT_EQ(task.state, TaskState::kQueued) << "the node's fault, not the user's";
  EXPECT_EQ(task.user_errors, 0);
  EXPECT_EQ(task.node_faults, 1);
  EXPECT_EQ(task.avoid_node, b);
  EXPECT_EQ(task.seal_owed, 1);
}

TEST_F(Gangs, WhoeverIsAskedToStopMayTakeItsPeersAlongBeforeTheyHear) {
  Rack(1);
  const NodeId b = Rack(2);
  const JobId job = Running();
  world_.Do(NodeNotice{b, 30 * kSecond, "cloud", false});
  world_.Settle();
  ASSERT_TRUE(AttemptOf(job).stop.has_value()) << "the notice of one reaches all";
  EXPECT_THAT(Effects(world_.state, nullptr), SizeIs(2));
  Say(job, 0, Kind::kEnded, EndCause::kUserError, Initiator::kJob, "broken pipe");
  Say(job, 1, Kind::kEnded, EndCause::kPreempted, Initiator::kProvider);
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.history.back().cause, EndCause::kPreempted);
  EXPECT_EQ(task.preempted, 1);
  EXPECT_EQ(task.state, TaskState::kQueued);
}

TEST_F(Gangs, ARefusedOfferEndsTheWholeAttemptWithoutASeal) {
  Rack(1);
  Rack(2);
  const JobId job = world_.SubmitJob(Gang(2));
  world_.Settle();
  Say(job, 0, Kind::kAccepted);
  Say(job, 1, Kind::kEnded, EndCause::kStagingFailed, Initiator::kNode);
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kStopping);
  Say(job, 0, Kind::kEnded, EndCause::kPeerFailed, Initiator::kScheduler);
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.history.back().cause, EndCause::kStagingFailed);
  EXPECT_EQ(task.seal_owed, 0) << "nothing of it had begun";
}

TEST_F(Gangs, AnOfferThatNotAllAcceptIsTakenBack) {
  Rack(1);
  Rack(2);
  const JobId job = world_.SubmitJob(Gang(2)), other = world_.SubmitJob(Gang(1));
  world_.Settle();
  Say(job, 0, Kind::kAccepted);
  EXPECT_EQ(NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms), world_.now_ms + world_.policy.silence_ms + 1);
  Pass(world_.policy.gang_hold_ms - 1);
  EXPECT_THAT(Only<StopAttempt>(world_.Turn()), IsEmpty());
  EXPECT_EQ(NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms), world_.now_ms + 1);
  Pass(1);
  EXPECT_THAT(Only<StopAttempt>(world_.Turn()), SizeIs(1));
  EXPECT_THAT(AttemptOf(job).stop->reason, HasSubstr("gang_hold"));
  Say(job, 0, Kind::kEnded, EndCause::kMoved, Initiator::kScheduler);
  world_.Settle();
  EXPECT_EQ(AttemptOf(other).state, AttemptState::kOffered) << "others go on where it waited";
}

TEST_F(Gangs, WhatIsMissingIsBoughtAsAWholeOrNotAtAll) {
  Offer offer = MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4));
  offer.available = 1;
  world_.Do(OffersListed{"cloud", {offer}});
  const JobId job = world_.SubmitJob(Gang(2));
  EXPECT_THAT(Only<RequestNode>(world_.Turn()), IsEmpty()) << "half a gang is of no use";
  offer.available = 2;
  world_.Do(OffersListed{"cloud", {offer}});
  const auto asked = Only<RequestNode>(world_.Turn());
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_EQ(asked[0].for_task.job, job);
  EXPECT_THAT(world_.Turn(), IsEmpty()) << "and only once";
}

TEST_F(Gangs, AFreeNodeCountsAndIsKeptForTheGangWhileTheRestBoots) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4))}});
  const NodeId rack = Rack(1);
  const JobId gang = world_.SubmitJob(Gang(2));
  ASSERT_THAT(Only<RequestNode>(world_.Turn()), SizeIs(1));
  const NodeId bought = world_.NodesIn(NodeState::kRequested).at(0);
  const JobId small = world_.SubmitJob(Cpu(1'000));
  const auto commands = world_.Turn();
  EXPECT_THAT(Only<Place>(commands), IsEmpty());
  EXPECT_THAT(WhyOf(small), Contains(Field(&Why::code, "ROOM_PROMISED")));
  world_.Boot(bought);
  world_.Settle();
  EXPECT_THAT((std::vector<NodeId>{NodeOf(gang, 0), NodeOf(gang, 1)}), UnorderedElementsAre(rack, bought));
}

TEST_F(Gangs, WhatWasBoughtIsHeldForAWhileAndThenAnybodys) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4))}});
  const JobId gang = world_.SubmitJob(Gang(2));
  world_.Settle();
  const std::vector<NodeId> bought = world_.NodesIn(NodeState::kRequested);
  ASSERT_THAT(bought, SizeIs(2));
  world_.Boot(bought[0]);
  world_.Do(InstanceRefused{bought[1], InstanceRefused::Code::kCapacity, "full", world_.policy.gang_hold_ms + kHour});
  const JobId small = world_.SubmitJob(Cpu(1'000));
  world_.Settle();
  EXPECT_EQ(world_.Living({small, 0}).number, 0) << "it is kept";
  Pass(world_.policy.gang_hold_ms - 1);
  world_.Settle();
  EXPECT_EQ(world_.Living({small, 0}).number, 0);
  EXPECT_EQ(world_.node(bought[0]).state, NodeState::kReady) << "not released as idle either";
  Pass(1);
  world_.Settle();
  EXPECT_EQ(NodeOf(small, 0), bought[0]) << "the gang did not come together: others pass";
  EXPECT_EQ(world_.Living({gang, 0}).number, 0);
}

// What is held is what came up early: a node where the gang has run already waits for nobody.
TEST_F(Gangs, WhatIsLeftOfOneThatWasTakenIsAnybodysAtOnce) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4))}});
  const JobId gang = world_.SubmitJob(Gang(2));
  world_.Settle();
  const std::vector<NodeId> bought = world_.NodesIn(NodeState::kRequested);
  ASSERT_THAT(bought, SizeIs(2));
  for (const NodeId node : bought) world_.Boot(node);
  world_.Settle();
  SayAll(gang, Kind::kAccepted);
  SayAll(gang, Kind::kStarted);
  const AttemptId attempt = world_.Living({gang, 0});
  const NodeId taken = NodeOf(gang, 1), left = NodeOf(gang, 0);
  world_.Do(OffersListed{"cloud", {}});  // and there are no others
  Pass(kMinute);
  world_.Do(InstanceGone{taken, true, "taken"});
  world_.Settle();
  Say(gang, 0, Kind::kEnded, EndCause::kPeerFailed, Initiator::kScheduler);
  world_.Seal(attempt);
  world_.Settle();
  ASSERT_EQ(world_.task({gang, 0}).state, TaskState::kQueued);
  const JobId small = world_.SubmitJob(Cpu(1'000));
  world_.Settle();
  ASSERT_EQ(world_.Living({small, 0}).number, 1);
  EXPECT_EQ(NodeOf(small, 0), left);
}

// A gang ahead that can buy nothing does not keep another one of its shape, which lacks less, from buying.
TEST_F(Gangs, OneThatLacksMoreDoesNotHoldUpOneThatLacksLess) {
  Offer offer = MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4));
  offer.available = 2;
  world_.Do(OffersListed{"cloud", {offer}});
  const JobId first = world_.SubmitJob(Gang(2));
  world_.Settle();
  const std::vector<NodeId> bought = world_.NodesIn(NodeState::kRequested);
  ASSERT_THAT(bought, SizeIs(2));
  const JobId ahead = world_.SubmitJob(Gang(2), 90);
  world_.Do(InstanceRefused{bought[1], InstanceRefused::Code::kCapacity, "full", 0});
  offer.available = 1;
  world_.Do(OffersListed{"cloud", {offer}});
  Pass(kMinute);
  world_.Settle();
  const std::vector<NodeId> coming = world_.NodesIn(NodeState::kRequested);
  ASSERT_THAT(coming, SizeIs(2));
  for (const NodeId node : coming) EXPECT_EQ(world_.node(node).for_task.job, first);
  EXPECT_EQ(world_.Living({ahead, 0}).number, 0);
}

TEST_F(Gangs, TwoThatWantTheSameNodesDoNotWaitForEachOther) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(4))}});
  const JobId first = world_.SubmitJob(Gang(2)), second = world_.SubmitJob(Gang(2));
  world_.Settle();
  const std::vector<NodeId> bought = world_.NodesIn(NodeState::kRequested);
  ASSERT_THAT(bought, SizeIs(4));
  // One of each comes up, and no more ever will.
  std::vector<NodeId> up;
  for (const JobId job : {first, second}) {
    bool one = false;
    for (const NodeId id : bought) {
      const Node* node = FindNode(world_.state, id);
      if (node == nullptr || node->for_task.job != job) continue;
      if (!std::exchange(one, true)) {
        world_.Boot(id);
        up.push_back(id);
      } else {
        world_.Do(InstanceRefused{id, InstanceRefused::Code::kCapacity, "full", 10 * kHour});
      }
    }
  }
  world_.Settle();
  EXPECT_EQ(world_.Living({first, 0}).number + world_.Living({second, 0}).number, 0) << "each holds one";
  Pass(world_.policy.gang_hold_ms);
  world_.Settle();
  EXPECT_EQ(world_.Living({first, 0}).number, 1);
  EXPECT_THAT((std::vector<NodeId>{NodeOf(first, 0), NodeOf(first, 1)}), UnorderedElementsAre(up[0], up[1]));
}

TEST_F(Gangs, OfHigherPriorityGetsAsManyNodesAsItNeeds) {
  Rack(1);
  Rack(2);
  Rack(3);
  const JobId low1 = Running(1, 10), low2 = Running(1, 10);
  const JobId high = world_.SubmitJob(Gang(3), 80);
  const JobId meanwhile = world_.SubmitJob(Cpu(1'000), 20);
  world_.Settle();
  EXPECT_TRUE(AttemptOf(low1).stop.has_value());
  EXPECT_TRUE(AttemptOf(low2).stop.has_value());
  EXPECT_EQ(world_.Living({meanwhile, 0}).number, 0) << "the third, which is idle, is kept for the gang too";
  for (const JobId job : {low1, low2}) {
    Say(job, 0, Kind::kEnded, EndCause::kPreempted, Initiator::kScheduler);
    world_.Seal({job, 0, 1});
  }
  world_.Settle();
  EXPECT_EQ(world_.Living({high, 0}).number, 1);
}

TEST_F(Gangs, OfLowerPriorityGiveWayAsAWhole) {
  Rack(1);
  Rack(2);
  const JobId gang = Running(2, 10);
  const JobId high = world_.SubmitJob(Gang(1), 80);
  world_.Settle();
  ASSERT_TRUE(AttemptOf(gang).stop.has_value());
  EXPECT_EQ(AttemptOf(gang).stop->cause, EndCause::kPreempted);
  EXPECT_THAT(Effects(world_.state, nullptr), SizeIs(2)) << "every member is stopped";
  Say(gang, 0, Kind::kEnded, EndCause::kPreempted, Initiator::kScheduler);
  world_.Settle();
  EXPECT_EQ(world_.Living({high, 0}).number, 1);
  Say(gang, 1, Kind::kEnded, EndCause::kPreempted, Initiator::kScheduler);
  EXPECT_EQ(world_.task({gang, 0}).state, TaskState::kQueued);
}

TEST_F(Gangs, AreCancelledAndPausedAsAWhole) {
  Rack(1);
  Rack(2);
  const JobId job = Running();
  world_.Do(Pause{job});
  EXPECT_THAT(Effects(world_.state, nullptr), SizeIs(2));
  Say(job, 0, Kind::kEnded, EndCause::kPreempted, Initiator::kUser);
  world_.Do(Cancel{job});
  Say(job, 1, Kind::kEnded, EndCause::kCancelled, Initiator::kUser);
  EXPECT_EQ(world_.ended_tasks.at({job, 0}).state, TaskState::kCancelled);
}

TEST_F(Gangs, ANewLifeOfOneNodeEndsItsMemberAlone) {
  Rack(1);
  Rack(2);
  const JobId job = Running();
  const NodeId b = NodeOf(job, 1);
  NodeHello hello;
  hello.name = world_.node(b).name;
  hello.provider = "static";
  hello.boot_id = "boot-2";
  hello.capacity = Box(4);
  world_.Do(hello);
  EXPECT_THAT(WantedOn(world_.state, b), IsEmpty());
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kStopping);
  EXPECT_EQ(AttemptOf(job).stop->cause, EndCause::kPeerFailed);
  // What it still says is nobody's word any more.
  Say(job, 0, Kind::kEnded, EndCause::kPeerFailed, Initiator::kScheduler);
  EXPECT_EQ(world_.task({job, 0}).history.back().cause, EndCause::kNodeLost);
}

TEST_F(Gangs, OnlyTheSilentMemberIsFenced) {
  Rack(1);
  Rack(2);
  NewJob wanted = MakeJob(Gang(2));
  wanted.max_silence_ms = 90 * kSecond;
  const JobId job = world_.SubmitJobs({wanted}).jobs.at(0);
  world_.Settle();
  SayAll(job, Kind::kAccepted);
  SayAll(job, Kind::kStarted);
  const NodeId a = NodeOf(job, 0), b = NodeOf(job, 1);
  world_.Advance(91 * kSecond);
  world_.soft.leases[a].heard_ms = world_.now_ms;
  const auto fences = Only<FenceAttempt>(world_.Turn());
  ASSERT_THAT(fences, SizeIs(1));
  EXPECT_EQ(fences[0].node, b);
  EXPECT_EQ(AttemptOf(job).state, AttemptState::kStopping) << "the other one stops in its own time";
  EXPECT_THAT(world_.Try(FenceAttempt{world_.Living({job, 0}), b, ""}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not live on node")));
}

TEST_F(Gangs, ACheckpointIsRegisteredOnceWhoeverTellsOfIt) {
  Rack(1);
  Rack(2);
  const JobId job = Running();
  const auto saved = [&](size_t rank, int64_t step) {
    core::Report report;
    report.attempt = world_.Living({job, 0});
    report.kind = Kind::kCheckpoint;
    report.checkpoint = {1, step, absl::StrCat("a1/step-", step), absl::StrCat("sha-", step), 100, 0, false};
    const size_t before = world_.events.size();
    world_.Report(NodeOf(job, rank), report);
    return std::count_if(world_.events.begin() + static_cast<std::ptrdiff_t>(before), world_.events.end(),
                         [](const Event& event) { return std::holds_alternative<CheckpointRegistered>(event); });
  };
  EXPECT_EQ(saved(0, 10), 1);
  EXPECT_EQ(saved(0, 20), 1);
  EXPECT_EQ(saved(1, 10), 0) << "the other one finds the same in the directory that they share";
  EXPECT_EQ(saved(1, 20), 0);
  EXPECT_EQ(saved(1, 30), 1) << "and may be the first to tell";
  EXPECT_EQ(saved(0, 30), 0);
  EXPECT_EQ(world_.task({job, 0}).checkpoint->step, 30);
}

TEST_F(Gangs, ALimitThatLeavesTooFewNodesIsNamed) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "sp", Market::kSpot, 1'000'000, Box(4))}});
  world_.Configure({Cloud("cloud", 2)});
  const JobId busy = world_.SubmitJob(Cpu(4'000));
  world_.Settle();
  world_.Boot(world_.NodesIn(NodeState::kRequested).at(0));
  world_.Settle();
  world_.Start(world_.Living({busy, 0}));
  const JobId job = world_.SubmitJob(Gang(2));
  world_.Settle();
  std::string limit;
  for (const Why& why : Explain(world_.state, world_.soft, world_.policy, {job, 0}, world_.now_ms)) {
    if (why.code == "NODE_LIMIT") limit = why.message;
  }
  EXPECT_EQ(limit, "provider cloud has 1 node, max_nodes is 2, and 2 more are needed at once");
}

// Whoever accepts, starts and ends first: the state that all of it leads to is the same, and nothing starts before all have accepted.
TEST_F(Gangs, TheOrderOfTheMembersWordsDoesNotMatter) {
  std::optional<Task> task;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    GangWorld one;
    one.Rack(1);
    one.Rack(2);
    one.Rack(3);
    const JobId job = one.world_.SubmitJob(Gang(3));
    one.world_.Settle();
    const auto shuffled = [&](Kind kind, EndCause cause) {
      std::vector<size_t> ranks = {0, 1, 2};
      for (size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[rng.Below(i)]);
      for (const size_t rank : ranks) {
        if (one.world_.Living({job, 0}).number == 0) return;
        const EndCause said = kind == Kind::kEnded && rank == 1 ? EndCause::kGpuFault : cause;
        one.Say(job, rank, kind, said, said == EndCause::kGpuFault ? Initiator::kNode : Initiator::kJob, "x");
        one.world_.Settle();
      }
    };
    shuffled(Kind::kAccepted, {});
    EXPECT_EQ(one.AttemptOf(job).state, AttemptState::kStarting);
    shuffled(Kind::kStarted, {});
    EXPECT_EQ(one.AttemptOf(job).state, AttemptState::kRunning);
    shuffled(Kind::kEnded, EndCause::kUserError);
    Task ended = one.world_.task({job, 0});
    EXPECT_EQ(ended.history.back().cause, EndCause::kGpuFault);
    ended.history.back().stop.reset();  // who failed first says so
    if (!task) task = ended;
    EXPECT_EQ(*task, ended);
  }
}

}  // namespace
}  // namespace spillway::core
