// `spillway-sim cluster`: a workload on a cluster under one policy, and what it came to. The command line, the benchmark and the tests call this; it reads
// files and prints nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/cluster/cluster_run.h"

namespace spillway::sim {

struct ClusterRequest {
  std::string jobs;     // a jobs file, see workload.h
  std::string cluster;  // a cluster file, see cluster_spec.h
  std::string policy;
  int64_t patience_permille = 0;  // of `spillway`
  std::optional<uint64_t> seed;   // in place of the jobs file's
};

struct Spread {
  double mean = 0;
  double p99 = 0;  // nearest rank
};

struct ClusterReport {
  std::string policy;
  Workload workload;
  ClusterRun run;

  Spread completion_hours;  // from arrival to end
  Spread wait_hours;        // from arrival until its work first began, boot included
  double makespan_hours = 0;
  double reserved_utilization = 0;  // of their device time from the first arrival to the last end
  double reserved_cost = 0, spot_cost = 0, on_demand_cost = 0;
  int64_t deadlines = 0, missed = 0;
  int64_t preemptions = 0, moves = 0;
  double lost_hours = 0;
  // Jain's index over tenants of the mean over their jobs of duration / completion: 1 when all are slowed down alike.
  double fairness = 1;
  std::map<std::string, double> tenants;  // those means
  double burst_cost() const { return spot_cost + on_demand_cost; }
};

ClusterReport Summarize(Workload workload, ClusterRun run, const std::string& policy);
absl::StatusOr<ClusterReport> RunCluster(const ClusterRequest& request);

// `each`: with every job.
std::string ClusterJson(const ClusterReport& report, bool each);
std::string ClusterTable(const ClusterReport& report, bool each);

}  // namespace spillway::sim
