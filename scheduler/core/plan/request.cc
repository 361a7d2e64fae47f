// Asks providers for nodes, one for each member of a task that fits nowhere, unless nodes that are coming will hold it: several small tasks share one.
// What a gang lacks is asked for as a whole or not at all.
// Nodes that lost their session a moment ago count as coming too, so that a restart of the scheduler asks for nothing.
#include <algorithm>
#include <limits>
#include <optional>

#include "scheduler/core/fit/fit.h"
#include "scheduler/core/plan/deadlines.h"
#include "scheduler/core/policy/offers.h"
#include "scheduler/core/policy/silence.h"
#include "scheduler/core/queue/queue.h"

namespace spillway::core {
namespace {

struct Coming {
  const Node* node = nullptr;  // null: an offer that this cycle asks for
  const Offer* offer = nullptr;
  Room room;
  TaskId gang = {};  // whose member it was requested for; job 0: anybody's
};

class Requester {
 public:
  explicit Requester(Plan* plan) : plan_(plan) {
    for (const auto& [id, node] : plan->state.nodes) {
      if (plan->leaving.contains(id) || node.cordoned || node.notice_deadline_ms != 0) continue;
      const bool boots = node.state == NodeState::kRequested || node.state == NodeState::kBooting;
      const bool reconnects =
          TakesWork(node) && !Reachable(node, plan->soft, plan->policy, plan->now_ms) && plan->now_ms - HeardMs(node, plan->soft) <= plan->policy.silence_ms;
      if (boots || reconnects) coming_.push_back({&node, nullptr, RoomOn(plan->state.index, node)});
    }
  }

  // First those that have no time for machines that can be taken away: they get others as long as there are any.
  void ServeUrgent() {
    if (plan_->state.index.deadlines.empty()) return;
    urgent_only_ = true;
    ServeOwners();
    ForEachUrgent(plan_, [this](const QueuedTask& task) {
      if (plan_->placed.contains(task.id) || plan_->served.contains(task.id)) return true;
      if (IsLimited(*plan_, *task.job, task.id)) return false;
      stance_ = Stance::kUrgent;
      if (Serve(task)) return true;
      urgent_left_ = true;
      return false;
    });
    urgent_only_ = false;
  }
  bool urgent_left() const { return urgent_left_; }

  void ServeQueue() {
    ServeOwners();
    Queue queue(plan_->state);
    while (plan_->candidates_left > 0) {
      const std::optional<QueuedTask> task = queue.Next();
      if (!task) return;
      --plan_->candidates_left;
      if (plan_->placed.contains(task->id) || plan_->served.contains(task->id) || task->sealing() || task->backs_off(plan_->now_ms)) continue;
      if (IsLimited(*plan_, *task->job, task->id)) {
        queue.LeaveOutUnstarted(task->id.job);
        continue;
      }
      stance_ = Stand(*task->job, task->task);
      if (!Serve(*task)) LeaveOut(*task, &queue);
    }
  }

 private:
  // What no machine that stays was left for takes any.
  Stance Stand(const Job& job, const Task* task) const {
    const Stance stance = StanceOf(plan_, job, task);
    return stance == Stance::kUrgent && !urgent_only_ ? Stance::kFree : stance;
  }

  // Where a deadline narrows what may be asked for, others of the shape may still have the rest; and a gang for which some nodes come lacks fewer than others.
  void LeaveOut(const QueuedTask& task, Queue* queue) const {
    const bool one_lacks_fewer = std::any_of(coming_.begin(), coming_.end(), [&](const Coming& coming) {
      return coming.gang.job != 0 && FindJob(plan_->state, coming.gang.job)->shape_id == task.job->shape_id;
    });
    if (stance_ == Stance::kFree && !one_lacks_fewer) {
      queue->Drop(task.job->shape_id);
    } else {
      queue->LeaveOutUnstarted(task.id.job);
    }
  }

  // A node that was requested for a task which still waits is that task's before it is anybody else's.
  void ServeOwners() {
    for (Coming& coming : coming_) {
      if (coming.node == nullptr) continue;  // asked for by this very cycle, for a task that is served by it
      const TaskId owner = coming.node->for_task;
      const Job* job = FindJob(plan_->state, owner.job);
      if (job == nullptr || plan_->placed.contains(owner)) continue;
      const std::optional<Task> task = GetTask(plan_->state, owner);
      if (!task || task->state != TaskState::kQueued || task->seal_owed != 0 || task->not_before_ms > plan_->now_ms || plan_->served.contains(owner)) continue;
      stance_ = Stand(*job, &*task);
      if (urgent_only_ && stance_ != Stance::kUrgent) continue;
      const Shape& shape = ShapeOf(plan_->state, *job);
      if (IsLimited(*plan_, *job, owner) || !Fits(coming, shape)) continue;
      // One node is not enough for a gang: it has its turn in the queue.
      if (shape.nodes > 1) {
        coming.gang = owner;
      } else {
        Take(&coming, *job, owner);
      }
    }
  }

  bool Fits(const Coming& coming, const Shape& shape) const {
    const Market market = coming.node != nullptr ? coming.node->market : coming.offer->market;
    if (stance_ == Stance::kUrgent && CanBeTaken(market)) return false;
    const uint32_t misfits = coming.node != nullptr ? Misfits(shape, *coming.node) : Misfits(shape, *coming.offer);
    return misfits == 0 && coming.room.Holds(shape);
  }

  void Take(Coming* coming, const Job& job, TaskId task) {
    coming->room.Take(ShapeOf(plan_->state, job));
    plan_->served.insert(task);
    CountStart(plan_, job, task);
    if (coming->node != nullptr) plan_->wanted.insert(coming->node->id);
  }

  // What is on its way, what is there and not enough by itself, and what must be asked for: together a node for each member, or nothing.
  bool Serve(const QueuedTask& task) {
    std::vector<size_t> coming;
    std::vector<const Node*> there;
    const auto missing = [&] { return task.shape->nodes - static_cast<int64_t>(coming.size() + there.size()); };
    if (task.shape->nodes > 1) {
      AddComing(task, task.id, &coming);
      if (missing() > 0) there = ThereFor(task, missing());
    }
    if (missing() > 0) AddComing(task, TaskId(), &coming);
    if (missing() > 0 && !Request(task, missing())) return false;
    for (const size_t i : coming) Take(&coming_[i], *task.job, task.id);
    for (const Node* node : there) {
      plan_->open.Take(*node, *task.shape);
      plan_->wanted.insert(node->id);
    }
    return true;
  }

  // Those that `gang` owns, or nobody does.
  void AddComing(const QueuedTask& task, TaskId gang, std::vector<size_t>* chosen) {
    for (size_t i = 0; i < coming_.size() && static_cast<int64_t>(chosen->size()) < task.shape->nodes; ++i) {
      --plan_->candidates_left;
      if (coming_[i].gang == gang && Fits(coming_[i], *task.shape)) chosen->push_back(i);
    }
  }

  std::vector<const Node*> ThereFor(const QueuedTask& task, int64_t count) {
    std::vector<const Node*> there;
    for (const auto& [id, node] : plan_->state.nodes) {
      if (static_cast<int64_t>(there.size()) == count) break;
      --plan_->candidates_left;
      if (!MayPlaceOn(*plan_, node) || Misfits(*task.shape, node) != 0 || (stance_ == Stance::kUrgent && CanBeTaken(node.market))) continue;
      if (!IsPromised(*plan_, id, *task.job) && plan_->open.RoomOf(node).Holds(*task.shape)) there.push_back(&node);
    }
    return there;
  }

  bool MayAskFor(const Offer& offer) const {
    switch (stance_) {
      case Stance::kFree: return true;
      case Stance::kPatient: return offer.market != Market::kOnDemand;
      case Stance::kUrgent: return !CanBeTaken(offer.market);
    }
    return true;
  }

  // So many, from whatever is best for each, or none.
  bool Request(const QueuedTask& task, int64_t count) {
    std::map<OfferKey, int64_t> more_of = more_of_;
    std::map<std::string, int64_t> more_of_provider = more_of_provider_;
    std::vector<std::pair<const Offer*, RequestNode>> asked;
    while (static_cast<int64_t>(asked.size()) < count) {
      std::vector<const Offer*> open;
      for (const auto& [key, offer] : plan_->state.offers) {
        --plan_->candidates_left;
        if (Misfits(*task.shape, offer) != 0 || !MayAskFor(offer)) continue;
        if (BarOf(plan_->state, offer, more_of[key], more_of_provider[offer.provider], plan_->now_ms) == OfferBar::kNone) open.push_back(&offer);
      }
      if (open.empty()) return false;
      const Ranked best = Rank(plan_->state, open, plan_->policy, plan_->now_ms).front();
      RequestNode command;
      command.offer = {best.offer->provider, best.offer->name};
      command.for_task = task.id;
      command.reason.code = stance_ == Stance::kUrgent        ? PlaceCode::kDeadline
                            : task.shape->markets.size() == 1 ? PlaceCode::kOnlyMarketAllowed
                                                              : PlaceCode::kCheapestOffer;
      command.reason.a = best.expected_micros_per_hour;
      command.reason.b = best.offer->price_micros_per_hour;
      command.reason.c = static_cast<int64_t>(open.size());
      ++more_of[command.offer];
      ++more_of_provider[best.offer->provider];
      asked.emplace_back(best.offer, std::move(command));
    }
    more_of_ = std::move(more_of);
    more_of_provider_ = std::move(more_of_provider);
    for (auto& [offer, command] : asked) {
      plan_->commands.push_back(std::move(command));
      coming_.push_back({nullptr, offer, EmptyRoom(offer->capacity)});
      Take(&coming_.back(), *task.job, task.id);
    }
    return true;
  }

  Plan* plan_;
  Stance stance_ = Stance::kFree;  // of the task that is looked at
  bool urgent_only_ = false;
  bool urgent_left_ = false;
  std::vector<Coming> coming_;
  std::map<OfferKey, int64_t> more_of_;
  std::map<std::string, int64_t> more_of_provider_;
};

}  // namespace

void RequestNodes(Plan* plan) {
  Requester requester(plan);
  requester.ServeUrgent();
  if (requester.urgent_left()) PlaceUrgentAnywhere(plan);
  requester.ServeQueue();
}

}  // namespace spillway::core
