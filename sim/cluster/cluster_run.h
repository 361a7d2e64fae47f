// A workload on a cluster under one policy of scheduler/core/policy/cluster, in virtual time. Owns the world (what runs where, what the market takes, what is
// billed) and the clock; decides nothing. What a policy asks for is checked as strictly as a real cluster would: all members or none, no device twice, no more
// machines than a pool gives, nothing on spot that must not be interrupted.
//
// The rules: a task works at full speed wherever it runs. A machine of an offer boots first, and an attempt that resumes restores first; both take the time that
// the cluster says. A task that a policy stops or moves loses nothing; one whose spot machine is taken loses what came after its last checkpoint, unless a
// notice came first. A machine is billed from the moment it is asked for until it is let go, by the second, and serves one task. When a pool shrinks, the
// youngest of its machines go first. A gang that loses one machine loses all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/policy/cluster/cluster.h"
#include "sim/cluster/cluster_spec.h"
#include "sim/cluster/workload.h"

namespace spillway::sim {

struct JobOutcome {
  int64_t first_work_ms = 0;  // when its work first began, boot included
  int64_t end_ms = 0;
  int64_t starts = 0;
  int64_t preemptions = 0;  // its machine was taken
  int64_t moves = 0;        // the policy stopped or moved it
  int64_t lost_ms = 0;      // work done again
  int64_t spot_micros = 0;
  int64_t on_demand_micros = 0;
  int64_t reserved_ms = 0;  // device-ms
};

struct ClusterRun {
  int64_t nodes = 0;
  int64_t gpus_per_node = 0;
  std::vector<JobOutcome> jobs;  // as in the workload
  int64_t reserved_micros = 0;   // what the reserved nodes cost from the first arrival to the last end, used or not
  int64_t decisions = 0;
};

// FAILED_PRECONDITION naming a job that can never run; INTERNAL when the policy asks for what cannot be.
absl::StatusOr<ClusterRun> PlayCluster(const Workload& workload, const ClusterSpec& spec, const core::cluster::Policy& policy);

}  // namespace spillway::sim
