#include "worker/preemption/notice.h"

#include <algorithm>

namespace spillway::preemption {

int64_t LeftMs(const Reading& reading, const ProviderLead& lead, const Margin& margin, int64_t now_utc_ms) {
  int64_t gone_in_ms = lead.usual_ms;
  if (!reading.readable) gone_in_ms = lead.minimum_ms;
  if (reading.lead_ms.has_value()) gone_in_ms = std::min(gone_in_ms, *reading.lead_ms);
  if (reading.gone_at_utc_ms.has_value()) gone_in_ms = std::min(gone_in_ms, *reading.gone_at_utc_ms - now_utc_ms);
  gone_in_ms = std::max<int64_t>(gone_in_ms, 0);
  const int64_t kept_ms = std::max(margin.fixed_ms, gone_in_ms / 100 * margin.percent + gone_in_ms % 100 * margin.percent / 100);
  return std::max<int64_t>(gone_in_ms - kept_ms, 0);
}

std::optional<Notice> NoticeTracker::Feed(const Reading& reading, int64_t now_utc_ms, int64_t now_steady_ms) {
  if (reading.kind == Reading::Kind::kNone) return std::nullopt;
  if (reading.kind == Reading::Kind::kAdvisory) {
    if (state_ != State::kNone) return std::nullopt;
    state_ = State::kAdvisory;
    return Notice{NoticeKind::kAdvisory, 0, 0, source_, reading.raw};
  }
  const int64_t left_ms = LeftMs(reading, lead_, margin_, now_utc_ms);
  const int64_t deadline_ms = now_steady_ms + left_ms;
  if (deadline_steady_ms_.has_value()) {
    // Times taken from a wall clock jitter; only an end that has come markedly closer is worth a word.
    const int64_t was_left_ms = std::max<int64_t>(*deadline_steady_ms_ - now_steady_ms, 0);
    if (deadline_ms >= *deadline_steady_ms_ - was_left_ms / 10) return std::nullopt;
  }
  deadline_steady_ms_ = deadline_ms;
  if (state_ != State::kDraining) state_ = State::kNotice;
  return Notice{NoticeKind::kNotice, deadline_ms, left_ms, source_, reading.raw};
}

}  // namespace spillway::preemption
