#include "worker/staging.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/ownership.h"
#include "spec/signals.h"
#include "spillway/v1/job_spec.pb.h"
#include "worker/disk_quota.h"
#include "worker/session_logic.h"

namespace spillway::worker {
namespace {

// Processes and threads of one attempt: this many, and this many more for each cpu it asked for (begun ones count).
constexpr int64_t kPidsBase = 1'024, kPidsPerCpu = 1'024;

int64_t PidsOf(const v1::ResourceSpec& resources, int64_t pids_max) {
  const int64_t cpus = resources.cpu_milli() > 0 ? resources.cpu_milli() / 1000 + (resources.cpu_milli() % 1000 != 0) : 1;
  return std::min(pids_max, cpus >= frames::kAttemptPidsMax / kPidsPerCpu ? frames::kAttemptPidsMax : kPidsBase + cpus * kPidsPerCpu);
}

absl::StatusOr<std::string> Devices(const Offer& offer, const StagingContext& context) {
  std::vector<int> indices;
  for (const int device : offer.devices) {
    if (device < 0 || static_cast<size_t>(device) >= context.device_indices.size()) {
      return absl::FailedPreconditionError(absl::StrCat("device ", device, " was offered, but this node has ", context.device_indices.size()));
    }
    indices.push_back(context.device_indices[device]);
  }
  return absl::StrJoin(indices, ",");
}

// The node's words first, then the user's, then ours: SPILLWAY_ names (but for where the checkpoint key is) and the devices are not the user's to choose.
absl::StatusOr<std::vector<std::string>> Environment(const Offer& offer, const v1::JobSpec& spec, const std::string& checkpoint_dir,
                                                     const std::string& resume_from, const StagingContext& context) {
  std::map<std::string, std::string> env = context.base_env;
  for (const auto& [name, value] : spec.env()) env[name] = value;
  env["SPILLWAY_JOB_ID"] = absl::StrCat(offer.attempt.job);
  env["SPILLWAY_TASK_INDEX"] = absl::StrCat(offer.attempt.index);
  env["SPILLWAY_TASK_COUNT"] = absl::StrCat(spec.has_array() ? spec.array().count() : 1);
  env["SPILLWAY_ATTEMPT"] = absl::StrCat(offer.attempt.number);
  env["SPILLWAY_JOB_UID"] = offer.job_uid;
  env["SPILLWAY_CLUSTER"] = context.cluster_uuid;
  env["SPILLWAY_NODE_RANK"] = absl::StrCat(offer.rank);
  env["SPILLWAY_NUM_NODES"] = absl::StrCat(offer.members);
  env["SPILLWAY_NODE_LIST"] = IsGang(offer) ? offer.node_list : context.node_name;
  env["SPILLWAY_CHECKPOINT_DIR"] = checkpoint_dir;
  env["SPILLWAY_RESUME_FROM"] = resume_from;
  if (!spec.secrets().empty()) env["SPILLWAY_SECRETS_DIR"] = context.secrets_folder;
  const int64_t max_duration_ms = spec.limits().max_duration_ms();
  env["SPILLWAY_DEADLINE"] = max_duration_ms > 0 ? FormatUtcMs(context.now_utc_ms + max_duration_ms) : "";
  const std::string master = IsGang(offer) ? offer.rendezvous : absl::StrCat("127.0.0.1:", context.master_port);
  const size_t colon = std::min(master.rfind(':'), master.size());
  env["MASTER_ADDR"] = master.substr(0, colon);
  env["MASTER_PORT"] = master.substr(std::min(colon + 1, master.size()));
  if (!context.device_indices.empty()) {
    ASSIGN_OR_RETURN(env["CUDA_VISIBLE_DEVICES"], Devices(offer, context));  // "" hides all from a job that asked for none
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  }
  std::vector<std::string> pairs;
  for (const auto& [name, value] : env) pairs.push_back(absl::StrCat(name, "=", value));
  return pairs;
}

}  // namespace

absl::StatusOr<std::string> StoreRoot(absl::string_view store_url) {
  if (!absl::StartsWith(store_url, "file:/")) return absl::InvalidArgumentError(absl::StrCat("store '", Printable(store_url), "' is not file:/PATH"));
  std::string root(store_url.substr(5));
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  return root;
}

absl::StatusOr<std::string> InStore(const std::string& root, const std::string& relative) {
  if (relative.empty()) return absl::InvalidArgumentError("an empty path in the store");
  for (absl::string_view part : absl::StrSplit(relative, '/')) {
    if (part.empty() || part == "." || part == "..")
      return absl::InvalidArgumentError(absl::StrCat("'", Printable(relative), "' is not a relative path in the store"));
  }
  return JoinPath(root, relative);
}

absl::StatusOr<StartPlan> PlanStart(const Offer& offer, const std::string& key, const std::string& spec_bytes, const StagingContext& context) {
  v1::JobSpec spec;
  if (!spec.ParseFromString(spec_bytes)) return absl::InternalError("the spec that was sent is not a job spec");
  ASSIGN_OR_RETURN(const std::string checkpoint_dir, InStore(JoinPath(context.store_root, "checkpoints"), offer.checkpoint_dir));
  std::string resume_from;
  if (!offer.resume_from.empty()) {
    ASSIGN_OR_RETURN(resume_from, InStore(JoinPath(context.store_root, "checkpoints"), offer.resume_from));
  }
  for (const std::string& name : spec.secrets()) {
    if (!offer.secrets.contains(name)) {
      return absl::UnauthenticatedError(
          absl::StrCat("secrets: ", Printable(name, 80), " is not there; `spillway secrets set ", Printable(name, 80), "` makes it"));
    }
  }
  StartPlan plan;
  plan.secrets_folder = context.secrets_folder;
  plan.secrets = offer.secrets;
  frames::Start& start = plan.start;
  start.attempt = {key, offer.attempt};
  ASSIGN_OR_RETURN(start.log_path, InStore(JoinPath(context.store_root, "logs"), offer.log_path));
  if (!spec.script().empty()) {
    plan.script = spec.script();
    plan.script_path = JoinPath(context.attempt_folder, "script.sh");
    start.argv = {"/bin/sh", "-eu", plan.script_path};
  } else {
    start.argv.assign(spec.command().begin(), spec.command().end());
  }
  ASSIGN_OR_RETURN(start.env, Environment(offer, spec, checkpoint_dir, resume_from, context));
  start.cwd = spec.workdir().empty() ? context.attempt_folder : spec.workdir();
  start.stop_signal = SIGTERM;
  if (!spec.checkpoint().signal().empty()) {
    const std::optional<int> number = spec::SignalNumber(spec.checkpoint().signal());
    if (!number) return absl::InvalidArgumentError(absl::StrCat("checkpoint.signal: no signal is called '", Printable(spec.checkpoint().signal()), "'"));
    start.stop_signal = *number;
  }
  start.grace_ms = spec.checkpoint().grace_ms() > 0 ? spec.checkpoint().grace_ms() : limits::kStopGraceMs;
  start.max_duration_ms = spec.limits().max_duration_ms();
  start.memory_bytes = spec.resources().memory_bytes();
  start.cpu_milli = spec.resources().cpu_milli();
  start.pids_max = PidsOf(spec.resources(), context.pids_max);
  start.tag = EncodeTag(offer);
  plan.disk_bytes = spec.resources().disk_bytes();
  plan.folders = {context.attempt_folder, checkpoint_dir};
  RETURN_IF_ERROR(frames::Validate(start));
  return plan;
}

absl::Status ApplyPlan(const StartPlan& plan, bool mount_disk) {
  for (const std::string& folder : plan.folders) RETURN_IF_ERROR(MakeDirectories(folder, 0755));
  if (plan.disk_bytes > 0) {
    const absl::Status given = GiveDisk(plan.folders[0], plan.disk_bytes, mount_disk);
    if (absl::IsResourceExhausted(given)) return given;
    if (!given.ok()) LOG(WARNING) << plan.folders[0] << " gets no file system of its own and is looked at instead: " << given.message();
  }
  if (!plan.secrets.empty()) RETURN_IF_ERROR(MakeDirectories(plan.secrets_folder, 0700));
  for (const auto& [name, value] : plan.secrets) RETURN_IF_ERROR(WriteFileAtomically(JoinPath(plan.secrets_folder, name), value, 0400));
  if (!plan.script.empty()) RETURN_IF_ERROR(WriteFileAtomically(plan.script_path, plan.script, 0700));
  return absl::OkStatus();
}

absl::Status Unstage(const std::string& attempt_folder, const std::string& secrets_folder, const std::string& checkpoint_folder) {
  absl::Status first = RemoveTree(secrets_folder);  // what cannot go keeps nothing else here
  // Only one without any checkpoint goes; where even that fails the next attempt has a directory of its own.
  if (!checkpoint_folder.empty()) checkpoint::RemoveUnlessUsed(checkpoint::RealIo(), checkpoint_folder).IgnoreError();
  first.Update(TakeDiskBack(attempt_folder));
  first.Update(RemoveTree(attempt_folder));
  return first;
}

}  // namespace spillway::worker
