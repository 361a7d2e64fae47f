#include "sim/fault_injector.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim {

FaultInjector::FaultInjector(Targets targets, const FaultPlan& plan) : targets_(std::move(targets)), plan_(plan) {
  const Rates& r = plan_.rates;
  const double nodes = static_cast<double>(targets_.static_nodes.size()) + 1;
  Add("a stream breaks", r.stream_breaks * nodes, &FaultInjector::BreakAStream);
  Add("a link is cut", r.link_cuts * nodes, &FaultInjector::CutALink);
  Add("a link flaps", r.link_flaps * nodes, &FaultInjector::FlapALink);
  Add("all links are cut", r.all_links_cut, &FaultInjector::CutAllLinks);
  Add("links are cut one by one", r.swizzles, &FaultInjector::Swizzle);
  Add("a machine dies", r.machine_dies * nodes, &FaultInjector::KillAMachine);
  Add("a machine freezes", r.machine_freezes * nodes, &FaultInjector::FreezeAMachine);
  Add("a worker dies", r.worker_dies * nodes, &FaultInjector::KillAWorker);
  Add("a worker is paused", r.worker_pauses * nodes, &FaultInjector::PauseAWorker);
  Add("a supervisor dies", r.supervisor_dies * nodes, &FaultInjector::KillASupervisor);
  Add("the store is cut off", r.store_cut, &FaultInjector::CutTheStore);
  Add("a checkpoint is damaged", r.damage, &FaultInjector::DamageACheckpoint);
  Add("the cloud is cut off", r.cloud_cut, &FaultInjector::CutTheCloud);
  Add("a stray appears", r.strays, &FaultInjector::MakeAStray);
  Add("the scheduler dies", r.scheduler_dies, &FaultInjector::KillTheScheduler);
  Add("the engine stalls", r.engine_stalls, &FaultInjector::StallTheEngine);
  Add("the disk is full", r.disk_full, &FaultInjector::FillTheDisk);
  Add("the clock is set", r.clock_set, &FaultInjector::SetTheClock);
  Add("a node is drained", r.drains, &FaultInjector::DrainANode);
  Add("a task is preempted", r.preempts, &FaultInjector::PreemptATask);
  Add("a job is cancelled", r.cancels, &FaultInjector::CancelAJob);
  Add("a job is paused", r.pauses, &FaultInjector::PauseAJob);
  Add("a job's priority is changed", r.updates, &FaultInjector::UpdateAJob);
}

void FaultInjector::Add(const char* name, double per_hour, void (FaultInjector::*happens)(Rng*)) {
  if (per_hour > 0) kinds_.push_back({per_hour, happens, targets_.world->Luck(name)});
}

void FaultInjector::Begin() {
  for (Kind& kind : kinds_) Next(&kind);
}

void FaultInjector::Next(Kind* kind) {
  const double hours = -std::log(1.0 - kind->luck.Unit()) / kind->per_hour;
  targets_.world->After(std::max<int64_t>(1, std::llround(hours * 3'600'000)), storm_, [this, kind] {
    (this->*kind->happens)(&kind->luck);
    Next(kind);
  });
}

void FaultInjector::End() {
  storm_.End();
  for (const std::string& link : AllLinks()) targets_.network->Mend(link);
  targets_.store->CutUntil(0);
  targets_.cloud->CutUntil(0);
  targets_.host->CallOffDeath();
  targets_.host->EndStall();
  targets_.host->SetDiskFull(false);
}

std::vector<std::string> FaultInjector::AllLinks() const {
  std::vector<std::string> links;
  for (const SimNode* node : targets_.static_nodes) links.push_back(node->name());
  for (const auto& [id, instance] : targets_.cloud->instances()) {
    if (instance->ended_ms == 0) links.push_back(instance->name);
  }
  return links;
}

SimNode* FaultInjector::AnyNode(Rng* luck) {
  if (luck->Chance(0.4)) {
    if (SimNode* machine = targets_.cloud->AnyMachine(luck)) return machine;
  }
  return targets_.static_nodes.empty() ? nullptr : targets_.static_nodes[luck->Below(targets_.static_nodes.size())];
}

// ---- links ----

void FaultInjector::BreakAStream(Rng* luck) {
  if (SimNode* node = AnyNode(luck)) targets_.network->BreakStreams(node->name());
}

void FaultInjector::CutALink(Rng* luck) {
  SimNode* node = AnyNode(luck);
  if (node == nullptr) return;
  const uint64_t ways = luck->Below(3);
  targets_.network->Cut(node->name(), ways != 1, ways != 0);
  targets_.world->After(CutMs(luck), storm_, [this, link = node->name()] { targets_.network->Mend(link); });
}

// The hardest cut for a lease: answers are held up, then nothing gets through to the scheduler for long, and only then do the answers arrive.
void FaultInjector::FlapALink(Rng* luck) {
  SimNode* node = AnyNode(luck);
  if (node == nullptr) return;
  targets_.world->Reach("old answers came through a link that was cut again");
  const std::string link = node->name();
  targets_.network->Cut(link, false, true);
  targets_.world->After(luck->Between(100, 12'000), storm_, [this, link] { targets_.network->Cut(link, true, false); });
  targets_.world->After(luck->Between(13'000, 40'000), storm_, [this, link] { targets_.network->Mend(link, false, true); });
  targets_.world->After(CutMs(luck) + (luck->Chance(0.5) ? plan_.policy.lease_ms * 5 / 4 : 0), storm_, [this, link] { targets_.network->Mend(link); });
}

void FaultInjector::CutAllLinks(Rng* luck) {
  targets_.world->Reach("the scheduler was the partition");
  const std::vector<std::string> links = AllLinks();
  for (const std::string& link : links) targets_.network->Cut(link, true, true);
  targets_.world->After(CutMs(luck), storm_, [this, links] {
    for (const std::string& link : links) targets_.network->Mend(link);
  });
}

// A random subset is cut one by one, and heals in another order.
void FaultInjector::Swizzle(Rng* luck) {
  std::vector<std::string> links = AllLinks();
  const auto shuffle = [&] {
    for (size_t i = links.size(); i > 1; --i) std::swap(links[i - 1], links[luck->Below(i)]);
  };
  shuffle();
  links.resize(luck->Below(links.size() + 1));
  if (links.size() < 2) return;
  targets_.world->Reach("links were cut one by one and healed in another order");
  const int64_t pace_ms = Ms(luck, 500, plan_.rates.cut_ms_max / static_cast<int64_t>(links.size()));
  int64_t at_ms = 0;
  for (const std::string& link : links) {
    const uint64_t ways = luck->Below(3);
    targets_.world->After(at_ms += luck->Between(1, pace_ms), storm_, [this, link, ways] { targets_.network->Cut(link, ways != 1, ways != 0); });
  }
  shuffle();
  for (const std::string& link : links) {
    targets_.world->After(at_ms += luck->Between(1, pace_ms), storm_, [this, link] { targets_.network->Mend(link); });
  }
}

// ---- machines and what lives on them ----

void FaultInjector::KillAMachine(Rng* luck) {
  SimNode* node = AnyNode(luck);
  if (node == nullptr || !node->powered()) return;
  targets_.world->Reach("a machine died");
  node->PowerOff();
  // One of a cloud stays as it is: a crashed machine that still bills. A static one comes back.
  if (std::find(targets_.static_nodes.begin(), targets_.static_nodes.end(), node) == targets_.static_nodes.end()) return;
  if (luck->Chance(plan_.rates.disk_lost)) {
    targets_.world->Reach("a machine lost its disk");
    node->LoseDisk();
  }
  targets_.world->After(Ms(luck, 5'000, plan_.rates.outage_ms_max), [node] { node->PowerOn(); });
}

void FaultInjector::FreezeAMachine(Rng* luck) {
  if (SimNode* node = AnyNode(luck)) {
    targets_.world->Reach("a machine was frozen");
    node->Freeze(Ms(luck, 1'000, plan_.rates.freeze_ms_max));
  }
}

void FaultInjector::KillAWorker(Rng* luck) {
  if (SimNode* node = AnyNode(luck)) node->WorkerDies(Ms(luck, 100, plan_.rates.outage_ms_max));
}

void FaultInjector::PauseAWorker(Rng* luck) {
  if (SimNode* node = AnyNode(luck)) node->PauseWorker(Ms(luck, 1'000, plan_.rates.pause_ms_max));
}

void FaultInjector::KillASupervisor(Rng* luck) {
  if (SimNode* node = AnyNode(luck)) node->SupervisorDies(luck->Between(100, 2'000));
}

// ---- store and cloud ----

void FaultInjector::CutTheStore(Rng* luck) {
  targets_.world->Reach("the store was out of reach");
  targets_.store->CutUntil(targets_.world->now_ms() + CutMs(luck));
}

void FaultInjector::DamageACheckpoint(Rng* luck) {
  std::vector<std::string> hurt;  // what some task would resume from now
  if (targets_.host->up() && luck->Chance(0.6)) {
    for (const auto& [id, live] : targets_.host->engine()->state().jobs) {
      for (const auto& [index, task] : live.tasks) {
        if (task.checkpoint) hurt.push_back(task.checkpoint->path);
      }
    }
  }
  const std::string path = hurt.empty() ? targets_.store->Any(luck) : hurt[luck->Below(hurt.size())];
  if (!path.empty()) targets_.store->Damage(path);
}

void FaultInjector::CutTheCloud(Rng* luck) { targets_.cloud->CutUntil(targets_.world->now_ms() + CutMs(luck)); }

// Of an earlier life, or made by hand with our tag: it bills, and no row knows it.
void FaultInjector::MakeAStray(Rng*) {
  targets_.world->Reach("a stray instance bills");
  targets_.cloud->MakeStray();
}

// ---- the scheduler ----

void FaultInjector::KillTheScheduler(Rng* luck) {
  static constexpr DeathAt kAll[] = {DeathAt::kNow, DeathAt::kBeforeCommit, DeathAt::kInCommit, DeathAt::kAfterCommit, DeathAt::kAfterReplies};
  const DeathAt when = kAll[luck->Below(5)];
  const bool power_loss = plan_.power_losses && luck->Chance(0.6);
  targets_.host->Die(when, power_loss, Ms(luck, 500, plan_.rates.outage_ms_max));
}

void FaultInjector::StallTheEngine(Rng* luck) { targets_.host->Stall(Ms(luck, 100, plan_.rates.stall_ms_max)); }

void FaultInjector::FillTheDisk(Rng* luck) {
  targets_.host->SetDiskFull(true);
  targets_.world->After(CutMs(luck), storm_, [this] { targets_.host->SetDiskFull(false); });
}

void FaultInjector::SetTheClock(Rng* luck) {
  const int64_t by_ms = luck->Chance(0.5) ? luck->Between(-3'600'000, 3'600'000) : luck->Between(-60'000, 60'000);
  targets_.world->Reach("the clock was set");
  targets_.world->Trace("the scheduler's clock is set by ", by_ms, " ms");
  targets_.host->clock()->Set(by_ms);
}

// ---- people ----

void FaultInjector::DrainANode(Rng* luck) { targets_.users->DrainOne(luck->Between(10'000, 1'800'000)); }
void FaultInjector::PreemptATask(Rng*) { targets_.users->PreemptOne(); }
void FaultInjector::CancelAJob(Rng*) { targets_.users->CancelOne(); }
void FaultInjector::PauseAJob(Rng* luck) { targets_.users->PauseOne(luck->Between(1'000, 1'800'000)); }
void FaultInjector::UpdateAJob(Rng*) { targets_.users->UpdateOne(); }

}  // namespace spillway::sim
