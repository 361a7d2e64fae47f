// Which offer a task that does not fit on paid capacity spills to: the lowest expected cost per hour of useful work among those that satisfy the hard
// constraints, with the hazard of each pool learned from what was observed. Owns the floats of the core; what leaves is integers.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/core/core.h"

namespace spillway::core {

// Price x (1 + hazard x hours lost by a preemption), in micros per hour, rounded to nearest. Hazard = (preemptions + prior) / (exposure + prior
// exposure); living nodes of the pool count with the time they have been READY. What a preemption loses is the work since the last checkpoint (nothing
// where a notice comes first) and the time until a new machine is ready, as observed with this provider's living nodes.
int64_t ExpectedMicrosPerHour(const State& state, const Offer& offer, int64_t now_ms);
// The same from what was observed: how long machines of the pool stood ready in all, and how long a new one takes to take over.
int64_t ExpectedMicrosPerHour(const Offer& offer, int64_t exposure_ms, int64_t restart_ms);

// A pool that preempted (or failed to boot) within policy.pool_avoid_ms.
bool RecentlyBad(const Offer& offer, const Policy& policy, int64_t now_ms);

// Why an offer cannot be asked right now, apart from misfits.
enum class OfferBar { kNone, kWithdrawn, kNoProvider, kBackoff, kNoCapacity, kNodeLimit };
// `more` of it and `more_of_provider` nodes of its provider are already planned in this cycle.
OfferBar BarOf(const State& state, const Offer& offer, int64_t more, int64_t more_of_provider, int64_t now_ms);
int64_t AliveNodes(const State& state, const std::string& provider);

struct Ranked {
  const Offer* offer = nullptr;
  int tier = 0;  // paid already, spot, spot to be avoided, on demand, on demand to be avoided, spot that is dearer than on demand after all
  int64_t expected_micros_per_hour = 0;
};
// Best first: (tier, expected cost, price, provider, name). Only offers without misfit and bar belong in here.
std::vector<Ranked> Rank(const State& state, const std::vector<const Offer*>& offers, const Policy& policy, int64_t now_ms);

}  // namespace spillway::core
