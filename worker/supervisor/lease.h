// What the end of a lease asks of the supervisor, and when. Pure: a lease and a time in, a stage out.
#pragma once

#include <cstdint>

#include "worker/frames/frames.h"

namespace spillway::supervisor {

enum class LeaseStage {
  kNone,  // never granted, or taken away: nothing lease-bound may run
  kHeld,
  kCheckpoint,  // notice files say "lease"
  kTerm,        // stop signals
  kKill,        // SIGKILL of every tree
  kLapsed,      // whatever ends now ends without authority
};

class Lease {
 public:
  Lease() = default;
  // The three offsets are limits::kLease{Checkpoint,Term,Kill}BeforeMs, times lease_ms / 200 s when the lease is shorter than 200 s.
  static Lease From(const frames::Renew& renew, int64_t now_ms);

  LeaseStage StageAt(int64_t now_ms) const;
  // When StageAt next changes; INT64_MAX when it will not.
  int64_t NextChangeMs(int64_t now_ms) const;

  int64_t end_ms() const { return end_ms_; }  // 0: none
  int64_t kill_ms() const { return kill_ms_; }

 private:
  int64_t checkpoint_ms_ = 0, term_ms_ = 0, kill_ms_ = 0, end_ms_ = 0;
};

}  // namespace spillway::supervisor
