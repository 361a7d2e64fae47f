// Reading YAML strictly: every key must be known and appear once, every value must have the form asked for, every complaint names file:line.
// The first complaint wins and all later reads give defaults, so that a caller reads top-down and asks for the status once, at the end.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

class YamlErrors {
 public:
  explicit YamlErrors(absl::string_view origin) : origin_(origin) {}
  void Add(const YAML::Node& at, absl::string_view what);
  const absl::Status& status() const { return status_; }

 private:
  std::string origin_;
  absl::Status status_;
};

// One mapping. Construction refuses what is no mapping, keys not in `known`, and repeated keys.
class YamlMap {
 public:
  YamlMap(const YAML::Node& node, absl::string_view what, std::vector<std::string> known, YamlErrors* errors);

  bool Has(const char* key) const;
  YAML::Node Get(const char* key) const { return Has(key) ? node_[key] : YAML::Node(YAML::NodeType::Undefined); }
  // Required: the text forms below complain when the key is absent. With a fallback it is optional.
  std::string Text(const char* key, std::optional<std::string> fallback = std::nullopt) const;
  int64_t Integer(const char* key, int64_t low, int64_t high, std::optional<int64_t> fallback = std::nullopt) const;
  int64_t DurationMs(const char* key, std::optional<int64_t> fallback = std::nullopt) const;
  int64_t Bytes(const char* key, std::optional<int64_t> fallback = std::nullopt) const;
  int64_t Micros(const char* key) const;
  const YAML::Node& node() const { return node_; }

 private:
  // The scalar at `key`; nullopt (and a complaint unless `optional`) when absent or not a scalar.
  std::optional<std::string> Scalar(const char* key, bool optional) const;

  YAML::Node node_;
  std::string what_;
  YamlErrors* errors_;
};

// Whole decimal numbers only: no signs on unsigned forms, no leading zero (YAML 1.1 would read 010 as 8), no 1e3.
std::optional<int64_t> StrictInteger(absl::string_view text);

}  // namespace spillway
