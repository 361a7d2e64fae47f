// Runs of many seeds, and what is said when one breaks a promise: above all the one command that shows it again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/simulation.h"

namespace spillway::sim {

struct SeedsResult {
  int64_t seeds = 0, failed = 0;
  uint64_t first_failed = 0;
  std::string report;                      // of the failures
  std::map<std::string, int64_t> reached;  // over all seeds
  int64_t jobs = 0, turns = 0, steps = 0, simulated_ms = 0;
};

// Seeds first .. first + count - 1; stops after `failures_max` broken ones. With `dots`, says on standard error how far it is.
SeedsResult RunSeeds(uint64_t first, int64_t count, const Hooks& hooks, int64_t failures_max, bool dots);

// "build/tests/simulation_test --seed=S --trace".
std::string HowToRepeat(uint64_t seed);

// A CHECK that fails inside the product ends the process: before it does, the seed is said.
void SaySeedOnAbort(uint64_t seed);

}  // namespace spillway::sim
