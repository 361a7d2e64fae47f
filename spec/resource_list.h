// What a node declares, as flags write it: "cpus=2,memory=8GB,disk=50GB,gpu=H100:1:80GB:simulated". `spillway up` asks before it starts anything,
// the worker before it says hello: one answer. Owns the written form; never looks at the machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::spec {

struct DeclaredGpu {
  std::string model;  // printable ASCII without spaces
  int64_t count = 0;
  int64_t memory_bytes = 0;  // of one device; 0: not said
  bool simulated = false;
};

// What is not named is left to what the machine has.
struct ResourceList {
  std::optional<int64_t> cpu_milli, memory_bytes, disk_bytes;
  bool gpu_named = false;  // with no `gpus`: none, whatever is there
  std::vector<DeclaredGpu> gpus;
};

// gpu=MODEL:COUNT:MEMORY[:simulated], several of them add up, real and simulated ones do not mix; gpu=none. Any other name stands once.
// INVALID_ARGUMENT names the part and the nearest valid form. `source` is how messages name the list.
absl::StatusOr<ResourceList> ParseResourceList(absl::string_view text, absl::string_view source = "--resources");

}  // namespace spillway::spec
