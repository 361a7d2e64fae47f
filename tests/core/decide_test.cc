// Where tasks are placed, when nodes are asked for and let go.
#include "absl/strings/str_cat.h"
#include "scheduler/core/policy/offers.h"
#include "scheduler/core/queue/queue.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DecideTest : public ::testing::Test {
 protected:
  DecideTest() { world_.Configure({Cloud()}); }
  void Offers(std::vector<Offer> offers) { world_.Do(OffersListed{"cloud", std::move(offers)}); }
  static Offer Spot(int64_t price = 1'000'000, int64_t gpus = 1) { return MakeOffer("cloud", "sp", Market::kSpot, price, Box(8, gpus)); }
  static Offer OnDemand(int64_t price = 3'000'000, int64_t gpus = 1) { return MakeOffer("cloud", "od", Market::kOnDemand, price, Box(8, gpus)); }
  std::vector<JobId> Placed(const std::vector<Command>& commands) {
    std::vector<JobId> jobs;
    for (const Place& place : Only<Place>(commands)) jobs.push_back(place.task.job);
    return jobs;
  }
  World world_;
};

TEST_F(DecideTest, ServesByPriorityThenAge) {
  world_.Register("rack-1", Box(8, 2));
  const JobId low = world_.SubmitJob(Gpus(1), 10);
  const JobId old = world_.SubmitJob(Gpus(1), 50);
  world_.Advance(1);
  const JobId young = world_.SubmitJob(Gpus(1), 50);
  const JobId high = world_.SubmitJob(Gpus(1), 90);
  EXPECT_THAT(Placed(world_.Turn()), ElementsAre(high, old));
  Queue queue(world_.state);
  EXPECT_EQ(queue.Next()->id.job, young);
  EXPECT_EQ(queue.Next()->id.job, low);
  EXPECT_EQ(queue.Next(), std::nullopt);
}

TEST_F(DecideTest, QueueMergesShapesAndTellsArraysTaskByTask) {
  NewJob array = MakeJob(Cpu());
  array.task_count = 3;
  const JobId a = world_.SubmitJobs({array}).jobs.front();
  const JobId b = world_.SubmitJob(Cpu(2'000), 90);
  const JobId c = world_.SubmitJob(Cpu());
  Queue all(world_.state);
  std::vector<std::string> told;
  while (const auto next = all.Next()) told.push_back(next->id.ToString());
  EXPECT_THAT(told, ElementsAre(TaskId{b, 0}.ToString(), TaskId{a, 0}.ToString(), TaskId{a, 1}.ToString(), TaskId{a, 2}.ToString(), TaskId{c, 0}.ToString()));
  Queue some(world_.state);
  some.Drop(world_.state.jobs.at(a).job.shape_id);
  EXPECT_EQ(some.Next()->id.job, b);
  EXPECT_EQ(some.Next(), std::nullopt);
}

TEST_F(DecideTest, OneImpossibleJobHoldsUpNobody) {
  world_.Register("rack-1", Box(8, 2));
  world_.SubmitJob(Gpus(2), 90);
  world_.Turn();
  const JobId blocked = world_.SubmitJob(Gpus(2), 90), fine = world_.SubmitJob(Cpu(), 10);
  EXPECT_THAT(Placed(world_.Turn()), ElementsAre(fine));
  EXPECT_EQ(GetTask(world_.state, {blocked, 0})->state, TaskState::kQueued);
}

// What fits nowhere takes of a cycle's budget by the kinds of machines there are, not by their number: else those behind it never had their turn.
TEST_F(DecideTest, ManyShapesThatFitNowhereHoldUpNobody) {
  for (int i = 0; i < 20; ++i) world_.Register(absl::StrCat("rack-", i), Box(8, 2));
  world_.Register("box", Box(64));
  for (int i = 0; i < 19; ++i) world_.SubmitJob(Gpus(2), 90);
  world_.Settle();  // one machine of them is free
  for (int i = 0; i < 30; ++i) {
    Shape shape = Cpu(33'000 + i);
    shape.gpu_models = {};
    world_.SubmitJob(shape, 80);
  }
  const JobId fits = world_.SubmitJob(Gpus(2), 10);
  world_.policy.candidates_max = 150;
  EXPECT_THAT(Placed(world_.Turn()), ::testing::Contains(fits));
}

TEST_F(DecideTest, BudgetBoundsACycle) {
  for (int i = 0; i < 50; ++i) world_.SubmitJob(Cpu(1'000 + i));
  world_.Register("rack-1", Box(500));
  world_.policy.candidates_max = 20;
  const size_t first = Only<Place>(world_.Turn()).size();
  EXPECT_GT(first, 0u);
  EXPECT_LT(first, 20u);
  world_.policy.candidates_max = 10'000;
  EXPECT_EQ(first + Only<Place>(world_.Turn()).size(), 50u);
}

TEST_F(DecideTest, PacksSmallJobsOntoTheFullestNode) {
  const NodeId a = world_.Register("rack-1", Box(8, 4)), b = world_.Register("rack-2", Box(8, 4));
  for (int i = 0; i < 4; ++i) world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_THAT(WantedOn(world_.state, a), SizeIs(4));
  EXPECT_THAT(WantedOn(world_.state, b), IsEmpty());
  const JobId whole = world_.SubmitJob(Gpus(4));
  EXPECT_THAT(Placed(world_.Turn()), ElementsAre(whole));
}

TEST_F(DecideTest, JobsWithoutDevicesKeepOffMachinesThatHaveThem) {
  world_.Register("gpu", Box(8, 4));
  const NodeId cpu = world_.Register("cpu", Box(64));
  world_.SubmitJob(Cpu());
  world_.Turn();
  EXPECT_THAT(WantedOn(world_.state, cpu), SizeIs(1));
}

TEST_F(DecideTest, ReservedComesBeforeBurst) {
  Offers({Spot()});
  const JobId first = world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId burst = world_.NodesIn(NodeState::kRequested).at(0);
  world_.Boot(burst);
  const NodeId rack = world_.Register("rack-1", Box(8, 1));
  world_.Turn();
  EXPECT_EQ(world_.NodeOf(world_.Living({first, 0})), rack) << "reserved came free while its node booted";
  EXPECT_EQ(world_.task({first, 0}).attempt->place.code, PlaceCode::kReservedFits);
  const JobId second = world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_EQ(world_.NodeOf(world_.Living({second, 0})), burst);
  EXPECT_EQ(world_.task({second, 0}).attempt->place.code, PlaceCode::kPaidNodeFits);
}

TEST_F(DecideTest, IdleBurstNodeIsReleasedAfterItsTime) {
  Offers({Spot()});
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
  world_.Boot(node);
  world_.Do(Cancel{job});
  EXPECT_EQ(NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms), world_.now_ms + 60 * kSecond);
  world_.Advance(60 * kSecond - 1);
  world_.HearFromAll();
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(1);
  ASSERT_THAT(Only<ReleaseNode>(world_.Turn()), SizeIs(1));
  EXPECT_EQ(world_.node(node).state, NodeState::kReleasing);
  EXPECT_THAT(world_.Turn(), IsEmpty());
}

TEST_F(DecideTest, AnHourThatIsPaidAnywayIsWaitedIn) {
  Offer hourly = Spot();
  hourly.billing = {kHour, 0};
  Offers({hourly});
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
  world_.Boot(node);
  world_.Do(Cancel{job});
  world_.Advance(58 * kMinute);
  world_.HearFromAll();
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(kMinute);
  EXPECT_THAT(Only<ReleaseNode>(world_.Turn()), SizeIs(1)) << "a minute before the next hour begins";
}

TEST_F(DecideTest, SmallTasksShareANodeThatIsComing) {
  Offers({Spot(1'000'000, 4)});
  for (int i = 0; i < 6; ++i) world_.SubmitJob(Gpus(1));
  EXPECT_THAT(Only<RequestNode>(world_.Turn()), SizeIs(2)) << "four fit on the first, two on the second";
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.SubmitJob(Gpus(1));
  EXPECT_THAT(world_.Turn(), IsEmpty()) << "the second has room";
  for (NodeId node : world_.NodesIn(NodeState::kRequested)) world_.Boot(node);
  EXPECT_THAT(Only<Place>(world_.Turn()), SizeIs(7));
}

TEST_F(DecideTest, RestartOfTheSchedulerAsksForNothing) {
  Offers({Spot()});
  const NodeId rack = world_.Register("rack-1", Box(8, 1));
  RestartLeases(world_.state, world_.policy.lease_ms, world_.now_ms, &world_.soft);
  world_.soft.leases[rack].session = 0;
  world_.SubmitJob(Gpus(1));
  EXPECT_THAT(world_.Turn(), IsEmpty()) << "rack-1 has room and will be back in a moment";
  world_.soft.leases[rack].session = 2;
  EXPECT_THAT(Only<Place>(world_.Turn()), SizeIs(1));
}

TEST_F(DecideTest, NodesThatStayAwayAreNotWaitedFor) {
  Offers({Spot()});
  const NodeId rack = world_.Register("rack-1", Box(8, 1));
  world_.soft.leases[rack].session = 0;
  world_.SubmitJob(Gpus(1));
  EXPECT_THAT(world_.Turn(), IsEmpty());
  world_.Advance(world_.policy.silence_ms + 1);
  EXPECT_THAT(Only<RequestNode>(world_.Turn()), SizeIs(1));
}

TEST_F(DecideTest, FailedNodeIsChosenAgainOnlyWhereNothingElseFits) {
  const NodeId a = world_.Register("rack-1", Box(8, 1)), b = world_.Register("rack-2", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_EQ(world_.NodeOf(world_.Living({job, 0})), a);
  const auto fail = [&] {
    const AttemptId attempt = world_.Living({job, 0});
    world_.Start(attempt);
    world_.End(attempt, EndCause::kGpuFault, Initiator::kNode);
    world_.Seal(attempt);
    world_.Advance(kMinute);
    world_.HearFromAll();
    world_.Turn();
  };
  fail();
  EXPECT_EQ(world_.NodeOf(world_.Living({job, 0})), b);
  fail();
  EXPECT_EQ(world_.NodeOf(world_.Living({job, 0})), a);
  world_.Do(CordonNode{b, true});
  fail();
  EXPECT_EQ(world_.NodeOf(world_.Living({job, 0})), a);
}

TEST_F(DecideTest, WhoAvoidsAReservedNodeSendsNobodyElseAway) {
  Offers({Spot(1'000'000, 2)});
  const JobId failed = world_.SubmitJob(Gpus(1), 90);
  world_.Turn();
  const NodeId burst = world_.NodesIn(NodeState::kRequested).at(0);
  const NodeId rack = world_.Register("rack-1", Box(8, 2));
  world_.Turn();
  world_.Start({failed, 0, 1});
  world_.End({failed, 0, 1}, EndCause::kGpuFault, Initiator::kNode);
  world_.Seal({failed, 0, 1});
  world_.Boot(burst);
  world_.Advance(kSecond);
  const JobId other = world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_EQ(world_.NodeOf(world_.Living({failed, 0})), burst);
  EXPECT_EQ(world_.NodeOf(world_.Living({other, 0})), rack);
}

TEST_F(DecideTest, BackOffIsWaitedForAndIsTheDeadline) {
  world_.Register("rack-1", Box(8, 1));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Start({job, 0, 1});
  world_.End({job, 0, 1}, EndCause::kGpuFault, Initiator::kNode);
  world_.Seal({job, 0, 1});
  EXPECT_THAT(world_.Turn(), IsEmpty());
  EXPECT_EQ(NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms), world_.now_ms + kSecond);
  world_.Advance(kSecond);
  EXPECT_THAT(Only<Place>(world_.Turn()), SizeIs(1));
}

// --- which offer ---

TEST_F(DecideTest, SpotFirstUnlessItMayNotBeInterrupted) {
  Offers({Spot(), OnDemand()});
  Shape firm = Gpus(1);
  firm.interruptible = false;
  const JobId loose_job = world_.SubmitJob(Gpus(1)), firm_job = world_.SubmitJob(firm);
  const auto requests = Only<RequestNode>(world_.Turn());
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].offer.second, "sp");
  EXPECT_EQ(requests[0].for_task.job, loose_job);
  EXPECT_EQ(requests[0].reason.code, PlaceCode::kCheapestOffer);
  EXPECT_EQ(requests[0].reason.c, 2);
  EXPECT_EQ(requests[1].offer.second, "od");
  EXPECT_EQ(requests[1].for_task.job, firm_job);
  EXPECT_EQ(requests[1].reason.c, 1);
}

TEST_F(DecideTest, ConstraintsExcludeOffers) {
  Offer far = Spot(10);
  far.name = "far";
  far.region = "r2";
  Offers({far, Spot(), OnDemand()});
  Shape shape = Gpus(1);
  shape.regions = {"r1"};
  shape.max_price_micros_per_hour = 500'000;
  world_.Do(OffersListed{"cloud", {far, Spot(400'000), OnDemand()}});
  world_.SubmitJob(shape);
  EXPECT_EQ(Only<RequestNode>(world_.Turn()).at(0).offer.second, "sp");
}

TEST_F(DecideTest, PoolThatPreemptedIsAvoidedWhereAnotherWillDo) {
  Offer other = Spot(1'200'000);
  other.name = "sp2";
  Offers({Spot(), other, OnDemand()});
  world_.SubmitJob(Gpus(1));
  world_.Turn();
  const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
  EXPECT_EQ(world_.node(node).offer, "sp");
  world_.Boot(node);
  world_.Turn();
  world_.Start({1, 0, 1});
  world_.Advance(kMinute);
  world_.Do(InstanceGone{node, true, "reclaimed", -1});
  world_.Seal({1, 0, 1});
  EXPECT_EQ(Only<RequestNode>(world_.Turn()).at(0).offer.second, "sp2") << "another spot pool is preferred for a while";
  world_.Do(OffersListed{"cloud", {Spot(), OnDemand()}});
  world_.SubmitJob(Gpus(1));
  EXPECT_EQ(Only<RequestNode>(world_.Turn()).at(0).offer.second, "sp") << "but it is still better than on demand";
  world_.Do(OffersListed{"cloud", {Spot(), other, OnDemand()}});
  world_.Advance(world_.policy.pool_avoid_ms);
  world_.SubmitJob(Gpus(1));
  EXPECT_EQ(Only<RequestNode>(world_.Turn()).at(0).offer.second, "sp");
}

TEST_F(DecideTest, ExpectedCostOfAPoolThatIsTakenAllTheTimeExceedsOnDemand) {
  Offer nasty = Spot(2'900'000), od = OnDemand(3'000'000);
  nasty.notice_ms = 0;
  Offers({nasty, od});
  EXPECT_LT(ExpectedMicrosPerHour(world_.state, nasty, world_.now_ms), ExpectedMicrosPerHour(world_.state, od, world_.now_ms));
  nasty.preemptions = 50;
  nasty.exposure_ms = 5 * kHour;
  EXPECT_GT(ExpectedMicrosPerHour(world_.state, nasty, world_.now_ms), ExpectedMicrosPerHour(world_.state, od, world_.now_ms));
  const auto ranked = Rank(world_.state, {&nasty, &od}, world_.policy, world_.now_ms);
  EXPECT_EQ(ranked.front().offer, &od);
  nasty.notice_ms = 120'000;
  EXPECT_LT(ExpectedMicrosPerHour(world_.state, nasty, world_.now_ms), 2 * nasty.price_micros_per_hour);
}

TEST_F(DecideTest, TiesGoByPriceThenName) {
  Offer a = Spot(), b = Spot();
  a.name = "b";
  b.name = "a";
  const auto ranked = Rank(world_.state, {&a, &b}, world_.policy, world_.now_ms);
  EXPECT_EQ(ranked.front().offer->name, "a");
}

TEST_F(DecideTest, OrderOfListsDoesNotMatter) {
  World other;
  Offer third = Spot(1'100'000);
  third.name = "sp2";
  ProviderInfo second = Cloud("other");
  world_.Configure({Cloud(), second});
  other.Configure({second, Cloud()});
  world_.Do(OffersListed{"cloud", {Spot(), OnDemand(), third}});
  other.Do(OffersListed{"cloud", {third, OnDemand(), Spot()}});
  for (World* world : {&world_, &other}) {
    for (int i = 0; i < 5; ++i) world->SubmitJob(Gpus(1));
  }
  const auto a = Only<RequestNode>(world_.Turn()), b = Only<RequestNode>(other.Turn());
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].offer, b[i].offer);
  EXPECT_EQ(world_.state.nodes, other.state.nodes);
}

TEST_F(DecideTest, NodeLimitIsKept) {
  world_.Configure({Cloud("cloud", 2)});
  Offers({Spot()});
  for (int i = 0; i < 5; ++i) world_.SubmitJob(Gpus(1));
  EXPECT_THAT(Only<RequestNode>(world_.Turn()), SizeIs(2));
  EXPECT_THAT(world_.Turn(), IsEmpty());
}

}  // namespace
}  // namespace spillway::core
