// Reads off the state what is owed to the outside. There is no second list: a row in OFFERED, STOPPING, REQUESTED or RELEASING is the intent itself.
#include "scheduler/core/core.h"

namespace spillway::core {
namespace {

void OwedBy(const Task& task, std::vector<Effect>* effects) {
  if (task.seal_owed != 0) effects->push_back(SealAttempt{{task.id.job, task.id.index, task.seal_owed}});
  if (!task.attempt) return;
  const AttemptId id{task.id.job, task.id.index, task.attempt->number};
  for (const Member& member : task.attempt->members) {
    if (member.stopped) continue;
    const bool to_start = task.attempt->state == AttemptState::kStarting && IsGang(*task.attempt) && !member.started;
    if (task.attempt->state == AttemptState::kOffered || to_start) effects->push_back(OfferAttempt{member.node, id});
    if (task.attempt->state == AttemptState::kStopping) effects->push_back(StopOnNode{member.node, id});
  }
}

void OwedBy(const Node& node, std::vector<Effect>* effects) {
  if (!node.owned) return;
  if (node.state == NodeState::kRequested) effects->push_back(CreateInstance{node.id});
  if (node.state == NodeState::kReleasing) effects->push_back(TerminateInstance{node.id});
}

}  // namespace

std::vector<Effect> Effects(const State& state, const Changes* changes) {
  std::vector<Effect> effects;
  if (changes == nullptr) {
    for (const auto& [id, live] : state.jobs) {
      for (const auto& [index, task] : live.tasks) OwedBy(task, &effects);
    }
    for (const auto& [id, node] : state.nodes) OwedBy(node, &effects);
    return effects;
  }
  for (const TaskId& id : changes->tasks) {
    if (const Task* task = FindTask(state, id)) OwedBy(*task, &effects);
  }
  for (NodeId id : changes->nodes) {
    if (const Node* node = FindNode(state, id)) OwedBy(*node, &effects);
  }
  return effects;
}

std::vector<AttemptId> WantedOn(const State& state, NodeId node) {
  const auto attempts = state.index.on_node.find(node);
  if (attempts == state.index.on_node.end()) return {};
  return {attempts->second.begin(), attempts->second.end()};
}

}  // namespace spillway::core
