#include "base/yaml_reader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/money.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway {

void YamlErrors::Add(const YAML::Node& at, absl::string_view what) {
  if (!status_.ok()) return;
  const int line = at.IsDefined() ? at.Mark().line + 1 : 0;
  status_ = absl::InvalidArgumentError(line > 0 ? absl::StrCat(origin_, ":", line, ": ", what) : absl::StrCat(origin_, ": ", what));
}

std::optional<int64_t> StrictInteger(absl::string_view text) {
  int64_t value = 0;
  const bool digits_only = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits_only || (text.size() > 1 && text[0] == '0') || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

YamlMap::YamlMap(const YAML::Node& node, absl::string_view what, std::vector<std::string> known, YamlErrors* errors)
    : node_(node), what_(what), errors_(errors) {
  if (!node.IsDefined() || !node.IsMap()) {
    errors->Add(node, absl::StrCat(what_, " must be a mapping with ", absl::StrJoin(known, ", ")));
    node_.reset(YAML::Node(YAML::NodeType::Map));
    return;
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string nearest = NearestName(key, known);
      errors->Add(entry.first,
                  absl::StrCat("unknown key `", Printable(key), "` in ", what_,
                               nearest.empty() ? absl::StrCat("; known: ", absl::StrJoin(known, ", ")) : absl::StrCat("; did you mean `", nearest, "`?")));
    }
    if (!seen.insert(key).second) errors->Add(entry.first, absl::StrCat("key `", key, "` appears twice in ", what_));
  }
}

bool YamlMap::Has(const char* key) const { return node_[key].IsDefined(); }

std::optional<std::string> YamlMap::Scalar(const char* key, bool optional) const {
  if (!Has(key)) {
    if (!optional) errors_->Add(node_, absl::StrCat("`", key, "` is missing in ", what_));
    return std::nullopt;
  }
  const YAML::Node value = node_[key];
  if (!value.IsScalar() || value.Scalar().empty()) {
    errors_->Add(value, absl::StrCat("`", key, "` must be a single value"));
    return std::nullopt;
  }
  return value.Scalar();
}

std::string YamlMap::Text(const char* key, std::optional<std::string> fallback) const {
  return Scalar(key, fallback.has_value()).value_or(fallback.value_or(""));
}

int64_t YamlMap::Integer(const char* key, int64_t low, int64_t high, std::optional<int64_t> fallback) const {
  const std::optional<std::string> text = Scalar(key, fallback.has_value());
  if (!text.has_value()) return fallback.value_or(low);
  const std::optional<int64_t> value = StrictInteger(*text);
  if (!value.has_value() || *value < low || *value > high) {
    errors_->Add(node_[key], absl::StrCat("`", key, "` must be a whole number from ", low, " to ", high, ", not `", Printable(*text), "`"));
    return low;
  }
  return *value;
}

int64_t YamlMap::DurationMs(const char* key, std::optional<int64_t> fallback) const {
  const std::optional<std::string> text = Scalar(key, fallback.has_value());
  if (!text.has_value()) return fallback.value_or(0);
  const absl::StatusOr<int64_t> value = ParseDurationMs(*text);
  if (!value.ok()) errors_->Add(node_[key], absl::StrCat("`", key, "`: ", value.status().message()));
  return value.value_or(0);
}

int64_t YamlMap::Bytes(const char* key, std::optional<int64_t> fallback) const {
  const std::optional<std::string> text = Scalar(key, fallback.has_value());
  if (!text.has_value()) return fallback.value_or(0);
  const absl::StatusOr<int64_t> value = ParseBytes(*text);
  if (!value.ok()) errors_->Add(node_[key], absl::StrCat("`", key, "`: ", value.status().message()));
  return value.value_or(0);
}

int64_t YamlMap::Micros(const char* key) const {
  const std::optional<std::string> text = Scalar(key, /*optional=*/false);
  if (!text.has_value()) return 0;
  const absl::StatusOr<int64_t> value = ParseMicros(*text);
  if (!value.ok()) errors_->Add(node_[key], absl::StrCat("`", key, "`: ", value.status().message()));
  return value.value_or(0);
}

}  // namespace spillway
