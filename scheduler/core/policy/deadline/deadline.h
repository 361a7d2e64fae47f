// One job with a deadline on a market of spot and on-demand machines: the words that every policy of this folder shares, and the arithmetic of
// "can it still be on time?". A policy decides at the beginning of a tick what runs until the next; the simulator and the scheduler give it the same facts.
//
// Times are milliseconds from the start of the job, prices micros per hour, and everything here is exact. A policy knows only what it was told: no clock,
// no randomness, no future.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway::core::deadline {

struct Job {
  int64_t work_ms = 0;
  int64_t deadline_ms = 0;
  int64_t overhead_ms = 0;  // lost by every start of a machine: provision, set-up, restore
  int64_t tick_ms = 0;      // how often it is decided
  friend bool operator==(const Job&, const Job&) = default;
};

enum class Mode { kIdle, kSpot, kOnDemand };

// What the job runs on. `zone` of an idle job: where its last checkpoint lies, -1 before the first run.
struct Choice {
  Mode mode = Mode::kIdle;
  int zone = -1;
  friend bool operator==(const Choice&, const Choice&) = default;
};

enum class Sight { kUnknown, kNo, kYes };

// The beginning of a tick. A spot machine that was taken away is gone already: the mode is then idle.
struct Standing {
  int64_t elapsed_ms = 0;
  int64_t done_ms = 0;
  int64_t overhead_left_ms = 0;  // of the machine that runs
  Choice now;
  // Whether the only zone gives spot machines now. Several zones are not seen; they answer when they are asked.
  Sight spot = Sight::kUnknown;
};

struct ZonePrice {
  int64_t spot_micros_per_hour = 0;
  int64_t on_demand_micros_per_hour = 0;
};

struct Market {
  std::vector<ZonePrice> zones;
  std::vector<std::vector<int64_t>> egress_micros;  // [from][to]: what moving the checkpoint costs
};

// A policy is asked once a tick, and told what came of what it wanted:
//   Options: best first. The first that the market grants is taken; none granted: all stays as it is. Idle and on demand are always granted.
//   Tried:   each option that was tried, in order, with its outcome. What already runs is granted.
//   Probes:  zones to ask whether they would give a spot machine now; yes costs a minute of it. Probed: each answer.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::vector<Choice> Options(const Standing& standing, const Market& market) = 0;
  virtual void Tried(const Choice& /*choice*/, bool /*granted*/) {}
  virtual std::vector<int> Probes() { return {}; }
  virtual void Probed(int /*zone*/, bool /*available*/) {}
};

int64_t LeftMs(const Job& job, const Standing& standing);

// Whole ticks until the deadline, in ms: only they can be worked in.
int64_t RemainMs(const Job& job, int64_t elapsed_ms);
// Whole ticks that `left_ms` of work take after `overheads` starts, in ms.
int64_t NeedMs(const Job& job, int64_t left_ms, int64_t overheads);

// Where done stands against steady progress, elapsed x work / deadline: -1 behind, 0 on it, 1 ahead. `early_ms` asks as if it were that much later.
int AgainstSteadyProgress(const Job& job, const Standing& standing, int64_t early_ms);

// Work done in one tick on a machine with this much overhead left, and the overhead left after it.
int64_t ProgressMs(const Job& job, int64_t left_ms, int64_t overhead_left_ms);
int64_t OverheadAfterMs(const Job& job, int64_t overhead_left_ms);

// The promise: whatever the market does after this tick, an on-demand machine started at its end (or the one that runs then) still makes the deadline.
bool SafeFor(const Job& job, const Standing& standing, const Choice& choice);

// Whether the job can be promised at all: on demand from the first tick.
bool Feasible(const Job& job);

// Zones by what a machine of this kind costs an hour there, cheapest first; ties by their order.
std::vector<int> CheapestFirst(const Market& market, Mode mode);
// Where on demand finishes this much work for the least: price and the checkpoint's way. Requires at least one zone.
int CheapestOnDemand(const Market& market, int from_zone, int64_t left_ms);

}  // namespace spillway::core::deadline
