#include "scheduler/core/plan/deadlines.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/policy/offers.h"
#include "scheduler/core/policy/restored.h"
#include "scheduler/core/policy/silence.h"

namespace spillway::core {
namespace {

// Machines that can be taken away are offered, now or at other times, and are expected to cost less than those that stay.
bool SpotPays(const State& state, const Shape& shape, int64_t now_ms) {
  int64_t spot = std::numeric_limits<int64_t>::max(), staying = std::numeric_limits<int64_t>::max();
  for (const auto& [key, offer] : state.offers) {
    const OfferBar bar = BarOf(state, offer, 0, 0, now_ms);
    if (bar == OfferBar::kWithdrawn || bar == OfferBar::kNoProvider || Misfits(shape, offer) != 0) continue;
    int64_t& least = CanBeTaken(offer.market) ? spot : staying;
    least = std::min(least, ExpectedMicrosPerHour(state, offer, now_ms));
  }
  return spot < staying;
}

bool Stays(const Plan& plan, const Node& node, const Shape& shape) {
  return !CanBeTaken(node.market) && !node.cordoned && node.notice_deadline_ms == 0 && !plan.leaving.contains(node.id) && Misfits(shape, node) == 0;
}

bool StayingComes(const Plan& plan, const Shape& shape) {
  return std::any_of(plan.state.nodes.begin(), plan.state.nodes.end(), [&](const auto& entry) {
    const Node& node = entry.second;
    return (node.state == NodeState::kRequested || node.state == NodeState::kBooting) && Stays(plan, node, shape);
  });
}

// For every member.
bool StayingIsOpen(Plan* plan, const Shape& shape) {
  int64_t open = 0;
  for (const auto& [kind, nodes] : plan->state.index.open) {
    if (CanBeTaken(kind.market) || Misfits(shape, kind) != 0) continue;
    plan->open.Visit(kind, shape, [&](const Node& node) {
      if (Stays(*plan, node, shape) && MayPlaceOn(*plan, node) && plan->open.RoomOf(node).Holds(shape)) ++open;
      return open >= shape.nodes;
    });
    if (open >= shape.nodes) return true;
  }
  for (const auto& [key, offer] : plan->state.offers) {
    if (CanBeTaken(offer.market) || Misfits(shape, offer) != 0) continue;
    for (int64_t more = 0; open < shape.nodes && BarOf(plan->state, offer, more, more, plan->now_ms) == OfferBar::kNone; ++more) ++open;
    if (open >= shape.nodes) return true;
  }
  return false;
}

Outlets& OutletsOf(Plan* plan, const Job& job) {
  const auto [found, is_new] = plan->outlets.insert({job.shape_id, Outlets()});
  if (!is_new) return found->second;
  const Shape& shape = ShapeOf(plan->state, job);
  plan->candidates_left -= static_cast<int64_t>(plan->state.nodes.size() + plan->state.offers.size());
  found->second = {SpotPays(plan->state, shape, plan->now_ms), StayingIsOpen(plan, shape), StayingComes(*plan, shape), BootMs(plan->state, shape)};
  return found->second;
}

// It runs where it can be taken away, and what it would lose by a move is less than what it would take to end there.
bool MustMove(const Job& job, const Task& task, const Slack& slack, int64_t now_ms) {
  const bool there = task.attempt && !task.attempt->stop && CanBeTaken(task.attempt->market);
  return there && now_ms < job.deadline_ms && now_ms >= slack.last_safe_ms && slack.ends_ms - now_ms > slack.start_ms;
}

void MoveIfDue(Plan* plan, const Job& job, const Task& task) {
  const Outlets& outlets = OutletsOf(plan, job);
  const Slack slack = SlackOf(job, &task, outlets.boot_ms, plan->now_ms);
  if (!outlets.staying || !MustMove(job, task, slack, plan->now_ms)) return;
  StopRequest stop;
  stop.cause = EndCause::kMoved;
  stop.initiator = Initiator::kScheduler;
  stop.grace_ms = job.grace_ms;
  stop.requested_ms = plan->now_ms;
  stop.reason = absl::StrCat("its deadline of ", FormatUtcMs(job.deadline_ms), " leaves no more time for machines that can be taken away");
  plan->commands.push_back(StopAttempt{{task.id.job, task.id.index, task.attempt->number}, std::move(stop)});
}

}  // namespace

Stance StanceOf(Plan* plan, const Job& job, const Task* task) {
  if (job.deadline_ms == 0 || plan->now_ms >= job.deadline_ms) return Stance::kFree;
  const Outlets& outlets = OutletsOf(plan, job);
  if (plan->now_ms >= SlackOf(job, task, outlets.boot_ms, plan->now_ms).last_safe_ms)
    return outlets.staying || outlets.coming ? Stance::kUrgent : Stance::kFree;
  return outlets.spot ? Stance::kPatient : Stance::kFree;
}

void ForEachUrgent(Plan* plan, const std::function<bool(const QueuedTask&)>& serve) {
  const auto passed = plan->state.index.deadlines.upper_bound({plan->now_ms, std::numeric_limits<JobId>::max()});
  for (auto at = passed; at != plan->state.index.deadlines.end() && plan->candidates_left > 0; ++at) {
    const LiveJob& live = plan->state.jobs.at(at->second);
    const Job& job = live.job;
    --plan->candidates_left;
    if (job.counts.queued == 0) continue;
    const Shape& shape = ShapeOf(plan->state, job);
    for (const auto& [index, task] : live.tasks) {
      if (task.state != TaskState::kQueued || task.seal_owed != 0 || task.not_before_ms > plan->now_ms) continue;
      --plan->candidates_left;
      if (StanceOf(plan, job, &task) == Stance::kUrgent) serve({task.id, &job, &task, &shape});
    }
    if (HoldOf(job) != HoldReason::kUnspecified || job.next_index >= job.task_count || StanceOf(plan, job, nullptr) != Stance::kUrgent) continue;
    TaskIndex next = job.next_index;
    while (next < job.task_count && plan->candidates_left > 0) {
      --plan->candidates_left;
      if (!serve({{job.id, next}, &job, nullptr, &shape})) break;
      next = NotSkippedFrom(job, next + 1);
    }
  }
}

void KeepDeadlines(Plan* plan) {
  for (const auto& [deadline_ms, id] : plan->state.index.deadlines) {
    const LiveJob& live = plan->state.jobs.at(id);
    if (live.job.counts.active == 0 || WaitsForLostLife(plan->state, live.job, plan->now_ms)) continue;
    for (const auto& [index, task] : live.tasks) MoveIfDue(plan, live.job, task);
  }
}

int64_t NextDeadlineStepMs(const State& state, int64_t now_ms) {
  int64_t next_ms = std::numeric_limits<int64_t>::max();
  std::map<int64_t, int64_t> boot_ms_of;  // by shape
  const auto consider = [&](int64_t at_ms) {
    if (at_ms > now_ms) next_ms = std::min(next_ms, at_ms);
  };
  for (auto at = state.index.deadlines.upper_bound({now_ms, std::numeric_limits<JobId>::max()}); at != state.index.deadlines.end(); ++at) {
    const LiveJob& live = state.jobs.at(at->second);
    const auto [boot, is_new] = boot_ms_of.insert({live.job.shape_id, 0});
    if (is_new) boot->second = BootMs(state, ShapeOf(state, live.job));
    const int64_t boot_ms = boot->second;
    if (Unstarted(live.job) > 0) consider(SlackOf(live.job, nullptr, boot_ms, now_ms).last_safe_ms);
    for (const auto& [index, task] : live.tasks) {
      if (!task.attempt || CanBeTaken(task.attempt->market)) consider(SlackOf(live.job, &task, boot_ms, now_ms).last_safe_ms);
    }
    consider(live.job.deadline_ms);
  }
  return next_ms;
}

}  // namespace spillway::core
