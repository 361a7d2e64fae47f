#include "scheduler/core/policy/deadline/lifetimes.h"

#include <algorithm>
#include <cmath>

namespace spillway::core::deadline {
namespace {

constexpr double kTinyHazard = 1e-8;     // of a zone in which nothing was ever taken
constexpr double kRememberedRisk = 8.0;  // expected preemptions that the memory of late events covers
constexpr double kBurstRisk = 1.0;       // and the longest stretch of them that is compared with what came

double Tail(const std::vector<std::pair<double, double>>& steps) { return steps.empty() ? kTinyHazard : std::max(steps.back().second, kTinyHazard); }

// The cumulative hazard at an age: the steps below it, then the last step's rate.
double CumulativeHazard(const std::vector<std::pair<double, double>>& steps, double age) {
  if (age <= 0) return 0;
  const double tail = Tail(steps);
  if (steps.empty()) return age * tail;
  double sum = 0;
  double last = 0;
  for (const auto& [at, step] : steps) {
    if (at >= age) break;
    sum += step;
    last = at;
  }
  return sum + std::max(age - last, 0.0) * tail;
}

}  // namespace

void Lifetimes::Began(double hour, bool ours) {
  born_ = hour;
  ours_ = ours;
  last_age_ours_.reset();
  last_age_probed_.reset();
  (ours ? last_age_ours_ : last_age_probed_) = 0;
}

void Lifetimes::Ended(double hour, bool preempted) {
  if (born_) lives_.push_back({*born_, hour, preempted});
  born_.reset();
  last_age_probed_.reset();
  if (preempted) ++failures_;
}

Lifetimes::Knots Lifetimes::Steps() const {
  std::vector<double> ages;
  for (const Life& life : lives_) {
    if (life.preempted) ages.push_back(life.end - life.begin);
  }
  std::sort(ages.begin(), ages.end());
  ages.erase(std::unique(ages.begin(), ages.end()), ages.end());
  Knots knots;
  for (const double age : ages) {
    int ended = 0;
    int at_risk = 0;
    for (const Life& life : lives_) {
      const double length = life.end - life.begin;
      if (life.preempted && std::abs(length - age) <= 1e-9) ++ended;
      if (length + 1e-9 >= age) ++at_risk;
    }
    knots.emplace_back(age, static_cast<double>(ended) / at_risk);
  }
  return knots;
}

void Lifetimes::Tick(double hour) {
  const Knots steps = Steps();
  const double tail = Tail(steps);
  double risk = 0;
  double before = 0;
  double age = 0;
  if (born_) {
    std::optional<double>& last = ours_ ? last_age_ours_ : last_age_probed_;
    age = Age(hour);
    before = last.value_or(std::max(age - tick_hours_, 0.0));
    last = age;
    (ours_ ? last_age_probed_ : last_age_ours_).reset();
    risk = std::max(CumulativeHazard(steps, age) - CumulativeHazard(steps, before), 0.0);
  } else {
    last_age_ours_.reset();
    last_age_probed_.reset();
  }
  if (risk <= 0 && (born_ || failures_ > 0)) {
    if (steps.empty()) {
      risk = tail * tick_hours_;
    } else if (born_ && before >= steps.back().first) {
      risk = tail * std::max(age - before, 0.0);
    }
  }
  if (failures_ > 0 && risk <= 0) risk = tail * tick_hours_;
  if (risk > 0 || failures_ > 0) Remember({risk, failures_});
  failures_ = 0;
}

void Lifetimes::Remember(Event event) {
  recent_.push_back(event);
  double total = 0;
  for (const Event& one : recent_) total += one.risk;
  size_t drop = 0;
  while (drop < recent_.size() && total - recent_[drop].risk >= kRememberedRisk) total -= recent_[drop++].risk;
  recent_.erase(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(drop));

  speed_up_ = 1;
  if (total < kBurstRisk) return;
  // The latest stretch in which preemptions were densest, compared with what the steps expected.
  double stretch_risk = 0;
  double failures = 0;
  double best = 0;
  bool any = false;
  for (size_t back = recent_.size(); back > 0; --back) {
    const Event& one = recent_[back - 1];
    stretch_risk += one.risk;
    failures += one.failures;
    if (stretch_risk > kBurstRisk + 1e-9) {
      if (back == recent_.size()) best = failures / stretch_risk;
      break;
    }
    if (stretch_risk <= 0) continue;
    const double ratio = failures / stretch_risk;
    if (!any || ratio > best + 1e-9) best = ratio;
    any = true;
  }
  speed_up_ = std::max(1.0, best);
}

double Lifetimes::ExpectedHours(double hour) const {
  const Knots steps = Steps();
  double age = std::max(Age(hour), 0.0);
  double expected = 0;
  double survives = 1;
  for (const auto& [at, step] : steps) {
    if (at <= age + 1e-12) continue;
    expected += survives * (at - age);
    survives *= std::exp(-speed_up_ * step);
    age = at;
  }
  const double dies = 1 - std::exp(-speed_up_ * Tail(steps));
  expected += survives * tick_hours_ / (dies > 1e-9 ? dies : std::max(speed_up_ * Tail(steps), 1e-9));
  return expected;
}

double Lifetimes::Availability(double hour, double window_hours) const {
  const double from = std::max(0.0, hour - window_hours);
  const double span = std::min(window_hours, hour);
  if (span <= 0) return 0;
  double lived = 0;
  for (const Life& life : lives_) lived += std::max(0.0, std::min(life.end, hour) - std::max(life.begin, from));
  if (born_) lived += std::max(0.0, hour - std::max(*born_, from));
  return std::clamp(lived / span, 0.0, 1.0);
}

}  // namespace spillway::core::deadline
