// What is read off a state without changing it: what is owed outside, why a task waits, what fits, which invariant is broken.
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/fit/room.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Reading : public ::testing::Test {
 protected:
  Reading() { world_.Configure({Cloud("cloud", 2)}); }
  std::vector<Why> Explain(JobId job, TaskIndex index = 0) { return core::Explain(world_.state, world_.soft, world_.policy, {job, index}, world_.now_ms); }
  static auto Says(const std::string& code, const std::string& message, const std::string& unblocks = "") {
    return AllOf(Field(&Why::code, code), Field(&Why::message, HasSubstr(message)), Field(&Why::unblocks, HasSubstr(unblocks)));
  }
  static Offer Spot(int64_t price = 1'000'000) { return MakeOffer("cloud", "sp", Market::kSpot, price, Box(8, 1)); }
  World world_;
};

// --- effects ---

TEST_F(Reading, EffectsAreWhatTheStatesOwe) {
  world_.Do(OffersListed{"cloud", {Spot()}});
  const NodeId rack = world_.Register("rack-1", Box(8, 1));
  const JobId a = world_.SubmitJob(Gpus(1)), b = world_.SubmitJob(Gpus(1));
  world_.Turn();
  auto effects = Effects(world_.state, nullptr);
  ASSERT_THAT(effects, SizeIs(2));
  EXPECT_EQ(std::get<OfferAttempt>(effects[0]).node, rack);
  EXPECT_TRUE(std::holds_alternative<CreateInstance>(effects[1]));
  world_.Start({a, 0, 1});
  EXPECT_THAT(Effects(world_.state, &world_.changes), IsEmpty()) << "only what the touched rows owe";
  world_.Do(Preempt{{a, 0}});
  effects = Effects(world_.state, &world_.changes);
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_EQ(std::get<StopOnNode>(effects[0]).attempt, (AttemptId{a, 0, 1}));
  world_.End({a, 0, 1}, EndCause::kPreempted, Initiator::kUser);
  effects = Effects(world_.state, &world_.changes);
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_EQ(std::get<SealAttempt>(effects[0]).attempt, (AttemptId{a, 0, 1}));
  world_.Do(Cancel{b});
  world_.Do(ReleaseNode{world_.NodesIn(NodeState::kRequested).at(0), "x"});
  effects = Effects(world_.state, &world_.changes);
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<TerminateInstance>(effects[0]));
}

// --- explain ---

TEST_F(Reading, EndedTasksAndStrangersHaveNothingToExplain) { EXPECT_THAT(Explain(77), IsEmpty()); }

TEST_F(Reading, WaitsForTheFirstNode) {
  const JobId job = world_.SubmitJob(Gpus(1));
  EXPECT_THAT(Explain(job), ElementsAre(Says("NO_NODES", "no node"), Says("NO_OFFERS", "no provider has an offer")));
}

TEST_F(Reading, ReservedBusyWithTheNamesAndThePlaceInTheQueue) {
  world_.Register("rack-1", Box(8, 1));
  world_.SubmitJob(Gpus(1));
  const JobId ahead = world_.SubmitJob(Gpus(1)), job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_THAT(Explain(job), Contains(Says("RESERVED_BUSY", "1 reserved node that fits is busy (rack-1); 1 entry ahead")));
  EXPECT_THAT(Explain(ahead), Contains(Says("RESERVED_BUSY", "busy (rack-1)")));
}

TEST_F(Reading, PriceExcludesAndSaysWhatWouldUnblock) {
  world_.Do(OffersListed{"cloud", {Spot(2'000'000), MakeOffer("cloud", "od", Market::kOnDemand, 3'500'000, Box(8, 1))}});
  Shape cheap = Gpus(1);
  cheap.max_price_micros_per_hour = 3'000'000;
  const JobId job = world_.SubmitJob(cheap);
  world_.Do(OffersListed{"cloud", {Spot(4'000'000), MakeOffer("cloud", "od", Market::kOnDemand, 3'500'000, Box(8, 1))}});
  world_.Turn();
  EXPECT_THAT(Explain(job), Contains(Says("NO_OFFER_FITS", "2 by price", "placement.max_price of 3.50 would allow offer cloud/od")));
}

TEST_F(Reading, MarketsAndInterruptibilityAsUnblockers) {
  world_.Do(OffersListed{"cloud", {Spot(), MakeOffer("cloud", "od", Market::kOnDemand, 3'500'000, Box(8, 1))}});
  Shape firm = Gpus(1);
  firm.interruptible = false;
  const JobId job = world_.SubmitJob(firm);
  world_.Do(OffersListed{"cloud", {Spot()}});
  world_.Turn();
  EXPECT_THAT(Explain(job), Contains(Says("NO_OFFER_FITS", "spot refused", "placement.interruptible: true would allow offer cloud/sp")));
}

TEST_F(Reading, AMarketThatNothingIsOnIsTheFirstReason) {
  world_.Do(OffersListed{"cloud", {Spot(), MakeOffer("cloud", "od", Market::kOnDemand, 3'500'000, Box(8, 1))}});
  world_.Register("rack-1", Box(8, 1));
  Shape cheap = Gpus(1);
  cheap.markets = {Market::kSpot};
  const JobId job = world_.SubmitJob(cheap);
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 3'500'000, Box(8, 1))}});
  EXPECT_THAT(Explain(job), ElementsAre(Says("NO_MARKET", "the job allows only spot, and there is no such node, nor does any provider offer one",
                                             "adding reserved to placement.markets would allow node rack-1")));
  world_.Do(OffersListed{"cloud", {Spot()}});
  EXPECT_THAT(Explain(job), Not(Contains(Says("NO_MARKET", ""))));
}

TEST_F(Reading, OneIsNotMany) {
  world_.Register("rack-1", Box(1, 1));
  Shape one = Gpus(1);
  one.cpu_milli = 1000;
  EXPECT_EQ(DescribeNeed(one), "1 x any GPU, 1 cpu");
  one.cpu_milli = 2500;
  EXPECT_EQ(DescribeNeed(one), "1 x any GPU, 2.5 cpus");
  const Node& rack = world_.state.nodes.begin()->second;
  one.gpu_count = 2;
  EXPECT_EQ(DescribeMisfits(Misfits(one, rack), one, rack), "has 1 GPU, 2 needed; has 1 cpu, 2.5 needed");
  one = Gpus(1);
  one.cpu_milli = 1000;
  one.markets = {Market::kSpot, Market::kOnDemand};
  EXPECT_EQ(DescribeMisfits(Misfits(one, rack), one, rack), "is reserved, and placement.markets allows only spot or on_demand");
}

TEST_F(Reading, BackOffCapacityAndLimitOfOffers) {
  world_.Do(OffersListed{"cloud", {Spot()}});
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_THAT(Explain(job), ElementsAre(Says("BOOTING", "requested for this task, was requested 0s ago"))) << "that nothing else is there is no problem";
  world_.Register("bare", Box(8));
  EXPECT_THAT(Explain(job), ElementsAre(Says("BOOTING", "requested for this task"))) << "nor that what is there does not fit";
  world_.Do(InstanceRefused{world_.NodesIn(NodeState::kRequested).at(0), InstanceRefused::Code::kCapacity, "no capacity in z1", 0});
  EXPECT_THAT(Explain(job), Contains(Says("OFFER_BACKOFF", "offer cloud/sp refused 1 time (no capacity in z1); asked again in 10s")));
  Offer none = Spot();
  none.available = 0;
  world_.Advance(10 * kSecond);
  world_.Do(OffersListed{"cloud", {none}});
  EXPECT_THAT(Explain(job), Contains(Says("OFFER_NO_CAPACITY", "no capacity")));
  world_.Do(OffersListed{"cloud", {Spot()}});
  world_.Configure({Cloud("cloud", 0)});
  EXPECT_THAT(Explain(job), Contains(Says("NODE_LIMIT", "max_nodes is 0", "higher max_nodes")));
}

TEST_F(Reading, SealBackOffCordonAndSilence) {
  const NodeId rack = world_.Register("rack-1", Box(8, 1));
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_THAT(Explain(job), ElementsAre(Says("OFFERED", "attempt 1 on rack-1")));
  world_.Start({job, 0, 1});
  EXPECT_THAT(Explain(job), ElementsAre(Says("RUNNING", "reserved capacity had room")));
  world_.Advance(world_.policy.silence_ms + 1);
  EXPECT_THAT(Explain(job), Contains(Says("NODE_SILENT", "its lease ends in")));
  world_.End({job, 0, 1}, EndCause::kGpuFault, Initiator::kNode, "XID 79");
  EXPECT_THAT(Explain(job),
              AllOf(Contains(Says("SEALING", "attempt 1")), Contains(Says("BACKOFF", "gpu_fault (XID 79)")), Contains(Says("NODES_SILENT", "1 node"))));
  world_.HearFromAll();
  world_.Do(CordonNode{rack, true});
  EXPECT_THAT(Explain(job), Contains(Says("NODES_CORDONED", "1 node that fits is cordoned")));
  world_.Do(DrainNode{rack});
  world_.Do(CordonNode{rack, false});
  world_.Seal({job, 0, 1});
  world_.Advance(kMinute);
  world_.HearFromAll();
  EXPECT_THAT(Explain(job), ElementsAre(Says("NEXT_TURN", "")));
}

TEST_F(Reading, WhyThereNamesTheOfferItWasChosenFrom) {
  world_.Do(OffersListed{"cloud", {Spot(), MakeOffer("cloud", "od", Market::kOnDemand, 3'500'000, Box(8, 1))}});
  const JobId job = world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Boot(world_.NodesIn(NodeState::kRequested).at(0));
  world_.Turn();
  world_.Start({job, 0, 1});
  EXPECT_THAT(Explain(job), Contains(Says("RUNNING", "lowest expected cost of 2 offers")));
  world_.Do(Preempt{{job, 0}});
  EXPECT_THAT(Explain(job), Contains(Says("STOPPING", "preempted by the user")));
}

// --- fit ---

TEST(Fit, EveryConstraintHasItsBit) {
  Node node;
  node.name = "n1";
  node.provider = "p";
  node.zone = "z";
  node.region = "r";
  node.market = Market::kSpot;
  node.price_micros_per_hour = 100;
  node.capacity = Box(8, 2);
  const auto with = [&](auto change) {
    Shape shape = Gpus(1);
    change(&shape);
    return Misfits(shape, node);
  };
  EXPECT_EQ(with([](Shape* shape) {}), 0u);
  EXPECT_EQ(with([](Shape* shape) { shape->gpu_count = 3; }), kMisfitGpuCount);
  EXPECT_EQ(with([](Shape* shape) { shape->gpu_models = {"a100", "h200"}; }), kMisfitGpuModel);
  EXPECT_EQ(with([](Shape* shape) { shape->gpu_models = {"a100", "h100"}; }), 0u);
  EXPECT_EQ(with([](Shape* shape) { shape->gpu_memory_bytes_min = 81 * kGiB; }), kMisfitGpuMemory);
  EXPECT_EQ(with([](Shape* shape) { shape->gpu_memory_bytes_max = 79 * kGiB; }), kMisfitGpuMemory);
  EXPECT_EQ(with([](Shape* shape) { shape->cpu_milli = 8'001; }), kMisfitCpu);
  EXPECT_EQ(with([](Shape* shape) { shape->memory_bytes = 33 * kGiB; }), kMisfitMemory);
  EXPECT_EQ(with([](Shape* shape) { shape->disk_bytes = 101 * kGiB; }), kMisfitDisk);
  EXPECT_EQ(with([](Shape* shape) { shape->markets = {Market::kReserved}; }), kMisfitMarket);
  EXPECT_EQ(with([](Shape* shape) { shape->interruptible = false; }), kMisfitInterruptible);
  EXPECT_EQ(with([](Shape* shape) { shape->regions = {"q"}; }), kMisfitRegion);
  EXPECT_EQ(with([](Shape* shape) { shape->zones = {"q"}; }), kMisfitZone);
  EXPECT_EQ(with([](Shape* shape) { shape->providers = {"q"}; }), kMisfitProvider);
  EXPECT_EQ(with([](Shape* shape) { shape->node_names = {"q"}; }), kMisfitNodeName);
  EXPECT_EQ(with([](Shape* shape) { shape->max_price_micros_per_hour = 99; }), kMisfitPrice);
  node.market = Market::kReserved;
  EXPECT_EQ(with([](Shape* shape) { shape->max_price_micros_per_hour = 99; }), 0u) << "reserved is paid for already";
  Shape cpu_only = Cpu();
  cpu_only.gpu_models = {"a100"};
  EXPECT_EQ(Misfits(cpu_only, node), 0u) << "no device is asked for";
  for (uint32_t bit = 1; bit <= kMisfitPrice; bit <<= 1) {
    EXPECT_STRNE(MisfitWord(bit), "?");
    EXPECT_NE(DescribeMisfits(bit, Gpus(1, "A100"), node), "");
  }
}

TEST(Fit, RoomTakesTheLowestFreeDevices) {
  Room room = EmptyRoom(Box(8, 4));
  EXPECT_EQ(room.Take(Gpus(1)), 0b0001u);
  room.TakeDevices(Gpus(1), 0b0100);
  EXPECT_EQ(room.Take(Gpus(2)), 0b1010u);
  EXPECT_FALSE(room.Holds(Gpus(1)));
  EXPECT_TRUE(room.Holds(Cpu(5'000)));
  EXPECT_FALSE(room.Holds(Cpu(5'001)));
  EXPECT_EQ(EmptyRoom(Box(1, 64)).free_devices(), 64);
}

// --- invariants ---

TEST_F(Reading, EveryInvariantNoticesItsBreach) {
  world_.Do(OffersListed{"cloud", {Spot()}});
  world_.Register("rack-1", Box(8, 2));
  for (int i = 0; i < 3; ++i) world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Start({1, 0, 1});
  world_.End({1, 0, 1}, EndCause::kStagingFailed, Initiator::kNode);
  ASSERT_EQ(BrokenInvariant(world_.state), "");
  const auto broken = [&](auto change) {
    State state = world_.state;
    change(&state);
    return BrokenInvariant(state);
  };
  const auto task = [](State* state, JobId job) -> Task& { return state->jobs.at(job).tasks.at(0); };
  EXPECT_THAT(broken([&](State* s) {
                task(s, 2).attempt->members[0].devices = 1;
                task(s, 2).attempt->members[0].devices = 1 << 7;
              }),
              HasSubstr("taken twice or does not exist"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).attempt->members[0].devices = 3; }), HasSubstr("has 2 devices, not 1"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).attempt->number = 2; }), HasSubstr("not the newest"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).attempt->state = AttemptState::kEnded; }), HasSubstr("lives and is ENDED"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).attempt->stop = StopRequest(); }), HasSubstr("STOPPING"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).attempt->members.clear(); }), HasSubstr("has 0 members"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).attempt->members[0].node = 77; }), HasSubstr("which does not"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).attempt.reset(); }), HasSubstr("without an attempt"));
  EXPECT_THAT(broken([&](State* s) { task(s, 2).seal_owed = 1; }), HasSubstr("owes the seal"));
  EXPECT_THAT(broken([&](State* s) { task(s, 1).seal_owed = 9; }), HasSubstr("owes the seal"));
  EXPECT_THAT(broken([&](State* s) { task(s, 1).state = TaskState::kFailed; }), HasSubstr("has ended and is in memory"));
  EXPECT_THAT(broken([&](State* s) { task(s, 1).history[0].number = 9; }), HasSubstr("past attempt 9"));
  EXPECT_THAT(broken([&](State* s) { s->jobs.at(1).job.counts.queued = 2; }), HasSubstr("miscounts"));
  EXPECT_THAT(broken([&](State* s) { s->jobs.at(1).job.counts.failed = 2; }), HasSubstr("do not add up"));
  EXPECT_THAT(broken([&](State* s) { s->jobs.at(1).job.shape_id = 9; }), HasSubstr("shape 9"));
  EXPECT_THAT(broken([&](State* s) { s->jobs.at(1).job.cancel_requested = true; }), HasSubstr("cancelled and has waiting"));
  EXPECT_THAT(broken([&](State* s) { s->jobs.at(1).job.next_index = 0; }), HasSubstr("before it began"));
  EXPECT_THAT(broken([&](State* s) { s->jobs.at(1).job.skipped = {{0, 1}}; }), HasSubstr("skip"));
  EXPECT_THAT(broken([&](State* s) { task(s, 1).cancel_requested = true; }), HasSubstr("was cancelled and is"));
  EXPECT_THAT(broken([&](State* s) { s->nodes.at(1).state = NodeState::kLost; }), HasSubstr("LOST"));
  EXPECT_THAT(broken([&](State* s) { s->nodes.at(1).idle_since_ms = 5; }), HasSubstr("counts as idle"));
  EXPECT_THAT(broken([&](State* s) { s->nodes.at(1).metered_ms = 0; }), HasSubstr("is metered to"));
  EXPECT_THAT(broken([&](State* s) { s->nodes.at(1).capacity.cpu_milli = 500; }), HasSubstr("over-full"));
  EXPECT_THAT(broken([&](State* s) { s->meta.next_node = 1; }), HasSubstr("node 1 stands at 1"));
  EXPECT_THAT(broken([&](State* s) { s->meta.next_shape = 1; }), HasSubstr("never given out"));
  EXPECT_THAT(broken([&](State* s) { s->index.queue.clear(); }), HasSubstr("index queue"));
  EXPECT_THAT(broken([&](State* s) { s->index.back_offs.clear(); }), HasSubstr("index back_offs"));
  EXPECT_THAT(broken([&](State* s) { s->index.node_by_name.clear(); }), HasSubstr("index node_by_name"));
  EXPECT_THAT(broken([&](State* s) { s->index.newest_by_name["x"] = 4; }), HasSubstr("index newest_by_name"));
  EXPECT_THAT(broken([&](State* s) { s->index.requests_by_age.insert({1, "x"}); }), HasSubstr("index requests_by_age"));
  EXPECT_THAT(broken([&](State* s) { s->shapes.at(1).interruptible = false, s->nodes.at(1).market = Market::kSpot; }),
              HasSubstr("uninterruptible, and on spot"));
}

}  // namespace
}  // namespace spillway::core
