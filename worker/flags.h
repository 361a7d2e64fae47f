// The command line of spillway-worker. Owns its form and what is detected when a flag is absent; starts nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/attempt_words.h"
#include "worker/frames/frames.h"

namespace spillway::worker {

struct Flags {
  std::string home, server, token_file, node_name, address, provider, instance_id, zone, region, resources, notice_source, metadata_url, supervisor,
      containment, disk_quota;
  int64_t pids_max = frames::kAttemptPidsMax;
  Market market = Market::kReserved;
  int64_t max_lifetime_ms = 0;
  int64_t node_lease_ms = 0;
  int64_t notice_every_ms = 0, notice_margin_ms = 0;
  bool stop_jobs_on_exit = false;
  bool help = false, version = false;
};

// `arguments` without the program's name; `environment` for SPILLWAY_HOME and the defaults that follow from it; `host_name` names the node by default.
// INVALID_ARGUMENT names the flag and the nearest valid one.
absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments, const std::string& spillway_home, const std::string& host_name);

extern const char kUsage[];

}  // namespace spillway::worker
