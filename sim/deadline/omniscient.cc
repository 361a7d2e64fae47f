#include "sim/deadline/omniscient.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace spillway::sim {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;
constexpr int64_t kTableBytesMax = 4LL << 30;
constexpr uint8_t kStay = 254;
constexpr uint8_t kRest = 255;  // to run nothing

// States of a tick: places to rest at (one a zone, and one more for "nowhere yet"), then for each zone and kind of machine one state for each overhead left.
class Table {
 public:
  Table(const Environment& environment, int64_t first_tick, const Job& job, LastTick last_tick)
      : environment_(environment),
        first_tick_(first_tick),
        job_(job),
        last_tick_(last_tick),
        zones_(static_cast<int>(environment.zones.size())),
        places_(zones_ + 1),
        unit_(std::gcd(job.tick_ms, job.overhead_ms)),
        ticks_(job.deadline_ms / job.tick_ms),
        cells_((job.work_ms + unit_ - 1) / unit_) {
    for (int64_t left = job.overhead_ms; left > 0;) {
      left = std::max<int64_t>(left - job.tick_ms, 0);
      overheads_.push_back(left);
    }
    if (overheads_.empty()) overheads_.push_back(0);
    phases_ = static_cast<int>(overheads_.size());
    states_ = places_ + zones_ * 2 * phases_;
    width_ = std::min(cells_, std::max<int64_t>(ticks_ * per_tick() - cells_, 0) + 1);
  }

  int64_t bytes() const { return ticks_ * states_ * width_; }

  absl::StatusOr<OmniscientPlan> Solve() {
    actions_.resize(static_cast<size_t>(bytes()));
    next_.assign(static_cast<size_t>(states_ * cells_), kNever);
    now_ = next_;
    for (int64_t tick = ticks_ - 1; tick >= 0; --tick) {
      SolveTick(tick);
      std::swap(now_, next_);
    }
    const int64_t cost = next_[At(zones_, 0)];
    if (cost >= kNever) return absl::FailedPreconditionError("no plan makes the deadline");
    return Follow(cost);
  }

 private:
  size_t At(int state, int64_t cell) const { return static_cast<size_t>(state) * static_cast<size_t>(cells_) + static_cast<size_t>(cell); }
  int Running(int zone, int kind, int phase) const { return places_ + (zone * 2 + kind) * phases_ + phase; }  // kind: 0 spot, 1 on demand
  uint8_t& Action(int64_t tick, int state, int64_t cell) { return actions_[static_cast<size_t>((tick * states_ + state) * width_ + cell - FirstCell(tick))]; }
  int64_t per_tick() const { return job_.tick_ms / unit_; }
  // With less done than this the deadline cannot be met any more.
  int64_t FirstCell(int64_t tick) const { return std::clamp<int64_t>(cells_ - (ticks_ - tick) * per_tick(), 0, cells_); }
  bool Given(int64_t tick, int zone) const { return environment_.zones[static_cast<size_t>(zone)].available[static_cast<size_t>(first_tick_ + tick)]; }

  // The cost from here on when a machine with this overhead left works through the tick and is then in `state`.
  int64_t Worked(int64_t price, int state_after, int64_t overhead_left, int64_t cell) const {
    const int64_t after = cell + std::max<int64_t>(job_.tick_ms - overhead_left, 0) / unit_;
    if (after >= cells_) return last_tick_ == LastTick::kFree ? 0 : price;
    const int64_t rest = next_[At(state_after, after)];
    return rest >= kNever ? kNever : price + rest;
  }

  void SolveTick(int64_t tick) {
    // Above the last nothing can be reached. The tick before looks at no cell below the first but these.
    const int64_t first = FirstCell(tick);
    const int64_t last = std::min(cells_ - 1, tick * per_tick());
    const int64_t margin = std::max<int64_t>(first - per_tick(), 0);
    for (int state = 0; state < states_; ++state) std::fill_n(now_.begin() + static_cast<std::ptrdiff_t>(At(state, margin)), first - margin, kNever);
    std::vector<int64_t> prices(static_cast<size_t>(zones_ * 2));
    for (int zone = 0; zone < zones_; ++zone) {
      for (int kind = 0; kind < 2; ++kind) {
        const Choice choice{kind == 0 ? Mode::kSpot : Mode::kOnDemand, zone};
        prices[static_cast<size_t>(zone * 2 + kind)] = environment_.PriceAt(choice, first_tick_ + tick) * job_.tick_ms;
      }
    }
    std::vector<int64_t> start(static_cast<size_t>(zones_ * 2));
    for (int64_t cell = first; cell <= last; ++cell) {
      for (int zone = 0; zone < zones_; ++zone) {
        for (int kind = 0; kind < 2; ++kind) {
          const size_t i = static_cast<size_t>(zone * 2 + kind);
          start[i] = kind == 0 && !Given(tick, zone) ? kNever : Worked(prices[i], Running(zone, kind, 0), job_.overhead_ms, cell);
        }
      }
      for (int place = 0; place < places_; ++place) {
        int64_t best = next_[At(place, cell)];
        uint8_t action = kRest;
        for (int zone = 0; zone < zones_; ++zone) {
          const int64_t way = place == zones_ ? 0 : environment_.egress_micros[static_cast<size_t>(place)][static_cast<size_t>(zone)] * 3'600'000;
          for (int kind = 0; kind < 2; ++kind) {
            const int64_t cost = start[static_cast<size_t>(zone * 2 + kind)] + way;
            if (cost >= best) continue;
            best = cost;
            action = static_cast<uint8_t>(zone * 2 + kind);
          }
        }
        now_[At(place, cell)] = std::min(best, kNever);
        Action(tick, place, cell) = action;
        if (place == zones_) continue;
        for (int kind = 0; kind < 2; ++kind) {
          for (int phase = 0; phase < phases_; ++phase) {
            const int state = Running(place, kind, phase);
            int64_t& value = now_[At(state, cell)];
            value = std::min(best, kNever);
            Action(tick, state, cell) = action;
            if (kind == 0 && !Given(tick, place)) continue;
            const int64_t stays = Worked(prices[static_cast<size_t>(place * 2 + kind)], Running(place, kind, std::min(phase + 1, phases_ - 1)),
                                         overheads_[static_cast<size_t>(phase)], cell);
            if (stays > value) continue;
            value = stays;
            Action(tick, state, cell) = kStay;
          }
        }
      }
    }
  }

  OmniscientPlan Follow(int64_t cost) {
    OmniscientPlan plan;
    plan.cost_micros_ms = cost;
    int place = zones_;
    int kind = -1;  // runs nothing
    int phase = 0;
    int64_t cell = 0;
    for (int64_t tick = 0; tick < ticks_ && cell < cells_; ++tick) {
      if (kind == 0 && !Given(tick, place)) kind = -1;
      const uint8_t action = Action(tick, kind < 0 ? place : Running(place, kind, phase), cell);
      int64_t overhead = kind < 0 ? 0 : overheads_[static_cast<size_t>(phase)];
      if (action == kRest) {
        kind = -1;
      } else if (action == kStay) {
        phase = std::min(phase + 1, phases_ - 1);
      } else {
        place = action / 2;
        kind = action % 2;
        phase = 0;
        overhead = job_.overhead_ms;
      }
      if (kind >= 0) cell += std::max<int64_t>(job_.tick_ms - overhead, 0) / unit_;
      plan.ticks.push_back({kind < 0 ? Mode::kIdle : kind == 0 ? Mode::kSpot : Mode::kOnDemand, place == zones_ ? -1 : place});
    }
    return plan;
  }

  const Environment& environment_;
  const int64_t first_tick_;
  const Job& job_;
  const LastTick last_tick_;
  const int zones_;
  const int places_;
  const int64_t unit_;
  const int64_t ticks_;
  const int64_t cells_;             // of work done, each `unit_` long; the last may be shorter
  std::vector<int64_t> overheads_;  // left after the first tick of a run, after the second, ... down to 0
  int phases_ = 1;
  int states_ = 0;
  int64_t width_ = 0;  // cells of a tick that matter
  std::vector<uint8_t> actions_;
  std::vector<int64_t> now_, next_;
};

}  // namespace

absl::StatusOr<OmniscientPlan> PlanOmnisciently(const Environment& environment, int64_t first_tick, const Job& job, LastTick last_tick) {
  if (environment.zones.size() > 100) return absl::InvalidArgumentError("the omniscient plan takes at most 100 zones");
  Table table(environment, first_tick, job, last_tick);
  if (table.bytes() > kTableBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the table of all plans would take ", table.bytes() >> 20, " MB; choose an overhead with a larger part in common with the tick"));
  }
  return table.Solve();
}

absl::StatusOr<OmniscientPlan> PlanInWholeTicks(const Environment& environment, int64_t first_tick, const Job& job) {
  Job whole = job;
  whole.work_ms = core::deadline::NeedMs(job, job.work_ms, 0);
  whole.overhead_ms = core::deadline::NeedMs(job, job.overhead_ms, 0);
  absl::StatusOr<OmniscientPlan> plan = PlanOmnisciently(environment, first_tick, whole, LastTick::kFull);
  return plan.ok() ? plan : PlanOmnisciently(environment, first_tick, job, LastTick::kFull);
}

}  // namespace spillway::sim
