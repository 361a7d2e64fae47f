// Runs of many seeds, and what is said when one breaks a promise: above all the one command that shows it again.
#pragma once

#include <cstdint>
#include <functional>
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

// What every run of a set has beside its seed.
struct RunSetup {
  Hooks hooks;
  std::function<void(FaultPlan*)> bias;  // over the plan that the seed draws
  std::string flags;                     // that say the same to the program: for the command that repeats a run
};

// Seeds first .. first + count - 1; stops after `failures_max` broken ones. With `dots`, says on standard error how far it is.
SeedsResult RunSeeds(uint64_t first, int64_t count, const RunSetup& setup, int64_t failures_max, bool dots);

// "build/tests/simulation_test --seed=S FLAGS --trace"; the program is what main was started as.
void SetProgram(const char* argv0);
std::string Program();
std::string HowToRepeat(uint64_t seed, const std::string& flags);

// A CHECK that fails inside the product ends the process: before it does, the seed is said.
void SaySeedOnAbort(uint64_t seed, const std::string& flags);

// In a process of its own, what `work` returns; kDiedOfAssertion when it died. A planted bug, or a plan made smaller, may well run into a CHECK.
extern const char kDiedOfAssertion[];
std::string RunApart(const std::function<std::string()>& work);

}  // namespace spillway::sim
