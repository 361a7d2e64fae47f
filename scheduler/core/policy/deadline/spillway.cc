#include "scheduler/core/policy/deadline/spillway.h"

#include <algorithm>
#include <utility>

#include "base/money.h"

namespace spillway::core::deadline {
namespace {

constexpr double kTrust = 0.5;          // observations of one market are not independent
constexpr int64_t kFirstAgeTicks = 10;  // a spell that is met under way is seldom a young one
constexpr double kUsualEndsPerHour = 0.05;
constexpr double kUsualHours = 10;             // of a zone's life that the usual rate stands for
constexpr int64_t kProvenMs = 2 * kMsPerHour;  // that a cheaper zone must have been up before a running machine is left for it
constexpr double kDearPart = 0.5;              // a zone is dear from half way between the cheapest spot price and on demand

double Spot(const Market& market, int zone) { return static_cast<double>(market.zones[static_cast<size_t>(zone)].spot_micros_per_hour); }
double OnDemand(const Market& market, int zone) { return static_cast<double>(market.zones[static_cast<size_t>(zone)].on_demand_micros_per_hour); }

double CheapestPrice(const Market& market, Mode mode) {
  const int zone = CheapestFirst(market, mode).front();
  return mode == Mode::kSpot ? Spot(market, zone) : OnDemand(market, zone);
}

std::vector<MarketType> TypesFor(size_t zones) {
  std::vector<MarketType> types;
  if (zones == 1) {
    for (const double up : {0.4, 1.0, 2.5}) {
      for (const double down : {0.6, 1.0, 1.6}) types.push_back({up, down, 0});
    }
    return types;
  }
  for (const double up : {0.03, 0.1, 0.3, 0.9}) {
    for (const double failover : {0.7, 0.9, 0.99}) types.push_back({up, 0.7, failover});
  }
  return types;
}

}  // namespace

std::shared_ptr<const Outlook> OutlookFor(const Job& job, const Market& market, std::shared_ptr<const Outlook> known) {
  const double spot = std::max(CheapestPrice(market, Mode::kSpot), 1.0);
  const double on_demand = std::max(CheapestPrice(market, Mode::kOnDemand) / spot, 0.01);
  const std::vector<MarketType> types = TypesFor(market.zones.size());
  if (known != nullptr && known->IsOf(job, on_demand, types)) return known;
  return std::make_shared<Outlook>(job, on_demand, types);
}

Spillway::Spillway(Job job, const Market& market, std::shared_ptr<const Outlook> outlook)
    : job_(job),
      outlook_(std::move(outlook)),
      unit_price_(std::max(CheapestPrice(market, Mode::kSpot), 1.0)),
      lives_(market.zones.size()),
      seen_up_since_(market.zones.size(), -1) {
  weights_ = outlook_->Weights(counts_, kTrust);
}

std::vector<Choice> Spillway::Options(const Standing& standing, const Market& market) {
  if (LeftMs(job_, standing) == 0) return {{Mode::kIdle, standing.now.zone}};
  return market.zones.size() == 1 && standing.spot != Sight::kUnknown ? OneZone(standing) : ManyZones(standing, market);
}

void Spillway::Saw(Spell spell) {
  if (spell_ == Spell::kUnknown) {
    age_ticks_ = kFirstAgeTicks;
  } else {
    const size_t bucket = static_cast<size_t>(AgeBucket(age_ticks_));
    const bool goes_on = spell == spell_;
    (spell_ == Spell::kUp ? (goes_on ? counts_.up_went_on : counts_.up_ended) : (goes_on ? counts_.down_went_on : counts_.down_ended))[bucket] += 1;
    age_ticks_ = goes_on ? age_ticks_ + 1 : 1;
  }
  spell_ = spell;
  weights_ = outlook_->Weights(counts_, kTrust);
}

Outlook::Rest Spillway::RestAt(const Standing& standing, bool up, int64_t age, Mode now) const {
  const int64_t remain = RemainMs(job_, standing.elapsed_ms);
  const double slack = static_cast<double>(remain - LeftMs(job_, standing) - standing.overhead_left_ms) / static_cast<double>(job_.tick_ms);
  return outlook_->At(weights_, remain / job_.tick_ms, slack, up, AgeBucket(age), now);
}

std::vector<Choice> Spillway::OneZone(const Standing& standing) {
  const bool up = standing.spot == Sight::kYes;
  Saw(up ? Spell::kUp : Spell::kDown);
  const Outlook::Rest rest = RestAt(standing, up, age_ticks_, standing.now.mode);
  struct Option {
    double cost;
    Choice choice;
  };
  const auto choice = [&](Mode mode) { return mode == standing.now.mode ? standing.now : Choice{mode, 0}; };
  // Slack that is idled away is gone, and the market may be worse than it looks: waiting must promise to save what a spot start costs.
  const double start = std::min(1.0, static_cast<double>(job_.overhead_ms) / static_cast<double>(job_.tick_ms));
  std::vector<Option> options = {{rest.on_demand, choice(Mode::kOnDemand)}, {rest.idle + start, choice(Mode::kIdle)}};
  if (up) options.push_back({rest.spot, choice(Mode::kSpot)});
  std::stable_sort(options.begin(), options.end(), [](const Option& a, const Option& b) { return a.cost < b.cost; });
  for (const Option& option : options) {
    if (SafeFor(job_, standing, option.choice)) return {option.choice};
  }
  return {choice(Mode::kOnDemand)};
}

bool Spillway::Dear(const Market& market, int zone) const {
  const double cheapest = CheapestPrice(market, Mode::kSpot);
  return Spot(market, zone) > cheapest + kDearPart * std::max(CheapestPrice(market, Mode::kOnDemand) - cheapest, 0.0);
}

double Spillway::EndsPerHour(int zone) const {
  const ZoneLives& lives = lives_[static_cast<size_t>(zone)];
  const double hours = static_cast<double>(lives.ticks * job_.tick_ms) / kMsPerHour;
  return (kUsualEndsPerHour * kUsualHours + static_cast<double>(lives.preempted)) / (kUsualHours + hours);
}

double Spillway::EffectivePrice(const Market& market, int zone, double lost_per_preemption) const {
  return Spot(market, zone) + EndsPerHour(zone) * lost_per_preemption;
}

std::vector<Choice> Spillway::ManyZones(const Standing& standing, const Market& market) {
  standing_ = standing;
  cheap_.clear();
  for (size_t zone = 0; zone < market.zones.size(); ++zone) cheap_.push_back(!Dear(market, static_cast<int>(zone)));

  // What became of the machine that ran on a cheap zone.
  was_preempted_ = false;
  if (last_spot_ >= 0) {
    ZoneLives& lives = lives_[static_cast<size_t>(last_spot_)];
    ++lives.ticks;
    const bool lives_on = standing.now == Choice{Mode::kSpot, last_spot_};
    if (lives_on) {
      Saw(Spell::kUp);
    } else {
      ++lives.preempted;
      was_preempted_ = true;
      seen_up_since_[static_cast<size_t>(last_spot_)] = -1;
    }
  }
  tried_all_cheap_ = granted_cheap_ = false;

  const Choice& now = standing.now;
  const bool on_cheap = now.mode == Mode::kSpot && cheap_[static_cast<size_t>(now.zone)];
  const bool on_dear = now.mode == Mode::kSpot && !on_cheap;
  const Mode as = on_dear ? Mode::kOnDemand : now.mode;
  const int64_t tick = standing.elapsed_ms / job_.tick_ms;

  // In micros: what starting once more costs, with the slack that it takes.
  const double start_cost = (RestAt(standing, true, 1, Mode::kIdle).spot - RestAt(standing, true, 1, Mode::kSpot).spot) * unit_price_ *
                            static_cast<double>(job_.tick_ms) / kMsPerHour;
  const auto price = [&](int zone) { return EffectivePrice(market, zone, std::max(start_cost, 0.0)); };
  std::vector<int> order;
  for (size_t zone = 0; zone < market.zones.size(); ++zone) {
    if (cheap_[zone]) order.push_back(static_cast<int>(zone));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return price(a) < price(b); });

  std::vector<Choice> options;
  probes_.clear();
  if (on_cheap) {
    // A cheaper zone is worth a move when it saves more than the start and the way there, once it has given machines for a while.
    for (const int zone : order) {
      if (zone == now.zone) break;
      const double hours = std::min(1 / EndsPerHour(zone), static_cast<double>(LeftMs(job_, standing)) / kMsPerHour);
      const double way = static_cast<double>(market.egress_micros[static_cast<size_t>(now.zone)][static_cast<size_t>(zone)]);
      const Choice move{Mode::kSpot, zone};
      if ((price(now.zone) - price(zone)) * hours <= start_cost + way || !SafeFor(job_, standing, move)) continue;
      if (SeenUpTicks(zone, tick) * job_.tick_ms >= kProvenMs) {
        options.push_back(move);
      } else if (SeenUpTicks(zone, tick) == 0) {
        probes_.push_back(zone);
      }
    }
    const bool stays = SafeFor(job_, standing, now);
    options.push_back(stays ? now : Choice{Mode::kOnDemand, CheapestOnDemand(market, now.zone, LeftMs(job_, standing))});
    return options;
  }
  tried_all_cheap_ = true;
  for (const int zone : order) {
    const Choice start{Mode::kSpot, zone};
    const Outlook::Rest up = RestAt(standing, true, SeenUpTicks(zone, tick) + 1, as);
    if (up.spot <= up.idle && up.spot < up.on_demand && SafeFor(job_, standing, start)) {
      options.push_back(start);
    } else {
      tried_all_cheap_ = false;
      if (SeenUpTicks(zone, tick) == 0) probes_.push_back(zone);
    }
  }
  const Outlook::Rest down = RestAt(standing, false, spell_ == Spell::kDown ? age_ticks_ + 1 : 1, as);
  const Choice idle = now.mode == Mode::kIdle ? now : Choice{Mode::kIdle, now.zone};
  if (down.idle <= down.on_demand && SafeFor(job_, standing, idle)) {
    options.push_back(idle);
    return options;
  }
  if (now.mode == Mode::kOnDemand) {
    options.push_back(now);
    return options;
  }
  const int on_demand = CheapestOnDemand(market, now.zone, LeftMs(job_, standing));
  if (on_dear && SafeFor(job_, standing, now)) options.push_back(now);
  for (const int zone : CheapestFirst(market, Mode::kSpot)) {
    const Choice start{Mode::kSpot, zone};
    if (cheap_[static_cast<size_t>(zone)] || start == now || on_dear) continue;
    if (price(zone) < OnDemand(market, on_demand) && SafeFor(job_, standing, start)) options.push_back(start);
  }
  options.push_back({Mode::kOnDemand, on_demand});
  return options;
}

int64_t Spillway::SeenUpTicks(int zone, int64_t tick) const {
  const int64_t since = seen_up_since_[static_cast<size_t>(zone)];
  return since < 0 ? 0 : tick - since;
}

void Spillway::Tried(const Choice& choice, bool granted) {
  if (cheap_.empty()) return;
  if (!granted) seen_up_since_[static_cast<size_t>(choice.zone)] = -1;
  if (granted && choice.mode == Mode::kSpot && cheap_[static_cast<size_t>(choice.zone)]) {
    granted_cheap_ = true;
    last_spot_ = choice.zone;
    if (choice == standing_.now) return;
    if (was_preempted_) ++counts_.failovers;
    if (standing_.now.mode != Mode::kSpot || spell_ == Spell::kDown) {
      if (was_preempted_) {
        counts_.up_ended[static_cast<size_t>(AgeBucket(age_ticks_))] += 1;
      } else if (spell_ == Spell::kDown) {
        counts_.down_ended[static_cast<size_t>(AgeBucket(age_ticks_))] += 1;
      }
    }
    spell_ = Spell::kUp;
    age_ticks_ = 1;
    weights_ = outlook_->Weights(counts_, kTrust);
  } else if (granted) {
    last_spot_ = -1;
  }
}

std::vector<int> Spillway::Probes() {
  if (cheap_.empty()) return {};
  if (granted_cheap_) return probes_;
  last_spot_ = -1;
  if (tried_all_cheap_) {
    if (was_preempted_) {
      ++counts_.failures_to;
      spell_ = Spell::kUp;
    }
    Saw(Spell::kDown);
  } else if (was_preempted_) {
    Saw(Spell::kDown);
  } else {
    spell_ = Spell::kUnknown;
  }
  return probes_;
}

void Spillway::Probed(int zone, bool available) {
  const int64_t tick = standing_.elapsed_ms / job_.tick_ms;
  seen_up_since_[static_cast<size_t>(zone)] = available ? tick : -1;
}

}  // namespace spillway::core::deadline
