// The daemon's configuration, checked and with its defaults: from config.yaml to what the parts take. Start-up only.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/command.h"
#include "scheduler/engine/engine.h"
#include "spillway/v1/config.pb.h"

namespace spillway {

struct Settings {
  std::string home;        // absolute
  std::string store_path;  // absolute: checkpoints/ and logs/ are below it
  std::string user_address, worker_address, http_address;
  engine::Options engine;
  std::vector<v1::ProviderConfig> providers;
  core::Configure configure;  // reservations filled; providers and cluster come at start
};

// `config` "" means HOME/config.yaml where there is one, else the defaults (one static provider). INVALID_ARGUMENT names file, line and the nearest valid key.
absl::StatusOr<Settings> LoadSettings(const std::string& home, const std::string& config);

}  // namespace spillway
