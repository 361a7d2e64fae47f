// What the schema itself says about a field: its YAML key, unit, default, and whether this version builds it. Read by reflection from the
// options in proto/spillway/v1/options.proto; nothing else repeats this knowledge.
// Two spellings of one place: the FIELD PATH ("resources.memory_bytes", what the server and the API say) and the YAML PATH ("resources.memory").
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "spillway/v1/options.pb.h"

namespace spillway::spec {

v1::Unit UnitOf(const google::protobuf::FieldDescriptor& field);
std::string NotBuiltOf(const google::protobuf::FieldDescriptor& field);  // "" when built
std::string DefaultTextOf(const google::protobuf::FieldDescriptor& field);

// `grace` for grace_ms, `max_price` where the schema says so.
std::string YamlKeyOf(const google::protobuf::FieldDescriptor& field);
const google::protobuf::FieldDescriptor* FindByYamlKey(const google::protobuf::Descriptor& type, absl::string_view key);
std::vector<std::string> YamlKeys(const google::protobuf::Descriptor& type);  // in the order of the schema

// "resources.memory_bytes" -> "resources.memory". Parts the schema does not know stay as they are.
std::string YamlPathOf(const google::protobuf::Descriptor& type, absl::string_view field_path);

// Enum values as job files write them: `on_demand`. UNSPECIFIED is not a value.
std::vector<std::string> EnumWords(const google::protobuf::EnumDescriptor& type);
const google::protobuf::EnumValueDescriptor* FindEnumWord(const google::protobuf::EnumDescriptor& type, absl::string_view word);
std::string EnumWord(const google::protobuf::EnumValueDescriptor& value);

}  // namespace spillway::spec
