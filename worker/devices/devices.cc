#include "worker/devices/devices.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace spillway::devices {

std::string ModelOf(absl::string_view full_name) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(full_name, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
    const std::string upper = absl::AsciiStrToUpper(word);
    if (words.empty() && (upper == "NVIDIA" || upper == "TESLA" || upper == "GEFORCE" || upper == "QUADRO")) continue;
    words.push_back(upper);
  }
  if (words.empty()) return "unknown";
  // Product lines whose number stands apart.
  if ((words[0] == "RTX" || words[0] == "GTX" || words[0] == "TITAN") && words.size() > 1) return words[0] + words[1];
  return words[0].substr(0, words[0].find('-'));
}

absl::StatusOr<std::vector<Device>> DetectByProc(const std::string& root) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListDirectory(root));
  std::vector<Device> devices;
  for (const std::string& folder : folders) {  // named by PCI address, sorted
    const auto text = ReadFile(JoinPath(JoinPath(root, folder), "information"), 64 << 10);
    if (!text.ok()) continue;
    Device device;
    device.index = static_cast<int>(devices.size());
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
      const absl::string_view value = absl::StripAsciiWhitespace(parts.second);
      if (parts.first == "Model") device.full_name = std::string(value);
      if (parts.first == "GPU UUID") device.uuid = std::string(value);
    }
    if (device.full_name.empty()) continue;
    device.model = ModelOf(device.full_name);
    devices.push_back(std::move(device));
  }
  return devices;
}

Detected Detect() {
  Detected detected;
  auto by_nvml = DetectByNvml("libnvidia-ml.so.1");
  if (by_nvml.ok()) return {*std::move(by_nvml), "nvml", ""};
  auto by_proc = DetectByProc("/proc/driver/nvidia/gpus");
  if (by_proc.ok() && !by_proc->empty()) return {*std::move(by_proc), "proc", std::string(by_nvml.status().message())};
  // Without a driver the missing library is the expected thing and worth no word.
  return {{}, "none", PathExists("/proc/driver/nvidia") ? std::string(by_nvml.status().message()) : ""};
}

}  // namespace spillway::devices
