// Text for messages. Hostile input is expected: everything here is bounded.
#include "base/text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// Levenshtein distance, or `limit` + 1 as soon as it is known to be more.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    size_t least = row[0];
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      least = std::min(least, row[j]);
    }
    if (least > limit) return limit + 1;
  }
  return row[b.size()];
}

// Bytes that both begin with.
size_t CommonPrefix(absl::string_view a, absl::string_view b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

// The length of the UTF-8 sequence at the front of `text` and its code point; 0 when it is not well-formed.
size_t DecodeUtf8(absl::string_view text, uint32_t* code_point) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80 ? 1 : (first & 0xe0) == 0xc0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : (first & 0xf8) == 0xf0 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  *code_point = length == 1 ? first : first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    *code_point = *code_point << 6 | (byte(i) & 0x3f);
  }
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = *code_point >= 0xd800 && *code_point <= 0xdfff;
  return *code_point < kLeast[length] || surrogate || *code_point > 0x10ffff ? 0 : length;
}

// Controls (C0, DEL, C1) steer terminals; line separators and direction marks make a line read as another.
bool IsHarmless(uint32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool format = (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return !control && !format;
}

std::string Escaped(absl::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    absl::StrAppend(&out, "\\x", absl::string_view(&kDigits[byte >> 4], 1), absl::string_view(&kDigits[byte & 15], 1));
  }
  return out;
}

// More bytes may still make the front of `text` a whole sequence.
bool MayBeCutOff(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = (first & 0xe0) == 0xc0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : (first & 0xf8) == 0xf0 ? 4 : 1;
  if (text.size() >= length) return false;
  return std::all_of(text.begin() + 1, text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
}

// ESC [ numbers m, nothing else: the length of the one at the front of `text`; 0 when it is none; npos while it may still become one.
constexpr size_t kColourBytesMax = 32;
size_t ColourLength(absl::string_view text) {
  for (size_t i = 1; i < text.size() && i < kColourBytesMax; ++i) {
    const char c = text[i];
    if (i == 1 ? c == '[' : (c >= '0' && c <= '9') || c == ';' || c == ':') continue;
    return i > 1 && c == 'm' ? i + 1 : 0;
  }
  return text.size() < kColourBytesMax ? absl::string_view::npos : 0;
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates) {
  const size_t limit = std::max<size_t>(2, name.size() / 3);
  size_t best_distance = limit + 1;
  size_t best_prefix = 0;
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate, std::min(best_distance, limit));
    if (distance > limit || distance > best_distance) continue;
    // Of equally near names the one that begins alike: people misspell ends sooner than beginnings (cpu is cpus, not gpu).
    const size_t prefix = CommonPrefix(name, candidate);
    if (distance == best_distance && prefix <= best_prefix) continue;
    best_distance = distance;
    best_prefix = prefix;
    best = &candidate;
  }
  return best == nullptr ? std::string() : *best;
}

std::string Printable(absl::string_view text, size_t limit) {
  std::string out;
  out.reserve(std::min(text.size(), limit) + 3);
  while (!text.empty()) {
    uint32_t code_point = 0;
    size_t length = DecodeUtf8(text, &code_point);
    const bool harmless = length > 0 && IsHarmless(code_point);
    length = std::max<size_t>(length, 1);
    const std::string piece = harmless ? std::string(text.substr(0, length)) : Escaped(text.substr(0, length));
    if (out.size() + piece.size() > limit) return out + "...";
    out += piece;
    text.remove_prefix(length);
  }
  return out;
}

std::string TerminalText::Next(absl::string_view piece) {
  waiting_.append(piece.data(), piece.size());
  absl::string_view text = waiting_;
  std::string out;
  while (!text.empty()) {
    uint32_t code_point = 0;
    size_t length = DecodeUtf8(text, &code_point);
    if (length == 0 && MayBeCutOff(text)) break;
    bool passes = length > 0 && (IsHarmless(code_point) || text[0] == '\n' || text[0] == '\t' || text[0] == '\r');
    if (text[0] == '\x1b') {
      const size_t colour = ColourLength(text);
      if (colour == absl::string_view::npos) break;
      if (colour > 0) passes = true, length = colour;
    }
    length = std::max<size_t>(length, 1);
    out += passes ? std::string(text.substr(0, length)) : Escaped(text.substr(0, length));
    text.remove_prefix(length);
  }
  waiting_ = std::string(text);
  return out;
}

std::string TerminalText::Rest() {
  const std::string rest = Escaped(waiting_);
  waiting_.clear();
  return rest;
}

}  // namespace spillway
