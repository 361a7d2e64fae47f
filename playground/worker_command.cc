#include "playground/worker_command.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::playground {
namespace {

constexpr const char* kInherited[] = {"PATH",         "HOME",         "LANG",          "LC_ALL",      "TZ", "LD_LIBRARY_PATH",
                                      "SPILLWAY_LOG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"};

// What the machine declares: an instance has as much of the box as its offer says, and accelerators that are not there.
std::string ResourcesText(const Terms& terms) {
  std::string text = absl::StrCat("cpus=", terms.cpus, ",memory=", terms.memory_bytes, "B");
  if (terms.disk_bytes > 0) absl::StrAppend(&text, ",disk=", terms.disk_bytes, "B");
  if (terms.gpus.count == 0) return absl::StrCat(text, ",gpu=none");
  return absl::StrCat(text, ",gpu=", terms.gpus.model, ":", terms.gpus.count, ":", terms.gpus.memory_bytes, "B:simulated");
}

std::map<std::string, std::string> PlaceholdersOf(const Instance& instance, const MachinePlace& place) {
  const WorkerSpec& worker = instance.request.worker;
  return {{"instance_id", instance.id},
          {"home", place.home},
          {"metadata_url", place.metadata_url},
          {"node_name", worker.node_name},
          {"server", worker.server},
          {"token_file", worker.token_file},
          {"zone", instance.terms.zone},
          {"region", instance.terms.region},
          {"market", instance.terms.spot ? "spot" : "on_demand"}};
}

// "{name}" for letters and underscores only is a placeholder; any other brace is text.
absl::StatusOr<std::string> FillIn(const std::string& text, const std::map<std::string, std::string>& values) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t close = text[i] == '{' ? text.find('}', i) : std::string::npos;
    const std::string name = close == std::string::npos ? "" : text.substr(i + 1, close - i - 1);
    if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string::npos) {
      out += text[i];
      continue;
    }
    auto it = values.find(name);
    if (it == values.end()) {
      std::vector<std::string> known;
      for (const auto& [key, value] : values) known.push_back(key);
      return absl::InvalidArgumentError(absl::StrCat("worker.argv: unknown {", Printable(name), "}; known: ", absl::StrJoin(known, ", ")));
    }
    out += it->second;
    i = close;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WorkerArgv(const Instance& instance, const MachinePlace& place) {
  const WorkerSpec& worker = instance.request.worker;
  if (!worker.argv.empty()) {
    const std::map<std::string, std::string> values = PlaceholdersOf(instance, place);
    std::vector<std::string> argv;
    for (const std::string& argument : worker.argv) {
      ASSIGN_OR_RETURN(argv.emplace_back(), FillIn(argument, values));
    }
    return argv;
  }
  return std::vector<std::string>{place.worker_path,
                                  "--server",
                                  worker.server,
                                  "--token-file",
                                  worker.token_file,
                                  "--node-name",
                                  worker.node_name,
                                  "--provider",
                                  worker.provider,
                                  "--instance-id",
                                  instance.id,
                                  "--home",
                                  place.home,
                                  "--metadata-url",
                                  place.metadata_url,
                                  "--notice-source",
                                  "aws",
                                  "--zone",
                                  instance.terms.zone,
                                  "--region",
                                  instance.terms.region,
                                  "--market",
                                  instance.terms.spot ? "spot" : "on_demand",
                                  "--resources",
                                  ResourcesText(instance.terms)};
}

std::vector<std::string> WorkerEnvironment(const Instance& instance, const std::map<std::string, std::string>& own_environment, const std::string& marker) {
  std::map<std::string, std::string> environment;
  for (const char* name : kInherited) {
    if (auto it = own_environment.find(name); it != own_environment.end()) environment[name] = it->second;
  }
  for (const auto& [name, value] : instance.request.worker.env) environment[name] = value;
  environment[kMarkerVariable] = marker;
  std::vector<std::string> out;
  for (const auto& [name, value] : environment) out.push_back(absl::StrCat(name, "=", value));
  return out;
}

}  // namespace spillway::playground
