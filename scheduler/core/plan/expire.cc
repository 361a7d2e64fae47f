// Nodes that went silent, never booted, or will be taken. A silent machine is fenced by ending it where its provider can prove the end; the others wait for
// their lease. Too many silent at once: we are the partition, and nothing of this happens for one lease.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/units.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/plan/plan.h"
#include "scheduler/core/policy/restored.h"
#include "scheduler/core/policy/silence.h"

namespace spillway::core {
namespace {

void Release(Plan* plan, const Node& node, std::string reason) {
  if (Adopting(plan->state, plan->now_ms)) return;
  plan->commands.push_back(ReleaseNode{node.id, std::move(reason)});
  plan->leaving.insert(node.id);
}

// Jobs may accept less than the lease: the attempt counts as lost although it may still run somewhere.
void FenceImpatient(Plan* plan, const Node& node, bool held) {
  const auto attempts = plan->state.index.on_node.find(node.id);
  if (attempts == plan->state.index.on_node.end()) return;
  for (const AttemptId& id : attempts->second) {
    const Job& job = *FindJob(plan->state, id.job);
    if (job.max_silence_ms <= 0 || plan->now_ms < ActOnSilenceMs(node, plan->soft, plan->policy, job.max_silence_ms, held)) continue;
    plan->fenced.insert(id);
    plan->commands.push_back(
        FenceAttempt{id, node.id, absl::StrCat("nothing heard from ", node.name, " for ", FormatDurationMs(job.max_silence_ms), " (max_silence)")});
  }
}

void ExpireSpeaker(Plan* plan, const Node& node, bool held) {
  const int64_t now_ms = plan->now_ms;
  if (CanTestify(plan->state, node)) {
    if (node.state == NodeState::kReleasing) return;  // its end is on the way
    if (now_ms >= ActOnSilenceMs(node, plan->soft, plan->policy, plan->policy.silence_ms, held)) Release(plan, node, kReasonSilent);
    return;
  }
  if (now_ms > LeaseEndMs(node, plan->soft, plan->policy) + plan->policy.lease_grace_ms) {
    plan->commands.push_back(DeclareLost{node.id, "its lease has lapsed and nobody can testify for it"});
    plan->leaving.insert(node.id);
    return;
  }
  FenceImpatient(plan, node, held);
}

}  // namespace

int64_t BootDeadlineMs(const State& state, const Node& node) {
  const auto provider = state.meta.providers.find(node.provider);
  const int64_t timeout_ms =
      provider == state.meta.providers.end() || provider->second.boot_timeout_ms <= 0 ? limits::kBootTimeoutMs : provider->second.boot_timeout_ms;
  return std::max(node.requested_ms, node.created_ms) + timeout_ms;
}

void ExpireNodes(Plan* plan) {
  const bool held = HoldsForPartition(plan->state, plan->soft, plan->policy, plan->now_ms);
  for (const auto& [id, node] : plan->state.nodes) {
    if (ShouldSpeak(node)) {
      ExpireSpeaker(plan, node, held);
    } else if (node.state == NodeState::kRequested || node.state == NodeState::kBooting) {
      if (plan->now_ms >= BootDeadlineMs(plan->state, node)) Release(plan, node, kReasonBootTimeout);
    }
  }
}

void DrainNoticed(Plan* plan) {
  for (const auto& [id, node] : plan->state.nodes) {
    if (node.state != NodeState::kDraining || plan->leaving.contains(id)) continue;
    const auto attempts = plan->state.index.on_node.find(id);
    if (attempts == plan->state.index.on_node.end()) {
      if (node.owned) Release(plan, node, node.notice_deadline_ms != 0 ? "drained before it is taken" : "drained");
      continue;
    }
    if (node.notice_deadline_ms == 0) continue;
    if (node.owned && plan->now_ms >= node.notice_deadline_ms + plan->policy.lease_grace_ms) {
      Release(plan, node, "the time it was to be taken at has passed");
      continue;
    }
    // All the time there is, less what the message takes to arrive. The worker acts on its own notice too.
    const int64_t left_ms = std::max<int64_t>(0, node.notice_deadline_ms - plan->now_ms);
    for (const AttemptId& attempt : attempts->second) {
      const Attempt& living = *FindAttempt(plan->state, attempt);
      if (living.stop || plan->fenced.contains(attempt)) continue;
      StopRequest stop;
      stop.cause = EndCause::kPreempted;
      stop.initiator = Initiator::kProvider;
      stop.grace_ms = std::max(left_ms - 1'000, left_ms / 2);
      stop.requested_ms = plan->now_ms;
      stop.reason = absl::StrCat(node.name, " will be taken");
      plan->commands.push_back(StopAttempt{attempt, std::move(stop)});
    }
  }
}

}  // namespace spillway::core
