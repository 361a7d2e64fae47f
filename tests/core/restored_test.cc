// After a restore from a backup: no id comes twice, nothing of the lost life is doubled, nothing is let go before it must have told of itself.
#include "scheduler/core/policy/restored.h"

#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A world whose state is that of the backup: the restore comes `lost_ms` after it.
class RestoredTest : public ::testing::Test {
 protected:
  void Configure(std::vector<ProviderInfo> providers) {
    core::Configure command;
    command.cluster_uuid = "c1";
    ProviderInfo fixed;
    fixed.name = fixed.kind = "static";
    providers.push_back(fixed);
    command.providers = std::move(providers);
    world_.Do(command);
  }
  void RestoreNow(int64_t incarnation = 2, JobId seen_job = 0, int64_t lost_ms = kMinute) {
    world_.Advance(lost_ms);
    world_.Do(Restore{incarnation, seen_job});
    world_.soft = Soft();
    world_.soft.leases_restarted_ms = world_.now_ms;
  }
  void Hello(const std::string& name, std::vector<InventoryEntry> inventory, const std::string& provider = "static", const std::string& instance = "") {
    NodeHello hello;
    hello.name = name;
    hello.provider = provider;
    hello.instance_id = instance;
    hello.boot_id = "boot-1";  // the same as before: the machine never went away
    hello.capacity = Box(8, 2);
    hello.inventory = std::move(inventory);
    const Reply reply = world_.Do(hello);
    NodeLease& lease = world_.soft.leases[reply.node];
    lease.session = 1;
    lease.heard_ms = world_.now_ms;
    lease.lease_end_ms = world_.now_ms + world_.policy.lease_ms;
    EXPECT_EQ(reply.report_ack, 0);
  }
  void PassTheLease() {
    world_.now_ms = world_.state.meta.adopt_until_ms;
    world_.HearFromAll();
  }

  World world_;
};

TEST_F(RestoredTest, IdsGoOnBeyondAllThatTheLostLifeCanHaveGiven) {
  Configure({});
  world_.Register("n1", Box(8, 2));
  world_.SubmitJob(Gpus(1));
  RestoreNow(2, 700);
  EXPECT_EQ(world_.state.meta.incarnation, 2);
  EXPECT_EQ(world_.SubmitJob(Gpus(1)), 701 + kIdsALife);
  EXPECT_EQ(world_.Register("n2", Box(8, 2)), 2 + kIdsALife);
}

TEST_F(RestoredTest, ABackupThatIsRestoredAgainGivesOthersThanTheFirstTime) {
  Configure({});
  RestoreNow(3);  // incarnation 2 was made of it before, and lost
  EXPECT_EQ(world_.SubmitJob(Gpus(1)), 1 + 2 * kIdsALife);
  EXPECT_THAT(world_.Try(Restore{3, 0}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was lived already")));
}

TEST_F(RestoredTest, WithoutAClusterThereIsNothingToRestore) {
  EXPECT_THAT(world_.Try(Restore{2, 0}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("never ran")));
}

TEST_F(RestoredTest, WhatWaitedBeginsOnlyWhenAnAttemptOfTheLostLifeHasSurelyEnded) {
  Configure({});
  NewJob array = MakeJob(Gpus(1));
  array.task_count = 3;
  const JobId old = world_.SubmitJobs({array}).jobs[0];
  RestoreNow();
  Hello("n1", {});
  const JobId fresh = world_.SubmitJob(Gpus(1));
  const auto placed = Only<Place>(world_.Turn());
  ASSERT_THAT(placed, SizeIs(1)) << "a job of this life waits for nothing";
  EXPECT_EQ(placed[0].task.job, fresh);
  EXPECT_EQ(world_.Living({fresh, 0}).number, 1);
  const auto whys = Explain(world_.state, world_.soft, world_.policy, {old, 0}, world_.now_ms);
  ASSERT_THAT(whys, SizeIs(1));
  EXPECT_EQ(whys[0].code, "RESTORED");
  Place forced;
  forced.task = {old, 0};
  EXPECT_THAT(world_.Try(forced), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("before the restore")));
  EXPECT_EQ(NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.state.meta.adopt_until_ms - 1), world_.state.meta.adopt_until_ms);
  PassTheLease();
  world_.Turn();
  EXPECT_EQ(world_.Living({old, 0}).number, kAttemptsALife + 1) << "whatever number the lost life gave its attempts";
}

TEST_F(RestoredTest, WhatRanAllTheTimeGoesOn) {
  Configure({});
  const NodeId node = world_.Register("n1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  const AttemptId attempt = world_.Living({job, 0});  // OFFERED in the backup; taken and begun since
  RestoreNow();
  Hello("n1", {{attempt, AttemptState::kRunning}});
  EXPECT_EQ(world_.task({job, 0}).attempt->state, AttemptState::kRunning);
  EXPECT_THAT(WantedOn(world_.state, node), ElementsAre(attempt));
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.node(node);
  core::Report ended;
  ended.seq = 1;  // the worker numbers anew after the welcome's word
  ended.attempt = attempt;
  ended.kind = Report::Kind::kEnded;
  ended.cause = EndCause::kCompleted;
  ended.initiator = Initiator::kJob;
  world_.Do(NodeReports{node, "boot-1", {ended}});
  EXPECT_EQ(world_.ended_jobs[job].counts.succeeded, 1);
}

TEST_F(RestoredTest, WhatEndedSinceTheBackupHasAKnownCauseAndRunsAgainAfterTheLease) {
  Configure({});
  world_.Register("n1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Start(world_.Living({job, 0}));
  RestoreNow();
  Hello("n1", {{{job, 0, 2}, AttemptState::kRunning}});  // the lost life began another one: it is not wanted, and the worker kills it
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.state, TaskState::kQueued);
  EXPECT_EQ(task.history.back().cause, EndCause::kNodeLost);
  EXPECT_THAT(task.history.back().detail, HasSubstr("after the backup"));
  EXPECT_THAT(WantedOn(world_.state, 1), IsEmpty());
  if (task.seal_owed != 0) world_.Seal({job, 0, task.seal_owed});
  EXPECT_THAT(Only<Place>(world_.Turn()), IsEmpty());
  PassTheLease();
  world_.Settle();
  EXPECT_EQ(world_.Living({job, 0}).number, kAttemptsALife + 1);
}

TEST_F(RestoredTest, NothingIsReleasedForOneLease) {
  Configure({Cloud()});
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "sp", Market::kSpot, 3'600'000, Box(8, 1))}});
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
  world_.Boot(node);
  world_.HearFromAll();
  world_.Turn();
  world_.Start(world_.Living({job, 0}));
  world_.End(world_.Living({job, 0}), EndCause::kCompleted);
  const std::string instance = world_.node(node).instance_id;
  RestoreNow(2, 0, kHour);  // idle for very long as far as the backup knows, and silent
  const auto list = [&] {
    InstanceListing listing;
    listing.provider = "cloud";
    listing.asked_ms = world_.now_ms;
    listing.instances = {{instance, world_.node(node).name}, {"i-unknown", "cloud-7"}};
    world_.Do(listing);
  };
  world_.Advance(3 * kMinute);
  list();
  EXPECT_THAT(world_.Turn(), IsEmpty());
  EXPECT_THAT(world_.NodesIn(NodeState::kReleasing), IsEmpty()) << "the lost life may have made it, and its job may run there";
  EXPECT_EQ(world_.node(node).state, NodeState::kReady);
  world_.now_ms = world_.state.meta.adopt_until_ms;
  list();
  EXPECT_THAT(world_.NodesIn(NodeState::kReleasing), SizeIs(1));
  world_.Settle();
  EXPECT_THAT(world_.NodesIn(NodeState::kReleasing), SizeIs(2));
}

TEST_F(RestoredTest, AStaticMachineThatNeverComesBackIsLostAfterItsLease) {
  Configure({});
  const NodeId node = world_.Register("n1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Start(world_.Living({job, 0}));
  RestoreNow();
  world_.Settle();
  EXPECT_TRUE(world_.state.nodes.contains(node));
  world_.Advance(world_.policy.lease_ms + world_.policy.lease_grace_ms + 1);
  world_.Settle();
  EXPECT_FALSE(world_.state.nodes.contains(node));
  EXPECT_EQ(world_.task({job, 0}).history.back().cause, EndCause::kNodeLost);
}

Shape Pair() {
  Shape shape = Gpus(2);
  shape.nodes = 2;
  return shape;
}

TEST_F(RestoredTest, AGangThatWaitedIsNeitherPlacedNorBoughtForBeforeTheLostLifesHasSurelyEnded) {
  Configure({Cloud()});
  const JobId gang = world_.SubmitJob(Pair());
  RestoreNow();
  Hello("n1", {});
  Hello("n2", {});
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 3'600'000, Box(8, 2))}});
  EXPECT_THAT(world_.Turn(), IsEmpty()) << "nor are nodes kept for it";
  const JobId fresh = world_.SubmitJob(Pair());
  const auto placed = Only<Place>(world_.Turn());
  ASSERT_THAT(placed, SizeIs(1));
  EXPECT_EQ(placed[0].task.job, fresh);
  Hello("n3", {});
  Hello("n4", {});
  EXPECT_THAT(world_.Turn(), IsEmpty());
  PassTheLease();
  world_.Turn();
  EXPECT_EQ(world_.Living({gang, 0}).number, kAttemptsALife + 1);
}

TEST_F(RestoredTest, AGangWhoseMembersRanAllTheTimeGoesOn) {
  Configure({});
  world_.Register("n1", Box(8, 2));
  world_.Register("n2", Box(8, 2));
  const JobId gang = world_.SubmitJob(Pair());
  world_.Turn();
  const AttemptId attempt = world_.Living({gang, 0});
  for (const Member& member : std::vector<Member>(world_.task({gang, 0}).attempt->members)) {
    core::Report accepted;
    accepted.attempt = attempt;
    accepted.kind = Report::Kind::kAccepted;
    accepted.rendezvous = "host:4242";
    world_.Report(member.node, accepted);
  }
  ASSERT_EQ(world_.task({gang, 0}).attempt->state, AttemptState::kStarting) << "as the backup has it: both have started since";
  RestoreNow();
  Hello("n1", {{attempt, AttemptState::kRunning}});
  EXPECT_EQ(world_.task({gang, 0}).attempt->state, AttemptState::kStarting);
  Hello("n2", {{attempt, AttemptState::kRunning}});
  EXPECT_EQ(world_.task({gang, 0}).attempt->state, AttemptState::kRunning);
  EXPECT_THAT(world_.Turn(), IsEmpty());
  PassTheLease();
  world_.Settle();
  EXPECT_EQ(world_.Living({gang, 0}), attempt);
}

TEST_F(RestoredTest, AGangThatGatheredAfterTheBackupIsTakenBackAndRunsAgain) {
  Configure({});
  world_.Register("n1", Box(8, 2));
  world_.Register("n2", Box(8, 2));
  const JobId gang = world_.SubmitJob(Pair());
  world_.Turn();
  const AttemptId attempt = world_.Living({gang, 0});  // OFFERED: where its members meet, the lost life alone knew
  RestoreNow();
  Hello("n1", {{attempt, AttemptState::kRunning}});
  Hello("n2", {{attempt, AttemptState::kStarting}});
  EXPECT_EQ(world_.task({gang, 0}).attempt->state, AttemptState::kOffered);
  world_.Advance(world_.policy.gang_hold_ms);
  world_.HearFromAll();
  const auto stops = Only<StopAttempt>(world_.Turn());
  ASSERT_THAT(stops, SizeIs(1)) << "on both nodes";
  EXPECT_EQ(stops[0].attempt, attempt);
}

}  // namespace
}  // namespace spillway::core
