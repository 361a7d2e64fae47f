#include "worker/supervisor/lease.h"

#include <algorithm>
#include <limits>

#include "base/limits.h"

namespace spillway::supervisor {
namespace {
constexpr int64_t kWholeOffsetsFromMs = 200'000;
}

Lease Lease::From(const frames::Renew& renew, int64_t now_ms) {
  Lease lease;
  if (renew.lease_end_boottime_ms <= 0) return lease;
  const int64_t length = std::clamp<int64_t>(renew.lease_ms > 0 ? renew.lease_ms : renew.lease_end_boottime_ms - now_ms, 0, kWholeOffsetsFromMs);
  const auto scaled = [&](int64_t before_ms) { return renew.lease_end_boottime_ms - before_ms * length / kWholeOffsetsFromMs; };
  lease.end_ms_ = renew.lease_end_boottime_ms;
  lease.checkpoint_ms_ = scaled(limits::kLeaseCheckpointBeforeMs);
  lease.term_ms_ = scaled(limits::kLeaseTermBeforeMs);
  lease.kill_ms_ = scaled(limits::kLeaseKillBeforeMs);
  return lease;
}

LeaseStage Lease::StageAt(int64_t now_ms) const {
  if (end_ms_ == 0) return LeaseStage::kNone;
  if (now_ms >= end_ms_) return LeaseStage::kLapsed;
  if (now_ms >= kill_ms_) return LeaseStage::kKill;
  if (now_ms >= term_ms_) return LeaseStage::kTerm;
  if (now_ms >= checkpoint_ms_) return LeaseStage::kCheckpoint;
  return LeaseStage::kHeld;
}

int64_t Lease::NextChangeMs(int64_t now_ms) const {
  for (const int64_t at : {checkpoint_ms_, term_ms_, kill_ms_, end_ms_}) {
    if (at > now_ms) return at;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace spillway::supervisor
