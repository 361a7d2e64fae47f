#include "spec/scalar.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "spec/fields.h"

namespace spillway::spec {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Expected(absl::string_view what, const YamlNode& node) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", got ", node.Describe()));
}

absl::string_view WordsFor(v1::Unit unit) {
  switch (unit) {
    case v1::DURATION_MS_OR_AUTO: return "auto or a duration such as 90s, 15m or 2h30m";
    case v1::DURATION_MS: return "a duration such as 90s, 15m or 2h30m";
    case v1::BYTES: return "a size such as 512MB or 24GB";
    case v1::MONEY_MICROS: return "an amount of money such as 3.50";
    case v1::UTC_MS: return "a time in UTC such as 2026-12-24T08:00:00Z";
    case v1::COUNT_OR_UNLIMITED: return "unlimited or a count";
    case v1::CORES_MILLI: return "a number of cores such as 16 or 0.5";
    default: return "a whole number";
  }
}

// 010 is ten to a person, eight to YAML 1.1 and to C. Nobody guesses here.
absl::Status RefuseLeadingZero(absl::string_view text) {
  absl::string_view digits = text;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.size() < 2 || digits[0] != '0' || !absl::ascii_isalnum(static_cast<unsigned char>(digits[1]))) return absl::OkStatus();
  if (absl::ascii_isdigit(static_cast<unsigned char>(digits[1]))) {
    return absl::InvalidArgumentError(absl::StrCat("`", Printable(text, 60), "` begins with 0, which some read as octal: write it without"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ParseWhole(const YamlNode& node, int64_t min, int64_t max) {
  if (node.quoted) return Expected("a whole number", node);
  RETURN_IF_ERROR(RefuseLeadingZero(node.text));
  absl::string_view digits = node.text;
  if (!digits.empty() && digits[0] == '-') digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != absl::string_view::npos) return Expected("a whole number", node);
  int64_t value;
  if (!absl::SimpleAtoi(node.text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(absl::StrCat("`", Printable(node.text, 60), "` does not fit: the range is ", min, " to ", max));
  }
  return value;
}

// Cores in thousandths: the same decimal rule as money, one thousandth being the least.
absl::StatusOr<int64_t> ParseCoresMilli(const YamlNode& node) {
  auto micros = ParseMicros(node.text);
  if (!micros.ok()) return Expected(WordsFor(v1::CORES_MILLI), node);
  if (*micros % 1000 != 0) return absl::InvalidArgumentError(absl::StrCat("`", Printable(node.text, 60), "` is finer than a thousandth of a core"));
  return *micros / 1000;
}

std::string FormatCoresMilli(int64_t milli) {
  if (milli % 1000 == 0) return absl::StrCat(milli / 1000);
  std::string fraction = absl::StrCat(milli % 1000 + 1000).substr(1);
  while (fraction.back() == '0') fraction.pop_back();
  return absl::StrCat(milli / 1000, ".", fraction);
}

// "24GB" only where that is the whole truth, else the next smaller unit: what is written must be read again as the same number.
std::string FormatBytesExactly(int64_t bytes) {
  int shift = 0;
  while (shift < 40 && bytes != 0 && bytes % (int64_t{1} << (shift + 10)) == 0) shift += 10;
  static constexpr absl::string_view kNames[] = {"B", "KB", "MB", "GB", "TB"};
  return absl::StrCat(bytes >> shift, kNames[shift / 10]);
}

absl::StatusOr<int64_t> ParseInUnit(const YamlNode& node, v1::Unit unit) {
  RETURN_IF_ERROR(RefuseLeadingZero(node.text));
  switch (unit) {
    case v1::DURATION_MS_OR_AUTO: return node.text == "auto" ? 0 : ParseDurationMs(node.text);
    case v1::DURATION_MS: return ParseDurationMs(node.text);
    case v1::BYTES: return ParseBytes(node.text);
    case v1::MONEY_MICROS: return ParseMicros(node.text);
    case v1::UTC_MS: return ParseUtcMs(node.text);
    case v1::COUNT_OR_UNLIMITED: {
      if (node.text == "unlimited") return -1;
      auto count = ParseWhole(node, 0, std::numeric_limits<int32_t>::max());
      return count.ok() ? count : Expected(WordsFor(unit), node);
    }
    case v1::CORES_MILLI: return ParseCoresMilli(node);
    default: return absl::InvalidArgumentError("the schema gives a unit this program does not know");
  }
}

std::string FormatInUnit(int64_t value, v1::Unit unit) {
  switch (unit) {
    case v1::DURATION_MS_OR_AUTO: return value == 0 ? "auto" : FormatDurationMs(value);
    case v1::DURATION_MS: return FormatDurationMs(value);
    case v1::BYTES: return FormatBytesExactly(value);
    case v1::MONEY_MICROS: return FormatMicros(value);
    case v1::UTC_MS: return FormatUtcMs(value);
    case v1::COUNT_OR_UNLIMITED: return value < 0 ? "unlimited" : absl::StrCat(value);
    case v1::CORES_MILLI: return FormatCoresMilli(value);
    default: return absl::StrCat(value);
  }
}

absl::StatusOr<int64_t> ParseInteger(const YamlNode& node, const FieldDescriptor& field, int64_t min, int64_t max) {
  const v1::Unit unit = UnitOf(field);
  if (unit == v1::UNIT_UNSPECIFIED) return ParseWhole(node, min, max);
  ASSIGN_OR_RETURN(const int64_t value, ParseInUnit(node, unit));
  if (value < min || value > max) return absl::InvalidArgumentError(absl::StrCat("`", Printable(node.text, 60), "` is too large"));
  return value;
}

absl::StatusOr<const EnumValueDescriptor*> ParseEnum(const YamlNode& node, const google::protobuf::EnumDescriptor& type) {
  if (const EnumValueDescriptor* value = FindEnumWord(type, node.text)) return value;
  const std::vector<std::string> words = EnumWords(type);
  const std::string nearest = NearestName(absl::AsciiStrToLower(node.text), words);
  return absl::InvalidArgumentError(absl::StrCat("unknown value ", node.Describe(), nearest.empty() ? "" : absl::StrCat(", did you mean `", nearest, "`?"),
                                                 " (one of ", absl::StrJoin(words, ", "), ")"));
}

// Where zero is also how "unset" is stored and unset means something else, a written zero would silently become that something else.
absl::Status RefuseZeroThatMeansDefault(const FieldDescriptor& field, int64_t value) {
  const std::string fallback = DefaultTextOf(field);
  if (value != 0 || field.is_repeated() || field.has_presence() || fallback.empty()) return absl::OkStatus();
  if (absl::StartsWith(fallback, "0") || absl::StartsWith(fallback, "auto")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("0 is not a value here; leave the key out for the default (", fallback, ")"));
}

}  // namespace

absl::Status SetScalar(const YamlNode& node, const FieldDescriptor& field, Message* message) {
  const Reflection& to = *message->GetReflection();
  const bool many = field.is_repeated();
  const auto integer = [&](int64_t min, int64_t max) -> absl::StatusOr<int64_t> {
    if (node.kind != YamlNode::Kind::kScalar) return Expected(WordsFor(UnitOf(field)), node);
    ASSIGN_OR_RETURN(const int64_t value, ParseInteger(node, field, min, max));
    RETURN_IF_ERROR(RefuseZeroThatMeansDefault(field, value));
    return value;
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: {
      if (field.type() == FieldDescriptor::TYPE_BYTES) return absl::InvalidArgumentError("raw bytes cannot be written in YAML");
      if (node.kind != YamlNode::Kind::kScalar) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected text, got ", node.Describe(), node.kind == YamlNode::Kind::kNull ? " (write \"\" for empty text)" : ""));
      }
      many ? to.AddString(message, &field, node.text) : to.SetString(message, &field, node.text);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      ASSIGN_OR_RETURN(const int64_t value, integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
      many ? to.AddInt32(message, &field, static_cast<int32_t>(value)) : to.SetInt32(message, &field, static_cast<int32_t>(value));
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      ASSIGN_OR_RETURN(const int64_t value, integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
      many ? to.AddInt64(message, &field, value) : to.SetInt64(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      if (node.kind != YamlNode::Kind::kScalar || node.quoted || (node.text != "true" && node.text != "false")) return Expected("true or false", node);
      many ? to.AddBool(message, &field, node.text == "true") : to.SetBool(message, &field, node.text == "true");
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (node.kind != YamlNode::Kind::kScalar || node.quoted || !absl::SimpleAtod(node.text, &value) || !std::isfinite(value)) {
        return Expected("a number", node);
      }
      RETURN_IF_ERROR(RefuseLeadingZero(node.text));
      many ? to.AddDouble(message, &field, value) : to.SetDouble(message, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      if (node.kind != YamlNode::Kind::kScalar) return Expected(absl::StrCat("one of ", absl::StrJoin(EnumWords(*field.enum_type()), ", ")), node);
      ASSIGN_OR_RETURN(const EnumValueDescriptor* value, ParseEnum(node, *field.enum_type()));
      many ? to.AddEnum(message, &field, value) : to.SetEnum(message, &field, value);
      return absl::OkStatus();
    }
    default: return absl::InvalidArgumentError("this kind of field cannot be written in YAML");
  }
}

std::string FormatScalar(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& from = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: return many ? from.GetRepeatedString(message, &field, index) : from.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_INT32:
      return FormatInUnit(many ? from.GetRepeatedInt32(message, &field, index) : from.GetInt32(message, &field), UnitOf(field));
    case FieldDescriptor::CPPTYPE_INT64:
      return FormatInUnit(many ? from.GetRepeatedInt64(message, &field, index) : from.GetInt64(message, &field), UnitOf(field));
    case FieldDescriptor::CPPTYPE_BOOL: return (many ? from.GetRepeatedBool(message, &field, index) : from.GetBool(message, &field)) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_DOUBLE: return absl::StrCat(many ? from.GetRepeatedDouble(message, &field, index) : from.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM: return EnumWord(*(many ? from.GetRepeatedEnum(message, &field, index) : from.GetEnum(message, &field)));
    default: return "";
  }
}

absl::StatusOr<ByteRangeValue> ParseByteRange(absl::string_view text) {
  const auto refuse = [&] {
    return absl::InvalidArgumentError(absl::StrCat("expected a size or a range such as 40GB, 40GB.., ..80GB or 16GB..40GB, got `", Printable(text, 60), "`"));
  };
  const size_t dots = text.find("..");
  const absl::string_view low = text.substr(0, dots);
  const absl::string_view high = dots == absl::string_view::npos ? low : text.substr(dots + 2);
  if (low.empty() && high.empty()) return refuse();
  ByteRangeValue range;
  for (const auto& [part, into] : {std::pair{low, &range.min_bytes}, std::pair{high, &range.max_bytes}}) {
    if (part.empty()) continue;
    RETURN_IF_ERROR(RefuseLeadingZero(part));
    auto bytes = ParseBytes(part);
    if (!bytes.ok() && part.find_first_not_of("0123456789.") == absl::string_view::npos) return bytes.status();  // names the unit that is missing
    if (!bytes.ok() || *bytes <= 0) return refuse();
    *into = *bytes;
  }
  if (range.max_bytes != 0 && range.max_bytes < range.min_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the range `", Printable(text, 60), "` ends before it begins"));
  }
  return range;
}

std::string FormatByteRange(const ByteRangeValue& range) {
  if (range.min_bytes == range.max_bytes) return FormatBytesExactly(range.min_bytes);
  return absl::StrCat(range.min_bytes == 0 ? "" : FormatBytesExactly(range.min_bytes), "..", range.max_bytes == 0 ? "" : FormatBytesExactly(range.max_bytes));
}

}  // namespace spillway::spec
