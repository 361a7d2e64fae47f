#include "scheduler/core/metering.h"

#include <bit>

#include "base/log.h"
#include "base/money.h"
#include "pricing/billing.h"

namespace spillway::core {
namespace {

int64_t CostUntil(const Node& node, int64_t now_ms) { return PriceForMs(node.price_micros_per_hour, now_ms > node.created_ms ? now_ms - node.created_ms : 0); }

void Append(State* state, Node* node, AttemptId attempt, const char* kind, int64_t from_ms, int64_t to_ms, int64_t amount, Changes* changes) {
  Charge charge;
  charge.id = state->meta.next_charge++;
  charge.node = node->id;
  charge.attempt = attempt;
  charge.kind = kind;
  charge.market = node->market;
  charge.from_ms = from_ms;
  charge.to_ms = to_ms;
  charge.amount_micros = amount;
  node->charged_micros += amount;
  if (attempt.job != 0) {
    const auto live = state->jobs.find(attempt.job);
    CHECK(live != state->jobs.end()) << attempt.ToString();
    (node->market == Market::kReserved ? live->second.job.reserved_micros : live->second.job.charged_micros) += amount;
    changes->jobs.insert(attempt.job);
  }
  changes->charges.push_back(std::move(charge));
  changes->nodes.insert(node->id);
  changes->meta = true;
}

// The node is shared by its devices where the attempts have any, else by cpu.
std::vector<int64_t> Weights(const State& state, NodeId node, const std::set<AttemptId>& attempts) {
  std::vector<int64_t> devices, cpus;
  int64_t any_devices = 0;
  for (const AttemptId& id : attempts) {
    const Task* task = FindTask(state, id.task());
    CHECK(task != nullptr && task->attempt) << id.ToString();
    int64_t count = 0;
    for (const Member& member : task->attempt->members) {
      if (member.node == node) count += std::popcount(member.devices);
    }
    devices.push_back(count);
    any_devices += count;
    cpus.push_back(ShapeOf(state, *FindJob(state, id.job)).cpu_milli);
  }
  return any_devices > 0 ? devices : cpus;
}

// What each attempt that works on the node bears of `amount`, in the order of their ids; empty where none works.
std::vector<std::pair<AttemptId, int64_t>> Shares(const State& state, const Node& node, int64_t amount) {
  std::vector<std::pair<AttemptId, int64_t>> shares;
  const auto attempts = state.index.on_node.find(node.id);
  if (attempts == state.index.on_node.end() || (node.state != NodeState::kReady && node.state != NodeState::kDraining)) return shares;
  const std::vector<int64_t> parts = SplitByLargestRemainder(amount, Weights(state, node.id, attempts->second));
  for (const AttemptId& attempt : attempts->second) shares.emplace_back(attempt, parts[shares.size()]);
  return shares;
}

const char* KindWithoutWork(NodeState state) {
  switch (state) {
    case NodeState::kRequested:
    case NodeState::kBooting: return "boot";
    case NodeState::kReady: return "idle";
    default: return "overhead";
  }
}

}  // namespace

void Meter(State* state, NodeId id, int64_t now_ms, Changes* changes) {
  const auto found = state->nodes.find(id);
  CHECK(found != state->nodes.end()) << id;
  Node& node = found->second;
  if (node.metered_ms == 0 || now_ms <= node.metered_ms) return;
  const int64_t from_ms = node.metered_ms;
  node.metered_ms = now_ms;
  changes->nodes.insert(id);
  if (node.price_micros_per_hour == 0) return;
  const int64_t amount = CostUntil(node, now_ms) - CostUntil(node, from_ms);
  const auto shares = Shares(*state, node, amount);
  if (shares.empty()) return Append(state, &node, AttemptId(), KindWithoutWork(node.state), from_ms, now_ms, amount, changes);
  for (const auto& [attempt, part] : shares) Append(state, &node, attempt, "run", from_ms, now_ms, part, changes);
}

void MeterGone(State* state, NodeId id, int64_t billed_until_ms, int64_t now_ms, Changes* changes) {
  Meter(state, id, billed_until_ms, changes);
  Node& node = state->nodes.at(id);
  if (now_ms <= node.metered_ms) return;
  const int64_t from_ms = node.metered_ms, amount = UnmeteredMicros(node, now_ms);
  node.metered_ms = now_ms;
  changes->nodes.insert(id);
  if (node.price_micros_per_hour > 0) Append(state, &node, AttemptId(), "overhead", from_ms, now_ms, amount, changes);
}

int64_t BilledUntil(const Node& node, int64_t billed_micros, int64_t now_ms) {
  const int64_t covered_ms = pricing::AffordableMs({1, 0, node.price_micros_per_hour}, billed_micros);
  return covered_ms >= now_ms - node.created_ms ? now_ms : node.created_ms + covered_ms;
}

void CloseMeter(State* state, NodeId id, int64_t billed_micros, int64_t now_ms, Changes* changes) {
  Meter(state, id, now_ms, changes);
  Node& node = state->nodes.at(id);
  if (!node.owned) return;
  if (node.created_ms > 0) {
    const pricing::BillingRule rule{node.billing.increment_ms, node.billing.minimum_ms, node.price_micros_per_hour};
    const int64_t by_rule = pricing::ChargeMicros(rule, node.metered_ms - node.created_ms);
    if (by_rule != node.charged_micros) {
      Append(state, &node, AttemptId(), "overhead", node.metered_ms, node.metered_ms, by_rule - node.charged_micros, changes);
    }
  }
  if (billed_micros >= 0 && billed_micros != node.charged_micros) {
    Append(state, &node, AttemptId(), "adjustment", now_ms, now_ms, billed_micros - node.charged_micros, changes);
  }
}

int64_t UnmeteredMicros(const Node& node, int64_t now_ms) {
  if (node.metered_ms == 0 || now_ms <= node.metered_ms) return 0;
  return CostUntil(node, now_ms) - CostUntil(node, node.metered_ms);
}

std::optional<CostSoFar> JobCostSoFar(const State& state, JobId id, int64_t now_ms) {
  const auto live = state.jobs.find(id);
  if (live == state.jobs.end()) return std::nullopt;
  CostSoFar cost{live->second.job.charged_micros, live->second.job.reserved_micros};
  std::set<NodeId> nodes;
  for (const auto& [index, task] : live->second.tasks) {
    if (!task.attempt) continue;
    for (const Member& member : task.attempt->members) nodes.insert(member.node);
  }
  for (const NodeId node_id : nodes) {
    const Node* node = FindNode(state, node_id);
    if (node == nullptr) continue;
    for (const auto& [attempt, part] : Shares(state, *node, UnmeteredMicros(*node, now_ms))) {
      if (attempt.job == id) (node->market == Market::kReserved ? cost.reserved_micros : cost.burst_micros) += part;
    }
  }
  return cost;
}

}  // namespace spillway::core
