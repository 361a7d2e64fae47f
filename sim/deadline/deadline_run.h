// One job with a deadline, played tick by tick against a window of traces under one policy. Deterministic; owns the rules of the game and the bill, and
// decides nothing.
//
// A tick: a spot machine whose zone has none left is gone; the policy says what it wants; the first option that the zone grants is taken; the tick is billed
// whole and worked, less what is left of the start's overhead. A probe that finds a machine costs a minute of it. Moving the checkpoint to another region
// costs its way when the machine there starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/core/policy/deadline/deadline.h"
#include "sim/deadline/trace_set.h"

namespace spillway::sim {

using core::deadline::Choice;
using core::deadline::Job;
using core::deadline::Market;
using core::deadline::Mode;
using core::deadline::Standing;

// Whether the tick in which the job finishes is billed. The published single-pool figures bill it, the published figures over zones leave it out.
enum class LastTick { kFull, kFree };

struct Environment {
  std::string name;
  std::vector<TraceZone> zones;  // with prices
  std::vector<std::vector<int64_t>> egress_micros;
  int64_t ticks() const;  // that every zone has

  Market MarketAt(int64_t tick) const;
  int64_t PriceAt(const Choice& choice, int64_t tick) const;  // micros an hour
};

// Micros x ms: exact sums; one division at the end.
inline constexpr int64_t kMicrosMsPerDollar = 3'600'000LL * 1'000'000;

struct RunResult {
  int64_t cost_micros_ms = 0;
  bool late = false;
  int64_t starts = 0;
  int64_t moves = 0;  // of the checkpoint to another zone
  int64_t spot_ms = 0;
  int64_t on_demand_ms = 0;
  int64_t idle_ms = 0;
  double dollars() const { return static_cast<double>(cost_micros_ms) / static_cast<double>(kMicrosMsPerDollar); }
};

// Requires first_tick + deadline to lie within the environment.
RunResult PlayDeadline(const Environment& environment, int64_t first_tick, const Job& job, LastTick last_tick, core::deadline::Policy& policy);

}  // namespace spillway::sim
