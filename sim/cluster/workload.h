// What `spillway-sim cluster` runs: jobs with an arrival, a duration, devices, a tenant and perhaps a deadline, from recorded traces or from a generator.
// Whatever is wrong is refused with file, line and field.
//
// A jobs file is YAML, or a trace by itself: tab-separated as the Gavel project records them (seven columns: type, command, steps argument, needs data, steps,
// arrival, GPUs; ten: type, command, folder, steps argument, needs data, steps, GPUs, weight, objective, arrival), or CSV, told by its first line: `name,time,
// application,num_replicas,batch_size` (Pollux), `job_id,num_gpu,submit_time,…,duration,…` (Tiresias), or our own
// `arrival_s,duration_s,gpus[,tenant][,deadline_s][,interruptible]`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::sim {

struct SimJob {
  std::string name;
  std::string tenant;
  int64_t arrival_ms = 0;
  int64_t duration_ms = 0;   // of uninterrupted work
  int64_t predicted_ms = 0;  // what the policy is told of it
  int64_t deadline_ms = 0;   // a time, not a duration; 0: none
  int64_t gpus = 1;
  bool interruptible = true;
};

struct Workload {
  std::vector<SimJob> jobs;  // by arrival, then as in the file
  uint64_t seed = 1;
  // Jobs whose duration on so many GPUs nobody measured: taken from the next smaller number that somebody did, in proportion.
  int64_t estimated = 0;
};

// Steps a second by (job type, GPUs), from a Gavel throughput file.
using Throughputs = std::map<std::pair<std::string, int64_t>, double>;
absl::StatusOr<Throughputs> ParseThroughputs(absl::string_view json, absl::string_view origin, absl::string_view device);

// What a trace by itself does not say.
struct TraceExtras {
  Throughputs throughputs;
  std::map<std::pair<std::string, int64_t>, int64_t> duration_ms;  // by (application, GPUs)
};
// Jobs without tenants, deadlines and predictions.
absl::StatusOr<std::vector<SimJob>> ParseJobTrace(absl::string_view text, absl::string_view origin, const TraceExtras& extras, int64_t* estimated);

// `seed` in place of the file's.
absl::StatusOr<Workload> LoadWorkload(const std::string& path, std::optional<uint64_t> seed);

// GPUs needed at once if every job ran from its arrival on.
int64_t PeakDemand(const Workload& workload);

}  // namespace spillway::sim
