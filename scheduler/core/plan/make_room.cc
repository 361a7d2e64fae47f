// Makes room for a task of higher priority that can have none otherwise: no node has room, none is coming, no offer is open. Attempts of lower priority on
// one node are asked to save and stop; the lowest priorities give way first, and of equal ones those that lose the least work. Never those that may not be
// interrupted, nor a task that made room a short while ago. Until they have stopped the node is promised: nobody of less than the waiter's priority is
// placed there, so that what becomes free bit by bit is there as a whole at the end. Nor is anybody of less priority started where what stops anyway will be
// enough: a task that this round has placed gives way for nothing, in a next round that keeps the node. A gang gets as many nodes as it has members in this
// way, and one that gives way does so on all of its nodes.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/plan/plan.h"
#include "scheduler/core/policy/silence.h"
#include "scheduler/core/queue/queue.h"

namespace spillway::core {
namespace {

// An attempt that could be asked to go, or a task that this round has placed.
struct Victim {
  AttemptId id;  // number 0: placed by this round
  const Job* job = nullptr;
  int64_t lost_ms = 0;
  uint64_t devices = 0;  // of one that this round has placed

  bool runs() const { return id.number != 0; }
};

class RoomMaker {
 public:
  explicit RoomMaker(Plan* plan) : plan_(plan) {}

  // Each room that is made may leave some over, for tasks that were looked at before: so the round begins anew after each, until nobody more need be asked.
  // The next cycle, which finds all this under way, comes to the same.
  void Run() {
    while (MadeOne()) coming_.clear();
  }

 private:
  bool MadeOne() {
    const int64_t lowest = LowestPriority();
    Queue queue(plan_->state);
    while (plan_->candidates_left > 0) {
      const std::optional<QueuedTask> task = queue.Next();
      if (!task || task->job->priority <= lowest) return false;  // they come in the order of their priority
      --plan_->candidates_left;
      if (plan_->placed.contains(task->id) || plan_->served.contains(task->id) || task->sealing() || task->backs_off(plan_->now_ms)) continue;
      if (IsLimited(*plan_, *task->job, task->id)) {
        queue.LeaveOutUnstarted(task->id.job);
        continue;
      }
      if (Leaves(*task)) continue;
      if (Make(*task)) return !plan_->again;
      queue.Drop(task->job->shape_id);
    }
    return false;
  }

  int64_t LowestPriority() const {
    const auto& active = plan_->state.index.active_priorities;
    int64_t lowest = active.empty() ? std::numeric_limits<int64_t>::max() : active.begin()->first;
    for (const TaskId& task : plan_->placed) lowest = std::min(lowest, FindJob(plan_->state, task.job)->priority);
    return lowest;
  }

  // Where something runs; for a gang, which may need some of them beside idle ones, all.
  const std::vector<const Node*>& Open(const Shape& shape) {
    if (opened_) return shape.nodes > 1 ? all_ : open_;
    opened_ = true;
    std::set<NodeId> busy;
    for (const auto& [id, attempts] : plan_->state.index.on_node) busy.insert(id);
    for (const Command& command : plan_->commands) {
      const Place* place = std::get_if<Place>(&command);
      if (place == nullptr) continue;
      for (const Member& member : place->members) {
        busy.insert(member.node);
        placed_on_[member.node].push_back({{place->task.job, place->task.index, 0}, FindJob(plan_->state, place->task.job), 0, member.devices});
      }
    }
    for (const auto& [id, node] : plan_->state.nodes) {
      if (!MayPlaceOn(*plan_, node)) continue;
      all_.push_back(&node);
      if (busy.contains(id)) open_.push_back(&node);
    }
    return shape.nodes > 1 ? all_ : open_;
  }

  // The room there will be when everything has stopped that was asked to, less what was promised of it.
  Room* ComingOn(const Node& node) {
    const auto [found, is_new] = coming_.insert({node.id, Room()});
    if (!is_new) return &found->second;
    Room& room = found->second = plan_->open.RoomOf(node);
    for (const AttemptId& id : WantedOn(plan_->state, node.id)) {
      const Attempt& attempt = *FindAttempt(plan_->state, id);
      if (attempt.stop || plan_->fenced.contains(id) || asked_.contains(id)) Give(id, node, &room);
    }
    for (const Promise& promise : plan_->promises[node.id]) {
      const Shape& shape = ShapeOf(plan_->state, *FindJob(plan_->state, promise.task.job));
      if (!plan_->placed.contains(promise.task) && room.Holds(shape)) room.Take(shape);
    }
    return &room;
  }

  void Give(const AttemptId& id, const Node& node, Room* room) const {
    const Shape& shape = ShapeOf(plan_->state, *FindJob(plan_->state, id.job));
    for (const Member& member : FindAttempt(plan_->state, id)->members) {
      // A node may have come back with fewer devices than are held there.
      if (member.node == node.id && !member.stopped) room->Give(shape, member.devices & EmptyRoom(node.capacity).devices);
    }
  }

  // Where enough stops anyway, nobody more is asked to.
  bool Leaves(const QueuedTask& task) {
    std::vector<Room*> rooms;
    for (const Node* node : Open(*task.shape)) {
      --plan_->candidates_left;
      if (Misfits(*task.shape, *node) != 0) continue;
      if (Room* room = ComingOn(*node); room->Holds(*task.shape)) rooms.push_back(room);
      if (static_cast<int64_t>(rooms.size()) < task.shape->nodes) continue;
      for (Room* room : rooms) room->Take(*task.shape);
      CountStart(plan_, *task.job, task.id);
      return true;
    }
    return false;
  }

  // On the nodes where it takes least.
  bool Make(const QueuedTask& task) {
    using Key = std::tuple<int64_t, int64_t, int64_t, NodeId>;
    std::map<Key, std::vector<Victim>> found;
    for (const Node* node : Open(*task.shape)) {
      if (Misfits(*task.shape, *node) != 0) continue;
      std::optional<std::vector<Victim>> victims = VictimsOn(*node, task);
      if (!victims) continue;
      int64_t highest = std::numeric_limits<int64_t>::min(), lost_ms = 0, stops = 0;
      for (const Victim& victim : *victims) {
        if (victim.runs()) highest = std::max(highest, victim.job->priority), lost_ms += victim.lost_ms, ++stops;
      }
      found.emplace(Key{highest, lost_ms, stops, node->id}, *std::move(victims));
      if (static_cast<int64_t>(found.size()) > task.shape->nodes) found.erase(--found.end());
    }
    if (static_cast<int64_t>(found.size()) < task.shape->nodes) return false;
    const bool placed = std::any_of(found.begin(), found.end(), [](const auto& entry) {
      return std::any_of(entry.second.begin(), entry.second.end(), [](const Victim& victim) { return !victim.runs(); });
    });
    for (const auto& [key, victims] : found) {
      (placed ? plan_->kept : plan_->promises)[std::get<3>(key)].push_back({task.id, task.job->priority});
      for (const Victim& victim : victims) {
        if (!placed && asked_.insert(victim.id).second) Ask(task, victim);
      }
    }
    plan_->again = plan_->again || placed;
    if (placed) return true;
    plan_->served.insert(task.id);
    CountStart(plan_, *task.job, task.id);
    return true;
  }

  void Ask(const QueuedTask& task, const Victim& victim) {
    StopRequest stop;
    stop.cause = EndCause::kPreempted;
    stop.initiator = Initiator::kScheduler;
    stop.grace_ms = victim.job->grace_ms;
    stop.requested_ms = plan_->now_ms;
    stop.reason = absl::StrCat("makes room for ", task.id.ToString(), " (", task.job->name, "), priority ", task.job->priority, " over ", victim.job->priority);
    stop.for_task = task.id;
    plan_->commands.push_back(StopAttempt{victim.id, std::move(stop)});
  }

  // The fewest and least of them that leave enough room; nullopt: all together do not.
  std::optional<std::vector<Victim>> VictimsOn(const Node& node, const QueuedTask& task) {
    std::vector<Victim> victims;
    for (const AttemptId& id : WantedOn(plan_->state, node.id)) {
      --plan_->candidates_left;
      const Task& held = *FindTask(plan_->state, id.task());
      const Job& job = *FindJob(plan_->state, id.job);
      if (job.priority >= task.job->priority || asked_.contains(id) || plan_->fenced.contains(id)) continue;
      if (!MayMakeRoom(plan_->state, job, held, plan_->policy, plan_->now_ms)) continue;
      victims.push_back({id, &job, WorkAtRiskMs(held, plan_->now_ms), 0});
    }
    for (const Victim& placed : placed_on_[node.id]) {
      if (placed.job->priority < task.job->priority) victims.push_back(placed);
    }
    std::sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) {
      return std::make_tuple(a.runs(), a.job->priority, a.lost_ms, a.id) < std::make_tuple(b.runs(), b.job->priority, b.lost_ms, b.id);
    });
    const Room before = *ComingOn(node);
    const auto holds = [&] {
      Room room = before;
      for (const Victim& victim : victims) {
        if (victim.runs()) {
          Give(victim.id, node, &room);
        } else {
          room.Give(ShapeOf(plan_->state, *victim.job), victim.devices);
        }
      }
      return room.Holds(*task.shape);
    };
    if (!holds()) return std::nullopt;
    // Whoever is not needed stays, the highest first.
    for (size_t i = victims.size(); i-- > 0;) {
      const Victim spared = victims[i];
      victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(i));
      if (!holds()) victims.insert(victims.begin() + static_cast<std::ptrdiff_t>(i), spared);
    }
    return victims;
  }

  Plan* plan_;
  bool opened_ = false;
  std::vector<const Node*> open_, all_;
  std::map<NodeId, Room> coming_;
  std::map<NodeId, std::vector<Victim>> placed_on_;
  std::set<AttemptId> asked_;
};

// When the task last made room; 0: never, as far as its history goes.
int64_t MadeRoomMs(const Task& task) {
  for (auto past = task.history.rbegin(); past != task.history.rend(); ++past) {
    if (past->stop && past->stop->for_task.job != 0) return past->ended_ms;
  }
  return 0;
}

}  // namespace

bool MayMakeRoom(const State& state, const Job& job, const Task& task, const Policy& policy, int64_t now_ms) {
  if (!task.attempt || task.attempt->stop || !ShapeOf(state, job).interruptible) return false;
  const int64_t made_room_ms = MadeRoomMs(task);
  return made_room_ms == 0 || now_ms >= made_room_ms + policy.displace_again_ms;
}

int64_t WorkAtRiskMs(const Task& task, int64_t now_ms) {
  if (task.attempt->started_ms == 0) return 0;
  const bool own = task.checkpoint && task.checkpoint->attempt == task.attempt->number;
  const int64_t since_ms = std::max(task.attempt->started_ms, own ? task.checkpoint->registered_ms : 0);
  return std::max<int64_t>(0, now_ms - since_ms) * static_cast<int64_t>(task.attempt->members.size());
}

int64_t NextToMakeRoomMs(const State& state, const Policy& policy, int64_t now_ms) {
  int64_t next_ms = std::numeric_limits<int64_t>::max();
  const auto& index = state.index;
  if (index.queue.empty() || index.active_priorities.empty()) return next_ms;
  if (-index.queue.begin()->negative_priority <= index.active_priorities.begin()->first) return next_ms;
  for (const auto& [node, attempts] : index.on_node) {
    for (const AttemptId& id : attempts) {
      const int64_t made_room_ms = MadeRoomMs(*FindTask(state, id.task()));
      if (made_room_ms != 0 && made_room_ms + policy.displace_again_ms > now_ms) next_ms = std::min(next_ms, made_room_ms + policy.displace_again_ms);
    }
  }
  return next_ms;
}

void KeepPromises(Plan* plan) {
  for (const AttemptId& id : plan->state.index.making_room) {
    const Attempt& attempt = *FindAttempt(plan->state, id);
    const TaskId waits = attempt.stop->for_task;
    const std::optional<Task> task = GetTask(plan->state, waits);
    if (!task || task->state != TaskState::kQueued || task->seal_owed != 0 || task->not_before_ms > plan->now_ms) continue;
    const Job& job = *FindJob(plan->state, waits.job);
    if (IsLimited(*plan, job, waits)) continue;
    const Shape& shape = ShapeOf(plan->state, job);
    for (const Member& member : attempt.members) {
      if (member.stopped) continue;
      const Node* node = FindNode(plan->state, member.node);
      if (!MayPlaceOn(*plan, *node) || Misfits(shape, *node) != 0) continue;
      PromiseTo(plan, node->id, job, waits);
      plan->served.insert(waits);
      CountStart(plan, job, waits);
    }
    if (shape.nodes > 1) PromiseFree(plan, job, waits);
  }
}

bool IsPromised(const Plan& plan, NodeId node, const Job& job) {
  const auto any = [&](const std::map<NodeId, std::vector<Promise>>& kept, int64_t least) {
    const auto found = kept.find(node);
    if (found == kept.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(),
                       [&](const Promise& one) { return one.task.job != job.id && one.priority >= least && !plan.placed.contains(one.task); });
  };
  return any(plan.promises, job.priority) || any(plan.kept, job.priority + 1);
}

void MakeRoom(Plan* plan) { RoomMaker(plan).Run(); }

}  // namespace spillway::core
