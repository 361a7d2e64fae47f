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
constexpr double kOverdraft = 4;

std::array<double, kAgeBuckets> EndsInTick(double kappa, double constant_hours, double tick_hours) {
  std::array<double, kAgeBuckets> ends{};
  for (size_t b = 0; b < kAgeBuckets; ++b) {
    const double age = kBucketAge[b] * tick_hours;
    ends[b] = 1 - std::pow((constant_hours + age) / (constant_hours + age + tick_hours), kappa);
  }
  return ends;
}

// A row of values over slack 0, 1, 2, ...: between them straight lines, below 0 a steep one.
double Along(const float* row, int64_t stride, int64_t last, double slack, double steep) {
  if (slack <= 0) return row[0] - slack * steep;
  if (slack >= static_cast<double>(last)) return row[last * stride];
  const int64_t low = static_cast<int64_t>(slack);
  const double part = slack - static_cast<double>(low);
  return row[low * stride] * (1 - part) + row[(low + 1) * stride] * part;
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
      ticks_(job.deadline_ms / job.tick_ms),
      slack_max_(std::max<int64_t>(ticks_ - job.work_ms / job.tick_ms, 1)) {
  rest_.assign(Index(types_.size(), 0, 0), 0);
  for (size_t type = 0; type < types_.size(); ++type) Solve(type);
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
  const int64_t width = slack_max_ + 1;

  // What the rest costs at the beginning of a tick, by what runs then, the best being done: from the values of the tick after.
  struct Best {
    std::vector<float> idle, spot, on_demand;
  };
  std::array<Best, kAgeBuckets> up, down;
  for (auto* side : {&up, &down}) {
    for (Best& best : *side) best.idle = best.spot = best.on_demand = std::vector<float>(static_cast<size_t>(width), 0);
  }
  const auto at = [&](const std::vector<float>& row, int64_t slack) {
    return slack < 0 ? row[0] - static_cast<double>(slack) * steep : static_cast<double>(row[static_cast<size_t>(slack)]);
  };

  for (int64_t n = 1; n <= ticks_; ++n) {
    for (int64_t s = 0; s < width && s < n; ++s) {
      float* out = &rest_[Index(type, n, s)];
      for (size_t b = 0; b < kAgeBuckets; ++b) {
        const size_t next = std::min<size_t>(b + 1, kAgeBuckets - 1);
        const auto goes_on = [&](const std::array<Best, kAgeBuckets>& side, std::vector<float> Best::*mode, int64_t slack) {
          return kLeavesBucket[b] * at(side[next].*mode, slack) + (1 - kLeavesBucket[b]) * at(side[b].*mode, slack);
        };
        // Where capacity ends, another zone may take over at once; it must be started.
        const auto after_up = [&](std::vector<float> Best::*mode, std::vector<float> Best::*lost, int64_t slack) {
          const double ended = market.failover * at(up[0].*lost, slack) + (1 - market.failover) * at(down[0].*lost, slack);
          return (1 - up_ends[b]) * goes_on(up, mode, slack) + up_ends[b] * ended;
        };
        const auto after_down = [&](std::vector<float> Best::*mode, int64_t slack) {
          return (1 - down_ends[b]) * goes_on(down, mode, slack) + down_ends[b] * at(up[0].*mode, slack);
        };
        float* of_up = out + b * kUpValues;
        of_up[0] = static_cast<float>(after_up(&Best::idle, &Best::idle, s - 1));
        of_up[1] = static_cast<float>(1 + after_up(&Best::spot, &Best::idle, s));
        of_up[2] = static_cast<float>(on_demand_price_ + after_up(&Best::on_demand, &Best::on_demand, s));
        float* of_down = out + kAgeBuckets * kUpValues + b * kDownValues;
        of_down[0] = static_cast<float>(after_down(&Best::idle, s - 1));
        of_down[1] = static_cast<float>(on_demand_price_ + after_down(&Best::on_demand, s));
      }
    }
    const float* row = &rest_[Index(type, n, 0)];
    const int64_t last = std::min(width, n) - 1;
    for (int64_t s = 0; s < width; ++s) {
      for (size_t b = 0; b < kAgeBuckets; ++b) {
        if (s >= n) {
          for (auto* side : {&up, &down})
            (*side)[b].idle[static_cast<size_t>(s)] = (*side)[b].spot[static_cast<size_t>(s)] = (*side)[b].on_demand[static_cast<size_t>(s)] = 0;
          continue;
        }
        const size_t i = static_cast<size_t>(s);
        const float* of_up = row + b * kUpValues;
        const double after_start = static_cast<double>(s) - overhead_ticks_;
        const double idle = of_up[s * kValues];
        const double spot = of_up[s * kValues + 1];
        const double on_demand = of_up[s * kValues + 2];
        const double start_spot = Along(of_up + 1, kValues, last, after_start, steep);
        const double start_on_demand = Along(of_up + 2, kValues, last, after_start, steep);
        up[b].idle[i] = static_cast<float>(std::min({idle, start_spot, start_on_demand}));
        up[b].spot[i] = static_cast<float>(std::min({idle, spot, start_on_demand}));
        up[b].on_demand[i] = static_cast<float>(std::min({idle, start_spot, on_demand}));
        const float* of_down = row + kAgeBuckets * kUpValues + b * kDownValues;
        const double rest = of_down[s * kValues];
        down[b].idle[i] = static_cast<float>(std::min(rest, Along(of_down + 1, kValues, last, after_start, steep)));
        down[b].on_demand[i] = static_cast<float>(std::min(rest, static_cast<double>(of_down[s * kValues + 1])));
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

double Outlook::Read(size_t type, int64_t ticks_left, double slack, int value) const {
  const int64_t n = std::clamp<int64_t>(ticks_left, 1, ticks_);
  const int64_t last = std::min(slack_max_ + 1, n) - 1;
  return Along(&rest_[Index(type, n, 0)] + value, kValues, last, slack, kOverdraft * on_demand_price_);
}

Outlook::Rest Outlook::At(const std::vector<double>& weights, int64_t ticks_left, double slack_ticks, bool up, int bucket, Mode now) const {
  const int base = up ? bucket * kUpValues : kAgeBuckets * kUpValues + bucket * kDownValues;
  const double started = slack_ticks - overhead_ticks_;
  Rest rest;
  for (size_t type = 0; type < types_.size(); ++type) {
    rest.idle += weights[type] * Read(type, ticks_left, slack_ticks, base);
    if (up) rest.spot += weights[type] * Read(type, ticks_left, now == Mode::kSpot ? slack_ticks : started, base + 1);
    rest.on_demand += weights[type] * Read(type, ticks_left, now == Mode::kOnDemand ? slack_ticks : started, base + (up ? 2 : 1));
  }
  return rest;
}

}  // namespace spillway::core::deadline
