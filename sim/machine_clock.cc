#include "sim/machine_clock.h"

namespace spillway::sim {

void MachineClock::At(int64_t local_ms, const LifeWatch& life, World::Task what) { Plan({local_ms, life, std::move(what)}); }

void MachineClock::Plan(Held held) {
  const int64_t at_ms = TrueMs(held.local_ms);
  world_->At(at_ms, [this, held = std::move(held)]() mutable {
    // The clock lives as long as its machine, and a machine outlives nothing that watches it.
    if (!held.watch.expired()) Due(std::move(held));
  });
}

void MachineClock::Due(Held held) {
  if (frozen_) {
    held_.push_back(std::move(held));
  } else if (NowMs() < held.local_ms) {
    Plan(std::move(held));  // it was frozen meanwhile
  } else {
    held.what();
  }
}

int64_t MachineClock::TrueMs(int64_t local_ms) const {
  const int64_t left = local_ms - NowMs();
  if (left <= 0) return world_->now_ms();
  int64_t at_ms = world_->now_ms() + static_cast<int64_t>(static_cast<double>(left) * 1e6 / static_cast<double>(1'000'000 + rate_ppm_)) - 2;
  while (zero_ms_ + Elapsed(at_ms) < local_ms) ++at_ms;
  return at_ms;
}

void MachineClock::Freeze() {
  if (frozen_) return;
  frozen_ = true;
  frozen_at_ms_ = world_->now_ms();
}

void MachineClock::Thaw() {
  if (!frozen_) return;
  frozen_ = false;
  frozen_ms_ += world_->now_ms() - frozen_at_ms_;
  std::deque<Held> held;
  held.swap(held_);
  for (Held& one : held) Plan(std::move(one));
}

}  // namespace spillway::sim
