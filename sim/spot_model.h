// When a spot market takes machines back, and when it has any to give: one market for the simulator and the playground.
// A model is a pure function: it holds no clock and draws nothing as it goes, so the k-th machine has the same fate whoever asks, however
// often, in whatever order, before and after a restart.
//
// Time is the market's own, in milliseconds since the market opened. A machine is gone at the moment given here; a notice, where the
// provider gives one, comes before that moment and is not this file's concern.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::sim {

// Availability over time in equal ticks. Files use the polarity of the published traces: 1 means UNAVAILABLE.
struct SpotTrace {
  int64_t tick_ms = 0;
  std::vector<bool> available;

  // `{"metadata":{"gap_seconds":600},"data":[0,1,…]}`; other metadata is ignored. INVALID_ARGUMENT naming the field or the index at fault;
  // `origin` (a file name) opens every message. A trace must have at least one tick, and one available tick.
  static absl::StatusOr<SpotTrace> Parse(absl::string_view json, absl::string_view origin);
};

class SpotModel {
 public:
  // Always available, never takes anything back.
  static SpotModel Never();
  // Lifetimes drawn from an exponential distribution (a constant hazard), the k-th from (seed, k) alone. Requires mean_ms >= 1.
  static SpotModel MeanLifetime(int64_t mean_ms, uint64_t seed);
  // The k-th machine lives for lifetimes_ms[k]; machines past the end of the list are never taken back.
  static SpotModel Lifetimes(std::vector<int64_t> lifetimes_ms);
  // Machines are taken when availability drops, and none is given while there is none. The market opens at `offset_ms` into the trace;
  // after its last tick the trace begins again.
  static SpotModel FromTrace(SpotTrace trace, int64_t offset_ms = 0);

  // The moment (>= created_ms) at which the k-th machine (from 0), created at created_ms, is gone; nullopt: never.
  std::optional<int64_t> GoneAtMs(int64_t ordinal, int64_t created_ms) const;
  bool AvailableAt(int64_t at_ms) const;
  // The first moment >= at_ms at which machines are given.
  int64_t NextAvailableMs(int64_t at_ms) const;

 private:
  enum class Kind { kNever, kMean, kList, kTrace };
  // The first moment >= at_ms at which availability equals `wanted`; nullopt when a whole round of the trace has none.
  std::optional<int64_t> NextTickMs(int64_t at_ms, bool wanted) const;

  Kind kind_ = Kind::kNever;
  int64_t mean_ms_ = 0;
  uint64_t seed_ = 0;
  std::vector<int64_t> lifetimes_ms_;
  SpotTrace trace_;
  int64_t offset_ms_ = 0;
};

// A seed for one offer of a market, so that offers do not share their fate: depends on the seed and the name only.
uint64_t SpotSeed(uint64_t seed, absl::string_view offer_name);

}  // namespace spillway::sim
