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
#include "base/units.h"

namespace spillway::worker {
namespace {

constexpr int64_t kAcceleratorsMax = 64;

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

absl::Status Bad(absl::string_view part, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--resources: '", Printable(part), "': ", why));
}

absl::StatusOr<Accelerator> ParseGpu(absl::string_view part, absl::string_view value) {
  const std::vector<std::string> fields = absl::StrSplit(value, ':');
  if (fields.size() < 3 || fields.size() > 4 || fields[0].empty())
    return Bad(part, "write gpu=MODEL:COUNT:MEMORY, gpu=MODEL:COUNT:MEMORY:simulated or gpu=none");
  Accelerator accelerator;
  accelerator.model = fields[0];
  if (!absl::SimpleAtoi(fields[1], &accelerator.count) || accelerator.count < 1 || accelerator.count > kAcceleratorsMax) {
    return Bad(part, absl::StrCat("the count must be 1 to ", kAcceleratorsMax));
  }
  const auto memory = ParseBytes(fields[2]);
  if (!memory.ok()) return Bad(part, memory.status().message());
  accelerator.memory_bytes = *memory;
  if (fields.size() == 4 && fields[3] != "simulated") return Bad(part, "after the memory only 'simulated' may stand");
  accelerator.simulated = fields.size() == 4;
  return accelerator;
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
  static const std::vector<std::string> kKeys = {"cpus", "memory", "disk", "gpu"};
  Machine machine = std::move(detected);
  bool gpu_named = false;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const absl::string_view key = pair.first, value = pair.second;
    if (key == "cpus") {
      double cores = 0;
      if (!absl::SimpleAtod(value, &cores) || !(cores > 0) || cores > 100'000) return Bad(part, "write a number of cores, such as 16 or 0.5");
      machine.resources.cpu_milli = static_cast<int64_t>(cores * 1000 + 0.5);
    } else if (key == "memory" || key == "disk") {
      const auto bytes = ParseBytes(value);
      if (!bytes.ok()) return Bad(part, bytes.status().message());
      (key == "memory" ? machine.resources.memory_bytes : machine.resources.disk_bytes) = *bytes;
    } else if (key == "gpu") {
      if (!gpu_named) {
        machine.resources.accelerators.clear();
        machine.device_indices.clear();
        gpu_named = true;
      }
      if (value == "none") continue;
      ASSIGN_OR_RETURN(const Accelerator accelerator, ParseGpu(part, value));
      if (!machine.resources.accelerators.empty() && machine.resources.accelerators.back().simulated != accelerator.simulated) {
        return Bad(part, "real and simulated accelerators do not go together");
      }
      if (!accelerator.simulated) RETURN_IF_ERROR(TakeReal(accelerator, devices, &machine.device_indices));
      machine.resources.accelerators.push_back(accelerator);
    } else {
      const std::string nearest = NearestName(key, kKeys);
      return Bad(part, absl::StrCat("no resource is called '", Printable(key), "'", nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"),
                                    " (cpus, memory, disk, gpu)"));
    }
  }
  return machine;
}

}  // namespace spillway::worker
