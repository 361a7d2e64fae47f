// Places waiting tasks on machines that are paid for already: reserved ones first, then burst machines that bill anyway, each time where least is left over,
// so that whole machines stay free. One task that fits nowhere never holds up the others: the rest of its shape is left out of this cycle.
#include <algorithm>
#include <optional>
#include <tuple>

#include "scheduler/core/fit/fit.h"
#include "scheduler/core/plan/deadlines.h"
#include "scheduler/core/policy/silence.h"
#include "scheduler/core/queue/queue.h"

namespace spillway::core {
namespace {

// Kinds of nodes that could ever hold a shape, found once a cycle.
struct Fitting {
  std::vector<const OpenNodes::Kind*> reserved, burst;
  const Node* last = nullptr;  // where the shape's last task went: packed until it is full
};

class Placer {
 public:
  explicit Placer(Plan* plan) : plan_(plan) {}

  // What has no time for machines that can be taken away, and was left without others, may go to any.
  void PlaceUrgentAnywhere() {
    ForEachUrgent(plan_, [this](const QueuedTask& task) {
      if (plan_->placed.contains(task.id)) return true;
      if (plan_->served.contains(task.id)) return false;  // those behind one that never began begin after it
      stance_ = Stance::kFree;
      return !IsLimited(*plan_, *task.job, task.id) && Place(task);
    });
  }

  // A promise that is kept frees what its node has left, for tasks that were looked at before.
  void Run() {
    while (KeptOne()) {
    }
  }

 private:
  // Once through the queue. Whether somebody was placed for whom room was made.
  bool KeptOne() {
    bool kept = false;
    if (plan_->open.empty()) return kept;
    Queue queue(plan_->state);
    while (plan_->candidates_left > 0) {
      const std::optional<QueuedTask> task = queue.Next();
      if (!task) return kept;
      --plan_->candidates_left;
      if (task->sealing() || task->backs_off(plan_->now_ms) || plan_->placed.contains(task->id)) continue;
      if (IsLimited(*plan_, *task->job, task->id)) {
        queue.LeaveOutUnstarted(task->id.job);
        continue;
      }
      stance_ = StanceOf(plan_, *task->job, task->task);
      // Where a promise alone is in the way, somebody of the same shape may be the one it was made to.
      const bool placed = Place(*task);
      if (!placed && !promised_) LeaveOut(*task, &queue);
      kept = kept || (placed && plan_->served.contains(task->id));
    }
    return kept;
  }

  // Where an urgent task finds no place, others of its shape may.
  void LeaveOut(const QueuedTask& task, Queue* queue) const {
    if (stance_ == Stance::kUrgent) {
      queue->LeaveOutUnstarted(task.id.job);
    } else {
      queue->Drop(task.job->shape_id);
    }
  }

  Fitting& FittingFor(const QueuedTask& task) {
    const auto [found, is_new] = fitting_.insert({task.job->shape_id, Fitting()});
    if (!is_new) return found->second;
    for (const auto& [kind, nodes] : plan_->state.index.open) {
      --plan_->candidates_left;
      if (Misfits(*task.shape, kind) != 0) continue;
      (kind.market == Market::kReserved ? found->second.reserved : found->second.burst).push_back(&kind);
    }
    return found->second;
  }

  // The fullest that has room; the node where the task failed last only if it is the only one.
  const Node* Best(const std::vector<const OpenNodes::Kind*>& kinds, const QueuedTask& task, const std::vector<const Node*>& chosen) {
    const Node* best = nullptr;
    std::tuple<bool, OpenNodes::Free> best_key;
    // Whether none that comes after it among its own kind can be better.
    const auto consider = [&](const Node& node) {
      --plan_->candidates_left;
      if (Contains(chosen, &node) || !MayTake(node, task)) return false;
      const std::tuple<bool, OpenNodes::Free> key{node.id == task.avoid_node(), FreeOn(plan_->open.RoomOf(node), node.id)};
      if (best == nullptr || key < best_key) best = &node, best_key = key;
      return node.id != task.avoid_node();
    };
    for (const OpenNodes::Kind* kind : kinds) plan_->open.Visit(*kind, *task.shape, consider);
    return best;
  }

  bool MayTake(const Node& node, const QueuedTask& task) {
    const std::set<std::string>& names = task.shape->node_names;
    if (!Allows(node) || !MayPlaceOn(*plan_, node) || (!names.empty() && !names.contains(node.name))) return false;
    if (!plan_->open.RoomOf(node).Holds(*task.shape)) return false;
    if (!IsPromised(*plan_, node.id, *task.job)) return true;
    promised_ = true;
    return false;
  }

  static bool Contains(const std::vector<const Node*>& nodes, const Node* node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); }
  bool Allows(const Node& node) const { return stance_ != Stance::kUrgent || !CanBeTaken(node.market); }

  // A node for each member, or none at all.
  bool Place(const QueuedTask& task) {
    promised_ = false;
    Fitting& fitting = FittingFor(task);
    std::vector<const Node*> nodes;
    while (static_cast<int64_t>(nodes.size()) < task.shape->nodes) {
      const Node* node = Pick(&fitting, task, nodes);
      if (node == nullptr) return false;
      nodes.push_back(node);
    }
    Propose(task, nodes);
    return true;
  }

  const Node* Pick(Fitting* fitting, const QueuedTask& task, const std::vector<const Node*>& chosen) {
    const Node* node = nullptr;
    const Node* last = fitting->last;
    if (last != nullptr && Allows(*last) && last->id != task.avoid_node() && !Contains(chosen, last) && plan_->open.RoomOf(*last).Holds(*task.shape) &&
        !IsPromised(*plan_, last->id, *task.job)) {
      node = last;
    }
    if (node == nullptr) node = Best(fitting->reserved, task, chosen);
    if (node == nullptr) node = Best(fitting->burst, task, chosen);
    if (node == nullptr) return nullptr;
    fitting->last = node;
    // Avoided and yet alone among the reserved: a burst node with room is better than failing there again.
    if (node->id == task.avoid_node() && node->market == Market::kReserved) {
      if (const Node* other = Best(fitting->burst, task, chosen)) node = other;
    }
    return node;
  }

  void Propose(const QueuedTask& task, const std::vector<const Node*>& nodes) {
    core::Place command;
    command.task = task.id;
    command.reason.code = PlaceCode::kReservedFits;
    for (const Node* node : nodes) {
      command.members.push_back({node->id, plan_->open.Take(*node, *task.shape)});
      plan_->wanted.insert(node->id);
      if (node->market == Market::kReserved) continue;
      const int64_t requested = node->for_task == task.id || (command.reason.code == PlaceCode::kPaidNodeFits && command.reason.b == 1) ? 1 : 0;
      command.reason = {PlaceCode::kPaidNodeFits, std::max(command.reason.a, node->price_micros_per_hour), requested, 0};
    }
    plan_->commands.push_back(std::move(command));
    plan_->placed.insert(task.id);
    CountStart(plan_, *task.job, task.id);
  }

  Plan* plan_;
  bool promised_ = false;  // a node with room for the task is kept for another
  Stance stance_ = Stance::kFree;
  std::map<int64_t, Fitting> fitting_;
};

}  // namespace

void PlaceTasks(Plan* plan) { Placer(plan).Run(); }

void PlaceUrgentAnywhere(Plan* plan) { Placer(plan).PlaceUrgentAnywhere(); }

}  // namespace spillway::core
