// SkyNomad (NSDI 2027): spot machines of several zones under one deadline. Each zone is worth the progress that a machine is expected to make there, at a
// progress value V, less its price and the checkpoint's way; on demand is worth V less its price; idle nothing. The best that beats what runs by a margin
// is launched, and the old machine ended after. V is 1.2 times what an hour of the work left costs by the plan that the zones' availability allows.
//
// Follows the published program closely enough to give its figures. That includes three habits: a zone left for another counts as alive until it is seen
// otherwise, a zone that answered a probe with yes is not probed again, and an expected life is never more than two hours.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/core/policy/deadline/deadline.h"
#include "scheduler/core/policy/deadline/lifetimes.h"

namespace spillway::core::deadline {

class SkyNomad : public Policy {
 public:
  SkyNomad(Job job, int zones, int64_t checkpoint_gb);

  std::vector<Choice> Options(const Standing& standing, const Market& market) override;
  void Tried(const Choice& choice, bool granted) override;
  std::vector<int> Probes() override;
  void Probed(int zone, bool available) override;

 private:
  struct Option {
    double value = 0;
    Choice choice;
  };
  double ExpectedHours(int zone) const;
  // Dollars an hour of the work left, by the cheapest zones first and on demand for the rest.
  double ReferencePrice(const Market& market) const;
  double OnDemandShare() const;
  double RecentRate() const;
  double SpotValue(const Market& market, int zone, double progress_value, bool running) const;
  std::vector<Option> RankedOptions(const Market& market, double progress_value, double current_value) const;

  Job job_;
  double checkpoint_gb_;
  std::vector<Lifetimes> lifetimes_;
  std::vector<double> done_hours_;  // at the beginning of each tick so far
  Standing standing_;
  std::optional<int> running_spot_;  // the zone whose life we follow
  bool ended_by_us_ = false;
  int origin_ = -1;  // where the checkpoint is counted to be
  bool latched_ = false;

  std::vector<bool> probed_alive_;
  std::vector<bool> refused_;  // in this tick
  std::vector<int64_t> next_probe_tick_;
  int primary_ = -1;
  bool keeps_none_ = false;
};

}  // namespace spillway::core::deadline
