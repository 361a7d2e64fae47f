// The decision, as a table of contents. Reads the state and proposes; Admit has the last word on every proposal.
#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "scheduler/core/plan/deadlines.h"
#include "scheduler/core/policy/silence.h"

namespace spillway::core {

Plan MakePlan(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms) {
  std::map<NodeId, std::vector<Promise>> kept;
  int64_t candidates_left = policy.candidates_max;
  while (true) {
    Plan plan = BeginPlan(state, soft, policy, now_ms);
    plan.candidates_left = candidates_left;
    plan.kept = std::move(kept);
    ExpireNodes(&plan);   // 1. what is lost, or fenced by ending it
    DrainNoticed(&plan);  // 2. what will be taken
    HoldGangs(&plan);
    KeepPromises(&plan);
    KeepDeadlines(&plan);  // 3. what has no more time for machines that can be taken away
    SettleJobs(&plan);     // 4. whose wait for other jobs is over
    PlaceTasks(&plan);     // 5. on reserved nodes, and 6. on burst nodes that bill already
    RequestNodes(&plan);   // 7. more nodes
    MakeRoom(&plan);       // 8. for higher priority, where there is none otherwise
    if (!plan.again || plan.candidates_left <= 0) return plan;
    kept = std::move(plan.kept);
    candidates_left = plan.candidates_left;
  }
}

std::vector<Command> Decide(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms) {
  Plan plan = MakePlan(state, soft, policy, now_ms);
  ReleaseIdle(&plan);  // 9. fewer nodes
  ForgetOld(&plan);    // 10. idempotency records past their time
  return std::move(plan.commands);
}

namespace {

// The earliest of the times that still lie ahead.
class Earliest {
 public:
  explicit Earliest(int64_t now_ms) : now_ms_(now_ms) {}
  void Consider(int64_t at_ms) {
    if (at_ms > now_ms_) at_ms_ = std::min(at_ms_, at_ms);
  }
  int64_t at_ms() const { return at_ms_; }

 private:
  int64_t now_ms_;
  int64_t at_ms_ = std::numeric_limits<int64_t>::max();
};

void ConsiderSpeaker(const State& state, const Soft& soft, const Policy& policy, const Node& node, bool held, Earliest* earliest) {
  earliest->Consider(HeardMs(node, soft) + policy.silence_ms + 1);  // from here on it counts as silent, and gets no work
  earliest->Consider(HeardMs(node, soft) + HoldMs(policy) + 1);     // from here on its silence does not speak for a partition any more
  if (CanTestify(state, node)) {
    if (node.state != NodeState::kReleasing) earliest->Consider(ActOnSilenceMs(node, soft, policy, policy.silence_ms, held));
    return;
  }
  earliest->Consider(LeaseEndMs(node, soft, policy) + policy.lease_grace_ms + 1);
  const auto attempts = state.index.on_node.find(node.id);
  if (attempts == state.index.on_node.end()) return;
  for (const AttemptId& id : attempts->second) {
    const Job& job = *FindJob(state, id.job);
    if (job.max_silence_ms > 0) earliest->Consider(ActOnSilenceMs(node, soft, policy, job.max_silence_ms, held));
  }
}

}  // namespace

int64_t NextDeadlineMs(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms) {
  Earliest earliest(now_ms);
  const bool held = HoldsForPartition(state, soft, policy, now_ms);
  for (const auto& [id, node] : state.nodes) {
    if (ShouldSpeak(node)) ConsiderSpeaker(state, soft, policy, node, held, &earliest);
    if (node.state == NodeState::kRequested || node.state == NodeState::kBooting) earliest.Consider(BootDeadlineMs(state, node));
    if (node.state == NodeState::kReady && node.owned && node.idle_since_ms != 0) earliest.Consider(KeepIdleUntilMs(state, node));
    if (node.state == NodeState::kDraining && node.owned && node.notice_deadline_ms != 0) {
      earliest.Consider(node.notice_deadline_ms + policy.lease_grace_ms);
    }
  }
  if (!state.index.queue.empty()) {
    const auto back_off = state.index.back_offs.upper_bound({now_ms, {std::numeric_limits<int64_t>::max(), 0}});
    if (back_off != state.index.back_offs.end()) earliest.Consider(back_off->first);
    for (const auto& [key, offer] : state.offers) {
      if (!offer.withdrawn) earliest.Consider(offer.backoff_until_ms);
    }
  }
  earliest.Consider(state.meta.adopt_until_ms);
  earliest.Consider(NextDeadlineStepMs(state, now_ms));
  earliest.Consider(NextToMakeRoomMs(state, policy, now_ms));
  earliest.Consider(NextGangStepMs(state, policy, now_ms));
  if (!state.index.requests_by_age.empty()) earliest.Consider(state.index.requests_by_age.begin()->first + limits::kRequestIdTtlMs + 1);
  return earliest.at_ms();
}

}  // namespace spillway::core
