// The cluster that `spillway-sim cluster` plays: reserved nodes, pools of spot machines whose number and price follow recorded traces, and on-demand machines.
// Read from YAML, strictly: whatever is wrong is refused with file:line and the nearest key.
//
//   reserved: {nodes: 5, gpus: 8, price_per_gpu_hour: 1.20}     # or peak_percent: 50 in place of nodes: of the GPUs that the jobs need at once
//   spot:
//     - {zone: us-west-2a, trace: us-west-2a_v100_1.json, machines: 16, gpus: [1, 2, 4, 8], price_per_gpu_hour: 0.9731, notice: 0s, trace_offset: 0s}
//     - {zone: us-east4-a, counts: h100_16_counts.csv, gpus: [8], price_per_gpu_hour: 1.86}
//   on_demand: {gpus: [1, 2, 4, 8], price_per_gpu_hour: 3.06}
//   boot: 5m                # from asking for a machine until it works
//   restore: 2m             # at the start of every attempt that resumes
//   checkpoint_every: 30m   # a machine taken without notice loses what came after the last
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/core/model.h"

namespace spillway::sim {

// What can be had of one zone and market over time. Time 0 of the simulation is `offset_ticks` into the traces; after their last tick they begin again.
struct Pool {
  std::string zone;
  spillway::Market market = spillway::Market::kUnspecified;
  std::vector<int64_t> gpus;                       // sizes of machines, ascending
  int64_t tick_ms = 0;                             // of the traces; 0: neither number nor price ever changes
  std::vector<int64_t> machines;                   // of each size, by tick; empty: as many as asked
  std::vector<int64_t> price_micros_per_gpu_hour;  // by tick; one value: of all
  int64_t offset_ticks = 0;
  int64_t notice_ms = 0;

  int64_t MachinesAt(int64_t at_ms) const;       // -1: as many as asked
  int64_t PriceAt(int64_t at_ms) const;          // micros per GPU and hour
  int64_t NextChangeMs(int64_t after_ms) const;  // INT64_MAX: never
  int64_t CostMicros(int64_t gpus_in_use, int64_t from_ms, int64_t to_ms) const;

 private:
  size_t Tick(int64_t at_ms, size_t ticks) const;
};

struct ClusterSpec {
  int64_t nodes = 0;
  int64_t peak_percent = 0;  // above 0: nodes follow from the jobs
  int64_t gpus_per_node = 0;
  int64_t reserved_micros_per_gpu_hour = 0;
  std::vector<Pool> pools;  // spot in the order of the file, then on demand
  int64_t boot_ms = 0;
  int64_t restore_ms = 0;
  int64_t checkpoint_every_ms = 0;
};

// `folder` is where relative files are looked for.
absl::StatusOr<ClusterSpec> ParseClusterSpec(const std::string& yaml, absl::string_view origin, const std::string& folder);
absl::StatusOr<ClusterSpec> LoadClusterSpec(const std::string& path);

}  // namespace spillway::sim
