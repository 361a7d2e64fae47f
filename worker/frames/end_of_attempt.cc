#include "worker/frames/end_of_attempt.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace spillway::frames {
namespace {

std::string HowItExited(const ExitFacts& facts) {
  if (facts.exited) {
    return absl::StrCat("exit code ", facts.exit_code, facts.forks_refused > 0 && facts.exit_code != 0 ? "; it ran into its limit of processes" : "");
  }
  if (facts.signal > 0) {
    const char* name = sigabbrev_np(static_cast<int>(facts.signal));
    return absl::StrCat("killed by ", name == nullptr ? absl::StrCat("signal ", facts.signal) : absl::StrCat("SIG", name));
  }
  return "end unknown";
}

std::string WithStep(const ExitFacts& facts, std::string text) {
  if (facts.checkpoints > 0) return absl::StrCat(text, ", saved at step ", facts.last_checkpoint_step);
  return text;
}

// The stop's own words first, then what the job made of it.
std::string Stopped(const ExitFacts& facts) {
  return WithStep(facts, absl::StrCat(facts.stop_detail.empty() ? "" : absl::StrCat(facts.stop_detail, ": "), HowItExited(facts),
                                      facts.killed ? " when its grace was over" : ""));
}

}  // namespace

bool ProvedComplete(const ExitFacts& facts) {
  return facts.said_completed || (facts.has_progress && facts.last_total > 0 && facts.last_step == facts.last_total);
}

End EndOf(const ExitFacts& facts) {
  const bool exit_zero = facts.exited && facts.exit_code == 0;
  if (facts.launch_errno != 0 || !facts.launch_error.empty()) {
    return {EndCause::kLaunchFailed, facts.launch_error_is_jobs ? Initiator::kJob : Initiator::kNode, facts.launch_error};
  }
  if (facts.supervisor_lost) return {EndCause::kNodeLost, Initiator::kNode, "supervisor restarted"};
  if (facts.lease_lapsed) return {EndCause::kFenced, Initiator::kNode, WithStep(facts, absl::StrCat("lease lapsed: ", HowItExited(facts)))};
  const bool stopped = facts.stop_cause != EndCause::kUnspecified && facts.stop_delivered;
  if (stopped && facts.stop_withdrawn) {
    if (exit_zero && !ProvedComplete(facts)) {
      return {EndCause::kPreempted, Initiator::kNode, WithStep(facts, "left on a checkpoint request that was then withdrawn")};
    }
  } else if (stopped) {
    if (exit_zero && ProvedComplete(facts)) return {EndCause::kCompleted, Initiator::kJob, "completed while it was being stopped"};
    return {facts.stop_cause, facts.stop_initiator, Stopped(facts)};
  }
  if (facts.out_of_memory && !exit_zero) {
    return {EndCause::kOutOfMemory, Initiator::kJob, WithStep(facts, absl::StrCat("out of memory: ", HowItExited(facts)))};
  }
  if (exit_zero) return {EndCause::kCompleted, Initiator::kJob, ""};
  const bool again = facts.exited && facts.exit_code == kExitRunMeAgain;
  if (again && facts.checkpoints > 0) return {EndCause::kCheckpointed, Initiator::kJob, WithStep(facts, "exit code 85")};
  // A job that failed while there was no room left failed for that, whatever code it chose.
  if (!facts.disk_full.empty()) {
    return {EndCause::kDiskFull, facts.disk_full_is_jobs ? Initiator::kJob : Initiator::kNode,
            WithStep(facts, absl::StrCat(facts.disk_full, ": ", HowItExited(facts)))};
  }
  if (again) return {EndCause::kUserError, Initiator::kJob, "exit code 85 without a new checkpoint"};
  return {EndCause::kUserError, Initiator::kJob, HowItExited(facts)};
}

}  // namespace spillway::frames
