#include "sim/deadline/deadline_run.h"

#include <algorithm>

namespace spillway::sim {
namespace {

constexpr int64_t kProbeMs = 60'000;

class Play {
 public:
  Play(const Environment& environment, int64_t first_tick, const Job& job, LastTick last_tick)
      : environment_(environment), first_tick_(first_tick), job_(job), last_tick_(last_tick) {}

  RunResult Run(core::deadline::Policy& policy) {
    for (int64_t tick = 0; (tick + 1) * job_.tick_ms <= job_.deadline_ms && core::deadline::LeftMs(job_, standing_) > 0; ++tick) {
      Begin(tick);
      Decide(policy);
      Work();
    }
    result_.late = core::deadline::LeftMs(job_, standing_) > 0;
    return result_;
  }

 private:
  void Begin(int64_t tick) {
    at_ = first_tick_ + tick;
    standing_.elapsed_ms = tick * job_.tick_ms;
    if (standing_.now.mode == Mode::kSpot && !Given(standing_.now.zone)) Become({Mode::kIdle, standing_.now.zone});
    if (environment_.zones.size() == 1) standing_.spot = Given(0) ? core::deadline::Sight::kYes : core::deadline::Sight::kNo;
  }

  void Decide(core::deadline::Policy& policy) {
    for (const Choice& choice : policy.Options(standing_, environment_.MarketAt(at_))) {
      const bool granted = choice.mode != Mode::kSpot || Given(choice.zone);
      policy.Tried(choice, granted);
      if (!granted) continue;
      Become(choice);
      break;
    }
    for (const int zone : policy.Probes()) {
      const bool given = Given(zone);
      policy.Probed(zone, given);
      const bool ours = standing_.now == Choice{Mode::kSpot, zone};
      if (given && !ours) result_.cost_micros_ms += environment_.PriceAt({Mode::kSpot, zone}, at_) * kProbeMs;
    }
  }

  void Become(Choice choice) {
    if (choice == standing_.now) return;
    if (choice.mode == Mode::kIdle) {
      standing_.now = {Mode::kIdle, standing_.now.zone};
      standing_.overhead_left_ms = 0;
      return;
    }
    const int from = standing_.now.zone;
    if (from >= 0 && from != choice.zone) {
      ++result_.moves;
      const int64_t way = environment_.egress_micros[static_cast<size_t>(from)][static_cast<size_t>(choice.zone)];
      result_.cost_micros_ms += way * 3'600'000;
    }
    ++result_.starts;
    standing_.now = choice;
    standing_.overhead_left_ms = job_.overhead_ms;
  }

  void Work() {
    const Mode mode = standing_.now.mode;
    (mode == Mode::kIdle ? result_.idle_ms : mode == Mode::kSpot ? result_.spot_ms : result_.on_demand_ms) += job_.tick_ms;
    if (mode == Mode::kIdle) return;
    const int64_t left = core::deadline::LeftMs(job_, standing_);
    const int64_t progress = core::deadline::ProgressMs(job_, left, standing_.overhead_left_ms);
    standing_.overhead_left_ms = core::deadline::OverheadAfterMs(job_, standing_.overhead_left_ms);
    standing_.done_ms += progress;
    if (progress == left && last_tick_ == LastTick::kFree) return;
    result_.cost_micros_ms += environment_.PriceAt(standing_.now, at_) * job_.tick_ms;
  }

  bool Given(int zone) const { return environment_.zones[static_cast<size_t>(zone)].available[static_cast<size_t>(at_)]; }

  const Environment& environment_;
  const int64_t first_tick_;
  const Job& job_;
  const LastTick last_tick_;
  int64_t at_ = 0;
  Standing standing_;
  RunResult result_;
};

}  // namespace

int64_t Environment::ticks() const {
  size_t ticks = zones.empty() ? 0 : zones[0].available.size();
  for (const TraceZone& zone : zones) ticks = std::min(ticks, zone.available.size());
  return static_cast<int64_t>(ticks);
}

Market Environment::MarketAt(int64_t tick) const {
  Market market;
  for (const TraceZone& zone : zones) market.zones.push_back({zone.spot_at(tick), zone.on_demand_micros_per_hour});
  market.egress_micros = egress_micros;
  return market;
}

int64_t Environment::PriceAt(const Choice& choice, int64_t tick) const {
  const TraceZone& zone = zones[static_cast<size_t>(choice.zone)];
  return choice.mode == Mode::kIdle ? 0 : choice.mode == Mode::kSpot ? zone.spot_at(tick) : zone.on_demand_micros_per_hour;
}

RunResult PlayDeadline(const Environment& environment, int64_t first_tick, const Job& job, LastTick last_tick, core::deadline::Policy& policy) {
  return Play(environment, first_tick, job, last_tick).Run(policy);
}

}  // namespace spillway::sim
