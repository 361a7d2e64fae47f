// Durations, sizes and times as people write them, in integer arithmetic only.
#include "base/units.h"

#include <cstddef>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace spillway {
namespace {

__extension__ typedef __int128 Int128;
constexpr Int128 kMax = std::numeric_limits<int64_t>::max();

struct Unit {
  absl::string_view name;
  int64_t size;
};

constexpr int64_t kDayMs = 24LL * 3600 * 1000;
constexpr Unit kDurationUnits[] = {{"d", kDayMs}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
constexpr Unit kByteUnits[] = {{"B", 1},           {"KB", 1LL << 10},  {"KiB", 1LL << 10}, {"MB", 1LL << 20},  {"MiB", 1LL << 20},
                               {"GB", 1LL << 30},  {"GiB", 1LL << 30}, {"TB", 1LL << 40},  {"TiB", 1LL << 40}, {"PB", 1LL << 50},
                               {"PiB", 1LL << 50}, {"EB", 1LL << 60},  {"EiB", 1LL << 60}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Takes the longest prefix of `text` whose characters satisfy `wanted`.
absl::string_view TakeWhile(absl::string_view* text, bool (*wanted)(char)) {
  size_t n = 0;
  while (n < text->size() && wanted((*text)[n])) ++n;
  const absl::string_view taken = text->substr(0, n);
  text->remove_prefix(n);
  return taken;
}

bool DecimalTo(absl::string_view digits, Int128* out) {
  *out = 0;
  for (char c : digits) {
    *out = *out * 10 + (c - '0');
    if (*out > kMax) return false;
  }
  return !digits.empty();
}

uint64_t Magnitude(int64_t value) { return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value); }

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

struct CivilDate {
  int64_t year;
  int month;  // from 1
  int day;    // from 1
};

// Both ways between days since 1970-01-01 and the Gregorian calendar, in years that begin in March so that the leap day is the last
// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
int64_t DaysOf(const CivilDate& date) {
  const int64_t year = date.year - (date.month <= 2 ? 1 : 0);
  const int64_t era = FloorDiv(year, 400);
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

CivilDate DateOf(int64_t days) {
  days += 719468;
  const int64_t era = FloorDiv(days, 146097);
  const int64_t day_of_era = days - era * 146097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month = (5 * day_of_year + 2) / 153;
  CivilDate date;
  date.day = static_cast<int>(day_of_year - (153 * month + 2) / 5 + 1);
  date.month = static_cast<int>(month < 10 ? month + 3 : month - 9);
  date.year = year_of_era + era * 400 + (date.month <= 2 ? 1 : 0);
  return date;
}

}  // namespace

absl::StatusOr<int64_t> ParseDurationMs(absl::string_view text) {
  const auto refuse = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not a duration: ", why, "; write 90s, 15m, 2h30m"));
  };
  if (text == "0") return 0;
  if (text.empty()) return refuse("it is empty");
  absl::string_view rest = text;
  Int128 total = 0;
  size_t next_unit = 0;  // units go from large to small, each at most once
  while (!rest.empty()) {
    Int128 number;
    const absl::string_view digits = TakeWhile(&rest, IsDigit);
    if (digits.empty()) return refuse("a whole number is expected before each unit");
    if (!DecimalTo(digits, &number)) return refuse("too large");
    if (!rest.empty() && rest[0] == '.') return refuse("a whole number is expected before each unit");
    const absl::string_view name = TakeWhile(&rest, IsLetter);
    if (name.empty()) return refuse("the unit is missing");
    size_t unit = 0;
    while (unit < std::size(kDurationUnits) && kDurationUnits[unit].name != name) ++unit;
    if (unit == std::size(kDurationUnits)) return refuse(absl::StrCat("unknown unit '", Printable(name, 16), "' (d, h, m, s, ms)"));
    if (unit < next_unit) return refuse("units go from large to small, each once");
    next_unit = unit + 1;
    total += number * kDurationUnits[unit].size;
    if (total > kMax) return refuse("too large");
  }
  return static_cast<int64_t>(total);
}

std::string FormatDurationMs(int64_t ms) {
  if (ms == 0) return "0s";
  std::string text = ms < 0 ? "-" : "";
  uint64_t rest = Magnitude(ms);
  for (const Unit& unit : kDurationUnits) {
    const uint64_t size = static_cast<uint64_t>(unit.size);
    if (rest >= size) absl::StrAppend(&text, rest / size, unit.name);
    rest %= size;
  }
  return text;
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const auto refuse = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not a size: ", why, "; write 24GB, 512MiB, 1.5TB"));
  };
  absl::string_view rest = text;
  Int128 whole;
  const absl::string_view digits = TakeWhile(&rest, IsDigit);
  if (digits.empty()) return refuse("a number is expected first");
  if (!DecimalTo(digits, &whole)) return refuse("too large");
  absl::string_view fraction;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    fraction = TakeWhile(&rest, IsDigit);
    if (fraction.empty() || fraction.size() > 9) return refuse("1 to 9 decimals are expected after the point");
  }
  // 16 bytes are never meant where 16 is written: only nothing needs no unit.
  if (rest.empty() && (whole > 0 || !fraction.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Printable(text), "' is not a size: the unit is missing; write ", text, whole < (1 << 20) || !fraction.empty() ? "GB" : "B"));
  }
  int64_t size = rest.empty() ? 1 : 0;
  std::vector<std::string> names;
  for (const Unit& unit : kByteUnits) {
    if (unit.name == rest) size = unit.size;
    names.emplace_back(unit.name);
  }
  if (size == 0) {
    std::string nearest = NearestName(rest, names);
    for (const std::string& name : names) {
      if (absl::EqualsIgnoreCase(name, rest)) nearest = name;
    }
    return refuse(absl::StrCat("unknown unit '", Printable(rest, 16), "'", nearest.empty() ? "" : absl::StrCat(", did you mean ", nearest, "?")));
  }
  if (size == 1 && !fraction.empty()) return refuse("there are no parts of a byte");
  Int128 scaled_fraction = 0;
  Int128 scale = 1;
  for (char c : fraction) {
    scaled_fraction = scaled_fraction * 10 + (c - '0');
    scale *= 10;
  }
  const Int128 bytes = whole * size + scaled_fraction * size / scale;
  if (bytes > kMax) return refuse("too large");
  return static_cast<int64_t>(bytes);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr absl::string_view kNames[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  const Int128 magnitude = static_cast<Int128>(Magnitude(bytes));
  for (size_t i = 0; i < std::size(kNames); ++i) {
    // Hundredths, rounded to nearest; what would read 1024 goes on to the next unit.
    const Int128 size = static_cast<Int128>(1) << (10 * i);
    const Int128 hundredths = (magnitude * 100 + size / 2) / size;
    if (hundredths >= 1024 * 100 && i + 1 < std::size(kNames)) continue;
    const auto whole = static_cast<int64_t>(hundredths / 100);
    const auto part = static_cast<int>(hundredths % 100);
    std::string text = absl::StrCat(bytes < 0 ? "-" : "", whole);
    if (part % 10 != 0) {
      absl::StrAppendFormat(&text, ".%02d", part);
    } else if (part != 0) {
      absl::StrAppend(&text, ".", part / 10);
    }
    return absl::StrCat(text, kNames[i]);
  }
  return "";  // the last unit always returns
}

absl::StatusOr<int64_t> ParseUtcMs(absl::string_view text) {
  const auto refuse = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not a time: ", why, "; write 2026-12-24T08:00:00Z"));
  };
  static constexpr absl::string_view kShape = "0000-00-00T00:00:00";
  if (text.size() <= kShape.size()) return refuse("it is too short");
  int fields[6] = {};
  for (size_t i = 0, field = 0; i < kShape.size(); ++i) {
    if (kShape[i] != '0') {
      if (text[i] != kShape[i]) return refuse(absl::StrCat("'", kShape.substr(i, 1), "' is expected at position ", i + 1));
      ++field;
    } else if (!IsDigit(text[i])) {
      return refuse(absl::StrCat("a digit is expected at position ", i + 1));
    } else {
      fields[field] = fields[field] * 10 + (text[i] - '0');
    }
  }
  absl::string_view rest = text.substr(kShape.size());
  int ms = 0;
  if (rest[0] == '.') {
    rest.remove_prefix(1);
    const absl::string_view fraction = TakeWhile(&rest, IsDigit);
    if (fraction.empty() || fraction.size() > 9) return refuse("1 to 9 decimals are expected after the point");
    for (size_t i = 0; i < 3; ++i) ms = ms * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  }
  if (rest != "Z") return refuse("only UTC is taken, ending in Z");
  const auto [year, month, day, hour, minute, second] = fields;
  const CivilDate date{year, month, day};
  if (month < 1 || month > 12 || day < 1) return refuse("there is no such day");
  const int64_t days = DaysOf(date);
  if (DateOf(days).day != day) return refuse("there is no such day");
  if (hour > 23 || minute > 59 || second > 59) return refuse("there is no such time of day");
  return days * kDayMs + (hour * 3600LL + minute * 60 + second) * 1000 + ms;
}

std::string FormatUtcMs(int64_t utc_ms) {
  const int64_t days = FloorDiv(utc_ms, kDayMs);
  const int64_t in_day = (utc_ms % kDayMs + kDayMs) % kDayMs;  // days * kDayMs may be below the least int64
  const CivilDate date = DateOf(days);
  std::string text =
      absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d", date.year, date.month, date.day, in_day / 3'600'000, in_day / 60'000 % 60, in_day / 1000 % 60);
  if (in_day % 1000 != 0) absl::StrAppendFormat(&text, ".%03d", in_day % 1000);
  return text + "Z";
}

}  // namespace spillway
