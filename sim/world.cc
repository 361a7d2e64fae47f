#include "sim/world.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "sim/spot_model.h"

namespace spillway::sim {
namespace {

constexpr int64_t kStepsInAMomentMax = 1'000'000;

}  // namespace

Rng World::Luck(absl::string_view concern) const { return Rng(SpotSeed(seed_, concern)); }

void World::Plan(int64_t at_ms, Planned planned) {
  size_t place = planned_.size();
  if (free_places_.empty()) {
    planned_.push_back(std::move(planned));
  } else {
    place = free_places_.back();
    free_places_.pop_back();
    planned_[place] = std::move(planned);
  }
  heap_.push_back({std::max(at_ms, now_ms_), next_order_++, place});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void World::At(int64_t at_ms, Task what) { Plan(at_ms, {std::move(what), {}, false}); }

void World::After(int64_t ms, const LifeWatch& life, Task what) { Plan(now_ms_ + ms, {std::move(what), life, true}); }

void World::RunUntil(int64_t until_ms) {
  while (failure_.empty() && !heap_.empty() && heap_.front().at_ms <= until_ms) {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Turn turn = heap_.back();
    heap_.pop_back();
    // Taken out first: what happens plans more.
    const Planned next = std::move(planned_[turn.place]);
    planned_[turn.place] = {};
    free_places_.push_back(turn.place);
    steps_at_ms_ = turn.at_ms == now_ms_ ? steps_at_ms_ + 1 : 0;
    if (steps_at_ms_ > kStepsInAMomentMax) return Fail("time stands still: something plans itself again and again for the same moment");
    now_ms_ = turn.at_ms;
    ++steps_;
    if (!next.watched || !next.life.expired()) next.what();
  }
  if (failure_.empty()) now_ms_ = std::max(now_ms_, until_ms);
}

void World::AppendTrace(absl::string_view line) { absl::StrAppend(trace_, SinceStart(now_ms_), "  ", line, "\n"); }

void World::Fail(absl::string_view what) {
  if (!failure_.empty()) return;
  failure_ = absl::StrCat("at ", SinceStart(now_ms_), ": ", what);
  Trace("BROKEN: ", what);
}

std::string SinceStart(int64_t at_ms) {
  const int64_t ms = at_ms - World::kStartMs;
  return absl::StrFormat("%dh%02dm%02d.%03ds", ms / 3'600'000, ms / 60'000 % 60, ms / 1'000 % 60, ms % 1'000);
}

}  // namespace spillway::sim
