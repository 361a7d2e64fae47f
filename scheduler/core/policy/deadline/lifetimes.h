// How long a spot machine of one zone will still live, from the lives seen there: Nelson-Aalen steps over completed lives (a life that we ended ourselves
// is censored), sped up while preemptions come faster than those steps expect. As published with SkyNomad (NSDI 2027). Deterministic; hours are doubles.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace spillway::core::deadline {

class Lifetimes {
 public:
  explicit Lifetimes(double tick_hours) : tick_hours_(tick_hours) {}

  // A machine of ours, or one that a probe found, began to live. A life that was never seen to end is forgotten.
  void Began(double hour, bool ours);
  void Ended(double hour, bool preempted);
  // A launch or a probe that was refused counts as one preemption in this tick.
  void Refused() { ++failures_; }
  // Once a tick, after what was seen at its beginning: weighs the preemptions of late against those expected.
  void Tick(double hour);
  bool alive() const { return born_.has_value(); }
  // Mean hours that the living machine (or a new one) still has.
  double ExpectedHours(double hour) const;
  // Share of the last `window_hours` in which a machine lived here.
  double Availability(double hour, double window_hours) const;

 private:
  struct Life {
    double begin = 0;
    double end = 0;
    bool preempted = false;
  };
  struct Event {
    double risk = 0;
    int failures = 0;
  };
  using Knots = std::vector<std::pair<double, double>>;  // age, step of the cumulative hazard

  Knots Steps() const;
  double Age(double hour) const { return born_ ? hour - *born_ : 0; }
  void Remember(Event event);

  double tick_hours_;
  std::vector<Life> lives_;
  std::optional<double> born_;
  bool ours_ = false;
  std::vector<Event> recent_;
  double speed_up_ = 1;
  int failures_ = 0;
  std::optional<double> last_age_ours_;
  std::optional<double> last_age_probed_;
};

}  // namespace spillway::core::deadline
