// What every provider that creates nodes must do, tried on each with real processes: instances are made once a token, listed, ended whole, told when they
// die by themselves, and kept apart by cluster. A provider joins by a World: how it is made, and how the test sees what really lives.
#include <signal.h>

#include <map>
#include <memory>

#include "absl/strings/str_split.h"
#include "base/ids.h"
#include "base/status_matchers.h"
#include "scheduler/provider/registry.h"
#include "tests/playground/playground_process.h"

namespace spillway::provider {
namespace {

using playground::Eventually;
using playground::PlaygroundProcess;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;
using Instance = core::InstanceListing::Instance;

constexpr int64_t kPlaces = 2;

engine::CreateOrder CreateOf(const Surroundings& surroundings, const core::Offer& offer, NodeId id) {
  engine::CreateOrder order;
  order.node.id = id;
  order.node.name = absl::StrCat("burst-", id);
  order.node.provider = offer.provider;
  order.node.offer = offer.name;
  order.offer = offer;
  order.client_token = absl::StrCat(surroundings.cluster_uuid, "-", id);
  return order;
}
engine::TerminateOrder TerminateOf(const engine::CreateOrder& order, const std::string& instance_id) {
  return {order.node.id, order.node.provider, order.node.name, instance_id, order.client_token};
}

std::string ProgramOf(pid_t pid) {
  const std::string command = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"), 1 << 20).value_or("");
  const std::string path = command.substr(0, command.find('\0'));
  return path.substr(path.rfind('/') + 1);
}

pid_t ParentOf(pid_t pid) {
  const std::string status = ReadFile(absl::StrCat("/proc/", pid, "/status"), 1 << 20).value_or("");
  const size_t at = status.find("\nPPid:");
  return at == std::string::npos ? 0 : atoi(status.c_str() + at + 6);
}

class World {
 public:
  virtual ~World() = default;
  // A provider as a scheduler that just started would make it.
  virtual std::unique_ptr<Provider> Make(const Surroundings& surroundings) = 0;
  // Everything that lives of a node, supervisor and worker included.
  virtual std::vector<pid_t> ProcessesOf(const std::string& node_name, const std::string& instance_id) = 0;
  // Its worker and supervisor, by their programs. What either forked and still shows its parent's program, between fork and exec or in the supervisor's
  // trial of its cgroups, is none of the two.
  std::map<std::string, pid_t> ProgramsOf(const std::string& node_name, const std::string& instance_id) {
    std::map<std::string, pid_t> programs;
    for (const pid_t pid : ProcessesOf(node_name, instance_id)) {
      const pid_t parent = ParentOf(pid);  // asked first: what has ended meanwhile has no program any more
      const std::string program = ProgramOf(pid);
      if ((program == "spillway-worker" || program == "spillway-supervisor") && ProgramOf(parent) != program) programs[program] = pid;
    }
    return programs;
  }
  bool Up(const std::string& node_name, const std::string& instance_id) { return ProgramsOf(node_name, instance_id).size() == 2; }
  const std::string& folder() const { return folder_.path(); }

 protected:
  TemporaryFolder folder_;
};

v1::ProviderConfig ConfigOf(const std::string& kind) {
  v1::ProviderConfig config;
  config.set_name(kind);
  config.set_kind(kind);
  return config;
}

// Processes with exactly this argument.
std::vector<pid_t> ProcessesWithArgument(const std::string& argument) {
  std::vector<pid_t> found;
  const std::vector<std::string> names = ListDirectory("/proc").value();
  for (const std::string& name : names) {
    const pid_t pid = atoi(name.c_str());
    if (pid <= 0) continue;
    const absl::StatusOr<std::string> command = ReadFile(absl::StrCat("/proc/", name, "/cmdline"), 1 << 20);
    if (!command.ok()) continue;
    for (absl::string_view one : absl::StrSplit(*command, '\0')) {
      if (one == argument) {
        found.push_back(pid);
        break;
      }
    }
  }
  return found;
}

class LocalWorld final : public World {
 public:
  ~LocalWorld() override {
    // Whatever a failed test left running.
    for (const std::string& node : ListDirectory(JoinPath(folder(), "nodes")).value_or(std::vector<std::string>())) {
      for (const pid_t pid : ProcessesWithArgument(JoinPath(folder(), "nodes/" + node))) kill(pid, SIGKILL);
    }
  }
  std::unique_ptr<Provider> Make(const Surroundings& surroundings) override {
    v1::ProviderConfig config = ConfigOf("local");
    config.set_nodes(kPlaces);
    config.mutable_resources()->set_cpu_milli(1'050);
    config.mutable_resources()->set_memory_bytes(100 << 20);
    return MakeProvider(config, surroundings).value();
  }
  std::vector<pid_t> ProcessesOf(const std::string& node_name, const std::string&) override {
    return ProcessesWithArgument(JoinPath(folder(), "nodes/local-" + node_name));
  }
};

class PlaygroundWorld final : public World {
 public:
  PlaygroundWorld()
      : cloud_(folder(),
               "- {name: metered, market: spot, zone: z1, region: r1, cpus: 2, memory: 4GB, price_per_hour: \"3.60\", billing: {increment: 1ms}, capacity: 2, "
               "notice: 120s, reclaim: none}\n",
               {"--terminate-on-exit"}) {}
  ~PlaygroundWorld() override { cloud_.Signal(SIGTERM); }
  std::unique_ptr<Provider> Make(const Surroundings& surroundings) override {
    v1::ProviderConfig config = ConfigOf("playground");
    config.set_url(absl::StrCat("http://127.0.0.1:", cloud_.port()));
    config.set_token_file(JoinPath(folder(), "playground.token"));
    return MakeProvider(config, surroundings).value();
  }
  std::vector<pid_t> ProcessesOf(const std::string&, const std::string& instance_id) override {
    return playground::ProcessesWith(cloud_.MarkerOf(instance_id));
  }
  PlaygroundProcess& cloud() { return cloud_; }

 private:
  PlaygroundProcess cloud_;
};

class ProviderConformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "local") {
      world = std::make_unique<LocalWorld>();
    } else {
      auto made = std::make_unique<PlaygroundWorld>();
      playground = made.get();
      world = std::move(made);
    }
    ASSERT_OK(WriteFileAtomically(JoinPath(world->folder(), "worker.token"), "0123456789abcdef0123456789abcdef\n", 0600));
    // Nobody listens there: a worker keeps trying, which is all that is needed of it here.
    surroundings = {world->folder(), NewUuid(), "127.0.0.1:9", JoinPath(world->folder(), "worker.token"), getenv("SPILLWAY_BIN")};
    provider = world->Make(surroundings);
    auto offers = provider->ListOffers();
    ASSERT_OK(offers);
    ASSERT_EQ(offers->size(), 1u);
    offer = offers->front();
  }
  void TearDown() override {
    provider = world->Make(surroundings);
    EXPECT_TRUE(Eventually([&] {
      bool none = true;
      for (const Instance& instance : Listed()) {
        if (!instance.alive) continue;
        none = false;
        EXPECT_OK(provider->Terminate({0, offer.provider, instance.name, instance.instance_id, ""}));
      }
      return none;
    }));
  }

  std::vector<Instance> Listed() {
    const auto listing = provider->List();
    EXPECT_OK(listing.status());
    return listing.ok() ? listing->instances : std::vector<Instance>();
  }
  std::optional<Instance> Find(const std::string& name) {
    for (const Instance& instance : Listed()) {
      if (instance.name == name) return instance;
    }
    return std::nullopt;
  }
  bool AliveInListing(const std::string& name) {
    const auto found = Find(name);
    return found && found->alive;
  }
  // Creates and waits until it is really up.
  std::string Boot(const engine::CreateOrder& order) {
    const auto id = provider->Create(order);
    EXPECT_OK(id);
    if (!id.ok()) return "";
    EXPECT_TRUE(Eventually([&] { return world->Up(order.node.name, *id); }, 30)) << order.node.name << " does not come up";
    return *id;
  }
  // What the runner does: repeats the wish until the listing says that it is over.
  bool EndNode(const engine::TerminateOrder& order) {
    return Eventually(
        [&] {
          EXPECT_OK(provider->Terminate(order));
          return !AliveInListing(order.name);
        },
        30);
  }

  std::unique_ptr<World> world;
  PlaygroundWorld* playground = nullptr;
  Surroundings surroundings;
  std::unique_ptr<Provider> provider;
  core::Offer offer;
};

TEST_P(ProviderConformance, CapabilitiesAndOffersAreWhole) {
  EXPECT_TRUE(provider->capabilities().create && provider->capabilities().testify && provider->capabilities().offers);
  EXPECT_EQ(offer.provider, provider->name());
  EXPECT_NE(offer.name, "");
  EXPECT_NE(offer.market, Market::kUnspecified);
  EXPECT_GT(offer.capacity.cpu_milli, 0);
  EXPECT_GT(offer.capacity.memory_bytes, 0);
  EXPECT_GE(offer.price_micros_per_hour, 0);
  EXPECT_GE(offer.billing.increment_ms, 1);
  EXPECT_EQ(offer.available, kPlaces);
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_P(ProviderConformance, OneTokenOneInstanceHoweverOftenItIsAskedFor) {
  const engine::CreateOrder order = CreateOf(surroundings, offer, 1);
  ASSERT_OK_AND_ASSIGN(const std::string id, provider->Create(order));
  ASSERT_OK_AND_ASSIGN(const std::string again, provider->Create(order));
  EXPECT_EQ(again, id);
  EXPECT_TRUE(Eventually([&] { return world->Up("burst-1", id); }, 30));
  ASSERT_OK_AND_ASSIGN(const std::string later, provider->Create(order));
  EXPECT_EQ(later, id);
  const std::vector<Instance> listed = Listed();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].instance_id, id);
  EXPECT_EQ(listed[0].name, "burst-1");
  EXPECT_TRUE(listed[0].alive);
  EXPECT_EQ(listed[0].notice_in_ms, -1);
  EXPECT_EQ(provider->ListOffers()->front().available, kPlaces - 1);
}

TEST_P(ProviderConformance, AnEndedInstanceLeavesNothingBehindAndItsPlaceIsFree) {
  const engine::CreateOrder order = CreateOf(surroundings, offer, 1);
  const std::string id = Boot(order);
  ASSERT_TRUE(EndNode(TerminateOf(order, id)));
  EXPECT_THAT(world->ProcessesOf("burst-1", id), IsEmpty()) << "not alive in the listing means dead";
  EXPECT_OK(provider->Terminate(TerminateOf(order, id))) << "ending what has ended is fine";
  EXPECT_FALSE(AliveInListing("burst-1"));
  EXPECT_EQ(provider->ListOffers()->front().available, kPlaces);
  if (GetParam() == "local") {
    EXPECT_THAT(*ListDirectory(JoinPath(surroundings.home, "nodes")), IsEmpty()) << "its folder is gone";
  }
}

TEST_P(ProviderConformance, WhatNobodyKnowsCountsAsGone) {
  EXPECT_OK(provider->Terminate(TerminateOf(CreateOf(surroundings, offer, 99), "")));
  EXPECT_OK(provider->Terminate(TerminateOf(CreateOf(surroundings, offer, 99), "never-was")));
}

TEST_P(ProviderConformance, TheNameAloneEndsAnInstanceWhoseIdWasLost) {
  const engine::CreateOrder order = CreateOf(surroundings, offer, 1);
  const std::string id = Boot(order);
  ASSERT_TRUE(EndNode(TerminateOf(order, "")));
  EXPECT_THAT(world->ProcessesOf("burst-1", id), IsEmpty());
}

TEST_P(ProviderConformance, NoPlaceIsNoCapacityUntilOneIsFree) {
  const engine::CreateOrder first = CreateOf(surroundings, offer, 1);
  ASSERT_OK_AND_ASSIGN(const std::string id, provider->Create(first));
  ASSERT_OK(provider->Create(CreateOf(surroundings, offer, 2)));
  EXPECT_THAT(provider->Create(CreateOf(surroundings, offer, 3)), StatusIs(Code::kResourceExhausted, ::testing::_));
  EXPECT_FALSE(Find("burst-3").has_value()) << "a refusal leaves nothing";
  ASSERT_TRUE(EndNode(TerminateOf(first, id)));
  EXPECT_OK(provider->Create(CreateOf(surroundings, offer, 3)));
}

TEST_P(ProviderConformance, ASchedulerThatStartedAnewFindsItsInstances) {
  const engine::CreateOrder order = CreateOf(surroundings, offer, 1);
  const std::string id = Boot(order);
  const std::map<std::string, pid_t> before = world->ProgramsOf("burst-1", id);
  provider = world->Make(surroundings);
  EXPECT_TRUE(AliveInListing("burst-1"));
  ASSERT_OK_AND_ASSIGN(const std::string again, provider->Create(order));
  EXPECT_EQ(again, id);
  EXPECT_EQ(world->ProgramsOf("burst-1", id), before) << "nothing was started again";
  EXPECT_TRUE(EndNode(TerminateOf(order, id)));
}

TEST_P(ProviderConformance, AnotherClustersInstancesAreNotOurs) {
  const engine::CreateOrder order = CreateOf(surroundings, offer, 1);
  const std::string id = Boot(order);
  Surroundings others = surroundings;
  others.cluster_uuid = NewUuid();
  const std::unique_ptr<Provider> stranger = world->Make(others);
  EXPECT_THAT(stranger->List()->instances, IsEmpty());
  EXPECT_OK(stranger->Terminate(TerminateOf(order, "")));
  EXPECT_TRUE(AliveInListing("burst-1"));
  EXPECT_TRUE(world->Up("burst-1", id));
}

TEST_P(ProviderConformance, AMachineThatDiesIsToldWithAReasonAndFreesItsPlace) {
  const engine::CreateOrder order = CreateOf(surroundings, offer, 1);
  const std::string id = Boot(order);
  // Dead before it is looked at: a machine whose supervisor is still ending when its worker is gone is given a new worker, and lives on.
  ASSERT_TRUE(Eventually([&] {
    const std::vector<pid_t> living = world->ProcessesOf("burst-1", id);
    for (const pid_t pid : living) kill(pid, SIGKILL);
    return living.empty();
  }));
  std::optional<Instance> told;
  ASSERT_TRUE(Eventually([&] {
    told = Find("burst-1");
    return told && !told->alive;
  })) << "its end must be seen, not only its absence";
  EXPECT_NE(told->reason, "");
  EXPECT_GE(told->billed_micros, 0);
  EXPECT_EQ(provider->ListOffers()->front().available, kPlaces);
  EXPECT_OK(provider->Create(CreateOf(surroundings, offer, 2)));
}

TEST_P(ProviderConformance, WhatLivesOnlyHereIsTriedOnlyHere) {
  if (GetParam() == "local") {
    // A worker that died while its supervisor lives is started again; the supervisor, which owns the jobs, goes on.
    const engine::CreateOrder order = CreateOf(surroundings, offer, 1);
    const std::string id = Boot(order), home = JoinPath(surroundings.home, "nodes/local-burst-1");
    const auto pid_in = [&](const char* file) { return atoi(ReadFile(JoinPath(home, file)).value_or("0").c_str()); };
    ASSERT_TRUE(Eventually([&] { return pid_in("worker.pid") > 0 && pid_in("supervisor.pid") > 0; }));
    const pid_t worker = pid_in("worker.pid"), supervisor = pid_in("supervisor.pid");
    kill(worker, SIGKILL);
    EXPECT_TRUE(Eventually([&] { return AliveInListing("burst-1") && pid_in("worker.pid") > 0 && pid_in("worker.pid") != worker; }, 30));
    EXPECT_EQ(pid_in("supervisor.pid"), supervisor);
    // The declared resources arrive exactly: 1.05 cores are not 1.5.
    EXPECT_FALSE(ProcessesWithArgument("cpus=1.050,memory=104857600B,gpu=none").empty());
    return;
  }
  // The cloud's own ends, its errors, its silence.
  engine::CreateOrder order = CreateOf(surroundings, offer, 1);
  order.offer.name = "meterd";
  EXPECT_THAT(provider->Create(order), StatusIs(Code::kInvalidArgument, HasSubstr("metered")));
  order.offer.name = offer.name;
  const std::string id = Boot(order);
  EXPECT_EQ(playground->cloud().Call("POST", "/v1/instances/" + id + "/reclaim", {{"notice", "60s"}}).status, 200);
  const auto noticed = Find("burst-1");
  ASSERT_TRUE(noticed.has_value());
  EXPECT_TRUE(noticed->alive);
  EXPECT_GT(noticed->notice_in_ms, 0);
  EXPECT_LE(noticed->notice_in_ms, 60'000);
  EXPECT_EQ(playground->cloud().Call("POST", "/v1/instances/" + id + "/reclaim", {{"notice", "0s"}}).status, 200);
  ASSERT_TRUE(Eventually([&] { return !AliveInListing("burst-1"); }));
  const auto taken = Find("burst-1");
  ASSERT_TRUE(taken.has_value());
  EXPECT_TRUE(taken->reclaimed);
  EXPECT_GT(taken->billed_micros, 0) << "the cloud's bill is final";
  EXPECT_THAT(world->ProcessesOf("burst-1", id), IsEmpty());

  ASSERT_OK(WriteFileAtomically(JoinPath(world->folder(), "wrong.token"), "wrong\n", 0600));
  v1::ProviderConfig config = ConfigOf("playground");
  config.set_url(absl::StrCat("http://127.0.0.1:", playground->cloud().port(), "/"));
  config.set_token_file(JoinPath(world->folder(), "wrong.token"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Provider> locked_out, MakeProvider(config, surroundings));
  EXPECT_THAT(locked_out->List(), StatusIs(Code::kUnauthenticated, ::testing::_));
  // Out of reach is no word about anything.
  config.set_url("http://127.0.0.1:9");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Provider> nowhere, MakeProvider(config, surroundings));
  EXPECT_THAT(nowhere->List(), StatusIs(Code::kUnavailable, HasSubstr("127.0.0.1:9")));
  EXPECT_THAT(nowhere->ListOffers(), StatusIs(Code::kUnavailable, ::testing::_));
  EXPECT_THAT(nowhere->Create(order), StatusIs(Code::kUnavailable, ::testing::_));
  EXPECT_THAT(nowhere->Terminate(TerminateOf(order, id)), StatusIs(Code::kUnavailable, ::testing::_));
}

INSTANTIATE_TEST_SUITE_P(Providers, ProviderConformance, ::testing::Values("local", "playground"), [](const auto& info) { return info.param; });

// --- the registry ---

TEST(Registry, ConfigurationsThatMakeNoSenseAreRefusedByName) {
  const Surroundings surroundings{"/nowhere", "cluster", "127.0.0.1:1", "/nowhere/token", "/nowhere/bin"};
  const auto refused = [&](const std::function<void(v1::ProviderConfig*)>& change) {
    v1::ProviderConfig config = ConfigOf("playground");
    change(&config);
    return MakeProvider(config, surroundings).status();
  };
  using C = v1::ProviderConfig*;
  EXPECT_THAT(refused([](C c) { c->set_kind("playgroud"); }), StatusIs(Code::kInvalidArgument, HasSubstr("did you mean playground")));
  EXPECT_THAT(refused([](C c) { c->set_kind("local"); }), StatusIs(Code::kInvalidArgument, HasSubstr("nodes")));
  EXPECT_THAT(refused([](C c) { c->set_url("https://127.0.0.1:1"); }), StatusIs(Code::kInvalidArgument, HasSubstr("http://HOST:PORT")));
  EXPECT_THAT(refused([](C c) { c->set_url("http://127.0.0.1"); }), StatusIs(Code::kInvalidArgument, HasSubstr("http://HOST:PORT")));
  EXPECT_THAT(refused([](C c) { c->set_url("http://127.0.0.1:99999"); }), StatusIs(Code::kInvalidArgument, HasSubstr("http://HOST:PORT")));
  EXPECT_THAT(refused([](C c) { c->set_url("http://127.0.0.1:1"); }), StatusIs(Code::kInvalidArgument, HasSubstr("token_file")));
}

TEST(Registry, AStaticProviderMakesNothing) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Provider> fixed, MakeProvider(ConfigOf("static"), {}));
  EXPECT_FALSE(fixed->capabilities().create || fixed->capabilities().testify || fixed->capabilities().offers);
  EXPECT_THAT(fixed->Create({}), StatusIs(Code::kInvalidArgument, HasSubstr("register themselves")));
  EXPECT_OK(fixed->Terminate({}));
  EXPECT_FALSE(fixed->List().ok());
  const core::ProviderInfo info = InfoOf(ConfigOf("static"), *fixed);
  EXPECT_EQ(info.name, "static");
  EXPECT_FALSE(info.can_create);
  EXPECT_GT(info.idle_release_ms, 0);
}

}  // namespace
}  // namespace spillway::provider
