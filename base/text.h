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

// Somebody's output for a terminal, piece by piece: what would steer it is shown as \xNN instead, but for ends of lines, tabs, carriage returns and colours.
class TerminalText {
 public:
  // What may be shown already: a sequence that is cut off waits for its end.
  std::string Next(absl::string_view piece);
  // What still waits.
  std::string Rest();

 private:
  std::string waiting_;
};

}  // namespace spillway
