#include "spec/fields.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace spillway::spec {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;

v1::Unit UnitOf(const FieldDescriptor& field) { return field.options().GetExtension(v1::unit); }
std::string NotBuiltOf(const FieldDescriptor& field) { return field.options().GetExtension(v1::not_built); }
std::string DefaultTextOf(const FieldDescriptor& field) { return field.options().GetExtension(v1::default_text); }

std::string YamlKeyOf(const FieldDescriptor& field) {
  if (field.options().HasExtension(v1::yaml_key)) return field.options().GetExtension(v1::yaml_key);
  absl::string_view key = field.name();
  if (UnitOf(field) != v1::UNIT_UNSPECIFIED) {
    for (const char* suffix : {"_utc_ms", "_ms", "_bytes", "_micros", "_milli"}) {
      if (absl::ConsumeSuffix(&key, suffix)) break;
    }
  }
  return std::string(key);
}

const FieldDescriptor* FindByYamlKey(const Descriptor& type, absl::string_view key) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (YamlKeyOf(*type.field(i)) == key) return type.field(i);
  }
  return nullptr;
}

std::vector<std::string> YamlKeys(const Descriptor& type) {
  std::vector<std::string> keys;
  for (int i = 0; i < type.field_count(); ++i) keys.push_back(YamlKeyOf(*type.field(i)));
  return keys;
}

std::string YamlPathOf(const Descriptor& type, absl::string_view field_path) {
  const Descriptor* at = &type;
  std::string out;
  while (!field_path.empty()) {
    const size_t end = field_path.find_first_of(".[");
    const std::string name(field_path.substr(0, end));
    const FieldDescriptor* field = at == nullptr ? nullptr : at->FindFieldByName(name);
    if (field == nullptr) return absl::StrCat(out, field_path);
    absl::StrAppend(&out, YamlKeyOf(*field));
    field_path.remove_prefix(name.size());
    if (absl::StartsWith(field_path, "[")) {
      const size_t close = field_path.find(']');
      if (close == absl::string_view::npos) return absl::StrCat(out, field_path);
      absl::StrAppend(&out, field_path.substr(0, close + 1));
      field_path.remove_prefix(close + 1);
    }
    // The rest of a map's path is its key, dots and all.
    at = field->type() == FieldDescriptor::TYPE_MESSAGE && !field->is_map() ? field->message_type() : nullptr;
    if (absl::ConsumePrefix(&field_path, ".")) out += '.';
  }
  return out;
}

std::string EnumWord(const EnumValueDescriptor& value) { return absl::AsciiStrToLower(value.name()); }

std::vector<std::string> EnumWords(const EnumDescriptor& type) {
  std::vector<std::string> words;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) words.push_back(EnumWord(*type.value(i)));
  }
  return words;
}

const EnumValueDescriptor* FindEnumWord(const EnumDescriptor& type, absl::string_view word) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0 && EnumWord(*type.value(i)) == word) return type.value(i);
  }
  return nullptr;
}

}  // namespace spillway::spec
