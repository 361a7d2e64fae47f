#include "spec/yaml.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "spec/fields.h"
#include "spec/scalar.h"
#include "spec/yaml_tree.h"

namespace spillway::spec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The two spellings of the place being bound.
struct Path {
  std::string field;
  std::string yaml;
  Path Member(absl::string_view name, absl::string_view key) const {
    const char* dot = field.empty() ? "" : ".";
    return {absl::StrCat(field, dot, name), absl::StrCat(yaml, dot, key)};
  }
  Path Element(size_t i) const { return {absl::StrCat(field, "[", i, "]"), absl::StrCat(yaml, "[", i, "]")}; }
};

// What other schedulers call what we call otherwise.
std::string OurWord(const std::string& key) {
  static const auto& words = *new std::map<std::string, std::string>{{"accelerator", "gpu"},
                                                                     {"accelerators", "gpu"},
                                                                     {"device", "gpu"},
                                                                     {"devices", "gpu"},
                                                                     {"gpus", "gpu"},
                                                                     {"args", "command"},
                                                                     {"cmd", "command"},
                                                                     {"run", "script"},
                                                                     {"environment", "env"},
                                                                     {"envs", "env"},
                                                                     {"mem", "memory"},
                                                                     {"ram", "memory"},
                                                                     {"spot", "markets"},
                                                                     {"market", "markets"},
                                                                     {"time", "max_duration"},
                                                                     {"time_limit", "max_duration"},
                                                                     {"timeout", "max_duration"},
                                                                     {"working_dir", "workdir"},
                                                                     {"afterok", "after_ok"},
                                                                     {"afterany", "after_any"},
                                                                     {"depends", "after"},
                                                                     {"depends_on", "after"},
                                                                     {"dependencies", "after"},
                                                                     {"needs", "after"}};
  const auto found = words.find(key);
  return found == words.end() ? key : found->second;
}

// The key that was probably meant: here, or, with its whole path, one level below; "" when none is near.
std::string MeantKey(const std::string& key, const Descriptor& type) {
  // Someone who knows the API writes `memory_bytes`; its YAML key is farther away than any spelling mistake.
  if (const FieldDescriptor* by_name = type.FindFieldByName(key); by_name != nullptr) return YamlKeyOf(*by_name);
  const std::string word = OurWord(key);
  if (FindByYamlKey(type, word) != nullptr) return word;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_repeated() || !NotBuiltOf(field).empty()) continue;
    const FieldDescriptor* below = FindByYamlKey(*field.message_type(), word);
    if (below != nullptr && NotBuiltOf(*below).empty()) return absl::StrCat(YamlKeyOf(field), ".", word);
  }
  return NearestName(key, YamlKeys(type));
}

class Binder {
 public:
  explicit Binder(absl::string_view source) : source_(source) {}

  void BindMessage(const YamlNode& node, const Path& path, Message* message) {
    if (node.kind == YamlNode::Kind::kScalar && message->GetDescriptor()->full_name() == "spillway.v1.ByteRange") return BindByteRange(node, path, message);
    if (node.kind == YamlNode::Kind::kScalar && message->GetDescriptor()->full_name() == "spillway.v1.GpuSpec") return BindGpu(node, path, message);
    if (node.kind != YamlNode::Kind::kMap) {
      return Error(node.line, path.yaml,
                   absl::StrCat("expected a map with the keys ", absl::StrJoin(YamlKeys(*message->GetDescriptor()), ", "), ", got ", node.Describe()));
    }
    std::map<absl::string_view, int> seen;
    for (const YamlEntry& entry : node.entries) {
      const auto [first, fresh] = seen.emplace(entry.key, entry.line);
      if (!fresh) {
        Error(entry.line, path.Member(entry.key, Printable(entry.key, 60)).yaml, absl::StrCat("given twice (first on line ", first->second, ")"));
        continue;
      }
      const FieldDescriptor* field = FindByYamlKey(*message->GetDescriptor(), entry.key);
      if (field == nullptr) {
        UnknownKey(entry, path, *message->GetDescriptor());
      } else {
        BindField(entry, path.Member(field->name(), entry.key), *field, message);
      }
    }
  }

  void SetRootLine(int line) { lines_.Set("", line); }

  void Error(int line, absl::string_view yaml_path, absl::string_view what) {
    if (++error_count_ > kYamlErrorsMax) return;
    errors_.push_back(absl::StrCat(YamlPlace(source_, line), ": ", yaml_path, yaml_path.empty() ? "" : ": ", what));
  }

  absl::StatusOr<FieldLines> Finish() && {
    if (error_count_ == 0) return std::move(lines_);
    if (error_count_ > kYamlErrorsMax) errors_.push_back(absl::StrCat(source_, ": and ", error_count_ - kYamlErrorsMax, " more errors"));
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  void UnknownKey(const YamlEntry& entry, const Path& path, const Descriptor& type) {
    const std::vector<std::string> keys = YamlKeys(type);
    const std::string nearest = MeantKey(entry.key, type);
    Error(entry.line, path.Member("", Printable(entry.key, 60)).yaml,
          absl::StrCat("unknown key",
                       nearest.empty() ? absl::StrCat("; the keys here are ", absl::StrJoin(keys, ", ")) : absl::StrCat(", did you mean `", nearest, "`?")));
  }

  void BindField(const YamlEntry& entry, const Path& path, const FieldDescriptor& field, Message* message) {
    lines_.Set(path.field, entry.line);
    if (const std::string what = NotBuiltOf(field); !what.empty()) return Error(entry.line, path.yaml, absl::StrCat(what, " are not built yet"));
    if (field.is_map()) return BindMap(entry.value, path, field, message);
    if (field.is_repeated()) return BindList(entry.value, path, field, message);
    BindOne(entry.value, path, field, message);
  }

  void BindOne(const YamlNode& node, const Path& path, const FieldDescriptor& field, Message* message) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return BindMessage(node, path, message->GetReflection()->MutableMessage(message, &field));
    }
    if (const absl::Status set = SetScalar(node, field, message); !set.ok()) Error(node.line, path.yaml, set.message());
  }

  // One element may be written without its brackets: `model: H100`.
  void BindList(const YamlNode& node, const Path& path, const FieldDescriptor& field, Message* message) {
    message->GetReflection()->ClearField(message, &field);
    if (node.kind != YamlNode::Kind::kList) return BindElement(node, path, field, message);
    for (size_t i = 0; i < node.items.size(); ++i) {
      const Path element = path.Element(i);
      lines_.Set(element.field, node.items[i].line);
      BindElement(node.items[i], element, field, message);
    }
  }

  void BindElement(const YamlNode& node, const Path& path, const FieldDescriptor& field, Message* message) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return BindMessage(node, path, message->GetReflection()->AddMessage(message, &field));
    }
    if (const absl::Status set = SetScalar(node, field, message); !set.ok()) Error(node.line, path.yaml, set.message());
  }

  void BindMap(const YamlNode& node, const Path& path, const FieldDescriptor& field, Message* message) {
    if (node.kind != YamlNode::Kind::kMap) return Error(node.line, path.yaml, absl::StrCat("expected a map of names to values, got ", node.Describe()));
    if (node.entries.size() > limits::kEnvCountMax) return Error(node.line, path.yaml, absl::StrCat("more than ", limits::kEnvCountMax, " entries"));
    std::map<absl::string_view, int> seen;
    for (const YamlEntry& entry : node.entries) {
      const Path member = path.Member(entry.key, Printable(entry.key, 60));
      lines_.Set(member.field, entry.line);
      const auto [first, fresh] = seen.emplace(entry.key, entry.line);
      if (!fresh) {
        Error(entry.line, member.yaml, absl::StrCat("given twice (first on line ", first->second, ")"));
        continue;
      }
      Message* slot = MapSlot(field, entry.key, message);
      BindOne(entry.value, member, *slot->GetDescriptor()->map_value(), slot);
    }
  }

  // The entry of this key, new or existing, with its value cleared.
  static Message* MapSlot(const FieldDescriptor& field, const std::string& key, Message* message) {
    const google::protobuf::Reflection& reflection = *message->GetReflection();
    const FieldDescriptor* key_field = field.message_type()->map_key();
    for (int i = 0; i < reflection.FieldSize(*message, &field); ++i) {
      Message* slot = reflection.MutableRepeatedMessage(message, &field, i);
      if (slot->GetReflection()->GetString(*slot, key_field) != key) continue;
      slot->GetReflection()->ClearField(slot, field.message_type()->map_value());
      return slot;
    }
    Message* slot = reflection.AddMessage(message, &field);
    slot->GetReflection()->SetString(slot, key_field, key);
    return slot;
  }

  // `gpu: 2` and `gpu: H100:8`, as `run --gpus` takes them: the count, and which.
  void BindGpu(const YamlNode& node, const Path& path, Message* message) {
    const Descriptor& type = *message->GetDescriptor();
    const size_t colon = node.text.rfind(':');
    const bool model = colon != std::string::npos;
    YamlNode count = node;
    count.text = node.text.substr(model ? colon + 1 : 0);
    count.quoted = false;
    const absl::Status set = SetScalar(count, *type.FindFieldByName("count"), message);
    if (!set.ok() || colon == 0 || count.text[0] == '-')
      return Error(
          node.line, path.yaml,
          absl::StrCat("expected N or MODEL:N, such as 1 or H100:8, or a map with the keys ", absl::StrJoin(YamlKeys(type), ", "), ", got ", node.Describe()));
    if (!model) return;
    message->GetReflection()->ClearField(message, type.FindFieldByName("model"));
    message->GetReflection()->AddString(message, type.FindFieldByName("model"), node.text.substr(0, colon));
  }

  void BindByteRange(const YamlNode& node, const Path& path, Message* message) {
    const auto range = ParseByteRange(node.text);
    if (!range.ok()) return Error(node.line, path.yaml, range.status().message());
    auto* out = static_cast<v1::ByteRange*>(message);
    out->set_min_bytes(range->min_bytes);
    out->set_max_bytes(range->max_bytes);
  }

  const std::string source_;
  FieldLines lines_;
  std::vector<std::string> errors_;
  size_t error_count_ = 0;
};

// A flag has no lines worth naming.
void ForgetLines(YamlNode* node) {
  node->line = 0;
  for (YamlNode& item : node->items) ForgetLines(&item);
  for (YamlEntry& entry : node->entries) {
    entry.line = 0;
    ForgetLines(&entry.value);
  }
}

absl::StatusOr<FieldLines> BindTree(const YamlNode& root, Binder binder, Message* message) {
  std::unique_ptr<Message> bound(message->New());
  bound->CopyFrom(*message);
  binder.SetRootLine(root.line);
  binder.BindMessage(root, Path{}, bound.get());
  ASSIGN_OR_RETURN(FieldLines lines, std::move(binder).Finish());
  message->CopyFrom(*bound);
  return lines;
}

}  // namespace

int FieldLines::Find(absl::string_view field_path) const {
  for (;;) {
    const auto found = lines_.find(std::string(field_path));
    if (found != lines_.end()) return found->second;
    if (field_path.empty()) return 0;
    const size_t cut = field_path.find_last_of(".[");
    field_path = cut == absl::string_view::npos ? "" : field_path.substr(0, cut);
  }
}

absl::StatusOr<FieldLines> BindYaml(absl::string_view text, absl::string_view source, Message* message) {
  ASSIGN_OR_RETURN(const YamlNode root, ParseYamlTree(text, source));
  if (root.kind == YamlNode::Kind::kNull) return absl::InvalidArgumentError(absl::StrCat(source, ": the file is empty"));
  return BindTree(root, Binder(source), message);
}

absl::Status BindSetting(absl::string_view assignment, Message* message, absl::string_view source) {
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat(source, " ", Printable(assignment, 60), ": expected KEY=VALUE, such as resources.gpu.count=2"));
  }
  const absl::string_view value = assignment.substr(equals + 1);
  YamlNode node;
  // Lists, maps and quoted text are YAML; anything else is taken as it stands, colons and all.
  if (!value.empty() && std::string("[{\"'").find(value[0]) != std::string::npos) {
    ASSIGN_OR_RETURN(node, ParseYamlTree(value, source));
    ForgetLines(&node);
  } else {
    node.kind = YamlNode::Kind::kScalar;
    node.text = std::string(value);
  }
  std::vector<std::string> keys;
  for (absl::string_view rest = assignment.substr(0, equals);;) {
    const size_t dot = rest.find('.');
    keys.emplace_back(rest.substr(0, dot));
    if (dot == absl::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (keys.size() > kYamlDepthMax) return absl::InvalidArgumentError(absl::StrCat(source, ": the key is nested too deep"));
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    YamlNode map;
    map.kind = YamlNode::Kind::kMap;
    map.entries.push_back(YamlEntry{*key, 0, std::move(node)});
    node = std::move(map);
  }
  return BindTree(node, Binder(source), message).status();
}

absl::StatusOr<FieldLines> BindJobFile(absl::string_view text, absl::string_view source, v1::JobSpec* spec) {
  ASSIGN_OR_RETURN(const YamlNode root, ParseYamlTree(text, source));
  if (root.kind == YamlNode::Kind::kNull) return absl::InvalidArgumentError(absl::StrCat(source, ": the file is empty"));
  Binder binder(source);
  for (const YamlEntry& entry : root.entries) {
    if (entry.key == "command" && entry.value.kind == YamlNode::Kind::kScalar && entry.value.text.find_first_of(" \t\n") != std::string::npos) {
      binder.Error(entry.line, "command", "is one word with spaces; write a list such as [\"./train\", \"--lr\", \"3e-4\"], or put shell text under `script`");
    }
  }
  return BindTree(root, std::move(binder), spec);
}

}  // namespace spillway::spec
