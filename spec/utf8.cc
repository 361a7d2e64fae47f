#include "spec/utf8.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace spillway::spec {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void Look(const Message& message, const std::string& prefix, std::vector<Violation>* out);

void LookAtText(const std::string& text, const std::string& path, std::vector<Violation>* out) {
  if (!IsUtf8(text) && out->size() < kViolationsMax) out->push_back({path, absl::StrCat("`", Printable(text, 100), "` is not UTF-8 text"), ""});
}

void LookAtMap(const Message& message, const FieldDescriptor& field, const std::string& path, std::vector<Violation>* out) {
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, &field, i);
    const FieldDescriptor* key = field.message_type()->map_key();
    const FieldDescriptor* value = field.message_type()->map_value();
    std::string name;
    if (key->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      name = entry.GetReflection()->GetString(entry, key);
      LookAtText(name, path, out);
    }
    if (value->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
      LookAtText(entry.GetReflection()->GetString(entry, value), absl::StrCat(path, ".", Printable(name, 60)), out);
  }
}

void Look(const Message& message, const std::string& prefix, std::vector<Violation>* out) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, field->name());
    const bool text = field->type() == FieldDescriptor::TYPE_STRING, message_field = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field->is_map()) {
      LookAtMap(message, *field, path, out);
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        const std::string element = absl::StrCat(path, "[", i, "]");
        if (text) LookAtText(reflection.GetRepeatedString(message, field, i), element, out);
        if (message_field) Look(reflection.GetRepeatedMessage(message, field, i), element + ".", out);
      }
    } else if (text) {
      LookAtText(reflection.GetString(message, field), path, out);
    } else if (message_field) {
      Look(reflection.GetMessage(message, field), path + ".", out);
    }
  }
}

}  // namespace

size_t FirstBadUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
    const auto follows = [&](size_t k) { return (byte(k) & 0xC0u) == 0x80u; };
    const unsigned char c = byte(0);
    if (c < 0x80) {
      i += 1;
    } else if (c >= 0xC2 && c < 0xE0 && follows(1)) {
      i += 2;
    } else if (c >= 0xE0 && c < 0xF0 && follows(1) && follows(2) && !(c == 0xE0 && byte(1) < 0xA0) && !(c == 0xED && byte(1) >= 0xA0)) {
      i += 3;
    } else if (c >= 0xF0 && c < 0xF5 && follows(1) && follows(2) && follows(3) && !(c == 0xF0 && byte(1) < 0x90) && !(c == 0xF4 && byte(1) >= 0x90)) {
      i += 4;
    } else {
      return i;
    }
  }
  return absl::string_view::npos;
}

std::vector<Violation> Utf8Violations(const Message& message) {
  std::vector<Violation> violations;
  Look(message, "", &violations);
  return violations;
}

}  // namespace spillway::spec
