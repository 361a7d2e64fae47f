// Human forms of durations and sizes, as job files and flags write them. Parsing is exact: no floats, no silent overflow.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// The longest time that a person may ask for, ten years: sums of a few stay far from overflow. Whoever takes a duration from outside checks it.
inline constexpr int64_t kDurationMsMax = 3'650LL * 24 * 3'600 * 1'000;

// "90s", "2h30m", "1d", "250ms", "0"; a bare number other than 0 is refused with "write 90s, 15m, 2h30m".
absl::StatusOr<int64_t> ParseDurationMs(absl::string_view text);
std::string FormatDurationMs(int64_t ms);  // "2h30m", "45s", "250ms", "0s"

// "24GB", "512MiB", "1.5TB", "100B", "0"; a bare number other than 0 is refused. KB, MB, GB, TB, KiB ... are all powers of 1024 (the way GPU memory is sold).
// Part of a byte is dropped: "0.1GB" is 107374182.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);
std::string FormatBytes(int64_t bytes);  // "24GB", "1.5GB", "100B"

// RFC 3339 in UTC: "2026-12-24T08:00:00Z".
absl::StatusOr<int64_t> ParseUtcMs(absl::string_view text);
std::string FormatUtcMs(int64_t utc_ms);

}  // namespace spillway
