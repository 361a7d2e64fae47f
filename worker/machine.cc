#include "worker/machine.h"

#include <sched.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "spec/resource_list.h"

namespace spillway::worker {
namespace {

int64_t CpuMilli() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, count) * int64_t{1000};
}

// A number in a file of the cgroup file system; "max" and absence are no limit.
int64_t LimitIn(const std::string& path) {
  int64_t bytes = 0;
  const auto text = ReadFile(path, 100);
  return text.ok() && absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &bytes) && bytes > 0 ? bytes : std::numeric_limits<int64_t>::max();
}

absl::StatusOr<int64_t> MemoryBytes() {
  ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/meminfo", 64 << 10));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "MemTotal:")) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[1], &kib)) break;
    return std::min({kib * 1024, LimitIn("/sys/fs/cgroup/memory.max"), LimitIn("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
  }
  return absl::InternalError("/proc/meminfo does not say MemTotal");
}

absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path) {
  struct statvfs fs = {};
  if (statvfs(path.c_str(), &fs) != 0) return ErrnoStatus(errno, absl::StrCat("cannot look at the file system of ", path));
  return static_cast<int64_t>(fs.f_bavail) * static_cast<int64_t>(fs.f_frsize);
}

void AddDevices(const devices::Detected& detected, Machine* machine) {
  // Entries by model and size, in the order of first appearance; indices follow the entries.
  std::vector<std::pair<Accelerator, std::vector<int>>> groups;
  for (const devices::Device& device : detected.devices) {
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first.model == device.model && g.first.memory_bytes == device.memory_bytes; });
    if (group == groups.end()) group = groups.insert(groups.end(), {Accelerator{device.model, 0, device.memory_bytes, false}, {}});
    ++group->first.count;
    group->second.push_back(device.index);
  }
  for (auto& [accelerator, indices] : groups) {
    machine->resources.accelerators.push_back(accelerator);
    machine->device_indices.insert(machine->device_indices.end(), indices.begin(), indices.end());
  }
}

// The first devices of that model that no earlier declaration took.
absl::Status TakeReal(const Accelerator& wanted, const devices::Detected& devices, std::vector<int>* taken) {
  int64_t missing = wanted.count;
  std::vector<std::string> models;
  for (const devices::Device& device : devices.devices) {
    models.push_back(device.model);
    if (missing == 0 || !absl::EqualsIgnoreCase(device.model, wanted.model)) continue;
    if (std::find(taken->begin(), taken->end(), device.index) != taken->end()) continue;
    taken->push_back(device.index);
    --missing;
  }
  if (missing == 0) return absl::OkStatus();
  const std::string nearest = NearestName(wanted.model, models);
  return absl::FailedPreconditionError(absl::StrCat("--resources: this machine lacks ", missing, " of ", wanted.count, " ", Printable(wanted.model),
                                                    nearest.empty() || nearest == wanted.model ? "" : absl::StrCat(" (it has ", nearest, ")"),
                                                    "; add ':simulated' to declare accelerators that are not there"));
}

}  // namespace

absl::StatusOr<Machine> DetectMachine(const std::string& home, const devices::Detected& detected) {
  Machine machine;
  machine.resources.cpu_milli = CpuMilli();
  ASSIGN_OR_RETURN(machine.resources.memory_bytes, MemoryBytes());
  ASSIGN_OR_RETURN(machine.resources.disk_bytes, FreeDiskBytes(home));
  AddDevices(detected, &machine);
  return machine;
}

absl::StatusOr<Machine> DeclareMachine(absl::string_view text, Machine detected, const devices::Detected& devices) {
  Machine machine = std::move(detected);
  if (text.empty()) return machine;
  ASSIGN_OR_RETURN(const spec::ResourceList list, spec::ParseResourceList(text));
  NodeResources& has = machine.resources;
  has.cpu_milli = list.cpu_milli.value_or(has.cpu_milli);
  has.memory_bytes = list.memory_bytes.value_or(has.memory_bytes);
  has.disk_bytes = list.disk_bytes.value_or(has.disk_bytes);
  if (!list.gpu_named) return machine;
  has.accelerators.clear();
  machine.device_indices.clear();
  for (const spec::DeclaredGpu& gpu : list.gpus) {
    const Accelerator accelerator{gpu.model, gpu.count, gpu.memory_bytes, gpu.simulated};
    if (!gpu.simulated) RETURN_IF_ERROR(TakeReal(accelerator, devices, &machine.device_indices));
    has.accelerators.push_back(accelerator);
  }
  return machine;
}

}  // namespace spillway::worker
