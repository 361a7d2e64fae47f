// The signals a job may name in `checkpoint.signal`: those a program can handle. Names are Linux's, upper case with SIG.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway::spec {

std::optional<int> SignalNumber(absl::string_view name);  // "SIGTERM" -> 15; nullopt for any other name
const std::vector<std::string>& SignalNames();

}  // namespace spillway::spec
