#include "spec/signals.h"

#include <csignal>
#include <utility>

namespace spillway::spec {
namespace {

constexpr std::pair<const char*, int> kSignals[] = {
    {"SIGTERM", SIGTERM}, {"SIGINT", SIGINT}, {"SIGHUP", SIGHUP}, {"SIGQUIT", SIGQUIT}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2},
};

}  // namespace

std::optional<int> SignalNumber(absl::string_view name) {
  for (const auto& [known, number] : kSignals) {
    if (name == known) return number;
  }
  return std::nullopt;
}

const std::vector<std::string>& SignalNames() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> out;
    for (const auto& [name, number] : kSignals) out.emplace_back(name);
    return out;
  }());
  return names;
}

}  // namespace spillway::spec
