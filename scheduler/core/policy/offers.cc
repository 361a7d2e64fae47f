#include "scheduler/core/policy/offers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace spillway::core {
namespace {

constexpr double kHourMs = 3'600'000.0;
// Before anything was observed: a spot machine is expected to be taken once in 20 hours, an on-demand one hardly ever; worth ten hours of watching.
constexpr double kPriorExposureHours = 10.0;
constexpr double kPriorPreemptionsSpot = 0.5;
constexpr double kPriorPreemptionsOther = 0.005;
constexpr double kLostHoursWithoutNotice = 5.0 / 60;  // half of a usual checkpoint interval
constexpr double kRestartHours = 2.0 / 60;            // until the first boot was seen

struct Observed {
  double exposure_hours = 0;
  double boot_hours = kRestartHours;
};

Observed Observe(const State& state, const Offer& offer, int64_t now_ms) {
  Observed seen;
  int64_t exposure_ms = offer.exposure_ms, boots = 0, boot_ms = 0;
  for (const auto& [id, node] : state.nodes) {
    if (node.provider != offer.provider || node.ready_ms == 0 || !node.owned) continue;
    if (node.offer == offer.name) exposure_ms += now_ms - node.ready_ms;
    ++boots;
    boot_ms += node.ready_ms - node.requested_ms;
  }
  seen.exposure_hours = static_cast<double>(exposure_ms) / kHourMs;
  if (boots > 0) seen.boot_hours = std::min(kRestartHours * 5, static_cast<double>(boot_ms) / static_cast<double>(boots) / kHourMs);
  return seen;
}

enum Tier { kPaidAlready = 0, kSpot = 1, kSpotAvoided = 2, kOnDemand = 3, kOnDemandAvoided = 4, kSpotTooDear = 5 };

int TierOf(const Offer& offer, int64_t expected, int64_t cheapest_on_demand, bool avoided) {
  if (offer.market == Market::kReserved) return kPaidAlready;
  if (offer.market == Market::kOnDemand) return avoided ? kOnDemandAvoided : kOnDemand;
  if (expected > cheapest_on_demand) return kSpotTooDear;
  return avoided ? kSpotAvoided : kSpot;
}

int64_t Expected(const Offer& offer, const Observed& seen) {
  const double prior = offer.market == Market::kSpot ? kPriorPreemptionsSpot : kPriorPreemptionsOther;
  const double hazard = (static_cast<double>(offer.preemptions) + prior) / (seen.exposure_hours + kPriorExposureHours);
  // Never more than half of a machine's mean life is lost at once, whatever the interval.
  const double lost_hours = offer.notice_ms > 0 ? 0.0 : std::min(kLostHoursWithoutNotice, 0.5 / hazard);
  const double factor = 1.0 + hazard * (lost_hours + seen.boot_hours);
  const double expected = static_cast<double>(offer.price_micros_per_hour) * factor;
  if (expected >= 9e18) return std::numeric_limits<int64_t>::max();
  return std::llround(expected);
}

}  // namespace

int64_t ExpectedMicrosPerHour(const State& state, const Offer& offer, int64_t now_ms) { return Expected(offer, Observe(state, offer, now_ms)); }

int64_t ExpectedMicrosPerHour(const Offer& offer, int64_t exposure_ms, int64_t restart_ms) {
  return Expected(offer, {static_cast<double>(exposure_ms) / kHourMs, static_cast<double>(restart_ms) / kHourMs});
}

bool RecentlyBad(const Offer& offer, const Policy& policy, int64_t now_ms) {
  return offer.last_preempted_ms > 0 && now_ms - offer.last_preempted_ms < policy.pool_avoid_ms;
}

int64_t AliveNodes(const State& state, const std::string& provider) {
  int64_t count = 0;
  for (const auto& [id, node] : state.nodes) count += node.provider == provider ? 1 : 0;
  return count;
}

OfferBar BarOf(const State& state, const Offer& offer, int64_t more, int64_t more_of_provider, int64_t now_ms) {
  if (offer.withdrawn) return OfferBar::kWithdrawn;
  const auto provider = state.meta.providers.find(offer.provider);
  if (provider == state.meta.providers.end() || !provider->second.can_create) return OfferBar::kNoProvider;
  if (offer.backoff_until_ms > now_ms) return OfferBar::kBackoff;
  if (offer.available >= 0 && offer.available <= more) return OfferBar::kNoCapacity;
  if (AliveNodes(state, offer.provider) + more_of_provider >= provider->second.max_nodes) return OfferBar::kNodeLimit;
  return OfferBar::kNone;
}

std::vector<Ranked> Rank(const State& state, const std::vector<const Offer*>& offers, const Policy& policy, int64_t now_ms) {
  std::vector<Ranked> ranked;
  int64_t cheapest_on_demand = std::numeric_limits<int64_t>::max();
  for (const Offer* offer : offers) {
    ranked.push_back({offer, 0, ExpectedMicrosPerHour(state, *offer, now_ms)});
    if (offer->market == Market::kOnDemand) cheapest_on_demand = std::min(cheapest_on_demand, ranked.back().expected_micros_per_hour);
  }
  for (Ranked& one : ranked) {
    one.tier = TierOf(*one.offer, one.expected_micros_per_hour, cheapest_on_demand, RecentlyBad(*one.offer, policy, now_ms));
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(a.tier, a.expected_micros_per_hour, a.offer->price_micros_per_hour, a.offer->provider, a.offer->name) <
           std::tie(b.tier, b.expected_micros_per_hour, b.offer->price_micros_per_hour, b.offer->provider, b.offer->name);
  });
  return ranked;
}

}  // namespace spillway::core
