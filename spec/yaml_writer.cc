// Messages as YAML: the other direction of the binder, for `describe` and for round trips. Own writer, because what it writes must bind to the
// same message again, whatever the text: everything that is not plainly safe is quoted.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "spec/fields.h"
#include "spec/scalar.h"
#include "spec/yaml.h"

namespace spillway::spec {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool PlainIsSafe(absl::string_view text) {
  if (text.empty() || text.size() > 200) return false;
  if (!absl::ascii_isalnum(static_cast<unsigned char>(text[0])) && text[0] != '/' && text[0] != '.') return false;
  if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+@=-") != absl::string_view::npos) return false;
  const std::string lower = absl::AsciiStrToLower(text);
  return lower != "null" && lower != "..." && lower != "true" && lower != "false" && lower != "yes" && lower != "no" && lower != "on" && lower != "off";
}

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += absl::StrFormat("\\x%02x", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// A script of several lines reads best as a block; only text a block keeps exactly is written so.
bool BlockIsSafe(absl::string_view text) {
  if (text.find('\n') == absl::string_view::npos || text.back() != '\n' || text.size() < 2 || text[text.size() - 2] == '\n') return false;
  if (text[0] == ' ' || text[0] == '\n') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7F); });
}

class Writer {
 public:
  std::string Take() { return std::move(out_); }

  void Body(const Message& message, int indent) {
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(i);
      if (field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) == 0 : !message.GetReflection()->HasField(message, &field)) continue;
      absl::StrAppend(&out_, std::string(static_cast<size_t>(indent), ' '), YamlKeyOf(field), ":");
      if (field.is_map()) {
        Map(message, field, indent + 2);
      } else if (field.is_repeated()) {
        List(message, field, indent + 2);
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Sub(message.GetReflection()->GetMessage(message, &field), indent + 2);
      } else {
        absl::StrAppend(&out_, " ", Scalar(message, field, -1, indent + 2), "\n");
      }
    }
  }

 private:
  std::string Scalar(const Message& message, const FieldDescriptor& field, int index, int indent) {
    const std::string text = FormatScalar(message, field, index);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return text;
    if (PlainIsSafe(text)) return text;
    if (index < 0 && indent <= 4 && BlockIsSafe(text)) return Block(text, indent);
    return Quoted(text);
  }

  static std::string Block(absl::string_view text, int indent) {
    std::string out = "|";
    for (const absl::string_view line : absl::StrSplit(text.substr(0, text.size() - 1), '\n')) {
      absl::StrAppend(&out, "\n", line.empty() ? "" : std::string(static_cast<size_t>(indent), ' '), line);
    }
    return out;
  }

  void Sub(const Message& message, int indent) {
    if (const auto* range = dynamic_cast<const v1::ByteRange*>(&message); range != nullptr && (range->min_bytes() != 0 || range->max_bytes() != 0)) {
      absl::StrAppend(&out_, " ", FormatByteRange({range->min_bytes(), range->max_bytes()}), "\n");
      return;
    }
    const size_t before = out_.size();
    out_ += '\n';
    Body(message, indent);
    if (out_.size() == before + 1) out_.replace(before, 1, " {}\n");
  }

  void List(const Message& message, const FieldDescriptor& field, int indent) {
    const int count = message.GetReflection()->FieldSize(message, &field);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      out_ += " [";
      for (int i = 0; i < count; ++i) absl::StrAppend(&out_, i == 0 ? "" : ", ", Scalar(message, field, i, indent));
      out_ += "]\n";
      return;
    }
    out_ += '\n';
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&out_, std::string(static_cast<size_t>(indent), ' '), "-");
      Sub(message.GetReflection()->GetRepeatedMessage(message, &field, i), indent + 2);
    }
  }

  // Sorted by key: the order inside a proto map is not defined.
  void Map(const Message& message, const FieldDescriptor& field, int indent) {
    std::map<std::string, const Message*> entries;
    for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
      const Message& entry = message.GetReflection()->GetRepeatedMessage(message, &field, i);
      entries[entry.GetReflection()->GetString(entry, field.message_type()->map_key())] = &entry;
    }
    out_ += '\n';
    for (const auto& [key, entry] : entries) {
      absl::StrAppend(&out_, std::string(static_cast<size_t>(indent), ' '), PlainIsSafe(key) ? key : Quoted(key), ": ",
                      Scalar(*entry, *field.message_type()->map_value(), -1, indent + 2), "\n");
    }
  }

  std::string out_;
};

}  // namespace

std::string MessageToYaml(const Message& message) {
  Writer writer;
  writer.Body(message, 0);
  return writer.Take();
}

}  // namespace spillway::spec
