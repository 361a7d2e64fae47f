// Starts every lease anew. Sessions that live keep their number and their newest renewal.
#include "scheduler/core/soft.h"

namespace spillway::core {

void RestartLeases(const State& state, int64_t lease_ms, int64_t now_ms, Soft* soft) {
  soft->leases_restarted_ms = now_ms;
  std::map<NodeId, NodeLease> leases;
  for (const auto& [id, node] : state.nodes) {
    if (node.boot_id.empty()) continue;  // never registered: nothing runs there
    NodeLease& lease = leases[id];
    const auto old = soft->leases.find(id);
    if (old != soft->leases.end()) lease = old->second;
    lease.heard_ms = now_ms;
    lease.lease_end_ms = now_ms + lease_ms;
  }
  soft->leases = std::move(leases);
}

}  // namespace spillway::core
