// The cheapest way to be on time that anyone could have found who knew the whole window beforehand: exact dynamic programming over every tick, every
// amount of work done (in units that overhead and tick are both multiples of), every zone and every overhead left. What it finds is played back by the
// simulator like any policy, so its bill is made by the same hands.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/deadline/deadline_run.h"

namespace spillway::sim {

struct OmniscientPlan {
  std::vector<Choice> ticks;   // what runs in each tick, until the work is done
  int64_t cost_micros_ms = 0;  // what it costs
};

// The same as the published optimum over several zones has it: a start loses whole ticks and the work takes whole ticks. Played back, such a plan may be
// done earlier than it thinks. The exact plan, where whole ticks leave none.
absl::StatusOr<OmniscientPlan> PlanInWholeTicks(const Environment& environment, int64_t first_tick, const Job& job);

// FAILED_PRECONDITION where no plan makes the deadline; RESOURCE_EXHAUSTED where the table would be larger than a few GB.
absl::StatusOr<OmniscientPlan> PlanOmnisciently(const Environment& environment, int64_t first_tick, const Job& job, LastTick last_tick);

// Plays a plan back.
class Playback : public core::deadline::Policy {
 public:
  explicit Playback(OmniscientPlan plan) : plan_(std::move(plan)) {}
  std::vector<Choice> Options(const Standing& standing, const Market& market) override {
    return next_ < plan_.ticks.size() ? std::vector<Choice>{plan_.ticks[next_++]} : std::vector<Choice>{};
  }

 private:
  OmniscientPlan plan_;
  size_t next_ = 0;
};

}  // namespace spillway::sim
