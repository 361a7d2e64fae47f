#include "scheduler/core/policy/deadline/uniform_progress.h"

namespace spillway::core::deadline {

Mode ModeWanted(const Job& job, const Standing& standing, bool has_spot, Rule rule) {
  const Mode now = standing.now.mode;
  const int64_t left = LeftMs(job, standing);
  if (left == 0) return Mode::kIdle;
  const int64_t remain = RemainMs(job, standing.elapsed_ms);

  Mode wanted = has_spot ? Mode::kSpot : Mode::kIdle;
  if (rule != Rule::kGreedy && AgainstSteadyProgress(job, standing, 0) < 0) wanted = has_spot ? Mode::kSpot : Mode::kOnDemand;
  if (rule != Rule::kGreedy && now == Mode::kOnDemand) {
    // On demand is never left for nothing.
    const bool waits = rule == Rule::kUniformProgress && AgainstSteadyProgress(job, standing, 2 * job.overhead_ms) <= 0;
    if (!has_spot || waits) wanted = Mode::kOnDemand;
  }
  if (NeedMs(job, left, 2) >= remain && now != Mode::kSpot) wanted = Mode::kOnDemand;
  if (NeedMs(job, left, 1) >= remain) wanted = now == Mode::kSpot && standing.overhead_left_ms == 0 ? Mode::kSpot : Mode::kOnDemand;
  if (wanted == Mode::kSpot && !has_spot) wanted = Mode::kIdle;
  return wanted;
}

std::vector<Choice> UniformProgress::Options(const Standing& standing, const Market& market) {
  const int64_t left = LeftMs(job_, standing);
  std::vector<Choice> options;
  const auto add = [&](Mode mode) {
    if (mode == standing.now.mode) {
      options.push_back(standing.now);
    } else if (mode == Mode::kOnDemand) {
      options.push_back({mode, CheapestOnDemand(market, standing.now.zone, left)});
    } else {
      options.push_back({Mode::kIdle, standing.now.zone});
    }
  };
  const Mode with_spot = ModeWanted(job_, standing, /*has_spot=*/true, rule_);
  if (with_spot != Mode::kSpot || standing.now.mode == Mode::kSpot) {
    add(with_spot);
    return options;
  }
  for (const int zone : CheapestFirst(market, Mode::kSpot)) options.push_back({Mode::kSpot, zone});
  add(ModeWanted(job_, standing, /*has_spot=*/false, rule_));
  return options;
}

}  // namespace spillway::core::deadline
