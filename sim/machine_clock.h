// The steady clock of one machine: its own zero, a rate a little off the truth, and stopped while the machine is frozen (a suspended virtual machine
// wakes up and believes that no time has passed). Everything a machine does is planned on its clock, and nothing of it happens while it is frozen.
#pragma once

#include <deque>

#include "sim/world.h"

namespace spillway::sim {

class MachineClock {
 public:
  // rate_ppm: by how much it runs fast, in millionths.
  MachineClock(World* world, int64_t zero_ms, int64_t rate_ppm) : world_(world), zero_ms_(zero_ms), rate_ppm_(rate_ppm), since_ms_(world->now_ms()) {}

  int64_t NowMs() const { return zero_ms_ + Elapsed(frozen_ ? frozen_at_ms_ : world_->now_ms()); }
  // When the clock shows at least `local_ms`; at once, in order, when it does so already.
  void At(int64_t local_ms, const LifeWatch& life, World::Task what);
  void After(int64_t ms, const LifeWatch& life, World::Task what) { At(NowMs() + ms, life, std::move(what)); }
  // True time at which it will show `local_ms`, if it is not frozen meanwhile.
  int64_t TrueMs(int64_t local_ms) const;

  bool frozen() const { return frozen_; }
  void Freeze();
  void Thaw();

 private:
  // Of the clock, between its beginning and a true time.
  int64_t Elapsed(int64_t true_ms) const {
    const int64_t passed = true_ms - since_ms_ - frozen_ms_;
    return passed + passed * rate_ppm_ / 1'000'000;
  }
  struct Held {
    int64_t local_ms;
    LifeWatch watch;
    World::Task what;
  };
  void Plan(Held held);
  void Due(Held held);

  World* const world_;
  const int64_t zero_ms_, rate_ppm_;
  const int64_t since_ms_;
  int64_t frozen_ms_ = 0;  // in all, up to the last thaw
  int64_t frozen_at_ms_ = 0;
  bool frozen_ = false;
  std::deque<Held> held_;  // came due while frozen
};

}  // namespace spillway::sim
