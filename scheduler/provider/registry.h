// Makes providers by kind from the configuration. The one place that knows all of them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/provider/provider.h"
#include "spillway/v1/config.pb.h"

namespace spillway::provider {

// What every provider that starts workers must tell them.
struct Surroundings {
  std::string home;  // SPILLWAY_HOME, absolute
  std::string cluster_uuid;
  std::string worker_address;     // "127.0.0.1:7071": where workers find the scheduler
  std::string worker_token_file;  // absolute
  std::string program_folder;     // where spillway-worker is
};

// INVALID_ARGUMENT names the nearest kind.
absl::StatusOr<std::unique_ptr<Provider>> MakeProvider(const v1::ProviderConfig& config, const Surroundings& surroundings);

// What the core must know of it, with the defaults filled in.
core::ProviderInfo InfoOf(const v1::ProviderConfig& config, const Provider& provider);

}  // namespace spillway::provider
