// Lets go of what nobody needs: burst nodes that have been idle for long enough, idempotency records past their time.
#include <algorithm>

#include "base/limits.h"
#include "pricing/billing.h"
#include "scheduler/core/plan/plan.h"
#include "scheduler/core/policy/restored.h"

namespace spillway::core {
namespace {

constexpr int64_t kCoarseIncrementMs = 2 * 60'000;  // from here on an increment that is paid anyway is worth waiting in
constexpr int64_t kBeforeIncrementMs = 60'000;      // let go this long before the next one begins

}  // namespace

int64_t KeepIdleUntilMs(const State& state, const Node& node) {
  const auto provider = state.meta.providers.find(node.provider);
  const int64_t idle_ms =
      provider == state.meta.providers.end() || provider->second.idle_release_ms <= 0 ? limits::kIdleReleaseMs : provider->second.idle_release_ms;
  const int64_t until_ms = node.idle_since_ms + idle_ms;
  if (node.billing.increment_ms < kCoarseIncrementMs) return until_ms;
  const pricing::BillingRule rule{node.billing.increment_ms, node.billing.minimum_ms, node.price_micros_per_hour};
  const int64_t paid_ms = node.created_ms + pricing::PaidUntilMs(rule, std::max<int64_t>(until_ms - node.created_ms, 0)) - kBeforeIncrementMs;
  return std::max(until_ms, paid_ms);
}

void ReleaseIdle(Plan* plan) {
  if (Adopting(plan->state, plan->now_ms)) return;
  for (const auto& [id, node] : plan->state.nodes) {
    if (node.state != NodeState::kReady || !node.owned || node.idle_since_ms == 0) continue;
    if (plan->wanted.contains(id) || plan->leaving.contains(id) || plan->now_ms < KeepIdleUntilMs(plan->state, node)) continue;
    plan->commands.push_back(ReleaseNode{id, "idle"});
    plan->leaving.insert(id);
  }
}

void ForgetOld(Plan* plan) {
  const auto& by_age = plan->state.index.requests_by_age;
  const int64_t before_ms = plan->now_ms - limits::kRequestIdTtlMs;
  if (!by_age.empty() && by_age.begin()->first < before_ms) plan->commands.push_back(ForgetRequests{before_ms});
}

}  // namespace spillway::core
