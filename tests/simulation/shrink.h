// Makes a failing plan small: what is left is what the failure needs. Owns the search; how a plan is tried is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/simulation.h"

namespace spillway::sim {

struct Trial {
  std::string failure;    // "": every promise held
  int64_t failed_ms = 0;  // after the day's beginning; 0: unknown
};

struct Shrunk {
  FaultPlan plan;
  Trial trial;  // of `plan`
  int64_t tries = 0;
};

// `plan` fails with `trial`. Keeps any simpler plan that breaks any promise: drops faults, half of them at a time, then one by one; drops, shortens and
// brings forward storms; takes away nodes and jobs; until nothing can be taken away or `tries_max` is reached.
Shrunk Shrink(FaultPlan plan, Trial trial, int64_t tries_max, const std::function<Trial(const FaultPlan&)>& run);

// One seed under a plan and planted bugs, in a process of its own.
Trial RunPlan(uint64_t seed, const FaultPlan& plan, const Hooks& hooks);

// How many numbers of a plan are not calm, storms apart.
int64_t FaultsIn(const FaultPlan& plan);

}  // namespace spillway::sim
