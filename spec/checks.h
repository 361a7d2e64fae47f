// The validators' notebook: collects violations in order, bounded, with the wording of the checks that recur.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "spec/validate.h"

namespace spillway::spec {

class Checks {
 public:
  void Add(absl::string_view path, absl::string_view message, absl::string_view nearest = "");
  void AtLeast(absl::string_view path, int64_t value, int64_t least);
  void Within(absl::string_view path, int64_t value, int64_t least, int64_t most);
  // A length of time, in milliseconds: 0 to kDurationMsMax.
  void Duration(absl::string_view path, int64_t value_ms);
  // `value` is known to be none of `valid` unless it equals one.
  void OneOf(absl::string_view path, absl::string_view value, const std::vector<std::string>& valid);
  // Every set field anywhere in the message that the schema marks as not built.
  void NotBuilt(const google::protobuf::Message& message) { NotBuiltUnder(message, ""); }

  // Names in a list: none empty, none twice.
  template <typename Strings>
  void Texts(absl::string_view path, const Strings& texts) {
    std::vector<std::string> seen;
    for (int i = 0; i < texts.size(); ++i) {
      const std::string& text = texts.Get(i);
      if (text.empty()) Add(absl::StrCat(path, "[", i, "]"), "is empty");
      for (const std::string& earlier : seen) {
        if (earlier == text) Add(absl::StrCat(path, "[", i, "]"), absl::StrCat("`", Printable(text, 60), "` stands twice"));
      }
      if (seen.size() < 1000) seen.push_back(text);
    }
    if (texts.size() > 1000) Add(path, "has more than 1000 entries");
  }

  std::vector<Violation> Take() { return std::move(violations_); }

 private:
  void NotBuiltUnder(const google::protobuf::Message& message, const std::string& prefix);
  std::vector<Violation> violations_;
};

}  // namespace spillway::spec
