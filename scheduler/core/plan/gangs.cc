// Nodes that wait for the others of a gang. Nothing is held for one that only waits in the queue: it starts when enough nodes are free at once, and what is
// free meanwhile is anybody's. What was bought for a gang is kept until the rest of it has come up, and free nodes to make up the number with it, but no
// longer than policy.gang_hold_ms after it came up: then it is like any other, and so is what has run something since. An offer that not every member has
// accepted by then is taken back. So two gangs that want the same nodes never wait for each other for longer than that.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/plan/plan.h"
#include "scheduler/core/policy/restored.h"

namespace spillway::core {
namespace {

bool Waits(const State& state, TaskId id) {
  const std::optional<Task> task = GetTask(state, id);
  return task && task->state == TaskState::kQueued;
}

// Requested for a task that waits and is a gang.
const Job* GangOf(const State& state, const Node& node) {
  const Job* job = FindJob(state, node.for_task.job);
  return job != nullptr && ShapeOf(state, *job).nodes > 1 && Waits(state, node.for_task) ? job : nullptr;
}

int64_t HeldUntilMs(const Node& node, const Policy& policy) { return node.idle_since_ms + policy.gang_hold_ms; }

bool HasRunNothing(const Node& node) { return node.idle_since_ms != 0 && node.idle_since_ms == node.ready_ms; }

bool IsHeld(const Plan& plan, const Node& node) { return MayPlaceOn(plan, node) && HasRunNothing(node) && plan.now_ms < HeldUntilMs(node, plan.policy); }

bool Comes(const Plan& plan, const Node& node) {
  return (node.state == NodeState::kRequested || node.state == NodeState::kBooting) && !node.cordoned && !plan.leaving.contains(node.id);
}

void Keep(Plan* plan, const Node& node, const Job& job, TaskId gang) {
  PromiseTo(plan, node.id, job, gang);
  plan->wanted.insert(node.id);
}

void TakeBackOffers(Plan* plan) {
  for (const auto& [offered_ms, id] : plan->state.index.gathering) {
    if (plan->now_ms < offered_ms + plan->policy.gang_hold_ms) return;
    if (plan->fenced.contains(id)) continue;
    StopRequest stop;
    stop.cause = EndCause::kMoved;
    stop.initiator = Initiator::kScheduler;
    stop.requested_ms = plan->now_ms;
    stop.reason = absl::StrCat("not all of its nodes have accepted it within ", FormatDurationMs(plan->policy.gang_hold_ms), " (gang_hold)");
    plan->commands.push_back(StopAttempt{id, std::move(stop)});
  }
}

}  // namespace

void HoldGangs(Plan* plan) {
  TakeBackOffers(plan);
  std::map<int64_t, std::set<TaskId>, std::greater<>> gangs;  // for which nodes come or are held, the highest priority first
  for (const auto& [id, node] : plan->state.nodes) {
    const Job* job = node.for_task.job == 0 ? nullptr : GangOf(plan->state, node);
    if (job == nullptr || Misfits(ShapeOf(plan->state, *job), node) != 0) continue;
    const bool held = IsHeld(*plan, node);
    if (held) Keep(plan, node, *job, node.for_task);
    if (WaitsForLostLife(plan->state, *job, plan->now_ms)) continue;  // its own nodes are kept, no others beside them
    if (held || Comes(*plan, node)) gangs[job->priority].insert(node.for_task);
  }
  for (const auto& [priority, equals] : gangs) {
    for (const TaskId& gang : equals) PromiseFree(plan, *FindJob(plan->state, gang.job), gang);
  }
}

void PromiseFree(Plan* plan, const Job& job, TaskId gang) {
  const Shape& shape = ShapeOf(plan->state, job);
  int64_t missing = shape.nodes;
  for (const auto& [id, node] : plan->state.nodes) {
    if (IsPromisedTo(*plan, id, gang) || (node.for_task == gang && Comes(*plan, node) && Misfits(shape, node) == 0)) --missing;
  }
  for (const auto& [id, node] : plan->state.nodes) {
    if (missing <= 0) return;
    --plan->candidates_left;
    if (!MayPlaceOn(*plan, node) || IsPromisedTo(*plan, id, gang) || IsPromised(*plan, id, job) || Misfits(shape, node) != 0) continue;
    if (!plan->open.RoomOf(node).Holds(shape)) continue;
    Keep(plan, node, job, gang);
    --missing;
  }
}

int64_t NextGangStepMs(const State& state, const Policy& policy, int64_t now_ms) {
  int64_t next_ms = std::numeric_limits<int64_t>::max();
  const auto consider = [&](int64_t at_ms) {
    if (at_ms > now_ms) next_ms = std::min(next_ms, at_ms);
  };
  if (!state.index.gathering.empty()) consider(state.index.gathering.begin()->first + policy.gang_hold_ms);
  for (const auto& [id, node] : state.nodes) {
    if (HasRunNothing(node) && node.for_task.job != 0 && GangOf(state, node) != nullptr) consider(HeldUntilMs(node, policy));
  }
  return next_ms;
}

}  // namespace spillway::core
