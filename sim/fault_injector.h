// Brings the disasters of a FaultPlan's Rates, each at its own random times, until the storm is over; then mends everything that mends.
#pragma once

#include <functional>
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
  void Every(double per_hour, void (FaultInjector::*disaster)());
  SimNode* AnyNode();
  std::string AnyLink();
  int64_t CutMs() { return rng_.Between(1'000, std::max<int64_t>(1'000, plan_.rates.cut_ms_max)); }

  void BreakAStream();
  void CutALink();
  void FlapALink();
  void KillAMachine();
  void KillAWorker();
  void KillASupervisor();
  void FreezeAMachine();
  void CutAllLinks();
  void CutTheStore();
  void DamageACheckpoint();
  void CutTheCloud();
  void MakeAStray();
  void KillTheScheduler();
  void StallTheEngine();
  void FillTheDisk();
  void SetTheClock();
  void DrainANode();
  void PreemptATask();
  void CancelAJob();

  const Targets targets_;
  const FaultPlan plan_;
  Rng rng_;
  Life storm_;
};

}  // namespace spillway::sim
