// `spillway-sim deadline`: a policy over every window of every environment, and what it came to. The command line, the benchmark and the tests call this;
// it reads files and prints nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/deadline/deadline_run.h"

namespace spillway::sim {

struct DeadlineRequest {
  std::vector<std::string> traces;  // folders, traces or CSV of counts
  std::string windows;              // a file of first ticks; "": window_starts.json beside the traces, or one window after the other
  int64_t every_ms = 0;             // a window at every such step instead
  int64_t from_tick = 0;            // of these only the windows that start in [from_tick, until_tick]
  int64_t until_tick = INT64_MAX;
  std::vector<std::string> zones;                    // together one environment of several zones; none: each trace is one
  int64_t gang = 1;                                  // instances that a zone must have at once
  Job job;                                           // its tick is the traces'
  std::optional<int64_t> on_demand_micros_per_hour;  // unset: the traces' own
  std::optional<int64_t> spot_micros_per_hour;
  std::string prices;  // a folder of region prices, for traces without their own
  std::string egress;  // a CSV of prices between regions
  int64_t checkpoint_gb = 50;
  std::string policy;
  std::optional<LastTick> last_tick;  // unset: as published, full in one zone and free over several
};

struct DeadlineRun {
  std::string environment;
  int64_t start_tick = 0;
  RunResult result;
};

struct DeadlineReport {
  std::string policy;
  LastTick last_tick = LastTick::kFull;
  std::vector<DeadlineRun> runs;
  double mean_cost = 0;                 // dollars
  double mean_cost_over_on_demand = 0;  // each run against its work at the cheapest on-demand price
  int64_t late_runs = 0;
  double mean_starts = 0;
  double mean_moves = 0;
  double spot_hours = 0, on_demand_hours = 0, idle_hours = 0;  // means
};

// Every policy that can be asked for: those of the scheduler, "omniscient" (as published: exact in one zone, in whole ticks over several) and
// "omniscient-exact".
std::vector<std::string> DeadlinePolicyNames();

absl::StatusOr<DeadlineReport> RunDeadline(const DeadlineRequest& request);

// `each`: with every run.
std::string DeadlineJson(const DeadlineReport& report, bool each);
std::string DeadlineTable(const DeadlineReport& report, bool each);

}  // namespace spillway::sim
