#include "pricing/billing.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/money.h"

namespace spillway::pricing {
namespace {

using Wide = __int128;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t Saturate(Wide value) { return value > kMax ? kMax : static_cast<int64_t>(value); }

// The fee earned by the first `elapsed_ms` of the term.
int64_t EarnedMicros(int64_t fee_micros, int64_t term_ms, int64_t elapsed_ms) {
  const int64_t inside = std::clamp<int64_t>(elapsed_ms, 0, term_ms);
  return static_cast<int64_t>(static_cast<Wide>(fee_micros) * inside / term_ms);
}

}  // namespace

absl::Status ValidateRule(const BillingRule& rule) {
  if (rule.increment_ms < 1) return absl::InvalidArgumentError(absl::StrCat("increment_ms must be at least 1, not ", rule.increment_ms));
  if (rule.minimum_ms < 0) return absl::InvalidArgumentError(absl::StrCat("minimum_ms must not be negative: ", rule.minimum_ms));
  if (rule.price_micros_per_hour < 0) {
    return absl::InvalidArgumentError(absl::StrCat("price_micros_per_hour must not be negative: ", rule.price_micros_per_hour));
  }
  return absl::OkStatus();
}

int64_t BilledMs(const BillingRule& rule, int64_t run_ms) {
  if (run_ms <= 0) return 0;
  const Wide at_least = std::max(run_ms, rule.minimum_ms);
  const Wide increments = (at_least + rule.increment_ms - 1) / rule.increment_ms;
  return Saturate(increments * rule.increment_ms);
}

int64_t ChargeMicros(const BillingRule& rule, int64_t run_ms) { return PriceForMs(rule.price_micros_per_hour, BilledMs(rule, run_ms)); }

int64_t ChargeBetweenMicros(const BillingRule& rule, int64_t from_ms, int64_t to_ms) { return ChargeMicros(rule, to_ms) - ChargeMicros(rule, from_ms); }

int64_t PaidUntilMs(const BillingRule& rule, int64_t run_ms) { return BilledMs(rule, run_ms); }

int64_t AffordableMs(const BillingRule& rule, int64_t budget_micros) {
  if (rule.price_micros_per_hour == 0) return kMax;
  if (budget_micros < 0) return 0;
  // The charge is floor(price * billed / hour); it stays within the budget while price * billed < (budget + 1) * hour.
  const Wide bound = (static_cast<Wide>(budget_micros) + 1) * kMsPerHour - 1;
  const Wide billable = bound / rule.price_micros_per_hour;
  const Wide whole = billable / rule.increment_ms * rule.increment_ms;
  const int64_t affordable = Saturate(whole);
  return affordable < rule.minimum_ms ? 0 : affordable;
}

int64_t AmortisedMicrosPerHour(int64_t fee_micros, int64_t term_ms) { return Saturate((static_cast<Wide>(fee_micros) * kMsPerHour + term_ms - 1) / term_ms); }

int64_t AmortisedBetweenMicros(int64_t fee_micros, int64_t term_ms, int64_t from_ms, int64_t to_ms) {
  return EarnedMicros(fee_micros, term_ms, to_ms) - EarnedMicros(fee_micros, term_ms, from_ms);
}

}  // namespace spillway::pricing
