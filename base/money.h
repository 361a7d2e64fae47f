// Money is an integer count of micros (1/1,000,000 of the currency unit). No floats here; products are checked in 128 bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

inline constexpr int64_t kMicrosPerUnit = 1'000'000;
inline constexpr int64_t kMsPerHour = 3'600'000;

// price (micros per hour) x duration (ms), rounded down. Saturates at INT64_MAX rather than overflow. Requires both >= 0.
int64_t PriceForMs(int64_t price_micros_per_hour, int64_t duration_ms);

// Splits `total` over `weights` by largest remainder: the parts always add up to `total`. Ties go to the lower index.
// All weights >= 0; when they add up to zero, the first part takes everything. Empty weights give an empty result.
std::vector<int64_t> SplitByLargestRemainder(int64_t total, const std::vector<int64_t>& weights);

std::string FormatMicros(int64_t micros);                     // "12.34", "0.000012": at least 2 decimals, no trailing zeros past them
absl::StatusOr<int64_t> ParseMicros(absl::string_view text);  // "120.00", "3", "0.9731"; at most 6 decimals; refuses signs and exponents

}  // namespace spillway
