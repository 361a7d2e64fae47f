// The whole world of one seed: a scheduler, its disk, a store, static machines, a cloud, users; a day of storms and lulls; then everything heals, and must
// come to its end.
//
// Owns all parts and the order of things. Promises are watched by the observer it is given (tests/simulation/watch.h), and two it asks for itself:
// after the day everything ends within a bound, and the store's snapshot and events give its rows.
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
  std::optional<FaultPlan> plan;         // unset: drawn from the seed
  std::function<void(FaultPlan*)> bias;  // changes the plan that was drawn; empty: nothing
  Hooks hooks;
  std::string* trace = nullptr;
  // A disk that can lose power; empty: memory, which cannot.
  std::function<std::unique_ptr<SimDisk>(uint64_t seed, bool synchronous)> make_power_disk;
};

struct SimResult {
  std::string failure;  // "": every promise held
  std::map<std::string, int64_t, std::less<>> reached;
  FaultPlan plan;
  int64_t failed_ms = 0;   // after the day's beginning
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
  void Day();
  void Lull(int64_t until_ms);
  void BeginStorm();
  void EndStorm();
  void KeepBusy();
  void Heal();
  int64_t TasksLeft() const;
  bool AllEnded() const;
  std::string WhatIsLeft() const;
  void CheckStore();

  const SimOptions options_;
  const FaultPlan plan_;
  bool storm_ = false, day_is_over_ = false;
  World world_;
  Observer* const observer_;
  Rng rng_;
  Faults faults_;  // calm in a lull
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
