// What a machine runs: the argv of its worker and the environment it boots with. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "playground/cloud.h"

namespace spillway::playground {

struct MachinePlace {
  std::string home;          // the instance's own directory
  std::string metadata_url;  // where it learns that it will be taken away
  std::string worker_path;   // spillway-worker
};

// The request's own argv with {instance_id} {home} {metadata_url} {node_name} {server} {token_file} {zone} {region} {market} filled in, or the
// sibling worker with its usual flags. INVALID_ARGUMENT for an unknown {name}.
absl::StatusOr<std::vector<std::string>> WorkerArgv(const Instance& instance, const MachinePlace& place);

// A fresh machine knows little: a few variables of the playground's own environment (paths and locale, never secrets), the request's env,
// and SPILLWAY_PLAYGROUND_INSTANCE=marker, by which whatever outlives its monitor is found.
std::vector<std::string> WorkerEnvironment(const Instance& instance, const std::map<std::string, std::string>& own_environment, const std::string& marker);

inline constexpr char kMarkerVariable[] = "SPILLWAY_PLAYGROUND_INSTANCE";

}  // namespace spillway::playground
