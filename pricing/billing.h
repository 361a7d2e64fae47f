// What a machine costs for the time it ran: billing rules (whole hours rounded up, per second, per millisecond, a minimum charge),
// and the hourly price of capacity that was paid for a whole term. Pure integer arithmetic: no clock, no I/O, no floats.
//
// Units: durations are milliseconds, money is micros (1/1,000,000 of the currency unit), prices are micros per hour.
// All products are taken in 128 bits and saturate at INT64_MAX; nothing here overflows for any input >= 0.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace spillway::pricing {

// How a provider turns a running time into a bill: at least `minimum_ms`, then rounded up to whole increments.
struct BillingRule {
  int64_t increment_ms = 1'000;       // >= 1. An hour: 3'600'000; per second: 1'000; per millisecond: 1
  int64_t minimum_ms = 0;             // >= 0. Applies once the machine ran at all
  int64_t price_micros_per_hour = 0;  // >= 0
  bool operator==(const BillingRule&) const = default;
};

// INVALID_ARGUMENT naming the field that is out of range.
absl::Status ValidateRule(const BillingRule& rule);

// The time that is billed after `run_ms`: 0 for a machine that never ran (run_ms <= 0), otherwise max(run_ms, minimum_ms) rounded up to
// whole increments. Never less than run_ms, never decreasing in it.
int64_t BilledMs(const BillingRule& rule, int64_t run_ms);

// The whole charge of a machine that has run for `run_ms`, rounded down to a micro. Never decreasing in run_ms.
int64_t ChargeMicros(const BillingRule& rule, int64_t run_ms);

// The part of the charge that falls between two moments of the same run: ChargeMicros(to) - ChargeMicros(from). Consecutive parts always add
// up to the whole charge (the increments telescope), whatever the cuts. Requires 0 <= from_ms <= to_ms.
int64_t ChargeBetweenMicros(const BillingRule& rule, int64_t from_ms, int64_t to_ms);

// The longest run that costs no more than a run of `run_ms`: the end of the increment already paid for.
// A machine kept until then costs nothing more.
int64_t PaidUntilMs(const BillingRule& rule, int64_t run_ms);

// The longest running time whose whole charge is at most `budget_micros`; INT64_MAX when the machine is free. 0 when not even the first
// increment (or the minimum) is affordable.
int64_t AffordableMs(const BillingRule& rule, int64_t budget_micros);

// A fee paid once for a term (a reservation), shown as micros per hour, rounded up so that a price shown never undercuts the fee.
// Requires fee_micros >= 0 and term_ms >= 1.
int64_t AmortisedMicrosPerHour(int64_t fee_micros, int64_t term_ms);

// The share of the fee that falls on [from_ms, to_ms) of the term. Consecutive shares add up to the fee exactly over the whole term; time
// outside the term carries nothing. Requires from_ms <= to_ms.
int64_t AmortisedBetweenMicros(int64_t fee_micros, int64_t term_ms, int64_t from_ms, int64_t to_ms);

}  // namespace spillway::pricing
