// A provider that does what the test says, and a clock that stands still until the test moves it. A listing asked for and seen to have happened proves that
// the runner has looked at everything that is due.
#include "scheduler/effects/provider_runner.h"

#include <atomic>
#include <deque>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "scheduler/effects/executor.h"
#include "tests/effects/posted.h"

namespace spillway::effects {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Alive = core::InstanceListing::Instance;

class SteppedClock final : public Clock {
 public:
  int64_t NowUtcMs() override { return 1'750'000'000'000 + at_ms; }
  int64_t NowSteadyMs() override { return 1'000'000 + at_ms; }
  std::atomic<int64_t> at_ms = 0;
};

// The other end. Calls wait while `hold` is set.
struct Cloud {
  Mutex mutex;
  std::vector<std::string> creates, terminates;  // client token; name/instance id
  std::deque<absl::Status> create_answers;       // empty: OK
  std::deque<absl::Status> terminate_answers;
  std::map<std::string, std::string> made;  // token -> instance id
  std::map<std::string, Alive> instances;   // by name
  absl::Status list_answer, offers_answer;
  std::vector<core::Offer> offers;
  int lists = 0, offer_lists = 0;
  bool loses_replies = false;
  provider::Capabilities capabilities{true, true, true};
  std::atomic<bool> hold_create = false, hold_list = false;
  std::atomic<int> in_create = 0, in_list = 0;

  template <typename Read>
  auto Get(Read read) {
    MutexLock lock(&mutex);
    return read();
  }
  size_t Creates() {
    return Get([&] { return creates.size(); });
  }
  size_t Terminates() {
    return Get([&] { return terminates.size(); });
  }
};

class ScriptedProvider final : public provider::Provider {
 public:
  explicit ScriptedProvider(Cloud* cloud) : cloud_(cloud) {}
  const std::string& name() const override { return name_; }
  provider::Capabilities capabilities() const override { return cloud_->capabilities; }
  absl::StatusOr<std::vector<core::Offer>> ListOffers() override {
    MutexLock lock(&cloud_->mutex);
    ++cloud_->offer_lists;
    if (!cloud_->offers_answer.ok()) return cloud_->offers_answer;
    return cloud_->offers;
  }
  absl::StatusOr<std::string> Create(const engine::CreateOrder& order) override {
    ++cloud_->in_create;
    while (cloud_->hold_create) std::this_thread::yield();
    MutexLock lock(&cloud_->mutex);
    cloud_->creates.push_back(order.client_token);
    absl::Status answer;
    if (!cloud_->create_answers.empty()) {
      answer = cloud_->create_answers.front();
      cloud_->create_answers.pop_front();
    }
    if (!answer.ok() && !cloud_->loses_replies) return answer;
    auto [made, is_new] = cloud_->made.emplace(order.client_token, absl::StrCat("i-", cloud_->made.size() + 1));
    if (is_new) cloud_->instances[order.node.name] = Alive{made->second, order.node.name, true};
    if (!answer.ok()) return answer;
    return made->second;
  }
  absl::Status Terminate(const engine::TerminateOrder& order) override {
    MutexLock lock(&cloud_->mutex);
    cloud_->terminates.push_back(absl::StrCat(order.name, "/", order.instance_id));
    if (cloud_->terminate_answers.empty()) return absl::OkStatus();
    const absl::Status answer = cloud_->terminate_answers.front();
    cloud_->terminate_answers.pop_front();
    return answer;
  }
  absl::StatusOr<core::InstanceListing> List() override {
    core::InstanceListing listing;
    listing.provider = name_;
    absl::Status answer;
    {
      MutexLock lock(&cloud_->mutex);
      for (const auto& [name, instance] : cloud_->instances) listing.instances.push_back(instance);
      answer = cloud_->list_answer;
    }
    ++cloud_->in_list;
    while (cloud_->hold_list) std::this_thread::yield();
    MutexLock lock(&cloud_->mutex);
    ++cloud_->lists;
    if (!answer.ok()) return answer;
    return listing;
  }

 private:
  Cloud* const cloud_;
  const std::string name_ = "cloud";
};

engine::CreateOrder CreateOf(NodeId id) {
  engine::CreateOrder order;
  order.node.id = id;
  order.node.name = absl::StrCat("burst-", id);
  order.node.provider = "cloud";
  order.client_token = absl::StrCat("cluster-", id);
  return order;
}
engine::TerminateOrder TerminateOf(NodeId id, const std::string& instance = "") {
  return {id, "cloud", absl::StrCat("burst-", id), instance, absl::StrCat("cluster-", id)};
}

constexpr int64_t kTurnMs = 7'000'000;  // turns run ahead of UTC

class ProviderRunnerTest : public ::testing::Test {
 protected:
  ~ProviderRunnerTest() override { cloud.hold_create = cloud.hold_list = false; }
  void Begin() {
    runner = std::make_unique<ProviderRunner>(
        std::make_unique<ScriptedProvider>(&cloud), &clock, [this] { return kTurnMs + clock.at_ms; }, posted.post());
  }
  // Moves the clock and waits until the runner has done all that was due then.
  void Pass(int64_t ms) {
    clock.at_ms += ms;
    for (int round = 0; round < 2; ++round) {
      const int before = cloud.Get([&] { return cloud.lists; });
      runner->ListSoon();
      ASSERT_TRUE(Eventually([&] { return cloud.Get([&] { return cloud.lists; }) > before; }));
    }
  }

  SteppedClock clock;
  Cloud cloud;
  Posted posted;
  std::unique_ptr<ProviderRunner> runner;
};

TEST_F(ProviderRunnerTest, ListsAtOnceAndEverySecondAndSaysWhenItAsked) {
  Begin();
  ASSERT_TRUE(posted.WaitFor<core::InstanceListing>(1));
  EXPECT_EQ(posted.Of<core::InstanceListing>()[0].provider, "cloud");
  EXPECT_EQ(posted.Of<core::InstanceListing>()[0].asked_ms, kTurnMs + clock.at_ms);
  Pass(1'000);
  EXPECT_EQ(posted.Of<core::InstanceListing>().back().asked_ms, kTurnMs + clock.at_ms);
}

TEST_F(ProviderRunnerTest, PricesAreToldWhenTheyChanged) {
  core::Offer offer;
  offer.name = "spot-a";
  offer.price_micros_per_hour = 100;
  cloud.offers = {offer};
  Begin();
  ASSERT_TRUE(posted.WaitFor<core::OffersListed>(1));
  Pass(5'000);
  Pass(5'000);
  EXPECT_EQ(cloud.Get([&] { return cloud.offer_lists; }), 3);
  EXPECT_THAT(posted.Of<core::OffersListed>(), SizeIs(1));
  cloud.Get([&] { return cloud.offers[0].price_micros_per_hour = 90; });
  Pass(5'000);
  ASSERT_THAT(posted.Of<core::OffersListed>(), SizeIs(2));
  EXPECT_EQ(posted.Of<core::OffersListed>()[1].offers[0].price_micros_per_hour, 90);
  cloud.Get([&] { return cloud.offers_answer = absl::UnavailableError("down"), 0; });
  Pass(5'000);
  EXPECT_THAT(posted.Of<core::OffersListed>(), SizeIs(2)) << "out of reach is not an empty list";
}

TEST_F(ProviderRunnerTest, AnUnreachableProviderSaysNothingAboutItsInstances) {
  cloud.list_answer = absl::UnavailableError("down");
  Begin();
  Pass(1'000);
  EXPECT_THAT(posted.Of<core::InstanceListing>(), SizeIs(0));
  cloud.Get([&] { return cloud.list_answer = absl::OkStatus(), 0; });
  Pass(1'000);
  EXPECT_TRUE(posted.WaitFor<core::InstanceListing>(1));
}

TEST_F(ProviderRunnerTest, AThrottledCreationIsTriedAgainAfterABackOffThatDoubles) {
  cloud.create_answers = {absl::UnavailableError("throttled"), absl::UnavailableError("throttled"), absl::InternalError("odd"),
                          absl::UnauthenticatedError("token")};
  Begin();
  runner->Create(CreateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.Creates() == 1; }));
  Pass(0);
  size_t tries = 1;
  for (const int64_t backoff_ms : {200, 400, 800, 1'600}) {
    Pass(backoff_ms - 1);
    EXPECT_EQ(cloud.Creates(), tries) << "too early, back-off " << backoff_ms;
    Pass(1);
    EXPECT_EQ(cloud.Creates(), ++tries);
  }
  ASSERT_TRUE(posted.WaitFor<core::InstanceCreated>(1));
  EXPECT_EQ(posted.Of<core::InstanceCreated>()[0].instance_id, "i-1");
  EXPECT_EQ(posted.Of<core::InstanceCreated>()[0].node, 1);
  EXPECT_THAT(posted.Of<core::InstanceRefused>(), SizeIs(0));
  Pass(60'000);
  EXPECT_EQ(cloud.Creates(), 5u) << "done is done";
}

TEST_F(ProviderRunnerTest, ABackOffIsBounded) {
  for (int i = 0; i < 12; ++i) cloud.create_answers.push_back(absl::UnavailableError("down"));
  Begin();
  runner->Create(CreateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.Creates() == 1; }));
  Pass(0);
  for (size_t tries = 2; tries <= 13; ++tries) {
    Pass(30'000);
    EXPECT_EQ(cloud.Creates(), tries);
  }
  EXPECT_TRUE(posted.WaitFor<core::InstanceCreated>(1));
}

TEST_F(ProviderRunnerTest, ALostReplyMakesNoSecondInstance) {
  cloud.loses_replies = true;
  cloud.create_answers = {absl::UnavailableError("the connection broke")};
  Begin();
  runner->Create(CreateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.Creates() == 1; }));
  Pass(0);
  Pass(200);
  ASSERT_TRUE(posted.WaitFor<core::InstanceCreated>(1));
  EXPECT_EQ(posted.Of<core::InstanceCreated>()[0].instance_id, "i-1");
  EXPECT_EQ(cloud.Get([&] { return cloud.made.size(); }), 1u);
  EXPECT_THAT(cloud.Get([&] { return cloud.creates; }), ElementsAre("cluster-1", "cluster-1"));
}

TEST_F(ProviderRunnerTest, NoCapacityAndAWrongRequestAreTheStatesToDecide) {
  cloud.create_answers = {absl::ResourceExhaustedError("no H100 in east-1a"), absl::InvalidArgumentError("unknown offer")};
  Begin();
  runner->Create(CreateOf(1));
  ASSERT_TRUE(posted.WaitFor<core::InstanceRefused>(1));
  runner->Create(CreateOf(2));
  ASSERT_TRUE(posted.WaitFor<core::InstanceRefused>(2));
  const auto refused = posted.Of<core::InstanceRefused>();
  EXPECT_EQ(refused[0].node, 1);
  EXPECT_EQ(refused[0].code, core::InstanceRefused::Code::kCapacity);
  EXPECT_EQ(refused[0].message, "no H100 in east-1a");
  EXPECT_EQ(refused[1].code, core::InstanceRefused::Code::kRejected);
  Pass(60'000);
  EXPECT_EQ(cloud.Creates(), 2u);
}

TEST_F(ProviderRunnerTest, ATerminationIsRepeatedUntilTheListingSaysThatItIsOver) {
  cloud.instances["burst-1"] = Alive{"i-1", "burst-1", true};
  cloud.terminate_answers = {absl::UnavailableError("down")};
  Begin();
  runner->Terminate(TerminateOf(1, "i-1"));
  ASSERT_TRUE(Eventually([&] { return cloud.Terminates() == 1; }));
  size_t tries = 1;
  for (const int64_t backoff_ms : {200, 400, 800}) {
    Pass(backoff_ms - 1);
    EXPECT_EQ(cloud.Terminates(), tries);
    Pass(1);
    EXPECT_EQ(cloud.Terminates(), ++tries);
  }
  cloud.Get([&] { return cloud.instances["burst-1"].alive = false; });
  Pass(1);
  Pass(60'000);
  Pass(60'000);
  EXPECT_EQ(cloud.Terminates(), tries) << "it is over";
}

// A twin was adopted under its instance's id, because its own name belongs to a living node.
TEST_F(ProviderRunnerTest, TheTerminationOfAnOrphanWithAnotherNameIsRepeatedToo) {
  cloud.instances["burst-1"] = Alive{"i-7", "burst-1", true};
  cloud.terminate_answers = {absl::UnavailableError("down"), absl::UnavailableError("down")};
  Begin();
  engine::TerminateOrder order = TerminateOf(2, "i-7");
  order.name = "i-7";
  runner->Terminate(order);
  ASSERT_TRUE(Eventually([&] { return cloud.Terminates() == 1; }));
  Pass(0);
  Pass(200);
  EXPECT_EQ(cloud.Terminates(), 2u);
  Pass(400);
  EXPECT_EQ(cloud.Terminates(), 3u);
  cloud.Get([&] { return cloud.instances["burst-1"].alive = false; });
  Pass(1);
  Pass(60'000);
  EXPECT_EQ(cloud.Terminates(), 3u) << "it is over";
}

TEST_F(ProviderRunnerTest, AListingBegunBeforeATerminationDoesNotEndIt) {
  cloud.hold_list = true;
  Begin();
  ASSERT_TRUE(Eventually([&] { return cloud.in_list == 1; }));
  // The listing under way does not show the instance; it was made after it began.
  cloud.Get([&] { return cloud.instances["burst-1"] = Alive{"i-1", "burst-1", true}, 0; });
  runner->Terminate(TerminateOf(1, "i-1"));
  cloud.hold_list = false;
  EXPECT_TRUE(Eventually([&] { return cloud.Terminates() == 1; }));
}

TEST_F(ProviderRunnerTest, ACreationThatTurnsIntoATerminationIsNotTriedAgain) {
  cloud.loses_replies = true;
  cloud.create_answers = {absl::UnavailableError("the connection broke")};
  Begin();
  runner->Create(CreateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.Creates() == 1; }));
  runner->Terminate(TerminateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.Terminates() == 1; }));
  runner->Create(CreateOf(1));  // late
  Pass(60'000);
  EXPECT_EQ(cloud.Creates(), 1u);
}

TEST_F(ProviderRunnerTest, AnInstanceMadeWhileItsEndWasOrderedIsEnded) {
  cloud.hold_create = true;
  Begin();
  runner->Create(CreateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.in_create == 1; }));
  runner->Terminate(TerminateOf(1));
  cloud.hold_create = false;
  ASSERT_TRUE(Eventually([&] { return cloud.Terminates() >= 1; }));
  EXPECT_EQ(cloud.Get([&] { return cloud.terminates[0]; }), "burst-1/i-1") << "by its id: the creation told it";
  ASSERT_TRUE(posted.WaitFor<core::InstanceCreated>(1));
}

TEST_F(ProviderRunnerTest, ATerminationOrderedAgainKnowsMore) {
  cloud.instances["burst-1"] = Alive{"i-1", "burst-1", true};
  Begin();
  runner->Terminate(TerminateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.Terminates() == 1; }));
  runner->Terminate(TerminateOf(1, "i-1"));
  Pass(200);
  EXPECT_THAT(cloud.Get([&] { return cloud.terminates; }), ElementsAre("burst-1/", "burst-1/i-1"));
}

TEST_F(ProviderRunnerTest, OneThatHasNoListingAndNoPricesIsNotAsked) {
  cloud.capabilities = {};
  Begin();
  runner->ListSoon();
  runner->Create(CreateOf(1));
  ASSERT_TRUE(Eventually([&] { return cloud.Creates() == 1; }));
  EXPECT_EQ(cloud.Get([&] { return cloud.lists + cloud.offer_lists; }), 0);
}

// --- the executor ---

TEST_F(ProviderRunnerTest, OrdersFromBeforeTheProviderWasMadeWaitForIt) {
  Executor executor;
  cloud.instances["burst-2"] = Alive{"i-2", "burst-2", true};
  executor.Create(CreateOf(1));
  executor.Terminate(TerminateOf(2, "i-2"));
  engine::TerminateOrder lost = TerminateOf(3);
  lost.provider = "gone-from-the-configuration";
  executor.Terminate(lost);
  executor.AskAbout("cloud");
  Begin();
  executor.AddProvider("cloud", std::move(runner));
  executor.AllAdded();
  EXPECT_TRUE(posted.WaitFor<core::InstanceCreated>(1));
  EXPECT_TRUE(Eventually([&] { return cloud.Terminates() == 1; }));
  executor.Create(CreateOf(4));
  EXPECT_TRUE(posted.WaitFor<core::InstanceCreated>(2));
  executor.Terminate(lost);
  executor.Stop();
  executor.Create(CreateOf(5));  // nobody is there any more, and nobody is harmed
  executor.Stop();
  EXPECT_EQ(cloud.Creates(), 2u);
}

}  // namespace
}  // namespace spillway::effects
