// The whole world of one seed: a scheduler, its disk, a store, static machines, a cloud, users and a storm; then everything heals, and must come to its end.
//
// Owns all parts and the order of things. Promises are watched by the observer it is given (tests/simulation/checker.h), and two it asks for itself:
// after the storm everything ends within a bound, and the store's snapshot and events give its rows.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/fault_injector.h"
#include "sim/sim_effects.h"

namespace spillway::sim {

struct SimOptions {
  uint64_t seed = 1;
  std::optional<FaultPlan> plan;  // unset: drawn from the seed
  Hooks hooks;
  std::string* trace = nullptr;
  // A disk that can lose power; empty: memory, which cannot.
  std::function<std::unique_ptr<SimDisk>(uint64_t seed)> make_power_disk;
};

struct SimResult {
  std::string failure;  // "": every promise held
  std::map<std::string, int64_t> reached;
  std::string plan;
  std::string chain_hash;  // of the last event record: the fingerprint of the run
  int64_t turns = 0, steps = 0, simulated_ms = 0, jobs = 0;
};

class Simulation {
 public:
  Simulation(SimOptions options, Observer* observer);
  ~Simulation();
  World* world() { return &world_; }
  SimResult Run();

  const CheckpointStore& store() const { return store_; }
  const SimCloud& cloud() const { return *cloud_; }
  const SchedulerHost& host() const { return *host_; }

 private:
  void MakeScheduler();
  void MakeNodes();
  void MakeCloud();
  std::unique_ptr<SimNode> MakeMachine(const Instance& instance);
  SimNode::Surroundings NodeSurroundings();
  void PlanJobs();
  void Heal();
  bool AllEnded() const;
  std::string WhatIsLeft() const;
  void CheckStore();

  const SimOptions options_;
  const FaultPlan plan_;
  World world_;
  Observer* const observer_;
  Rng rng_;
  Faults faults_;  // calm once healed
  Network network_;
  CheckpointStore store_;
  std::unique_ptr<SimDisk> disk_;
  std::unique_ptr<HostClock> clock_;
  std::unique_ptr<SchedulerHost> host_;
  std::unique_ptr<SimCloud> cloud_;
  std::vector<std::unique_ptr<SimNode>> static_nodes_;
  std::unique_ptr<SimUsers> users_;
  std::unique_ptr<FaultInjector> injector_;
};

}  // namespace spillway::sim
