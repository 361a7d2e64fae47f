#include "scheduler/core/policy/deadline/deadline.h"

#include <algorithm>
#include <limits>

#include "base/money.h"

namespace spillway::core::deadline {
namespace {

__extension__ typedef __int128 Int128;

int64_t CeilToTick(const Job& job, int64_t ms) { return (ms + job.tick_ms - 1) / job.tick_ms * job.tick_ms; }

}  // namespace

int64_t LeftMs(const Job& job, const Standing& standing) { return std::max<int64_t>(job.work_ms - standing.done_ms, 0); }

int64_t RemainMs(const Job& job, int64_t elapsed_ms) {
  if (elapsed_ms >= job.deadline_ms) return 0;
  return (job.deadline_ms - elapsed_ms) / job.tick_ms * job.tick_ms;
}

int64_t NeedMs(const Job& job, int64_t left_ms, int64_t overheads) { return CeilToTick(job, left_ms + overheads * job.overhead_ms); }

int AgainstSteadyProgress(const Job& job, const Standing& standing, int64_t early_ms) {
  const Int128 done = Int128{standing.done_ms} * job.deadline_ms;
  const Int128 steady = Int128{standing.elapsed_ms + early_ms} * job.work_ms;
  return done < steady ? -1 : done > steady ? 1 : 0;
}

int64_t ProgressMs(const Job& job, int64_t left_ms, int64_t overhead_left_ms) {
  return std::min(std::max<int64_t>(job.tick_ms - overhead_left_ms, 0), left_ms);
}

int64_t OverheadAfterMs(const Job& job, int64_t overhead_left_ms) { return std::max<int64_t>(overhead_left_ms - job.tick_ms, 0); }

bool SafeFor(const Job& job, const Standing& standing, const Choice& choice) {
  const int64_t left = LeftMs(job, standing);
  const int64_t after = RemainMs(job, standing.elapsed_ms) - job.tick_ms;
  if (choice.mode == Mode::kIdle) return left == 0 || NeedMs(job, left, 1) <= after;
  const int64_t overhead = choice == standing.now ? standing.overhead_left_ms : job.overhead_ms;
  const int64_t left_after = left - ProgressMs(job, left, overhead);
  if (left_after == 0) return after >= 0;
  if (choice.mode == Mode::kOnDemand) return CeilToTick(job, left_after + OverheadAfterMs(job, overhead)) <= after;
  return NeedMs(job, left_after, 1) <= after;
}

bool Feasible(const Job& job) { return job.tick_ms > 0 && NeedMs(job, job.work_ms, 1) <= RemainMs(job, 0); }

std::vector<int> CheapestFirst(const Market& market, Mode mode) {
  std::vector<int> order;
  for (size_t zone = 0; zone < market.zones.size(); ++zone) order.push_back(static_cast<int>(zone));
  const auto price = [&](int zone) {
    const ZonePrice& prices = market.zones[static_cast<size_t>(zone)];
    return mode == Mode::kSpot ? prices.spot_micros_per_hour : prices.on_demand_micros_per_hour;
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return price(a) < price(b); });
  return order;
}

int CheapestOnDemand(const Market& market, int from_zone, int64_t left_ms) {
  int best = 0;
  int64_t best_micros = std::numeric_limits<int64_t>::max();
  for (size_t zone = 0; zone < market.zones.size(); ++zone) {
    int64_t micros = PriceForMs(market.zones[zone].on_demand_micros_per_hour, left_ms);
    if (from_zone >= 0) micros += market.egress_micros[static_cast<size_t>(from_zone)][zone];
    if (micros >= best_micros) continue;
    best = static_cast<int>(zone);
    best_micros = micros;
  }
  return best;
}

}  // namespace spillway::core::deadline
