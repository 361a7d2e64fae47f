// What nodes say: hello in all its lives, reports with gaps and repetitions, notices.
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

NodeHello HelloOf(const std::string& name, const std::string& boot_id) {
  NodeHello hello;
  hello.name = name;
  hello.provider = "static";
  hello.boot_id = boot_id;
  hello.capacity = Box(8, 2);
  return hello;
}

class AdmitSessions : public ::testing::Test {
 protected:
  AdmitSessions() { world_.Configure({Cloud()}, {{"year", {"rack-1"}, 1'500'000, 0, 0}}); }
  // A job RUNNING on rack-1.
  AttemptId Running(Shape shape = Gpus(1)) {
    if (world_.state.nodes.empty()) node_ = world_.Register("rack-1", Box(8, 2));
    const JobId job = world_.SubmitJob(shape);
    world_.Turn();
    world_.Start(world_.Living({job, 0}));
    return world_.Living({job, 0});
  }
  World world_;
  NodeId node_ = 0;
};

TEST_F(AdmitSessions, RefusesBadHellos) {
  const auto with = [](auto change) {
    NodeHello hello = HelloOf("rack-1", "b");
    change(&hello);
    return hello;
  };
  EXPECT_THAT(world_.Try(with([](NodeHello* hello) { hello->name.clear(); })), StatusIs(Code::kInvalidArgument, HasSubstr("name")));
  EXPECT_THAT(world_.Try(with([](NodeHello* hello) { hello->boot_id.clear(); })), StatusIs(Code::kInvalidArgument, HasSubstr("boot_id")));
  EXPECT_THAT(world_.Try(with([](NodeHello* hello) { hello->capacity.gpu_count = 65; })), StatusIs(Code::kInvalidArgument, HasSubstr("gpu_count")));
  EXPECT_THAT(world_.Try(with([](NodeHello* hello) { hello->capacity.cpu_milli = -1; })), StatusIs(Code::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(world_.Try(with([](NodeHello* hello) { hello->cluster_uuid = "cluster-2"; })),
              StatusIs(Code::kFailedPrecondition, HasSubstr("belongs to cluster cluster-2")));
  EXPECT_THAT(world_.Try(with([](NodeHello* hello) { hello->provider = "clout"; })), StatusIs(Code::kFailedPrecondition, HasSubstr("did you mean cloud?")));
  EXPECT_THAT(world_.Try(with([](NodeHello* hello) { hello->provider = "cloud"; })), StatusIs(Code::kFailedPrecondition, HasSubstr("was not asked for")));
  EXPECT_THAT(world_.state.nodes, IsEmpty());
}

TEST_F(AdmitSessions, StaticNodeComesIntoBeingWithItsReservation) {
  const NodeId reserved = world_.Do(HelloOf("rack-1", "b1")).node, plain = world_.Do(HelloOf("rack-2", "b1")).node;
  EXPECT_EQ(world_.node(reserved).market, Market::kReserved);
  EXPECT_EQ(world_.node(reserved).reservation, "year");
  EXPECT_EQ(world_.node(reserved).price_micros_per_hour, 1'500'000);
  EXPECT_EQ(world_.node(reserved).state, NodeState::kReady);
  EXPECT_EQ(world_.node(plain).market, Market::kReserved) << "a machine of one's own is paid for";
  EXPECT_EQ(world_.node(plain).price_micros_per_hour, 0);
  EXPECT_FALSE(world_.node(plain).owned);
}

TEST_F(AdmitSessions, ReservationThatIsOverGivesNoPrice) {
  world_.Configure({Cloud()}, {{"past", {"rack-1"}, 1'500'000, 0, world_.now_ms}, {"future", {"rack-1"}, 1'500'000, world_.now_ms + 1, 0}});
  EXPECT_EQ(world_.node(world_.Do(HelloOf("rack-1", "b1")).node).reservation, "");
}

TEST_F(AdmitSessions, SameLifeSaysHelloAgainWithoutAnyChange) {
  const AttemptId attempt = Running();
  NodeHello hello = HelloOf("rack-1", "boot-1");
  const Reply reply = world_.Do(hello);
  EXPECT_EQ(reply.node, node_);
  EXPECT_EQ(reply.report_ack, 1);
  EXPECT_TRUE(world_.changes.Empty()) << "its reports are still to come";
  EXPECT_EQ(world_.Living(attempt.task()), attempt);
}

TEST_F(AdmitSessions, NewLifeLosesWhatItForgotAndKeepsWhatItHas) {
  const AttemptId kept = Running(), lost = Running();
  const JobId waiting = world_.SubmitJob(Cpu());
  world_.Turn();
  NodeHello hello = HelloOf("rack-1", "boot-2");
  hello.inventory = {{kept, AttemptState::kRunning}};
  const Reply reply = world_.Do(hello);
  EXPECT_EQ(reply.report_ack, 0) << "numbers start anew with the life";
  EXPECT_EQ(world_.Living(kept.task()), kept);
  EXPECT_EQ(world_.task(lost.task()).state, TaskState::kQueued);
  EXPECT_EQ(world_.task(lost.task()).history.back().cause, EndCause::kNodeLost);
  EXPECT_THAT(world_.task(lost.task()).history.back().detail, HasSubstr("the node forgot it"));
  EXPECT_EQ(world_.task(lost.task()).seal_owed, 1);
  EXPECT_EQ(world_.task({waiting, 0}).state, TaskState::kQueued) << "the life before may have begun what was offered to it, and an attempt begins once";
  EXPECT_EQ(world_.task({waiting, 0}).seal_owed, 1);
  EXPECT_THAT(WantedOn(world_.state, node_), ElementsAre(kept));
}

TEST_F(AdmitSessions, NewHardwareUnderOldOffersEndsThem) {
  Running();
  const JobId waiting = world_.SubmitJob(Gpus(1));
  world_.Turn();
  NodeHello hello = HelloOf("rack-1", "boot-2");
  hello.capacity = Box(8, 1);
  world_.Do(hello);
  EXPECT_EQ(world_.node(node_).capacity.gpu_count, 1);
  EXPECT_EQ(world_.task({waiting, 0}).state, TaskState::kQueued);
}

TEST_F(AdmitSessions, SecondMachineOfOneNameIsRefused) {
  Running();
  NodeHello hello = HelloOf("rack-1", "boot-2");
  hello.other_session_alive = true;
  EXPECT_THAT(world_.Try(hello), StatusIs(Code::kAlreadyExists, HasSubstr("rack-1")));
  hello.boot_id = "boot-1";
  EXPECT_THAT(world_.Try(hello), IsOk()) << "the same life comes back on a new session";
}

TEST_F(AdmitSessions, LostNodeComesBackAsANewRowAndIsWantedNothing) {
  const AttemptId attempt = Running();
  world_.Advance(world_.policy.lease_ms + world_.policy.lease_grace_ms + 1);
  EXPECT_THAT(Only<DeclareLost>(world_.Turn()), SizeIs(1));
  EXPECT_EQ(world_.gone_nodes[node_].state, NodeState::kLost);
  NodeHello hello = HelloOf("rack-1", "boot-1");
  hello.inventory = {{attempt, AttemptState::kRunning}};
  const NodeId again = world_.Do(hello).node;
  EXPECT_NE(again, node_);
  EXPECT_THAT(WantedOn(world_.state, again), IsEmpty()) << "the worker fences what nobody wants";
}

TEST_F(AdmitSessions, CreatedNodeRegistersEvenBeforeItsProviderAnswered) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "sp", Market::kSpot, 1'000'000, Box(8, 1))}});
  world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
  NodeHello hello = HelloOf(world_.node(node).name, "b");
  hello.provider = "cloud";
  hello.instance_id = "i-7";
  hello.market = Market::kOnDemand;
  world_.Do(hello);
  EXPECT_EQ(world_.node(node).state, NodeState::kReady);
  EXPECT_EQ(world_.node(node).market, Market::kSpot) << "our own record is trusted";
  EXPECT_EQ(world_.node(node).created_ms, world_.now_ms);
  world_.Do(InstanceCreated{node, "i-7"});
  EXPECT_TRUE(world_.changes.Empty());
  hello.instance_id = "i-8";
  EXPECT_THAT(world_.Try(hello), StatusIs(Code::kFailedPrecondition, HasSubstr("is instance i-7")));
}

TEST_F(AdmitSessions, NoticeWhileBootingDrainsAtRegistration) {
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "sp", Market::kSpot, 1'000'000, Box(8, 1))}});
  world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
  world_.Do(InstanceCreated{node, "i-1"});
  world_.Do(NodeNotice{node, kMinute, "cloud"});
  world_.Boot(node);
  EXPECT_EQ(world_.node(node).state, NodeState::kDraining);
}

// --- reports ---

TEST_F(AdmitSessions, ReportsAreTakenOnceAndInOrder) {
  const AttemptId attempt = Running();
  const int64_t ack = world_.node(node_).report_ack;
  Report report;
  report.attempt = attempt;
  report.kind = Report::Kind::kCheckpoint;
  report.checkpoint = {1, 5, "a1/step-5", "ab", 1, 0, false};
  report.seq = ack + 2;
  EXPECT_THAT(world_.Try(NodeReports{node_, "boot-1", {report}}), StatusIs(Code::kFailedPrecondition, HasSubstr("go from")));
  EXPECT_THAT(world_.Try(NodeReports{node_, "boot-9", {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("another life")));
  EXPECT_THAT(world_.Try(NodeReports{99, "boot-1", {}}), StatusIs(Code::kNotFound, HasSubstr("no node 99")));
  report.seq = ack + 1;
  EXPECT_EQ(world_.Do(NodeReports{node_, "boot-1", {report}}).report_ack, ack + 1);
  EXPECT_EQ(world_.Do(NodeReports{node_, "boot-1", {report}}).report_ack, ack + 1);
  EXPECT_TRUE(world_.changes.Empty());
  EXPECT_THAT(world_.task(attempt.task()).checkpoint->path, "a1/step-5");
}

TEST_F(AdmitSessions, OneBatchTellsAWholeLifeAndWhatComesAfterTheEndIsIgnored) {
  node_ = world_.Register("rack-1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  const AttemptId attempt = world_.Living({job, 0});
  std::vector<Report> batch(5);
  for (size_t i = 0; i < batch.size(); ++i) batch[i].seq = static_cast<int64_t>(i) + 1, batch[i].attempt = attempt;
  batch[0].kind = Report::Kind::kAccepted;
  batch[1].kind = Report::Kind::kStarted;
  batch[2].kind = Report::Kind::kCheckpoint;
  batch[2].checkpoint = {1, 5, "a1/step-5", "ab", 1, 0, false};
  batch[3].kind = Report::Kind::kEnded;
  batch[3].cause = EndCause::kCheckpointed;
  batch[3].initiator = Initiator::kJob;
  batch[4] = batch[2];
  batch[4].seq = 5;
  batch[4].checkpoint.step = 6;
  batch[4].checkpoint.path = "a1/step-6";
  EXPECT_EQ(world_.Do(NodeReports{node_, "boot-1", batch}).report_ack, 5);
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.state, TaskState::kQueued);
  EXPECT_EQ(task.checkpointed_in_vain, 0) << "a newer checkpoint came with it";
  EXPECT_EQ(task.checkpoint->step, 5) << "a checkpoint of an ended attempt is never registered";
}

TEST_F(AdmitSessions, CheckpointOfAnotherAttemptIsRefused) {
  const AttemptId attempt = Running();
  Report report;
  report.seq = world_.node(node_).report_ack + 1;
  report.attempt = attempt;
  report.kind = Report::Kind::kCheckpoint;
  report.checkpoint = {7, 5, "a7/step-5", "ab", 1, 0, false};
  EXPECT_THAT(world_.Try(NodeReports{node_, "boot-1", {report}}), StatusIs(Code::kInvalidArgument, HasSubstr("attempt 7")));
  report.checkpoint = {1, 5, "", "ab", 1, 0, false};
  EXPECT_THAT(world_.Try(NodeReports{node_, "boot-1", {report}}), StatusIs(Code::kInvalidArgument, HasSubstr("without path")));
}

TEST_F(AdmitSessions, ReportsOfStrangersAreAcknowledgedAndChangeNothing) {
  node_ = world_.Register("rack-1", Box(8, 2));
  Report report;
  report.seq = 1;
  report.attempt = {42, 0, 3};
  report.kind = Report::Kind::kEnded;
  report.cause = EndCause::kCompleted;
  EXPECT_EQ(world_.Do(NodeReports{node_, "boot-1", {report}}).report_ack, 1);
  EXPECT_THAT(world_.ended_tasks, IsEmpty());
}

TEST_F(AdmitSessions, UnknownAttemptAnsweredCancelledCountsAsWhatWasAsked) {
  node_ = world_.Register("rack-1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Do(DrainNode{node_});
  const AttemptId attempt = world_.Living({job, 0});
  EXPECT_EQ(world_.task({job, 0}).attempt->state, AttemptState::kStopping);
  world_.End(attempt, EndCause::kCancelled, Initiator::kNode);
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.state, TaskState::kQueued) << "the job itself was not cancelled";
  EXPECT_EQ(task.history.back().cause, EndCause::kMoved);
  EXPECT_EQ(task.seal_owed, 0) << "by the node's own word it never started";
}

TEST_F(AdmitSessions, AcceptedWhileStoppingMustBeSealed) {
  node_ = world_.Register("rack-1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Do(DrainNode{node_});
  const AttemptId attempt = world_.Living({job, 0});
  world_.Accept(attempt);
  EXPECT_EQ(world_.task({job, 0}).attempt->state, AttemptState::kStopping);
  world_.End(attempt, EndCause::kMoved, Initiator::kUser);
  EXPECT_EQ(world_.task({job, 0}).seal_owed, 1);
}

TEST_F(AdmitSessions, OfferedOnALostNodeIsSealedToo) {
  node_ = world_.Register("rack-1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Do(DeclareLost{node_, "gone"});
  EXPECT_EQ(world_.task({job, 0}).seal_owed, 1) << "it may have started without our hearing of it";
}

TEST_F(AdmitSessions, FaultsBackOffAndAvoidTheNode) {
  const AttemptId attempt = Running();
  world_.End(attempt, EndCause::kGpuFault, Initiator::kNode, "XID 79");
  const Task& task = world_.task(attempt.task());
  EXPECT_EQ(task.avoid_node, node_);
  EXPECT_EQ(task.not_before_ms, world_.now_ms + world_.policy.retry_backoff_ms);
  EXPECT_EQ(task.node_faults, 1);
  EXPECT_THAT(task.history.back().detail, "XID 79");
}

TEST_F(AdmitSessions, CauseFromALaterVersionIsTheNodesFault) {
  const AttemptId attempt = Running();
  world_.End(attempt, EndCause::kUnspecified, Initiator::kUnspecified);
  EXPECT_EQ(world_.task(attempt.task()).history.back().cause, EndCause::kNodeLost);
  EXPECT_EQ(world_.task(attempt.task()).node_faults, 1);
}

// --- notices ---

TEST_F(AdmitSessions, NoticeOfAStaticNodeEndsWithItsLifeOrTheOperatorsWord) {
  node_ = world_.Register("rack-1", Box(8, 2));
  world_.Do(NodeNotice{node_, kMinute, "file"});
  world_.Do(HelloOf("rack-1", "boot-2"));
  EXPECT_EQ(world_.node(node_).state, NodeState::kReady);
  EXPECT_EQ(world_.node(node_).notice_deadline_ms, 0);
  world_.Do(NodeNotice{node_, kMinute, "file"});
  world_.Do(CordonNode{node_, false});
  EXPECT_EQ(world_.node(node_).state, NodeState::kReady);
  world_.Do(DrainNode{node_});
  world_.Do(HelloOf("rack-1", "boot-3"));
  EXPECT_EQ(world_.node(node_).state, NodeState::kDraining) << "an operator's drain outlives the machine's life";
}

TEST_F(AdmitSessions, NoticeDrainsOnceAndOnlyGetsEarlier) {
  Running();
  world_.Do(NodeNotice{node_, 2 * kMinute, "aws", true});
  EXPECT_EQ(world_.node(node_).state, NodeState::kReady) << "advice has no deadline";
  world_.Do(NodeNotice{node_, 2 * kMinute, "aws"});
  EXPECT_EQ(world_.node(node_).state, NodeState::kDraining);
  const int64_t deadline_ms = world_.node(node_).notice_deadline_ms;
  world_.Do(NodeNotice{node_, 3 * kMinute, "aws"});
  EXPECT_EQ(world_.node(node_).notice_deadline_ms, deadline_ms);
  world_.Do(NodeNotice{node_, kMinute, "aws"});
  EXPECT_EQ(world_.node(node_).notice_deadline_ms, world_.now_ms + kMinute);
  EXPECT_THAT(world_.Try(NodeNotice{99, 1, "aws"}), StatusIs(Code::kNotFound, HasSubstr("no node 99")));
}

}  // namespace
}  // namespace spillway::core
