// Volatile knowledge: sessions, leases, last progress. Rebuilt from sessions after a restart; never logged, outside replay equality.
// Lease rule: the scheduler's view ends lease_ms after a renewal ARRIVED, the worker's lease_ms after it was SENT, so ours never ends first.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/ids.h"
#include "scheduler/core/model.h"

namespace spillway::core {

struct NodeLease {
  int64_t session = 0;       // number of the live session; 0: none
  int64_t heard_ms = 0;      // anything arrived
  int64_t lease_end_ms = 0;  // no attempt of this node can be alive after this plus the grace
  int64_t renewal = 0;       // newest renewal number taken, to be acked
};

struct Progress {
  int64_t step = 0, total = 0, at_ms = 0;
  std::map<std::string, double> metrics;
};

struct Soft {
  std::map<NodeId, NodeLease> leases;  // for every READY, DRAINING or RELEASING node that ever registered
  std::map<AttemptId, Progress> progress;
  int64_t leases_restarted_ms = 0;  // start of the process, or the end of an engine stall: silence counts from here at the earliest
};

// Every lease starts anew: after a restart, and after the engine stalled longer than a renewal.
void RestartLeases(const State& state, int64_t lease_ms, int64_t now_ms, Soft* soft);

}  // namespace spillway::core
