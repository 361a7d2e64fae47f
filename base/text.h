// Small text helpers for messages: the nearest valid name for a misspelt one, and lists for people.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// The candidate with the least edit distance, or "" when none is near (distance > max(2, length / 3)). Ties: the longer common beginning, then the first in the list.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// Replaces control characters by \xNN and cuts at `limit` bytes with "..." so that hostile text cannot harm a terminal or log.
std::string Printable(absl::string_view text, size_t limit = 200);

}  // namespace spillway
