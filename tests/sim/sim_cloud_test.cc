#include "sim/sim_cloud.h"

#include <gtest/gtest.h>

namespace spillway::sim {
namespace {

class SimCloudTest : public ::testing::Test, public Observer {
 protected:
  static SimCloud::Market MarketOf(const char* name, int64_t notice_ms, SpotModel spot) {
    SimCloud::Market market;
    market.offer.provider = "cloud";
    market.offer.name = name;
    market.offer.market = Market::kSpot;
    market.offer.price_micros_per_hour = 3'600'000;
    market.offer.billing = {1'000, 0};
    market.offer.notice_ms = notice_ms;
    market.spot = std::move(spot);
    return market;
  }
  void Make(SimCloud::Market market) {
    SimNode::Surroundings around;
    around.world = &world;
    around.network = &network;
    around.store = &store;
    around.observer = this;
    around.faults = &faults;
    around.bugs = &bugs;
    around.left = [](SimNode*) {};
    cloud = std::make_unique<SimCloud>(&world, this, &faults, "cloud", std::vector<SimCloud::Market>{std::move(market)}, [around](const Instance& instance) {
      NodeSetup setup;
      setup.name = instance.name;
      setup.instance_id = instance.id;
      return std::make_unique<SimNode>(around, setup);
    });
  }
  absl::StatusOr<std::string> Create(const std::string& token) {
    engine::CreateOrder order;
    order.node.name = "node-" + token;
    order.offer.name = "a";
    order.client_token = token;
    absl::StatusOr<std::string> answer = absl::UnknownError("none");
    cloud->Create(order, asker, [&](absl::StatusOr<std::string> said) { answer = std::move(said); });
    Pass(20'000);
    return answer;
  }
  core::InstanceListing List() {
    core::InstanceListing listing;
    cloud->List(asker, [&](absl::StatusOr<core::InstanceListing> said) { listing = *std::move(said); });
    Pass(2'000);
    return listing;
  }
  void Pass(int64_t ms) { world.RunUntil(world.now_ms() + ms); }

  World world{1};
  Faults faults;
  NodeBugs bugs;
  Network network{&world, &faults};
  CheckpointStore store{&world, this};
  Life asker;
  std::unique_ptr<SimCloud> cloud;
};

TEST_F(SimCloudTest, ATokenIsOneInstanceAndItsBillIsItsTime) {
  Make(MarketOf("a", 0, SpotModel::Never()));
  const auto first = Create("t"), again = Create("t");
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_EQ(cloud->living(), 1);
  engine::TerminateOrder order;
  order.client_token = "t";  // the id may be unknown
  cloud->Terminate(order, asker, [](absl::StatusOr<bool>) {});
  Pass(10'000);
  EXPECT_EQ(cloud->living(), 0);
  const Instance& instance = *cloud->instances().begin()->second;
  const int64_t seconds = (instance.ended_ms - instance.created_ms + 999) / 1'000;
  EXPECT_EQ(instance.billed_micros, seconds * 1'000);
  const core::InstanceListing listing = List();
  ASSERT_EQ(listing.instances.size(), 1u);
  EXPECT_FALSE(listing.instances[0].alive);
  EXPECT_EQ(listing.instances[0].billed_micros, instance.billed_micros);
}

TEST_F(SimCloudTest, AnAnswerMayBeLostAndTheInstanceIsThere) {
  Make(MarketOf("a", 0, SpotModel::Never()));
  faults.reply_lost = 1.0;
  EXPECT_TRUE(absl::IsUnavailable(Create("t").status()));
  EXPECT_EQ(cloud->living(), 1);
}

TEST_F(SimCloudTest, TakesMachinesBackWithNotice) {
  faults.reclaims = true;
  Make(MarketOf("a", 30'000, SpotModel::Lifetimes({100'000})));
  ASSERT_TRUE(Create("t").ok());
  Pass(60'000);
  const core::InstanceListing listing = List();
  ASSERT_EQ(listing.instances.size(), 1u);
  EXPECT_GT(listing.instances[0].notice_in_ms, 0);
  EXPECT_LE(listing.instances[0].notice_in_ms, 30'000);
  Pass(60'000);
  EXPECT_EQ(cloud->living(), 0);
  EXPECT_TRUE(cloud->instances().begin()->second->reclaimed);
}

TEST_F(SimCloudTest, ListingsAreLateAndNeverWrongAboutADeath) {
  Make(MarketOf("a", 0, SpotModel::Never()));
  ASSERT_TRUE(Create("t").ok());
  faults.list_lag_ms_max = 40'000;
  bool lacked = false;
  for (int i = 0; i < 30; ++i) {
    const core::InstanceListing listing = List();
    lacked = lacked || listing.instances.empty();
    for (const auto& row : listing.instances) EXPECT_TRUE(row.alive);
  }
  EXPECT_TRUE(lacked);
}

TEST_F(SimCloudTest, ADeadAskerIsNotAnswered) {
  Make(MarketOf("a", 0, SpotModel::Never()));
  int answers = 0;
  cloud->List(asker, [&](absl::StatusOr<core::InstanceListing>) { ++answers; });
  asker.End();
  Pass(30'000);
  EXPECT_EQ(answers, 0);
}

}  // namespace
}  // namespace spillway::sim
