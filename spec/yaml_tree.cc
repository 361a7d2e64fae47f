#include "spec/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "spec/utf8.h"

namespace spillway::spec {
namespace {

// yaml-cpp reports its own errors by this exception; ours take the same way out of its recursion.
[[noreturn]] void Refuse(const YAML::Mark& mark, const std::string& message) { throw YAML::ParserException(mark, message); }

// Builds the tree from yaml-cpp's events. Its Node API is not used: that one resolves aliases and keeps the first of two equal keys.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(absl::string_view text) : text_(text) {}
  YamlNode Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override { RefuseAnchor(mark, name); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { RefuseAnchor(mark, ""); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (anchor != YAML::NullAnchor) RefuseAnchor(mark, "");
    if (AtKey()) Refuse(mark, "a key is empty");
    Add(At(mark, YamlNode::Kind::kNull));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    CheckDecorations(mark, tag, anchor);
    CheckQuotesClosed(mark);
    if (AtKey()) {
      stack_.back().entries.push_back(YamlEntry{value, mark.line + 1, {}});
      key_open_.back() = true;
      return;
    }
    YamlNode node = At(mark, YamlNode::Kind::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    Add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  static YamlNode At(const YAML::Mark& mark, YamlNode::Kind kind) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }
  [[noreturn]] static void RefuseAnchor(const YAML::Mark& mark, const std::string& name) {
    Refuse(mark,
           absl::StrCat("anchors and aliases", name.empty() ? "" : absl::StrCat(" (`", Printable(name, 40), "`)"), " are not accepted: write the value out"));
  }
  static void CheckDecorations(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) RefuseAnchor(mark, "");
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(mark, absl::StrCat("the tag `", Printable(tag, 40), "` is not accepted: types come from the key"));
  }
  // yaml-cpp takes the end of the text for the closing quote.
  void CheckQuotesClosed(const YAML::Mark& mark) const {
    const size_t start = mark.pos < 0 ? text_.size() : static_cast<size_t>(mark.pos);
    if (start >= text_.size() || (text_[start] != '"' && text_[start] != '\'')) return;
    for (size_t i = start + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\' && text_[start] == '"') {
        ++i;
      } else if (text_[i] == text_[start]) {
        if (text_[start] == '"' || i + 1 >= text_.size() || text_[i + 1] != '\'') return;
        ++i;  // a doubled single quote stands for one
      }
    }
    Refuse(mark, "the quote is never closed");
  }
  bool AtKey() const { return !stack_.empty() && stack_.back().kind == YamlNode::Kind::kMap && !key_open_.back(); }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    CheckDecorations(mark, tag, anchor);
    if (AtKey()) Refuse(mark, "a key must be plain text");
    if (stack_.size() >= kYamlDepthMax) Refuse(mark, absl::StrCat("nested deeper than ", kYamlDepthMax, " levels"));
    stack_.push_back(At(mark, kind));
    key_open_.push_back(false);
  }
  void Close() {
    YamlNode node = std::move(stack_.back());
    stack_.pop_back();
    key_open_.pop_back();
    Add(std::move(node));
  }
  void Add(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
    } else if (stack_.back().kind == YamlNode::Kind::kList) {
      stack_.back().items.push_back(std::move(node));
    } else {
      if (node.kind == YamlNode::Kind::kNull) node.line = stack_.back().entries.back().line;  // yaml-cpp places it at the next token
      stack_.back().entries.back().value = std::move(node);
      key_open_.back() = false;
    }
  }

  const absl::string_view text_;
  YamlNode root_;
  std::vector<YamlNode> stack_;
  std::vector<bool> key_open_;  // beside stack_: a map's key was read and its value is awaited
};

absl::Status RefuseAt(absl::string_view source, int line, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(YamlPlace(source, line), ": ", message));
}

}  // namespace

std::string YamlPlace(absl::string_view source, int line) { return line > 0 ? absl::StrCat(source, ":", line) : std::string(source); }

std::string YamlNode::Describe() const {
  switch (kind) {
    case Kind::kNull: return "nothing";
    case Kind::kList: return "a list";
    case Kind::kMap: return "a map";
    case Kind::kScalar: break;
  }
  return quoted ? absl::StrCat("the text \"", Printable(text, 60), "\"") : absl::StrCat("`", Printable(text, 60), "`");
}

absl::StatusOr<YamlNode> ParseYamlTree(absl::string_view text, absl::string_view source) {
  if (text.size() > limits::kSpecBytesMax) {
    return RefuseAt(source, 0, absl::StrCat("larger than ", limits::kSpecBytesMax, " bytes"));
  }
  // yaml-cpp accepts bytes that are not UTF-8; protobuf strings must not hold them.
  if (const size_t bad = std::min(FirstBadUtf8(text), text.find('\0')); bad != absl::string_view::npos) {
    const int line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(bad), '\n'));
    return RefuseAt(source, line, text[bad] == '\0' ? "holds a NUL byte" : "is not UTF-8");
  }
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");  // a byte order mark; yaml-cpp does not count it
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder first(text);
    if (!parser.HandleNextDocument(first)) return YamlNode{};
    TreeBuilder second(text);
    if (parser.HandleNextDocument(second)) {
      return RefuseAt(source, second.Take().line, "a second document begins; one file holds one document");
    }
    return first.Take();
  } catch (const YAML::Exception& e) {
    return RefuseAt(source, e.mark.is_null() ? 0 : e.mark.line + 1, Printable(e.msg));
  }
}

}  // namespace spillway::spec
