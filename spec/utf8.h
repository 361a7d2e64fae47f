// Which text is UTF-8. A string of a message must be: the wire does not carry anything else, and says so in no words that help.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "spec/validate.h"

namespace spillway::spec {

// The offset of the first byte that is no UTF-8, or npos.
size_t FirstBadUtf8(absl::string_view text);
inline bool IsUtf8(absl::string_view text) { return FirstBadUtf8(text) == absl::string_view::npos; }

// A violation for each string anywhere in the message that is no UTF-8, keys of maps too. Only who fills a message by hand needs to ask:
// one that was read from YAML or from the wire has none.
std::vector<Violation> Utf8Violations(const google::protobuf::Message& message);

}  // namespace spillway::spec
