// NVML without its header: the few functions used, declared as the library's documentation gives them, found at run time.
#include <dlfcn.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "worker/devices/devices.h"

namespace spillway::devices {
namespace {

using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr unsigned kNameBytes = 96, kUuidBytes = 96;
constexpr unsigned kDevicesMax = 64;

struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*device_count)(unsigned*) = nullptr;
  int (*device_by_index)(unsigned, NvmlDevice*) = nullptr;
  int (*device_name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*device_uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*device_memory)(NvmlDevice, NvmlMemory*) = nullptr;
};

struct Closer {
  void operator()(void* handle) const { dlclose(handle); }
};

template <typename Function>
bool Find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

absl::Status Failed(const Nvml& nvml, absl::string_view what, int code) {
  const char* words = nvml.error_string(code);
  return absl::UnavailableError(absl::StrCat("NVML: ", what, ": ", words == nullptr ? absl::StrCat("error ", code) : words));
}

absl::StatusOr<std::vector<Device>> ListDevices(const Nvml& nvml) {
  unsigned count = 0;
  if (const int code = nvml.device_count(&count); code != kNvmlSuccess) return Failed(nvml, "device count", code);
  std::vector<Device> devices;
  for (unsigned i = 0; i < count && i < kDevicesMax; ++i) {
    NvmlDevice handle = nullptr;
    char name[kNameBytes] = {}, uuid[kUuidBytes] = {};
    NvmlMemory memory;
    // A device that is there but does not answer is not offered to anybody; its index stays taken.
    if (nvml.device_by_index(i, &handle) != kNvmlSuccess || nvml.device_name(handle, name, sizeof name - 1) != kNvmlSuccess) continue;
    if (nvml.device_memory(handle, &memory) != kNvmlSuccess) continue;
    (void)nvml.device_uuid(handle, uuid, sizeof uuid - 1);
    Device device;
    device.index = static_cast<int>(i);
    device.full_name = name;
    device.model = ModelOf(name);
    device.uuid = uuid;
    device.memory_bytes = static_cast<int64_t>(memory.total);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::vector<Device>> DetectByNvml(const std::string& library) {
  const std::unique_ptr<void, Closer> handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) {
    const char* why = dlerror();
    return absl::NotFoundError(absl::StrCat("cannot load ", library, ": ", why == nullptr ? "" : why));
  }
  Nvml nvml;
  if (!Find(handle.get(), "nvmlInit_v2", &nvml.init) || !Find(handle.get(), "nvmlShutdown", &nvml.shutdown) ||
      !Find(handle.get(), "nvmlErrorString", &nvml.error_string) || !Find(handle.get(), "nvmlDeviceGetCount_v2", &nvml.device_count) ||
      !Find(handle.get(), "nvmlDeviceGetHandleByIndex_v2", &nvml.device_by_index) || !Find(handle.get(), "nvmlDeviceGetName", &nvml.device_name) ||
      !Find(handle.get(), "nvmlDeviceGetUUID", &nvml.device_uuid) || !Find(handle.get(), "nvmlDeviceGetMemoryInfo", &nvml.device_memory)) {
    return absl::UnavailableError(absl::StrCat(library, " lacks functions of NVML"));
  }
  if (const int code = nvml.init(); code != kNvmlSuccess) return Failed(nvml, "start", code);
  auto devices = ListDevices(nvml);
  nvml.shutdown();
  return devices;
}

}  // namespace spillway::devices
