// How hostile the world is. Faults: chances that the parts ask for as they go; Rates: disasters per hour that the injector brings (fault_injector.h).
// Drawn from the seed, swarm-wise: each seed gets a random few, at random strengths, so that rare combinations are as likely as common ones.
#pragma once

#include <cstdint>
#include <string>

#include "base/rng.h"
#include "scheduler/core/core.h"

namespace spillway::sim {

// A calm world: everything works, nothing takes long.
struct Faults {
  // Network: a frame takes 1 .. latency_ms_max; a stream's frame may come twice.
  int64_t latency_ms_max = 20;
  double duplicated = 0;
  // Nodes.
  double worker_dies = 0;  // at each output
  double staging_fails = 0, launch_fails = 0;
  int64_t staging_ms_max = 500;
  double late_write = 0;  // a checkpoint cut off by its writer's death lands all the same, later
  double look_fails = 0;  // the store does not answer a question
  // Cloud.
  bool reclaims = false;  // the spot market takes machines back
  double refuses = 0, throttles = 0, request_lost = 0, reply_lost = 0, never_boots = 0, bill_unknown = 0, false_notice = 0;
  int64_t api_ms_max = 300, boot_ms_max = 40'000, shutdown_ms_max = 2'000, list_lag_ms_max = 0;
  // Users: a request or its answer is lost.
  double asks_in_vain = 0;
  // Scheduler.
  int64_t commit_ms_max = 2;
};

struct Rates {  // per hour; of each node or of the whole
  double stream_breaks = 0, link_cuts = 0, machine_dies = 0, worker_dies = 0, supervisor_dies = 0, machine_freezes = 0, disk_lost = 0;
  double all_links_cut = 0, store_cut = 0, damage = 0, cloud_cut = 0, strays = 0;
  double scheduler_dies = 0, engine_stalls = 0, disk_full = 0, clock_set = 0;
  double drains = 0, preempts = 0, cancels = 0;
  int64_t cut_ms_max = 60'000, outage_ms_max = 30'000, freeze_ms_max = 60'000, stall_ms_max = 30'000;
};

struct FaultPlan {
  Faults faults;
  Rates rates;
  int64_t storm_ms = 0;       // then the world heals
  int64_t rate_ppm_max = 0;   // of machines' clocks
  bool power_losses = false;  // the scheduler's disk forgets what was not synced, with torn writes; else only its process dies
  int64_t static_nodes = 3;
  int64_t jobs = 10;
  bool spot = false, lingering_notice = false;
  int64_t spot_mean_ms = 0;
  core::Policy policy;

  static FaultPlan Draw(uint64_t seed);
  std::string ToString() const;
};

}  // namespace spillway::sim
