// One number, text or word between its written form and a field: `90s` and grace_ms, `24GB` and memory_bytes, `unlimited` and -1.
// Owns what counts as a well-written value. Exact: a value that does not fit, or could be read two ways, is refused.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "spec/yaml_tree.h"

namespace spillway::spec {

// Sets (or, for a repeated field, appends) `field` from a scalar node. The error says what was expected and what stands there, without the path.
absl::Status SetScalar(const YamlNode& node, const google::protobuf::FieldDescriptor& field, google::protobuf::Message* message);

// The written form of the field's value, of element `index` for a repeated field. Text is not quoted here.
std::string FormatScalar(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field, int index = -1);

struct ByteRangeValue {
  int64_t min_bytes = 0;
  int64_t max_bytes = 0;  // 0: no upper end
};
// "40GB..", "..80GB", "16GB..40GB", "80GB".
absl::StatusOr<ByteRangeValue> ParseByteRange(absl::string_view text);
std::string FormatByteRange(const ByteRangeValue& range);

}  // namespace spillway::spec
