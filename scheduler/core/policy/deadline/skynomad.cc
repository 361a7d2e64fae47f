#include "scheduler/core/policy/deadline/skynomad.h"

#include <algorithm>
#include <cmath>

#include "base/money.h"

namespace spillway::core::deadline {
namespace {

constexpr double kExpectedHoursMax = 2.0;
constexpr double kAvailabilityHours = 12.0;
constexpr int64_t kRateMs = 10 * kMsPerHour;
constexpr double kProgressValueFactor = 1.2;
constexpr double kReferenceEgressPerGb = 0.02;
constexpr int64_t kProbeEveryTicks = 6;
// The margin by which something else must be better than what runs, in dollars an hour.
constexpr double kMargin = 0.5;
constexpr double kMarginPerGb = 0.0002;
constexpr double kMarginPerValue = 0.05;

double Hours(int64_t ms) { return static_cast<double>(ms) / kMsPerHour; }
double Dollars(int64_t micros) { return static_cast<double>(micros) / kMicrosPerUnit; }
double SpotPrice(const Market& market, int zone) { return Dollars(market.zones[static_cast<size_t>(zone)].spot_micros_per_hour); }
double OnDemandPrice(const Market& market, int zone) { return Dollars(market.zones[static_cast<size_t>(zone)].on_demand_micros_per_hour); }
double Egress(const Market& market, int from, int to) {
  return from < 0 || from == to ? 0 : Dollars(market.egress_micros[static_cast<size_t>(from)][static_cast<size_t>(to)]);
}

}  // namespace

SkyNomad::SkyNomad(Job job, int zones, int64_t checkpoint_gb)
    : job_(job),
      checkpoint_gb_(static_cast<double>(checkpoint_gb)),
      lifetimes_(static_cast<size_t>(zones), Lifetimes(Hours(job.tick_ms))),
      probed_alive_(static_cast<size_t>(zones), false),
      refused_(static_cast<size_t>(zones), false),
      next_probe_tick_(static_cast<size_t>(zones), 0) {}

std::vector<Choice> SkyNomad::Options(const Standing& standing, const Market& market) {
  standing_ = standing;
  const double hour = Hours(standing.elapsed_ms);
  done_hours_.push_back(Hours(standing.done_ms));
  const int64_t left = LeftMs(job_, standing);
  if (left == 0) return {{Mode::kIdle, standing.now.zone}};

  // The safety net is the published simulator's: once it holds, on demand to the end.
  if (!latched_ && NeedMs(job_, left, 1) >= RemainMs(job_, standing.elapsed_ms)) latched_ = true;
  if (latched_) {
    if (standing.now.mode == Mode::kOnDemand) return {standing.now};
    const int zone = standing.now.mode == Mode::kSpot ? standing.now.zone : CheapestOnDemand(market, standing.now.zone, left);
    return {{Mode::kOnDemand, zone}};
  }

  if (running_spot_ && standing.now != Choice{Mode::kSpot, *running_spot_}) {
    lifetimes_[static_cast<size_t>(*running_spot_)].Ended(hour, /*preempted=*/!ended_by_us_);
    running_spot_.reset();
    ended_by_us_ = false;
  }
  for (Lifetimes& zone : lifetimes_) zone.Tick(hour);

  const double value = ReferencePrice(market) * kProgressValueFactor;
  double current_value = 0;
  if (standing.now.mode != Mode::kIdle) {
    origin_ = standing.now.zone;
    current_value =
        standing.now.mode == Mode::kSpot ? SpotValue(market, standing.now.zone, value, /*running=*/true) : value - OnDemandPrice(market, standing.now.zone);
  }
  primary_ = standing.now.mode == Mode::kIdle ? -1 : standing.now.zone;
  keeps_none_ = false;
  std::vector<Choice> choices;
  for (const Option& option : RankedOptions(market, value, current_value)) {
    if (option.value <= current_value) break;
    if (option.choice.mode == Mode::kIdle) {  // better than what runs, which is kept all the same
      keeps_none_ = true;
      break;
    }
    if (option.choice != standing.now) choices.push_back(option.choice);
  }
  return choices;
}

std::vector<SkyNomad::Option> SkyNomad::RankedOptions(const Market& market, double progress_value, double current_value) const {
  const int zones = static_cast<int>(lifetimes_.size());
  const Choice& now = standing_.now;
  const bool runs = now.mode != Mode::kIdle;
  const double margin = kMargin + kMarginPerGb * checkpoint_gb_ + kMarginPerValue * progress_value;
  std::vector<Option> options = {{0, {Mode::kIdle, -1}}};
  for (int zone = 0; zone < zones; ++zone) {
    const bool running = now == Choice{Mode::kSpot, zone};
    const double value = SpotValue(market, zone, progress_value, running) - Egress(market, origin_, zone) / std::max(ExpectedHours(zone), 1e-6);
    if (value < 0) continue;
    if (runs && zone != now.zone && value <= current_value + margin) continue;
    options.push_back({value, {Mode::kSpot, zone}});
  }
  for (int zone = 0; zone < zones; ++zone) {
    double value = progress_value - OnDemandPrice(market, zone);
    if (origin_ >= 0 && origin_ != zone) value -= Hours(job_.overhead_ms) * progress_value + Egress(market, origin_, zone);
    if (value < 0 || now == Choice{Mode::kOnDemand, zone}) continue;
    if (runs && value <= current_value + margin) continue;
    options.push_back({value, {Mode::kOnDemand, zone}});
  }
  std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) { return a.value > b.value; });
  return options;
}

double SkyNomad::ExpectedHours(int zone) const {
  const double hours = lifetimes_[static_cast<size_t>(zone)].ExpectedHours(Hours(standing_.elapsed_ms));
  return std::min({hours, kExpectedHoursMax, Hours(job_.deadline_ms - standing_.elapsed_ms)});
}

double SkyNomad::SpotValue(const Market& market, int zone, double progress_value, bool running) const {
  const double life = ExpectedHours(zone);
  const double works = life - (running ? 0 : Hours(job_.overhead_ms));
  if (works <= 0) return -1e18;
  return (progress_value * works - SpotPrice(market, zone) * life) / life;
}

double SkyNomad::ReferencePrice(const Market& market) const {
  struct Supply {
    double price = 0;
    double hours = 0;
  };
  const double left = Hours(LeftMs(job_, standing_));
  const double remain = Hours(job_.deadline_ms - standing_.elapsed_ms);
  std::vector<Supply> supplies;
  double on_demand_price = OnDemandPrice(market, 0);
  for (int zone = 0; zone < static_cast<int>(lifetimes_.size()); ++zone) {
    on_demand_price = std::min(on_demand_price, OnDemandPrice(market, zone));
    const double life = ExpectedHours(zone);
    const double works = life - Hours(job_.overhead_ms);
    if (works <= 0) continue;
    const double hours = lifetimes_[static_cast<size_t>(zone)].Availability(Hours(standing_.elapsed_ms), kAvailabilityHours) * remain * works / life;
    if (hours > 0) supplies.push_back({SpotPrice(market, zone) * life / std::max(works, 1e-6), hours});
  }
  std::stable_sort(supplies.begin(), supplies.end(), [](const Supply& a, const Supply& b) { return a.price < b.price; });

  double on_demand_hours = std::clamp(OnDemandShare(), 0.0, 1.0) * left;
  double open = std::max(0.0, left - on_demand_hours);
  double dollars = 0;
  int places = 0;
  for (const Supply& supply : supplies) {
    const double hours = std::min(supply.hours, open);
    if (hours <= 0) break;
    ++places;
    dollars += hours * supply.price;
    open -= hours;
  }
  on_demand_hours += open;
  if (on_demand_hours > 0) ++places;
  dollars += on_demand_hours * on_demand_price;
  if (places > 1) dollars += (places - 1) * checkpoint_gb_ * kReferenceEgressPerGb;
  return dollars / std::max(left, 1e-6);
}

// Where progress at the rate of late would meet the line that on demand must start from: the share of the time left that lies behind that point.
double SkyNomad::OnDemandShare() const {
  const double now = Hours(standing_.elapsed_ms);
  const double done = Hours(standing_.done_ms);
  const double deadline = Hours(job_.deadline_ms);
  if (now <= 0) return 0;
  if (std::abs(done - now) * 3600 < 1e-6) return 0.5;
  const double rate = RecentRate();
  if (std::abs(rate - 1) < 1e-6) return 0;
  const double meets = (rate * now - done + (Hours(job_.work_ms) + 2 * Hours(job_.overhead_ms) - deadline)) / (rate - 1);
  if (meets >= deadline) return 0;
  if (meets <= 0) return 1;
  return std::clamp((deadline - meets) / (deadline - now), 0.0, 1.0);
}

double SkyNomad::RecentRate() const {
  const int64_t now_ms = standing_.elapsed_ms;
  if (now_ms <= 0) return 0;
  const int64_t from_ms = std::max<int64_t>(0, now_ms - kRateMs);
  const int64_t first = from_ms / job_.tick_ms;
  // The work of the tick before the window's first counts as well.
  const double before = first == 0 ? 0 : done_hours_[static_cast<size_t>(first - 1)];
  return std::clamp((done_hours_.back() - before) / Hours(now_ms - from_ms), 0.0, 1.0);
}

void SkyNomad::Tried(const Choice& choice, bool granted) {
  if (latched_ || choice == standing_.now || choice.mode == Mode::kIdle) return;
  const size_t zone = static_cast<size_t>(choice.zone);
  const double hour = Hours(standing_.elapsed_ms);
  if (choice.mode == Mode::kSpot) {
    if (probed_alive_[zone]) lifetimes_[zone].Ended(hour, /*preempted=*/false);
    probed_alive_[zone] = false;
    if (!granted) {
      lifetimes_[zone].Refused();
      refused_[zone] = true;
      return;
    }
    lifetimes_[zone].Began(hour, /*ours=*/true);
    running_spot_ = choice.zone;
    ended_by_us_ = false;
  } else if (running_spot_) {
    ended_by_us_ = true;  // spot is given up for on demand
  }
  origin_ = primary_ = choice.zone;
  keeps_none_ = false;
}

std::vector<int> SkyNomad::Probes() {
  if (latched_) return {};
  if (keeps_none_) origin_ = primary_ = -1;
  const int64_t tick = standing_.elapsed_ms / job_.tick_ms;
  std::vector<int> zones;
  for (size_t zone = 0; zone < lifetimes_.size(); ++zone) {
    if (static_cast<int>(zone) == primary_ || probed_alive_[zone] || refused_[zone] || tick < next_probe_tick_[zone]) continue;
    next_probe_tick_[zone] = tick + kProbeEveryTicks;
    zones.push_back(static_cast<int>(zone));
  }
  std::fill(refused_.begin(), refused_.end(), false);
  return zones;
}

void SkyNomad::Probed(int zone, bool available) {
  Lifetimes& lifetimes = lifetimes_[static_cast<size_t>(zone)];
  if (!available) return lifetimes.Refused();
  lifetimes.Began(Hours(standing_.elapsed_ms), /*ours=*/false);
  probed_alive_[static_cast<size_t>(zone)] = true;
}

}  // namespace spillway::core::deadline
