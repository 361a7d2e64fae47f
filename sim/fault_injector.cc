#include "sim/fault_injector.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim {

FaultInjector::FaultInjector(Targets targets, const FaultPlan& plan) : targets_(std::move(targets)), plan_(plan), rng_(targets_.world->Luck("disasters")) {}

void FaultInjector::Begin() {
  const Rates& r = plan_.rates;
  const double nodes = static_cast<double>(targets_.static_nodes.size()) + 1;
  Every(r.stream_breaks * nodes, &FaultInjector::BreakAStream);
  Every(r.link_cuts * nodes, &FaultInjector::CutALink);
  Every(r.link_cuts * nodes / 3, &FaultInjector::FlapALink);
  Every(r.machine_dies * nodes, &FaultInjector::KillAMachine);
  Every(r.worker_dies * nodes, &FaultInjector::KillAWorker);
  Every(r.supervisor_dies * nodes, &FaultInjector::KillASupervisor);
  Every(r.machine_freezes * nodes, &FaultInjector::FreezeAMachine);
  Every(r.all_links_cut, &FaultInjector::CutAllLinks);
  Every(r.store_cut, &FaultInjector::CutTheStore);
  Every(r.damage, &FaultInjector::DamageACheckpoint);
  Every(r.cloud_cut, &FaultInjector::CutTheCloud);
  Every(r.strays, &FaultInjector::MakeAStray);
  Every(r.scheduler_dies, &FaultInjector::KillTheScheduler);
  Every(r.engine_stalls, &FaultInjector::StallTheEngine);
  Every(r.disk_full, &FaultInjector::FillTheDisk);
  Every(r.clock_set, &FaultInjector::SetTheClock);
  Every(r.drains, &FaultInjector::DrainANode);
  Every(r.preempts, &FaultInjector::PreemptATask);
  Every(r.cancels, &FaultInjector::CancelAJob);
}

void FaultInjector::End() {
  storm_.End();
  for (SimNode* node : targets_.static_nodes) targets_.network->Mend(node->name());
  for (const auto& [id, instance] : targets_.cloud->instances()) targets_.network->Mend(instance->name);
  targets_.store->CutUntil(0);
  targets_.cloud->CutUntil(0);
  targets_.host->CallOffDeath();
  targets_.host->SetDiskFull(false);
  targets_.host->Start();
}

void FaultInjector::Every(double per_hour, void (FaultInjector::*disaster)()) {
  if (per_hour <= 0) return;
  const double hours = -std::log(1.0 - rng_.Unit()) / per_hour;
  targets_.world->After(std::max<int64_t>(1, std::llround(hours * 3'600'000)), storm_, [this, per_hour, disaster] {
    (this->*disaster)();
    Every(per_hour, disaster);
  });
}

SimNode* FaultInjector::AnyNode() {
  if (rng_.Chance(0.4)) {
    if (SimNode* machine = targets_.cloud->AnyMachine(&rng_)) return machine;
  }
  return targets_.static_nodes.empty() ? nullptr : targets_.static_nodes[rng_.Below(targets_.static_nodes.size())];
}

void FaultInjector::BreakAStream() {
  if (SimNode* node = AnyNode()) targets_.network->BreakStreams(node->name());
}

void FaultInjector::CutALink() {
  SimNode* node = AnyNode();
  if (node == nullptr) return;
  const uint64_t ways = rng_.Below(3);
  targets_.network->Cut(node->name(), ways != 1, ways != 0);
  targets_.world->After(CutMs(), storm_, [this, link = node->name()] { targets_.network->Mend(link); });
}

// The hardest cut for a lease: answers are held up, then nothing gets through to the scheduler for long, and only then do the answers arrive.
void FaultInjector::FlapALink() {
  SimNode* node = AnyNode();
  if (node == nullptr) return;
  targets_.world->Reach("old answers came through a link that was cut again");
  const std::string link = node->name();
  targets_.network->Cut(link, false, true);
  targets_.world->After(rng_.Between(100, 12'000), storm_, [this, link] { targets_.network->Cut(link, true, false); });
  targets_.world->After(rng_.Between(13'000, 40'000), storm_, [this, link] { targets_.network->Mend(link, false, true); });
  targets_.world->After(CutMs() + (rng_.Chance(0.5) ? plan_.policy.lease_ms * 5 / 4 : 0), storm_, [this, link] { targets_.network->Mend(link); });
}

void FaultInjector::KillAMachine() {
  SimNode* node = AnyNode();
  if (node == nullptr || !node->powered()) return;
  targets_.world->Reach("a machine died");
  node->PowerOff();
  // One of a cloud stays as it is: a crashed machine that still bills. A static one comes back.
  if (std::find(targets_.static_nodes.begin(), targets_.static_nodes.end(), node) == targets_.static_nodes.end()) return;
  if (rng_.Chance(std::min(0.5, plan_.rates.disk_lost))) {
    targets_.world->Reach("a machine lost its disk");
    node->LoseDisk();
  }
  targets_.world->After(rng_.Between(5'000, std::max<int64_t>(5'000, plan_.rates.outage_ms_max)), [node] { node->PowerOn(); });
}

void FaultInjector::KillAWorker() {
  if (SimNode* node = AnyNode()) node->WorkerDies(rng_.Between(100, std::max<int64_t>(100, plan_.rates.outage_ms_max)));
}

void FaultInjector::KillASupervisor() {
  if (SimNode* node = AnyNode()) node->SupervisorDies(rng_.Between(100, 2'000));
}

void FaultInjector::FreezeAMachine() {
  if (SimNode* node = AnyNode()) {
    targets_.world->Reach("a machine was frozen");
    node->Freeze(rng_.Between(1'000, std::max<int64_t>(1'000, plan_.rates.freeze_ms_max)));
  }
}

void FaultInjector::CutAllLinks() {
  targets_.world->Reach("the scheduler was the partition");
  std::vector<std::string> links;
  for (SimNode* node : targets_.static_nodes) links.push_back(node->name());
  for (const auto& [id, instance] : targets_.cloud->instances()) {
    if (instance->ended_ms == 0) links.push_back(instance->name);
  }
  for (const std::string& link : links) targets_.network->Cut(link, true, true);
  targets_.world->After(CutMs(), storm_, [this, links] {
    for (const std::string& link : links) targets_.network->Mend(link);
  });
}

void FaultInjector::CutTheStore() {
  targets_.world->Reach("the store was out of reach");
  targets_.store->CutUntil(targets_.world->now_ms() + CutMs());
}

void FaultInjector::DamageACheckpoint() {
  std::vector<std::string> hurt;  // what some task would resume from now
  if (targets_.host->up() && rng_.Chance(0.6)) {
    for (const auto& [id, live] : targets_.host->engine()->state().jobs) {
      for (const auto& [index, task] : live.tasks) {
        if (task.checkpoint) hurt.push_back(task.checkpoint->path);
      }
    }
  }
  const std::string path = hurt.empty() ? targets_.store->Any(&rng_) : hurt[rng_.Below(hurt.size())];
  if (!path.empty()) targets_.store->Damage(path);
}

// Of an earlier life, or made by hand with our tag: it bills, and no row knows it.
void FaultInjector::MakeAStray() {
  targets_.world->Reach("a stray instance bills");
  targets_.cloud->MakeStray();
}

void FaultInjector::CutTheCloud() { targets_.cloud->CutUntil(targets_.world->now_ms() + CutMs()); }

void FaultInjector::KillTheScheduler() {
  static constexpr DeathAt kAll[] = {DeathAt::kNow, DeathAt::kBeforeCommit, DeathAt::kInCommit, DeathAt::kAfterCommit, DeathAt::kAfterReplies};
  const DeathAt when = kAll[rng_.Below(5)];
  const bool power_loss = plan_.power_losses && rng_.Chance(0.6);
  targets_.host->Die(when, power_loss, rng_.Between(500, std::max<int64_t>(500, plan_.rates.outage_ms_max)));
}

void FaultInjector::StallTheEngine() { targets_.host->Stall(rng_.Between(100, plan_.rates.stall_ms_max)); }

void FaultInjector::FillTheDisk() {
  targets_.host->SetDiskFull(true);
  targets_.world->After(CutMs(), storm_, [this] { targets_.host->SetDiskFull(false); });
}

void FaultInjector::SetTheClock() {
  const int64_t by_ms = rng_.Chance(0.5) ? rng_.Between(-3'600'000, 3'600'000) : rng_.Between(-60'000, 60'000);
  targets_.world->Reach("the clock was set");
  targets_.world->Trace("the scheduler's clock is set by ", by_ms, " ms");
  targets_.host->clock()->Set(by_ms);
}

void FaultInjector::DrainANode() { targets_.users->DrainOne(rng_.Between(10'000, 1'800'000)); }
void FaultInjector::PreemptATask() { targets_.users->PreemptOne(); }
void FaultInjector::CancelAJob() { targets_.users->CancelOne(); }

}  // namespace spillway::sim
