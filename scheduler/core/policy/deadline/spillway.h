// Our own policy: does what the Outlook expects to cost least for the rest of the job, among what still keeps the deadline for sure (SafeFor). It idles
// while slack is worth little, runs on demand when slack is worth more than spot may save, and leaves on demand for spot when the spell is likely to pay
// for the two starts. What kind of market it is in, it learns from the spells it sees.
//
// Over several zones capacity is up where any cheap zone grants; zones are tried by price and by how fast they took machines back. Zones whose spot machines
// are dear stand between the cheap ones and on demand.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/core/policy/deadline/deadline.h"
#include "scheduler/core/policy/deadline/outlook.h"

namespace spillway::core::deadline {

// The table for this job on this market: `known` when it is that one already (it is the costly part, and jobs alike share it), else a new one.
std::shared_ptr<const Outlook> OutlookFor(const Job& job, const Market& market, std::shared_ptr<const Outlook> known);

class Spillway : public Policy {
 public:
  Spillway(Job job, const Market& market, std::shared_ptr<const Outlook> outlook);

  std::vector<Choice> Options(const Standing& standing, const Market& market) override;
  void Tried(const Choice& choice, bool granted) override;
  std::vector<int> Probes() override;
  void Probed(int zone, bool available) override;

 private:
  // What was seen of one zone while a machine of ours ran there.
  struct ZoneLives {
    int64_t preempted = 0;
    int64_t ticks = 0;
  };
  enum class Spell { kUnknown, kUp, kDown };

  std::vector<Choice> OneZone(const Standing& standing);
  std::vector<Choice> ManyZones(const Standing& standing, const Market& market);
  Outlook::Rest RestAt(const Standing& standing, bool up, int64_t age, Mode now) const;
  void Saw(Spell spell);
  bool Dear(const Market& market, int zone) const;
  // Micros an hour, with what its preemptions cost.
  double EffectivePrice(const Market& market, int zone, double lost_per_preemption) const;
  double EndsPerHour(int zone) const;
  // How long a zone is known to be up, by what it answered; 0 when it is not.
  int64_t SeenUpTicks(int zone, int64_t tick) const;

  Job job_;
  std::shared_ptr<const Outlook> outlook_;
  double unit_price_ = 0;  // the price that the outlook counts in, micros an hour
  SpellCounts counts_;
  std::vector<double> weights_;
  Spell spell_ = Spell::kUnknown;
  int64_t age_ticks_ = 0;

  std::vector<ZoneLives> lives_;
  Standing standing_;
  bool was_preempted_ = false;
  bool tried_all_cheap_ = false;
  bool granted_cheap_ = false;
  int last_spot_ = -1;
  std::vector<bool> cheap_;
  std::vector<int64_t> seen_up_since_;  // tick, -1: not
  std::vector<int> probes_;
};

}  // namespace spillway::core::deadline
