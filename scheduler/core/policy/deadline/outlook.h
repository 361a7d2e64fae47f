// What the rest of a job will cost in expectation, for each thing that could be done now: the plan behind the `spillway` policy.
//
// Spot capacity is up or down, in spells. The longer a spell has lasted, the longer it lasts still (its rate of ending falls as 1 / (age + a constant)); how
// fast spells end differs from market to market, so there are several types of market, and what was seen tells them apart. For each type, dynamic
// programming backwards from the deadline over (ticks left, slack, whether spot is up, age of the spell) gives the expected cost of the rest.
//
// Slack is the time that may still be lost: ticks left less work left less overhead left. Running keeps it, idling spends a tick of it, a start spends the
// overhead. The table is built once for a job and shared; reading it is a look-up. Everything is deterministic; prices are in units of the spot price.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/core/policy/deadline/deadline.h"

namespace spillway::core::deadline {

inline constexpr int kAgeBuckets = 6;  // of spells: 1 tick, 2-3, 4-7, 8-15, 16-31, 32 and more
int AgeBucket(int64_t age_ticks);

// A market: how much faster than the usual its up and down spells end, and how often another zone takes over at once when one ends.
struct MarketType {
  double up_scale = 1;
  double down_scale = 1;
  double failover = 0;
  friend bool operator==(const MarketType&, const MarketType&) = default;
};

// What was seen: how often a spell of this age went on, and how often it ended there.
struct SpellCounts {
  std::array<int64_t, kAgeBuckets> up_went_on{}, up_ended{}, down_went_on{}, down_ended{};
  int64_t failovers = 0, failures_to = 0;
};

class Outlook {
 public:
  // `on_demand_price` in units of the spot price, above 0.
  Outlook(const Job& job, double on_demand_price, std::vector<MarketType> types);

  // How likely each type is after what was seen, all being alike before; they add up to 1. `trust` in (0, 1]: how far one observation counts.
  std::vector<double> Weights(const SpellCounts& counts, double trust) const;

  // Expected cost of the rest when this is done in the coming tick, starts counted; `spot` means nothing while capacity is down.
  struct Rest {
    double idle = 0;
    double spot = 0;
    double on_demand = 0;
  };
  Rest At(const std::vector<double>& weights, int64_t ticks_left, double slack_ticks, bool up, int bucket, Mode now) const;

  // Whether this is the table that the constructor would make of these.
  bool IsOf(const Job& job, double on_demand_price, const std::vector<MarketType>& types) const;

 private:
  static constexpr int kUpValues = 3;    // idle, spot, on demand
  static constexpr int kDownValues = 2;  // idle, on demand
  static constexpr int kValues = kAgeBuckets * (kUpValues + kDownValues);

  // A place on the slack axis: between grid point `low` and the next, `part` of the way; `short_by` below the first.
  struct Place {
    size_t low = 0;
    double part = 0;
    double short_by = 0;
  };
  void LayGrid(double slack_max_ticks);
  Place Find(double slack_ticks) const;
  void Solve(size_t type);
  double Read(size_t type, int64_t ticks_left, const Place& place, int value) const;
  size_t Index(size_t type, int64_t ticks_left, size_t slack) const {
    return ((type * static_cast<size_t>(ticks_ + 1) + static_cast<size_t>(ticks_left)) * grid_.size() + slack) * kValues;
  }

  Job job_;
  std::vector<MarketType> types_;
  double on_demand_price_;
  double overhead_ticks_;
  double tick_hours_;
  int64_t ticks_;
  std::vector<double> grid_;                     // slack in ticks: fine near 0, in parts of a start, coarser above
  std::vector<Place> after_idle_, after_start_;  // where a tick of idling, or a start, leads from each grid point
  std::vector<float> rest_;
  // Of each type: the logarithms of a spell's ending and going on, up and down.
  struct Logs {
    std::array<double, kAgeBuckets> up_ends{}, up_goes_on{}, down_ends{}, down_goes_on{};
  };
  std::vector<Logs> logs_;
};

}  // namespace spillway::core::deadline
