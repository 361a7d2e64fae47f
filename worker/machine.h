// What this machine has to give: detected, or declared with --resources (spec/resource_list.h owns the written form).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/devices/devices.h"
#include "worker/session_frames.h"

namespace spillway::worker {

struct Machine {
  NodeResources resources;
  // Device indices of the scheduler (0, 1, ... over all accelerators in order) to those of the driver; empty where accelerators are simulated.
  std::vector<int> device_indices;
  bool real_accelerators() const { return !device_indices.empty(); }
};

// Cores this process may use, memory (of the machine or of this process's cgroup, whichever is less), free space of the file system of `home`,
// and the accelerators found. Devices of several models or sizes become several accelerator entries.
absl::StatusOr<Machine> DetectMachine(const std::string& home, const devices::Detected& detected);

// "cpus=2,memory=8GB,disk=50GB,gpu=H100:1:80GB" over what was detected: what is named replaces it, "gpu=none" declares none.
// An empty text declares nothing. A real accelerator must be there: FAILED_PRECONDITION otherwise. INVALID_ARGUMENT names the part and the nearest valid name.
absl::StatusOr<Machine> DeclareMachine(absl::string_view text, Machine detected, const devices::Detected& devices);

}  // namespace spillway::worker
