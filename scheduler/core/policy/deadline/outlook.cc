#include "scheduler/core/policy/deadline/outlook.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/money.h"

namespace spillway::core::deadline {
namespace {

// The usual market, from the spells of recorded spot markets: rate of ending = kappa / (constant + age), ages in hours.
constexpr double kUpKappa = 1.2;
constexpr double kUpConstantHours = 3.0 / 6;
constexpr double kDownKappa = 0.95;
constexpr double kDownConstantHours = 0.5 / 6;

constexpr std::array<double, kAgeBuckets> kBucketAge = {1, 2.5, 5.5, 11.5, 23, 60};                     // ticks, where its rate is taken
constexpr std::array<double, kAgeBuckets> kLeavesBucket = {1, 1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 0};  // to the next, by a spell that goes on
// Slack that is not there costs more than anything that could be bought with it.
constexpr double kOverdraft = 30;
constexpr double kFinestTicks = 0.25;  // of the grid of slack; a quarter of it for starts that are shorter still
constexpr double kEvenSteps = 30;      // before they grow

std::array<double, kAgeBuckets> EndsInTick(double kappa, double constant_hours, double tick_hours) {
  std::array<double, kAgeBuckets> ends{};
  for (size_t b = 0; b < kAgeBuckets; ++b) {
    const double age = kBucketAge[b] * tick_hours;
    ends[b] = 1 - std::pow((constant_hours + age) / (constant_hours + age + tick_hours), kappa);
  }
  return ends;
}

}  // namespace

int AgeBucket(int64_t age_ticks) {
  int bucket = 0;
  for (int64_t end = 2; bucket + 1 < kAgeBuckets && age_ticks >= end; end *= 2) ++bucket;
  return bucket;
}

Outlook::Outlook(const Job& job, double on_demand_price, std::vector<MarketType> types)
    : job_(job),
      types_(std::move(types)),
      on_demand_price_(on_demand_price),
      overhead_ticks_(static_cast<double>(job.overhead_ms) / static_cast<double>(job.tick_ms)),
      tick_hours_(static_cast<double>(job.tick_ms) / kMsPerHour),
      ticks_(job.deadline_ms / job.tick_ms) {
  LayGrid(static_cast<double>(ticks_) - static_cast<double>(job.work_ms) / static_cast<double>(job.tick_ms));
  rest_.assign(Index(types_.size(), 0, 0), 0);
  for (size_t type = 0; type < types_.size(); ++type) Solve(type);
}

void Outlook::LayGrid(double slack_max_ticks) {
  const double step = overhead_ticks_ > 0 ? std::max(overhead_ticks_ / std::ceil(overhead_ticks_ / kFinestTicks), kFinestTicks / 4) : 1;
  for (double at = 0; at < slack_max_ticks + step; at += step * std::max(1.0, std::floor(at / (kEvenSteps * step)))) grid_.push_back(at);
  if (grid_.size() < 2) grid_.push_back(step);
  for (const double at : grid_) {
    after_idle_.push_back(Find(at - 1));
    after_start_.push_back(Find(at - overhead_ticks_));
  }
}

Outlook::Place Outlook::Find(double slack_ticks) const {
  if (slack_ticks <= 0) return {0, 0, -slack_ticks};
  const size_t above = static_cast<size_t>(std::upper_bound(grid_.begin(), grid_.end(), slack_ticks) - grid_.begin());
  if (above >= grid_.size()) return {grid_.size() - 2, 1, 0};
  return {above - 1, (slack_ticks - grid_[above - 1]) / (grid_[above] - grid_[above - 1]), 0};
}

bool Outlook::IsOf(const Job& job, double on_demand_price, const std::vector<MarketType>& types) const {
  return job == job_ && on_demand_price == on_demand_price_ && types == types_;
}

void Outlook::Solve(size_t type) {
  const MarketType& market = types_[type];
  const auto up_ends = EndsInTick(kUpKappa * market.up_scale, kUpConstantHours, tick_hours_);
  const auto down_ends = EndsInTick(kDownKappa * market.down_scale, kDownConstantHours, tick_hours_);
  Logs& logs = logs_.emplace_back();
  for (size_t b = 0; b < kAgeBuckets; ++b) {
    logs.up_ends[b] = std::log(up_ends[b]);
    logs.up_goes_on[b] = std::log1p(-up_ends[b]);
    logs.down_ends[b] = std::log(down_ends[b]);
    logs.down_goes_on[b] = std::log1p(-down_ends[b]);
  }
  const double steep = kOverdraft * on_demand_price_;
  const size_t width = grid_.size();

  // What the rest costs at the beginning of a tick, by what runs then, the best being done: from the values of the tick after.
  struct Best {
    std::vector<float> idle, spot, on_demand;
  };
  using Row = std::vector<float> Best::*;
  std::array<Best, kAgeBuckets> up, down;
  for (auto* side : {&up, &down}) {
    for (Best& best : *side) best.idle = best.spot = best.on_demand = std::vector<float>(width, 0);
  }
  const auto along = [&](const float* row, size_t stride, const Place& place) {
    return row[place.low * stride] * (1 - place.part) + row[(place.low + 1) * stride] * place.part + place.short_by * steep;
  };

  for (int64_t n = 1; n <= ticks_; ++n) {
    const double left = static_cast<double>(n);
    for (size_t s = 0; s < width && grid_[s] < left; ++s) {
      float* out = &rest_[Index(type, n, s)];
      for (size_t b = 0; b < kAgeBuckets; ++b) {
        const size_t next = std::min<size_t>(b + 1, kAgeBuckets - 1);
        const Place here{s, 0, 0};
        const Place waited = after_idle_[s];
        const auto at = [&](const std::vector<float>& row, const Place& place) {
          return place.part == 0 && place.short_by == 0 ? row[place.low] : along(row.data(), 1, place);
        };
        const auto goes_on = [&](const std::array<Best, kAgeBuckets>& side, Row mode, const Place& place) {
          return kLeavesBucket[b] * at(side[next].*mode, place) + (1 - kLeavesBucket[b]) * at(side[b].*mode, place);
        };
        // Where capacity ends, another zone may take over at once; it must be started.
        const auto after_up = [&](Row mode, Row lost, const Place& place) {
          const double ended = market.failover * at(up[0].*lost, place) + (1 - market.failover) * at(down[0].*lost, place);
          return (1 - up_ends[b]) * goes_on(up, mode, place) + up_ends[b] * ended;
        };
        const auto after_down = [&](Row mode, const Place& place) {
          return (1 - down_ends[b]) * goes_on(down, mode, place) + down_ends[b] * at(up[0].*mode, place);
        };
        float* of_up = out + b * kUpValues;
        of_up[0] = static_cast<float>(after_up(&Best::idle, &Best::idle, waited));
        of_up[1] = static_cast<float>(1 + after_up(&Best::spot, &Best::idle, here));
        of_up[2] = static_cast<float>(on_demand_price_ + after_up(&Best::on_demand, &Best::on_demand, here));
        float* of_down = out + kAgeBuckets * kUpValues + b * kDownValues;
        of_down[0] = static_cast<float>(after_down(&Best::idle, waited));
        of_down[1] = static_cast<float>(on_demand_price_ + after_down(&Best::on_demand, here));
      }
    }
    const float* row = &rest_[Index(type, n, 0)];
    for (size_t s = 0; s < width; ++s) {
      const bool done = grid_[s] >= left;
      const Place started = after_start_[s];
      for (size_t b = 0; b < kAgeBuckets; ++b) {
        const float* of_up = row + b * kUpValues;
        const double start_spot = done ? 0 : along(of_up + 1, kValues, started);
        const double start_on_demand = done ? 0 : along(of_up + 2, kValues, started);
        const float* at = of_up + s * kValues;
        up[b].idle[s] = static_cast<float>(std::min({static_cast<double>(at[0]), start_spot, start_on_demand}));
        up[b].spot[s] = static_cast<float>(std::min({static_cast<double>(at[0]), static_cast<double>(at[1]), start_on_demand}));
        up[b].on_demand[s] = static_cast<float>(std::min({static_cast<double>(at[0]), start_spot, static_cast<double>(at[2])}));
        const float* of_down = row + kAgeBuckets * kUpValues + b * kDownValues;
        const double start_down = done ? 0 : along(of_down + 1, kValues, started);
        down[b].idle[s] = static_cast<float>(std::min(static_cast<double>(of_down[s * kValues]), start_down));
        down[b].on_demand[s] = std::min(of_down[s * kValues], of_down[s * kValues + 1]);
      }
    }
  }
}

std::vector<double> Outlook::Weights(const SpellCounts& counts, double trust) const {
  std::vector<double> weights;
  for (size_t type = 0; type < types_.size(); ++type) {
    const MarketType& market = types_[type];
    const Logs& logs = logs_[type];
    double log_likelihood = 0;
    for (size_t b = 0; b < kAgeBuckets; ++b) {
      log_likelihood += static_cast<double>(counts.up_ended[b]) * logs.up_ends[b] + static_cast<double>(counts.up_went_on[b]) * logs.up_goes_on[b] +
                        static_cast<double>(counts.down_ended[b]) * logs.down_ends[b] + static_cast<double>(counts.down_went_on[b]) * logs.down_goes_on[b];
    }
    if (counts.failovers > 0) log_likelihood += static_cast<double>(counts.failovers) * std::log(std::max(market.failover, 0.01));
    if (counts.failures_to > 0) log_likelihood += static_cast<double>(counts.failures_to) * std::log(std::max(1 - market.failover, 0.01));
    weights.push_back(trust * log_likelihood);
  }
  const double best = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - best);
  for (double& weight : weights) weight /= sum;
  return weights;
}

double Outlook::Read(size_t type, int64_t ticks_left, const Place& place, int value) const {
  const float* row = &rest_[Index(type, std::clamp<int64_t>(ticks_left, 1, ticks_), 0)] + value;
  return row[place.low * kValues] * (1 - place.part) + row[(place.low + 1) * kValues] * place.part + place.short_by * kOverdraft * on_demand_price_;
}

Outlook::Rest Outlook::At(const std::vector<double>& weights, int64_t ticks_left, double slack_ticks, bool up, int bucket, Mode now) const {
  const int base = up ? bucket * kUpValues : kAgeBuckets * kUpValues + bucket * kDownValues;
  const Place here = Find(slack_ticks);
  const Place started = Find(slack_ticks - overhead_ticks_);
  Rest rest;
  for (size_t type = 0; type < types_.size(); ++type) {
    rest.idle += weights[type] * Read(type, ticks_left, here, base);
    if (up) rest.spot += weights[type] * Read(type, ticks_left, now == Mode::kSpot ? here : started, base + 1);
    rest.on_demand += weights[type] * Read(type, ticks_left, now == Mode::kOnDemand ? here : started, base + (up ? 2 : 1));
  }
  return rest;
}

}  // namespace spillway::core::deadline
