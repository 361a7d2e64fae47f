// Which accelerators this machine has. Looks, never reserves: which attempt gets which device is the scheduler's decision.
//
// NVIDIA devices through NVML where its library can be loaded, else through /proc/driver/nvidia (models without memory). A machine without either
// has none, which is no error.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::devices {

struct Device {
  int index = 0;          // in PCI order, the order of CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::string model;      // "H100", "A100", "RTX4090"
  std::string full_name;  // as the driver says it
  std::string uuid;
  int64_t memory_bytes = 0;  // 0: unknown
};

struct Detected {
  std::vector<Device> devices;
  std::string source;  // "nvml", "proc", "none"
  std::string note;    // why a better source was not used; "" when there is nothing to say
};

Detected Detect();

// "NVIDIA H100 80GB HBM3" -> "H100", "NVIDIA A100-SXM4-80GB" -> "A100", "NVIDIA GeForce RTX 4090" -> "RTX4090", "Tesla T4" -> "T4".
std::string ModelOf(absl::string_view full_name);

// The seams, for tests. `library` is what is given to dlopen; `root` holds one folder a device with a file `information`.
absl::StatusOr<std::vector<Device>> DetectByNvml(const std::string& library);
absl::StatusOr<std::vector<Device>> DetectByProc(const std::string& root);

}  // namespace spillway::devices
