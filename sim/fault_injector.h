// Brings the disasters of a FaultPlan's Rates while a storm lasts, each at random times of its own; when it is over, mends everything that mends.
// Each kind of disaster has its own luck: a plan without one of them brings the others at the same times, which is what makes a plan shrink well.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "sim/faults.h"
#include "sim/network.h"
#include "sim/scheduler_host.h"
#include "sim/sim_cloud.h"
#include "sim/sim_users.h"

namespace spillway::sim {

class FaultInjector {
 public:
  struct Targets {
    World* world = nullptr;
    Network* network = nullptr;
    CheckpointStore* store = nullptr;
    SchedulerHost* host = nullptr;
    SimUsers* users = nullptr;
    SimCloud* cloud = nullptr;
    std::vector<SimNode*> static_nodes;
  };
  FaultInjector(Targets targets, const FaultPlan& plan);

  void Begin();
  void End();

 private:
  // One kind: how often, what happens, and its luck.
  struct Kind {
    double per_hour;
    void (FaultInjector::*happens)(Rng*);
    Rng luck;
  };
  void Add(const char* name, double per_hour, void (FaultInjector::*happens)(Rng*));
  void Next(Kind* kind);
  SimNode* AnyNode(Rng* luck);
  std::vector<std::string> AllLinks() const;
  int64_t Ms(Rng* luck, int64_t least, int64_t most) { return luck->Between(least, std::max(least, most)); }
  int64_t CutMs(Rng* luck) { return Ms(luck, 1'000, plan_.rates.cut_ms_max); }

  void BreakAStream(Rng* luck);
  void CutALink(Rng* luck);
  void FlapALink(Rng* luck);
  void CutAllLinks(Rng* luck);
  void Swizzle(Rng* luck);
  void KillAMachine(Rng* luck);
  void FreezeAMachine(Rng* luck);
  void KillAWorker(Rng* luck);
  void PauseAWorker(Rng* luck);
  void KillASupervisor(Rng* luck);
  void CutTheStore(Rng* luck);
  void DamageACheckpoint(Rng* luck);
  void CutTheCloud(Rng* luck);
  void MakeAStray(Rng* luck);
  void KillTheScheduler(Rng* luck);
  void StallTheEngine(Rng* luck);
  void FillTheDisk(Rng* luck);
  void SetTheClock(Rng* luck);
  void DrainANode(Rng* luck);
  void PreemptATask(Rng* luck);
  void PauseAJob(Rng* luck);
  void UpdateAJob(Rng* luck);
  void CancelAJob(Rng* luck);

  const Targets targets_;
  const FaultPlan plan_;
  std::list<Kind> kinds_;
  Life storm_;
};

}  // namespace spillway::sim
