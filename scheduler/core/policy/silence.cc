#include "scheduler/core/policy/silence.h"

#include <algorithm>

#include "scheduler/core/policy/restored.h"

namespace spillway::core {

int64_t HeardMs(const Node& node, const Soft& soft) {
  const auto lease = soft.leases.find(node.id);
  const int64_t heard_ms = lease == soft.leases.end() ? node.ready_ms : lease->second.heard_ms;
  return std::max(heard_ms, soft.leases_restarted_ms);
}

int64_t LeaseEndMs(const Node& node, const Soft& soft, const Policy& policy) {
  const auto lease = soft.leases.find(node.id);
  const int64_t at_least = std::max(node.ready_ms, soft.leases_restarted_ms) + policy.lease_ms;
  if (lease == soft.leases.end()) return at_least;
  return soft.leases_restarted_ms > 0 ? std::max(lease->second.lease_end_ms, soft.leases_restarted_ms + policy.lease_ms) : lease->second.lease_end_ms;
}

bool ShouldSpeak(const Node& node) {
  return !node.boot_id.empty() && (node.state == NodeState::kReady || node.state == NodeState::kDraining || node.state == NodeState::kReleasing);
}

bool CanTestify(const State& state, const Node& node) {
  const auto provider = state.meta.providers.find(node.provider);
  return node.owned && provider != state.meta.providers.end() && provider->second.can_testify;
}

bool Reachable(const Node& node, const Soft& soft, const Policy& policy, int64_t now_ms) {
  const auto lease = soft.leases.find(node.id);
  if (lease != soft.leases.end() && lease->second.session == 0) return false;
  return now_ms - HeardMs(node, soft) <= policy.silence_ms;
}

int64_t HoldMs(const Policy& policy) { return policy.lease_ms + policy.lease_grace_ms; }

bool HoldsForPartition(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms) {
  if (Adopting(state, now_ms)) return true;
  int64_t speakers = 0, silent = 0;
  for (const auto& [id, node] : state.nodes) {
    if (!ShouldSpeak(node)) continue;
    // Those that were silent when they were given up count on: a partition shows one node after the other. The others fell silent because we ended them.
    const int64_t heard_ms = HeardMs(node, soft);
    if (node.state == NodeState::kReleasing && node.releasing_ms - heard_ms <= policy.silence_ms) continue;
    ++speakers;
    const int64_t silence_ms = now_ms - heard_ms;
    if (silence_ms > policy.silence_ms && silence_ms <= HoldMs(policy)) ++silent;
  }
  return silent > std::max<int64_t>(3, speakers / 5);
}

int64_t ActOnSilenceMs(const Node& node, const Soft& soft, const Policy& policy, int64_t after_ms, bool held) {
  const int64_t wait_ms = held ? std::max(after_ms, HoldMs(policy)) : after_ms;
  return HeardMs(node, soft) + wait_ms + 1;
}

}  // namespace spillway::core
