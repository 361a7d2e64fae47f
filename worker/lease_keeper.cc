#include "worker/lease_keeper.h"

#include <algorithm>

#include "base/limits.h"

namespace spillway::worker {
namespace {

constexpr int64_t kLeaseMsMin = 1'000;
constexpr int64_t kLeaseMsMax = 24LL * 3600 * 1000;
constexpr int64_t kRenewMsMin = 100;
constexpr size_t kSentMax = 64;
// Below this length the times before the end shrink in proportion (the supervisor does the same).
constexpr int64_t kScaledBelowMs = 200'000;

}  // namespace

void LeaseKeeper::Resume(int64_t lease_end_ms) { lease_end_ms_ = std::max(lease_end_ms_, lease_end_ms); }

void LeaseKeeper::HelloSent(int64_t now_ms) {
  SessionOver();
  hello_sent_ms_ = now_ms;
}

bool LeaseKeeper::Welcomed(int64_t lease_ms, int64_t renew_every_ms) {
  lease_ms_ = std::clamp(lease_ms, kLeaseMsMin, kLeaseMsMax);
  renew_every_ms_ = std::clamp(renew_every_ms, kRenewMsMin, lease_ms_ / 3);
  next_renewal_at_ms_ = hello_sent_ms_ + renew_every_ms_;
  const int64_t end = hello_sent_ms_ + lease_ms_;
  if (end <= lease_end_ms_) return false;
  lease_end_ms_ = end;
  return true;
}

void LeaseKeeper::SessionOver() {
  sent_.clear();
  next_renewal_at_ms_ = kNever;
}

int64_t LeaseKeeper::SendRenewal(int64_t now_ms) {
  next_renewal_at_ms_ = now_ms + renew_every_ms_;
  sent_.emplace_back(++last_number_, now_ms);
  if (sent_.size() > kSentMax) sent_.pop_front();
  return last_number_;
}

bool LeaseKeeper::Acknowledged(int64_t number) {
  // An acknowledgement speaks for every renewal up to its number; the newest of those that is still remembered counts.
  int64_t sent_at = -1;
  while (!sent_.empty() && sent_.front().first <= number) {
    if (sent_.front().first == number) sent_at = sent_.front().second;
    sent_.pop_front();
  }
  if (sent_at < 0 || sent_at + lease_ms_ <= lease_end_ms_) return false;
  lease_end_ms_ = sent_at + lease_ms_;
  return true;
}

int64_t LeaseKeeper::PhaseStartMs(int64_t before_ms) const {
  const bool scaled = lease_ms_ > 0 && lease_ms_ < kScaledBelowMs;
  return lease_end_ms_ - (scaled ? before_ms * lease_ms_ / kScaledBelowMs : before_ms);
}

LeasePhase LeaseKeeper::PhaseAt(int64_t now_ms) const {
  if (lease_end_ms_ == 0) return LeasePhase::kNone;
  if (now_ms >= lease_end_ms_) return LeasePhase::kLapsed;
  if (now_ms >= PhaseStartMs(limits::kLeaseKillBeforeMs)) return LeasePhase::kKill;
  if (now_ms >= PhaseStartMs(limits::kLeaseTermBeforeMs)) return LeasePhase::kTerm;
  if (now_ms >= PhaseStartMs(limits::kLeaseCheckpointBeforeMs)) return LeasePhase::kCheckpoint;
  return LeasePhase::kHeld;
}

int64_t LeaseKeeper::NextPhaseAtMs(int64_t now_ms) const {
  switch (PhaseAt(now_ms)) {
    case LeasePhase::kNone:
    case LeasePhase::kLapsed: return kNever;
    case LeasePhase::kHeld: return PhaseStartMs(limits::kLeaseCheckpointBeforeMs);
    case LeasePhase::kCheckpoint: return PhaseStartMs(limits::kLeaseTermBeforeMs);
    case LeasePhase::kTerm: return PhaseStartMs(limits::kLeaseKillBeforeMs);
    case LeasePhase::kKill: return lease_end_ms_;
  }
  return kNever;
}

}  // namespace spillway::worker
