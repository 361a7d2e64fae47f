#include "scheduler/core/plan/plan.h"

#include <algorithm>

#include "scheduler/core/policy/restored.h"
#include "scheduler/core/policy/silence.h"

namespace spillway::core {

Plan BeginPlan(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms) { return {state, soft, policy, now_ms, {}, policy.candidates_max}; }

void CountStart(Plan* plan, const Job& job, TaskId task) {
  if (job.parallel > 0) plan->starting[job.id].insert(task.index);
}

bool IsLimited(const Plan& plan, const Job& job, TaskId task) {
  if (WaitsForLostLife(plan.state, job, plan.now_ms)) return true;
  if (job.parallel == 0) return false;
  const auto starting = plan.starting.find(job.id);
  if (starting == plan.starting.end()) return AtLimit(job);
  return !starting->second.contains(task.index) && AtLimit(job, static_cast<int64_t>(starting->second.size()));
}

void PromiseTo(Plan* plan, NodeId node, const Job& job, TaskId task) {
  if (!IsPromisedTo(*plan, node, task)) plan->promises[node].push_back({task, job.priority});
}

bool IsPromisedTo(const Plan& plan, NodeId node, TaskId task) {
  const auto found = plan.promises.find(node);
  return found != plan.promises.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Promise& one) { return one.task == task; });
}

bool MayPlaceOn(const Plan& plan, const Node& node) {
  return TakesWork(node) && !plan.leaving.contains(node.id) && Reachable(node, plan.soft, plan.policy, plan.now_ms);
}

}  // namespace spillway::core
