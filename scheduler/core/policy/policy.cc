// The defaults of Policy.
#include "base/limits.h"
#include "scheduler/core/core.h"

namespace spillway::core {

Policy::Policy()
    : lease_ms(limits::kLeaseMs),
      renew_every_ms(limits::kRenewEveryMs),
      silence_ms(limits::kSilenceMs),
      lease_grace_ms(limits::kLeaseGraceMs),
      retry_backoff_ms(limits::kRetryBackoffMsMin),
      pool_avoid_ms(2 * 60'000),
      offer_backoff_ms(10'000),
      candidates_max(limits::kDecideCandidatesMax),
      displace_again_ms(10 * 60'000),
      gang_hold_ms(limits::kGangHoldMs) {}

}  // namespace spillway::core
