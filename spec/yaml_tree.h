// YAML text as a small tree in which every node knows its line. What a person did not clearly mean is refused here, whatever the schema:
// aliases and anchors, tags, several documents, keys that are not plain text, text that is not UTF-8, and anything deeper or larger than the bounds.
// Keeps all entries of a map in order, equal keys too: the binder names them by path. Never interprets a scalar.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::spec {

inline constexpr int kYamlDepthMax = 32;

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 0;                    // from 1; 0 when it does not come from a file
  std::string text;                // kScalar
  bool quoted = false;             // kScalar: in quotes or a block, so never a number
  std::vector<YamlNode> items;     // kList
  std::vector<YamlEntry> entries;  // kMap

  // "a list", "a map", "nothing", "the text `abc`".
  std::string Describe() const;
};

struct YamlEntry {
  std::string key;
  int line = 0;
  YamlNode value;
};

// "train.yaml:7", or "train.yaml" when the line is 0.
std::string YamlPlace(absl::string_view source, int line);

// INVALID_ARGUMENT starting with "SOURCE:LINE: ". An empty document is kNull. `source` is how messages name the text.
absl::StatusOr<YamlNode> ParseYamlTree(absl::string_view text, absl::string_view source);

}  // namespace spillway::spec
