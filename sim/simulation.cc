#include "sim/simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/sha256.h"
#include "scheduler/engine/verify.h"
#include "sim/scheduler_edge.h"

namespace spillway::sim {
namespace {

constexpr int64_t kMinute = 60'000, kHour = 60 * kMinute;
constexpr int64_t kNothingEndsMsMax = 6 * kHour;  // a task runs for an hour and a half at most, but many may wait for one machine
constexpr int64_t kHealMsMax = 24 * kHour;
constexpr int64_t kGiB = int64_t{1} << 30;
const char kCloudName[] = "cloud";

core::Capacity Machine() {
  core::Capacity capacity;
  capacity.cpu_milli = 8'000;
  capacity.memory_bytes = 64 * kGiB;
  capacity.disk_bytes = 200 * kGiB;
  capacity.gpu_model = "H100";
  capacity.gpu_count = 4;
  capacity.gpu_memory_bytes = 80 * kGiB;
  return capacity;
}

core::Offer MakeOffer(const char* name, Market market, int64_t price_micros_per_hour, int64_t increment_ms, int64_t minimum_ms, int64_t notice_ms) {
  core::Offer offer;
  offer.provider = kCloudName;
  offer.name = name;
  offer.market = market;
  offer.instance_type = "gpu-4";
  offer.zone = "z1";
  offer.region = "r1";
  offer.capacity = Machine();
  offer.price_micros_per_hour = price_micros_per_hour;
  offer.billing = {increment_ms, minimum_ms};
  offer.notice_ms = notice_ms;
  return offer;
}

FaultPlan PlanOf(const SimOptions& options) {
  FaultPlan plan = options.plan.has_value() ? *options.plan : FaultPlan::Draw(options.seed);
  if (options.bias) options.bias(&plan);
  return plan;
}

}  // namespace

Simulation::Simulation(SimOptions options, Observer* observer)
    : options_(std::move(options)),
      plan_(PlanOf(options_)),
      world_(options_.seed),
      observer_(observer),
      rng_(world_.Luck("set-up")),
      network_(&world_, &faults_),
      store_(&world_, observer) {
  world_.TraceTo(options_.trace);
}

Simulation::~Simulation() = default;

// ---- the parts ----

void Simulation::MakeScheduler() {
  disk_ = plan_.power_losses && options_.make_power_disk ? options_.make_power_disk(options_.seed, !options_.hooks.unsynced) : std::make_unique<MemoryDisk>();
  clock_ = std::make_unique<HostClock>(&world_, plan_.rate_ppm_max > 0 ? rng_.Between(-plan_.rate_ppm_max, plan_.rate_ppm_max) : 0);
  SchedulerHost::Surroundings around;
  around.world = &world_;
  around.observer = observer_;
  around.faults = &faults_;
  around.hooks = &options_.hooks;
  around.disk = disk_.get();
  around.clock = clock_.get();
  around.configuration.cluster_uuid = absl::StrCat("cluster-", options_.seed);
  core::ProviderInfo fixed;
  fixed.name = fixed.kind = "static";
  core::ProviderInfo cloud;
  cloud.name = kCloudName;
  cloud.kind = "sim";
  cloud.can_create = cloud.can_testify = true;
  cloud.max_nodes = rng_.Between(2, 8);
  around.configuration.providers = {fixed, cloud};
  core::Reservation reservation;
  reservation.name = "bought";
  reservation.price_micros_per_hour = 1'234'567;
  for (int64_t i = 1; i <= plan_.static_nodes; i += 2) reservation.nodes.insert(absl::StrCat("s", i));
  around.configuration.reservations = {reservation};
  around.make_sinks = [this] {
    SchedulerHost::Sinks sinks;
    sinks.sessions = std::make_unique<SchedulerEdge>(&world_, &network_, host_.get(), &options_.hooks);
    auto effects = std::make_unique<SimEffects>(EffectsSetup{&world_, host_.get(), &store_, observer_, &faults_, &options_.hooks});
    effects->AddCloud(cloud_.get());
    sinks.effects = std::move(effects);
    return sinks;
  };
  around.began = [this] { network_.Listen(static_cast<SchedulerEdge*>(host_->sessions())); };
  around.died = [this] { network_.Listen(nullptr); };
  engine::Options engine;
  engine.policy = plan_.policy;
  if (options_.hooks.policy) options_.hooks.policy(&engine.policy);
  engine.snapshot_every = rng_.Between(50, 400);
  engine.check_invariants_every = 1'000'000;  // the observer looks after every turn
  engine.rederive_effects_every = rng_.Chance(0.5) ? 1'024 : rng_.Between(20, 200);
  engine.in_flight_max = static_cast<size_t>(rng_.Between(1, 4));
  host_ = std::make_unique<SchedulerHost>(std::move(around), engine);
}

SimNode::Surroundings Simulation::NodeSurroundings() {
  SimNode::Surroundings around;
  around.world = &world_;
  around.network = &network_;
  around.store = &store_;
  around.observer = observer_;
  around.faults = &faults_;
  around.bugs = &options_.hooks.node;
  return around;
}

void Simulation::MakeNodes() {
  for (int64_t i = 1; i <= plan_.static_nodes; ++i) {
    NodeSetup setup;
    setup.name = absl::StrCat("s", i);
    setup.provider = "static";
    setup.capacity = Machine();
    setup.zero_ms = rng_.Between(1'000, 100'000'000);
    setup.rate_ppm = plan_.rate_ppm_max > 0 ? rng_.Between(-plan_.rate_ppm_max, plan_.rate_ppm_max) : 0;
    SimNode::Surroundings around = NodeSurroundings();
    around.left = [](SimNode* node) { node->WorkerComesBack(30'000); };  // its service manager
    static_nodes_.push_back(std::make_unique<SimNode>(std::move(around), std::move(setup)));
    world_.After(rng_.Between(0, kMinute), [node = static_nodes_.back().get()] { node->PowerOn(); });
  }
}

std::unique_ptr<SimNode> Simulation::MakeMachine(const Instance& instance) {
  NodeSetup setup;
  setup.name = instance.name;
  setup.provider = kCloudName;
  setup.instance_id = instance.id;
  setup.zone = instance.offer.zone;
  setup.region = instance.offer.region;
  setup.market = instance.offer.market;
  setup.capacity = instance.offer.capacity;
  Rng luck = world_.Luck(instance.id);
  setup.zero_ms = luck.Between(1'000, 100'000'000);
  setup.rate_ppm = plan_.rate_ppm_max > 0 ? luck.Between(-plan_.rate_ppm_max, plan_.rate_ppm_max) : 0;
  SimNode::Surroundings around = NodeSurroundings();
  around.left = [this](SimNode* node) { cloud_->EndFromInside(node); };
  return std::make_unique<SimNode>(std::move(around), std::move(setup));
}

void Simulation::MakeCloud() {
  static constexpr int64_t kIncrements[] = {1, 1'000, kMinute, kHour};
  static constexpr int64_t kNotices[] = {120'000, 30'000, 0};
  const auto increment = [&] { return kIncrements[rng_.Below(4)]; };
  std::vector<SimCloud::Market> markets;
  markets.push_back({MakeOffer("on-demand", Market::kOnDemand, 4'000'000, increment(), rng_.Chance(0.3) ? kMinute : 0, 0), SpotModel::Never(), false});
  if (plan_.spot) {
    for (const char* name : {"spot-a", "spot-b"}) {
      markets.push_back({MakeOffer(name, Market::kSpot, rng_.Between(900'000, 1'900'000), increment(), 0, kNotices[rng_.Below(3)]),
                         SpotModel::MeanLifetime(plan_.spot_mean_ms, SpotSeed(options_.seed, name)), plan_.lingering_notice});
    }
  }
  cloud_ = std::make_unique<SimCloud>(&world_, observer_, &faults_, kCloudName, std::move(markets),
                                      [this](const Instance& instance) { return MakeMachine(instance); });
}

// ---- the order of things ----

SimResult Simulation::Run() {
  MakeScheduler();
  MakeCloud();
  MakeNodes();
  users_ = std::make_unique<SimUsers>(SimUsers::Surroundings{&world_, host_.get(), observer_, &faults_, &options_.hooks});
  FaultInjector::Targets targets{&world_, &network_, &store_, host_.get(), users_.get(), cloud_.get(), {}};
  for (const auto& node : static_nodes_) targets.static_nodes.push_back(node.get());
  injector_ = std::make_unique<FaultInjector>(std::move(targets), plan_);

  host_->Start();
  Day();
  Heal();
  const int64_t calm_from_ms = world_.now_ms();
  int64_t give_up_ms = calm_from_ms + kNothingEndsMsMax;
  for (int64_t least_left = std::numeric_limits<int64_t>::max(); world_.failure().empty() && !AllEnded();) {
    if (const int64_t left = TasksLeft(); left < least_left) {
      least_left = left;
      give_up_ms = std::min(world_.now_ms() + kNothingEndsMsMax, calm_from_ms + kHealMsMax);
    }
    if (world_.now_ms() >= give_up_ms) break;
    world_.RunUntil(world_.now_ms() + kMinute);
    observer_->Calm(world_.now_ms() - calm_from_ms, *this);
  }
  if (world_.failure().empty() && !AllEnded()) world_.Fail(absl::StrCat("the storm is long over and not everything has ended: ", WhatIsLeft()));
  if (world_.failure().empty()) CheckStore();

  SimResult result;
  result.failure = world_.failure();
  result.failed_ms = world_.now_ms() - World::kStartMs;
  result.reached = world_.reached();
  result.plan = plan_;
  if (host_->up()) {
    result.chain_hash = HexOf(host_->store()->last_hash());
    result.turns = host_->store()->last_seq();
    result.jobs = host_->engine()->state().meta.next_job - 1;
  }
  result.steps = world_.steps();
  result.simulated_ms = world_.now_ms() - World::kStartMs;
  return result;
}

void Simulation::Day() {
  faults_.reclaims = plan_.faults.reclaims;
  KeepBusy();
  for (const Storm& storm : plan_.storms) {
    const int64_t begin_ms = World::kStartMs + storm.begin_min * kMinute;
    Lull(begin_ms);
    BeginStorm();
    world_.RunUntil(begin_ms + storm.minutes * kMinute);
    EndStorm();
  }
  Lull(World::kStartMs + plan_.day_min * kMinute);
}

// A lull. What must come true while nothing goes wrong is asked for every minute, counted from when the scheduler came back.
void Simulation::Lull(int64_t until_ms) {
  int64_t from_ms = world_.now_ms();
  while (world_.failure().empty() && world_.now_ms() < until_ms) {
    world_.RunUntil(std::min(until_ms, world_.now_ms() + kMinute));
    if (!host_->up()) from_ms = world_.now_ms();
    if (host_->up()) observer_->Calm(world_.now_ms() - from_ms, *this);
  }
}

void Simulation::BeginStorm() {
  if (!world_.failure().empty()) return;
  world_.Trace("a storm begins");
  storm_ = true;
  faults_ = plan_.faults;
  injector_->Begin();
}

void Simulation::EndStorm() {
  if (!world_.failure().empty()) return;
  world_.Trace("the storm is over");
  storm_ = false;
  faults_ = Faults();
  faults_.reclaims = plan_.faults.reclaims;
  injector_->End();
}

// The load never runs dry: whenever less is under way than there should be, somebody submits a job.
void Simulation::KeepBusy() {
  if (day_is_over_) return;
  const size_t wanted = static_cast<size_t>(storm_ ? plan_.jobs : (plan_.jobs + 2) / 3);
  if (users_->under_way() < wanted && users_->made() < plan_.jobs_max) users_->SubmitOne(storm_);
  world_.After(rng_.Between(storm_ ? 1'000 : 20'000, storm_ ? 2 * kMinute : 6 * kMinute), [this] { KeepBusy(); });
}

void Simulation::Heal() {
  if (!world_.failure().empty()) return;
  world_.Trace("the day is over");
  day_is_over_ = true;
  faults_.reclaims = false;
  host_->Start();
  for (const auto& node : static_nodes_) node->PowerOn();
  users_->GiveUpEndless();
  // Drains and pauses were people's; they are taken back until nothing is left of them.
  for (int64_t i = 0; i < 60; ++i) {
    world_.After(i * kMinute, [this] {
      users_->UncordonAll();
      users_->ResumeAll();
    });
  }
}

int64_t Simulation::TasksLeft() const {
  if (!host_->up()) return std::numeric_limits<int64_t>::max();
  int64_t left = 0;
  for (const auto& [id, live] : host_->engine()->state().jobs) left += live.job.counts.queued + live.job.counts.held + live.job.counts.active;
  return left;
}

bool Simulation::AllEnded() const {
  if (!host_->up() || users_->unanswered() > 0 || cloud_->living() > 0) return false;
  const core::State& state = host_->engine()->state();
  if (!state.jobs.empty() || host_->engine()->in_flight() > 0) return false;
  for (const auto& [id, node] : state.nodes) {
    if (node.owned) return false;
  }
  return std::all_of(static_nodes_.begin(), static_nodes_.end(), [](const auto& node) { return node->in_session() && node->living_processes() == 0; });
}

std::string Simulation::WhatIsLeft() const {
  if (!host_->up()) return "the scheduler is down";
  std::string left;
  if (users_->unanswered() > 0) absl::StrAppend(&left, users_->unanswered(), " submissions unanswered; ");
  const core::State& state = host_->engine()->state();
  for (const auto& [id, live] : state.jobs) {
    for (const auto& [index, task] : live.tasks) {
      absl::StrAppend(&left, "task ", task.id.ToString(), " ", std::string(Name(task.state)));
      if (task.attempt)
        absl::StrAppend(&left, " @", task.attempt->number, " ", std::string(Name(task.attempt->state)), " on node ", task.attempt->members.at(0).node);
      for (const core::Why& why : core::Explain(state, host_->engine()->soft(), plan_.policy, task.id, state.meta.now_ms))
        absl::StrAppend(&left, " (", why.message, ")");
      absl::StrAppend(&left, "; ");
    }
    if (live.job.next_index >= live.job.task_count) continue;
    absl::StrAppend(&left, "job ", id, " has tasks that never began");
    for (const core::Why& why : core::Explain(state, host_->engine()->soft(), plan_.policy, {id, live.job.next_index}, state.meta.now_ms))
      absl::StrAppend(&left, " (", why.message, ")");
    absl::StrAppend(&left, "; ");
  }
  for (const auto& [id, node] : state.nodes) {
    if (node.owned) absl::StrAppend(&left, "node ", id, " ", node.name, " ", std::string(Name(node.state)), " ", node.instance_id, " (", node.reason, "); ");
  }
  for (const auto& [id, instance] : cloud_->instances()) {
    if (instance->ended_ms == 0)
      absl::StrAppend(&left, "instance ", id, " ", instance->name, " lives", instance->machine->in_session() ? " in a session; " : "; ");
  }
  for (const auto& node : static_nodes_) {
    if (!node->in_session()) absl::StrAppend(&left, node->name(), node->powered() ? " has no session; " : " is off; ");
    if (node->living_processes() > 0) absl::StrAppend(&left, node->living_processes(), " processes live on ", node->name(), "; ");
  }
  return left;
}

void Simulation::CheckStore() {
  const auto verified = engine::Verify(host_->store());
  if (!verified.ok()) return world_.Fail(std::string(verified.status().message()));
  if (verified->snapshots > 0) world_.Reach("a snapshot was compared with what the events give");
  if (verified->from_seq > 0) world_.Reach("old events were pruned");
}

}  // namespace spillway::sim
