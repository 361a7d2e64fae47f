#include "scheduler/core/policy/slack.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "scheduler/core/fit/fit.h"

namespace spillway::core {
namespace {

constexpr int64_t kUnseenBootMs = 3 * 60'000;
constexpr int64_t kSparePart = 50;  // of the work left: nobody's estimate is exact

int64_t RanMs(const Attempt& attempt, int64_t now_ms) { return attempt.started_ms == 0 ? 0 : std::max<int64_t>(now_ms - attempt.started_ms, 0); }

}  // namespace

Slack SlackOf(const Job& job, const Task* task, int64_t boot_ms, int64_t now_ms) {
  const auto left = [&](int64_t done_ms) { return std::max<int64_t>(job.expected_ms - done_ms, 0); };
  const int64_t saved_left_ms = left(task == nullptr ? 0 : task->worked_ms);
  Slack slack;
  slack.left_ms = saved_left_ms;
  slack.start_ms = job.grace_ms + boot_ms + boot_ms / 2 + saved_left_ms / kSparePart;
  const Attempt* runs = task != nullptr && task->attempt && !task->attempt->stop ? &*task->attempt : nullptr;
  if (runs == nullptr) {
    slack.ends_ms = now_ms + slack.start_ms + saved_left_ms;
    slack.last_safe_ms = job.deadline_ms - 2 * slack.start_ms - saved_left_ms;
    return slack;
  }
  const int64_t running_left_ms = left(runs->worked_before_ms + RanMs(*runs, now_ms));
  slack.ends_ms = now_ms + running_left_ms;
  if (CanBeTaken(runs->market)) {
    slack.last_safe_ms = job.deadline_ms - slack.start_ms - saved_left_ms;
  } else {
    slack.left_ms = running_left_ms;
    slack.last_safe_ms = job.deadline_ms - running_left_ms;
  }
  return slack;
}

std::string DeadlineLost(int64_t deadline_ms, int64_t ends_ms) {
  return absl::StrCat("its deadline of ", FormatUtcMs(deadline_ms), " cannot be met: it ends at ", FormatUtcMs((ends_ms + 999) / 1000 * 1000),
                      " at the earliest");
}

Slack SlackOf(const State& state, const Job& job, const Task* task, int64_t now_ms) { return SlackOf(job, task, BootMs(state, ShapeOf(state, job)), now_ms); }

int64_t Slack::SpareMs(const Job& job, int64_t now_ms) const {
  return ends_ms > job.deadline_ms ? job.deadline_ms - ends_ms : std::max<int64_t>(last_safe_ms - now_ms, 0);
}

// Pools of one provider boot alike, and what is cheap is tried more often: all that a provider ever booted counts.
int64_t BootMs(const State& state, const Shape& shape) {
  std::set<std::string> providers;
  for (const auto& [key, offer] : state.offers) {
    if (!offer.withdrawn && !CanBeTaken(offer.market) && Misfits(shape, offer) == 0) providers.insert(offer.provider);
  }
  if (providers.empty()) return 0;
  int64_t boots = 0, boot_ms = 0;
  for (const auto& [key, offer] : state.offers) {
    if (!providers.contains(offer.provider)) continue;
    boots += offer.boots;
    boot_ms += offer.boot_ms;
  }
  return boots == 0 ? kUnseenBootMs : boot_ms / boots;
}

}  // namespace spillway::core
