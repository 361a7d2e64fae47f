// Promises 8 and 10: the state keeps its invariants after every turn, every waiting task can say why, and the events alone give the state,
// byte for byte, at every snapshot and at every restart. And of 3: who is cut off from many at once gives up none of them for a lease.
#include <algorithm>

#include "scheduler/store/store.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

class StateWatch final : public Watch {
 public:
  using Watch::Watch;

  void TurnMade(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms) override {
    if (const std::string broken = core::BrokenInvariant(state); !broken.empty()) return Broken("invariant: ", broken);
    if (now_ms < last_now_ms_) Broken("time went back from ", last_now_ms_, " to ", now_ms);
    last_now_ms_ = now_ms;
    CheckGuard(state, soft, policy, now_ms);
    if (++turns_ % 64 != 0) return;
    for (const auto& [id, live] : state.jobs) {
      for (const auto& [index, task] : live.tasks) {
        if (core::Explain(state, soft, policy, task.id, now_ms).empty()) return Broken("task ", task.id.ToString(), " cannot say why it waits or runs");
      }
    }
  }

  void TurnDurable(const store::Batch& batch) override {
    if (batch.seq != seq_ + 1) return Broken("turn ", batch.seq, " became durable after turn ", seq_);
    seq_ = batch.seq;
    core::Changes changes;
    for (const core::Event& event : batch.events) core::Reduce(&replayed_, event, batch.now_ms, &changes);
    if (batch.snapshot && store::EncodeState(replayed_) != *batch.snapshot) Broken("the snapshot of turn ", seq_, " is not what its events give");
  }

  void Restarted(const core::State& state) override {
    last_now_ms_ = state.meta.now_ms;  // what was not durable never was, and neither was its time
    if (store::EncodeState(replayed_) != store::EncodeState(state)) Broken("after turn ", seq_, " the rows are not what the events give");
  }

 private:
  void CheckGuard(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms) {
    const int64_t hold_ms = policy.lease_ms + policy.lease_grace_ms;
    int64_t speakers = 0, silent = 0;
    const core::Node* released = nullptr;
    for (const auto& [id, node] : state.nodes) {
      const auto lease = soft.leases.find(id);
      if (node.boot_id.empty() || lease == soft.leases.end()) continue;
      const int64_t silence_ms = now_ms - std::max(lease->second.heard_ms, soft.leases_restarted_ms);
      const bool just_released = node.state == NodeState::kReleasing && node.releasing_ms == now_ms && node.reason == "silent";
      if (node.state != NodeState::kReady && node.state != NodeState::kDraining && !just_released) continue;
      ++speakers;
      if (silence_ms > policy.silence_ms && silence_ms <= hold_ms) {
        ++silent;
        if (just_released) released = &node;
      }
    }
    if (silent <= std::max<int64_t>(3, speakers / 5)) return;
    world()->Reach("the scheduler took itself for the partition");
    if (released != nullptr) Broken(released->name, " was released for its silence though ", silent, " of ", speakers, " are silent: we were the partition");
  }

  core::State replayed_;
  int64_t seq_ = 0, last_now_ms_ = 0, turns_ = 0;
};

}  // namespace

std::unique_ptr<Watch> MakeStateWatch(World** world) { return std::make_unique<StateWatch>(world); }

}  // namespace spillway::sim
