// Integer money. Every product is formed in 128 bits.
#include "base/money.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/text.h"

namespace spillway {
namespace {

__extension__ typedef unsigned __int128 Uint128;

uint64_t Magnitude(int64_t value) { return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value); }

bool AllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

int64_t PriceForMs(int64_t price_micros_per_hour, int64_t duration_ms) {
  CHECK(price_micros_per_hour >= 0 && duration_ms >= 0) << price_micros_per_hour << " " << duration_ms;
  const Uint128 price = static_cast<Uint128>(price_micros_per_hour) * static_cast<Uint128>(duration_ms) / kMsPerHour;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return price > static_cast<Uint128>(kMax) ? kMax : static_cast<int64_t>(price);
}

std::vector<int64_t> SplitByLargestRemainder(int64_t total, const std::vector<int64_t>& weights) {
  std::vector<int64_t> parts(weights.size(), 0);
  if (weights.empty()) return parts;
  Uint128 weight_sum = 0;
  for (int64_t weight : weights) {
    CHECK(weight >= 0) << weight;
    weight_sum += static_cast<Uint128>(weight);
  }
  if (weight_sum == 0) {
    parts[0] = total;
    return parts;
  }
  // A negative total (a credit) is split like its magnitude. The floors add up to less than one unit a part below the total,
  // and a part of weight zero has remainder zero, so it never gets a unit.
  const uint64_t magnitude = Magnitude(total);
  std::vector<Uint128> remainders(weights.size());
  std::vector<uint64_t> shares(weights.size());
  uint64_t left = magnitude;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Uint128 product = static_cast<Uint128>(magnitude) * static_cast<Uint128>(weights[i]);
    shares[i] = static_cast<uint64_t>(product / weight_sum);
    remainders[i] = product % weight_sum;
    left -= shares[i];
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t i = 0; i < left; ++i) ++shares[order[i]];
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = static_cast<int64_t>(total < 0 ? 0 - shares[i] : shares[i]);
  return parts;
}

std::string FormatMicros(int64_t micros) {
  const uint64_t magnitude = Magnitude(micros);
  std::string text = absl::StrFormat("%s%d.%06d", micros < 0 ? "-" : "", magnitude / kMicrosPerUnit, magnitude % kMicrosPerUnit);
  const size_t shortest = text.size() - 4;  // two decimals
  while (text.size() > shortest && text.back() == '0') text.pop_back();
  return text;
}

absl::StatusOr<int64_t> ParseMicros(absl::string_view text) {
  const auto refuse = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not an amount of money: ", why, "; write 120.00 or 0.9731"));
  };
  const size_t point = text.find('.');
  const absl::string_view whole = text.substr(0, point);
  const absl::string_view fraction = point == absl::string_view::npos ? "0" : text.substr(point + 1);
  if (!AllDigits(whole) || !AllDigits(fraction)) return refuse("only digits and one point are allowed");
  if (fraction.size() > 6) return refuse("more than 6 decimals");
  Uint128 micros = 0;
  constexpr Uint128 kMax = std::numeric_limits<int64_t>::max();
  for (char c : whole) {
    micros = micros * 10 + static_cast<Uint128>(c - '0');
    if (micros > kMax) return refuse("too large");
  }
  for (size_t i = 0; i < 6; ++i) micros = micros * 10 + static_cast<Uint128>(i < fraction.size() ? fraction[i] - '0' : 0);
  if (micros > kMax) return refuse("too large");
  return static_cast<int64_t>(micros);
}

}  // namespace spillway
