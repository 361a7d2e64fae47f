// The ledger by example; that the sums always agree is shown over random histories in history_test.cc.
#include "scheduler/core/metering.h"

#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Text(const Charge& charge) {
  return charge.kind + (charge.attempt.job != 0 ? " " + charge.attempt.ToString() : "") + " " + std::to_string(charge.to_ms - charge.from_ms) + "ms " +
         std::to_string(charge.amount_micros);
}
std::vector<std::string> Texts(const World& world) {
  std::vector<std::string> texts;
  for (const Charge& charge : world.charges) texts.push_back(Text(charge));
  return texts;
}

class Metering : public ::testing::Test {
 protected:
  // A price of 3.60 an hour is a micro a microsecond: 1,000 micros a second.
  Metering() {
    world_.Configure({Cloud()}, {{"year", {"rack-1"}, 3'600'000, 0, 0}});
    Offer offer = MakeOffer("cloud", "sp", Market::kSpot, 3'600'000, Box(8, 4));
    offer.billing = {10 * kSecond, 0};
    world_.Do(OffersListed{"cloud", {offer}});
  }
  NodeId Burst(const Shape& shape) {
    world_.SubmitJob(shape);
    world_.Turn();
    const NodeId node = world_.NodesIn(NodeState::kRequested).at(0);
    world_.Do(InstanceCreated{node, "i-" + std::to_string(node)});
    world_.Advance(5 * kSecond);
    world_.Boot(node);
    world_.Advance(2 * kSecond);
    world_.HearFromAll();
    world_.Turn();
    return node;
  }
  World world_;
};

TEST_F(Metering, WholeLifeOfABurstNode) {
  const NodeId node = Burst(Gpus(1));
  world_.Advance(8 * kSecond);
  EXPECT_EQ(UnmeteredMicros(world_.node(node), world_.now_ms), 8'000);
  EXPECT_EQ(world_.charges.size(), 2u) << "of the run nothing is charged yet";
  EXPECT_EQ(JobCostSoFar(world_.state, 1, world_.now_ms)->burst_micros, 8'000);
  world_.End({1, 0, 1}, EndCause::kCompleted);
  world_.Advance(kMinute);
  world_.HearFromAll();
  world_.Turn();
  world_.Advance(3 * kSecond);
  world_.Do(InstanceGone{node, false, "", -1});
  EXPECT_THAT(Texts(world_),
              ElementsAre("boot 5000ms 5000", "idle 2000ms 2000", "run 1.0@1 8000ms 8000", "idle 60000ms 60000", "overhead 3000ms 3000", "overhead 0ms 2000"))
      << "78 s are billed as 80";
  EXPECT_EQ(world_.gone_nodes[node].charged_micros, 80'000);
  EXPECT_EQ(world_.ended_jobs[1].charged_micros, 8'000);
  EXPECT_EQ(world_.ended_jobs[1].reserved_micros, 0);
}

TEST_F(Metering, ProvidersBillHasTheLastWord) {
  const NodeId node = Burst(Gpus(1));
  world_.Advance(3 * kSecond);
  world_.Do(InstanceGone{node, true, "", 9'500});
  EXPECT_THAT(Texts(world_), ElementsAre("boot 5000ms 5000", "idle 2000ms 2000", "run 1.0@1 2500ms 2500", "overhead 500ms 500", "adjustment 0ms -500"));
  EXPECT_EQ(world_.gone_nodes[node].charged_micros, 9'500);
}

// The machine was taken while nobody listened: the hour until that is heard is not the job's.
TEST_F(Metering, ALateWordOfAnEndIsNotChargedToTheAttempts) {
  const NodeId node = Burst(Gpus(1));
  world_.SubmitJob(Gpus(3));
  world_.Turn();
  world_.Advance(kHour);
  world_.Do(InstanceGone{node, true, "", 10'000});
  EXPECT_THAT(Texts(world_), ElementsAre("boot 5000ms 5000", "idle 2000ms 2000", "run 1.0@1 3000ms 750", "run 2.0@1 3000ms 2250", "overhead 3597000ms 3597000",
                                         "overhead 0ms 3000", "adjustment 0ms -3600000"));
  EXPECT_EQ(world_.gone_nodes[node].charged_micros, 10'000);
}

TEST_F(Metering, ABillThatEndsBeforeTheNewestChargeLeavesWhatWasCharged) {
  const NodeId node = Burst(Gpus(1));
  world_.Advance(8 * kSecond);
  world_.SubmitJob(Gpus(1));
  world_.Turn();
  world_.Advance(8 * kSecond);
  world_.Do(InstanceGone{node, true, "", 10'000});
  EXPECT_THAT(Texts(world_), ElementsAre("boot 5000ms 5000", "idle 2000ms 2000", "run 1.0@1 8000ms 8000", "overhead 8000ms 8000", "overhead 0ms 7000",
                                         "adjustment 0ms -20000"));
  EXPECT_EQ(world_.gone_nodes[node].charged_micros, 10'000);
}

TEST_F(Metering, SharedNodeIsSplitByDevices) {
  Burst(Gpus(1));
  world_.Advance(kSecond);
  world_.SubmitJob(Gpus(3));
  world_.Turn();
  world_.Advance(3 * kSecond);
  EXPECT_EQ(JobCostSoFar(world_.state, 1, world_.now_ms)->burst_micros, 1'750) << "1 s alone and a quarter of 3 s";
  EXPECT_EQ(JobCostSoFar(world_.state, 2, world_.now_ms)->burst_micros, 2'250);
  world_.End({1, 0, 1}, EndCause::kCompleted);
  EXPECT_FALSE(JobCostSoFar(world_.state, 1, world_.now_ms).has_value()) << "it has ended: its row has all of it";
  EXPECT_THAT(Texts(world_), ElementsAre("boot 5000ms 5000", "idle 2000ms 2000", "run 1.0@1 1000ms 1000", "run 1.0@1 3000ms 750", "run 2.0@1 3000ms 2250"));
}

TEST_F(Metering, WithoutDevicesBySharesOfTheCpus) {
  Burst(Cpu(1'000));
  world_.SubmitJob(Cpu(2'000));
  world_.Turn();
  world_.Advance(kSecond);
  world_.End({1, 0, 1}, EndCause::kCompleted);
  EXPECT_THAT(Texts(world_), ElementsAre("boot 5000ms 5000", "idle 2000ms 2000", "run 1.0@1 1000ms 333", "run 2.0@1 1000ms 667"));
}

TEST_F(Metering, FencedAttemptBillsAsOverhead) {
  const NodeId node = Burst(Gpus(1));
  world_.Advance(world_.policy.silence_ms + 1);
  world_.Turn();
  ASSERT_EQ(world_.node(node).state, NodeState::kReleasing);
  world_.Advance(10 * kSecond);
  world_.Do(InstanceGone{node, false, "", -1});
  EXPECT_EQ(Text(world_.charges[2]), "run 1.0@1 60001ms 60001");
  EXPECT_EQ(Text(world_.charges[3]), "overhead 10000ms 10000");
}

TEST_F(Metering, ReservedTimeCountsApartFromBurstMoney) {
  world_.Register("rack-1", Box(8, 4));
  world_.Advance(kSecond);
  world_.SubmitJob(Gpus(1));
  world_.HearFromAll();
  world_.Turn();
  world_.Advance(2 * kSecond);
  EXPECT_EQ(JobCostSoFar(world_.state, 1, world_.now_ms)->reserved_micros, 2'000);
  EXPECT_EQ(JobCostSoFar(world_.state, 1, world_.now_ms)->burst_micros, 0);
  world_.End({1, 0, 1}, EndCause::kCompleted);
  EXPECT_THAT(Texts(world_), ElementsAre("idle 1000ms 1000", "run 1.0@1 2000ms 2000"));
  EXPECT_EQ(world_.ended_jobs[1].reserved_micros, 2'000);
  EXPECT_EQ(world_.ended_jobs[1].charged_micros, 0);
}

TEST_F(Metering, NewPriceOfAReservationCountsFromTheNextHello) {
  const NodeId node = world_.Register("rack-1", Box(8, 4));
  world_.Configure({Cloud()}, {{"year", {"rack-1"}, 7'200'000, 0, 0}});
  world_.Advance(10 * kSecond);
  world_.Register("rack-1", Box(8, 4));
  EXPECT_EQ(world_.node(node).price_micros_per_hour, 7'200'000);
  world_.Advance(10 * kSecond);
  world_.Do(DrainNode{node});
  EXPECT_THAT(Texts(world_), ElementsAre("idle 10000ms 10000", "idle 10000ms 20000"));
}

TEST_F(Metering, NodesWithoutAPriceLeaveNoRows) {
  const NodeId node = world_.Register("rack-2", Box(8, 4));
  world_.Advance(kSecond);
  world_.SubmitJob(Gpus(1));
  world_.Turn();
  EXPECT_THAT(world_.charges, IsEmpty());
  EXPECT_EQ(world_.node(node).metered_ms, world_.now_ms);
}

}  // namespace
}  // namespace spillway::core
