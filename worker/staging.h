// From an offer and its spec to the START that a supervisor takes: command, environment, folders, limits.
//
// PlanStart is pure: everything it needs comes in. ApplyPlan makes the folders and the script file; Unstage removes them again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/frames/frames.h"
#include "worker/machine.h"
#include "worker/session_frames.h"

namespace spillway::worker {

// What staging knows of its node.
struct StagingContext {
  std::string attempt_folder;  // HOME/attempts/5.17@3
  std::string secrets_folder;  // HOME/secrets/5.17@3
  std::string store_root;      // of "file:/path": /path
  std::string cluster_uuid;
  std::string node_name;
  std::vector<int> device_indices;  // Machine::device_indices
  int master_port = 0;
  int64_t now_utc_ms = 0;
  int64_t pids_max = frames::kAttemptPidsMax;   // of this node: no attempt gets more processes and threads
  std::map<std::string, std::string> base_env;  // PATH, HOME, USER, LANG
};

struct StartPlan {
  frames::Start start;
  std::string script;  // to be written to script_path; empty when the job has a command
  std::string script_path;
  std::string secrets_folder;
  std::map<std::string, std::string> secrets;  // each to be a file there
  std::vector<std::string> folders;            // to be made, absolute; the first is the attempt's own
  int64_t disk_bytes = 0;                      // what the attempt's own folder may hold (resources.disk); 0: no bound
};

// What a plan cannot be made for is the job's fault (INVALID_ARGUMENT; UNAUTHENTICATED: a secret that it names is gone), or the node's or scheduler's (any
// other code).
absl::StatusOr<StartPlan> PlanStart(const Offer& offer, const std::string& key, const std::string& spec_bytes, const StagingContext& context);
// `mount_disk`: a bound on the attempt's folder is a file system of its own (disk_quota.h).
absl::Status ApplyPlan(const StartPlan& plan, bool mount_disk);
// The attempt's folders go; an empty checkpoint folder too. What is absent is no error.
absl::Status Unstage(const std::string& attempt_folder, const std::string& secrets_folder, const std::string& checkpoint_folder);

// "file:/path" -> "/path". INVALID_ARGUMENT for any other kind of store.
absl::StatusOr<std::string> StoreRoot(absl::string_view store_url);
// `relative` under `root`. INVALID_ARGUMENT when it is absolute, empty, or has empty, "." or ".." parts.
absl::StatusOr<std::string> InStore(const std::string& root, const std::string& relative);

}  // namespace spillway::worker
