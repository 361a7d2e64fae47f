#include "spec/checks.h"

#include "absl/strings/str_join.h"
#include "base/units.h"
#include "spec/fields.h"

namespace spillway::spec {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void Checks::Add(absl::string_view path, absl::string_view message, absl::string_view nearest) {
  if (violations_.size() < kViolationsMax) violations_.push_back({std::string(path), std::string(message), std::string(nearest)});
}

void Checks::AtLeast(absl::string_view path, int64_t value, int64_t least) {
  if (value >= least) return;
  Add(path, least == 0 ? absl::StrCat(value, " is negative") : absl::StrCat(value, " is less than ", least));
}

void Checks::Within(absl::string_view path, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) Add(path, absl::StrCat(value, " is outside ", least, " to ", most));
}

void Checks::Duration(absl::string_view path, int64_t value_ms) {
  if (value_ms < 0) Add(path, absl::StrCat(value_ms, " is negative"));
  if (value_ms > kDurationMsMax) Add(path, "is longer than ten years");
}

void Checks::OneOf(absl::string_view path, absl::string_view value, const std::vector<std::string>& valid) {
  for (const std::string& word : valid) {
    if (word == value) return;
  }
  const std::string nearest = NearestName(value, valid);
  Add(path,
      absl::StrCat("unknown value `", Printable(value, 60), "`", nearest.empty() ? "" : absl::StrCat(", did you mean `", nearest, "`?"), " (one of ",
                   absl::StrJoin(valid, ", "), ")"),
      nearest);
}

void Checks::NotBuiltUnder(const Message& message, const std::string& prefix) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, field->name());
    if (const std::string what = NotBuiltOf(*field); !what.empty()) {
      Add(path, absl::StrCat(what, " are not built yet"));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_repeated()) {
      NotBuiltUnder(message.GetReflection()->GetMessage(message, field), path + ".");
    }
  }
}

}  // namespace spillway::spec
