// Watches no promise: marks the rare lines of the product that a run went through, as far as the durable record tells them. Tests ask that a set of seeds
// reaches each (storm_test.cc), so that a simulation that stopped getting somewhere is noticed.
#include "scheduler/core/core.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

bool Says(const std::string& text, absl::string_view part) { return text.find(part.data(), 0, part.size()) != std::string::npos; }

class ProbeWatch final : public Watch {
 public:
  using Watch::Watch;

  void TurnMade(const core::State& state, const core::Soft& soft, const core::Policy&, int64_t) override {
    if (soft.leases_restarted_ms != restarted_ms_ && restarted_ms_ != 0) world()->Reach("all leases were restarted");
    restarted_ms_ = soft.leases_restarted_ms;
    for (const auto& [key, offer] : state.offers) {
      if (offer.refusals > 3) world()->Reach("an offer backed off again and again");
    }
  }

  void TurnDurable(const store::Batch& batch) override {
    for (const core::Event& event : batch.events) {
      std::visit([this](const auto& one) { Mark(one); }, event);
    }
  }

 private:
  template <typename Event>
  void Mark(const Event&) {}
  void Mark(const core::RequestsForgotten&) { world()->Reach("old request ids were forgotten"); }
  void Mark(const core::AttemptStopRequested& event) {
    if (event.stop.cause == EndCause::kPreempted && event.stop.initiator == Initiator::kProvider) world()->Reach("an attempt was stopped for a notice");
    if (event.stop.cause != EndCause::kMoved) return;
    world()->Reach(event.stop.initiator == Initiator::kUser ? "an attempt was stopped for a drain" : "an attempt was moved for its deadline");
  }
  void Mark(const core::AttemptEnded& event) {
    world()->Reach(absl::StrCat("an attempt ended with ", std::string(Name(event.cause))));
    if (event.next == TaskState::kFailed) world()->Reach(absl::StrCat("a task failed of ", std::string(Name(event.cause))));
    if (event.not_before_ms > 0 && event.node_faults > 3) world()->Reach("a task backed off for the fourth time");
    if (event.attempt.number > 10) world()->Reach("a task needed more than ten attempts");
    if (Says(event.detail, "the node forgot it")) world()->Reach("a node forgot an attempt");
    if (Says(event.detail, "max_silence")) world()->Reach("an attempt was given up for its owner's impatience");
    if (Says(event.detail, "exit 85 three times")) world()->Reach("exit 85 three times in vain");
    if (!event.seal && event.next == TaskState::kQueued) world()->Reach("an attempt that never began needed no seal");
  }
  void Mark(const core::AttemptSealed& event) {
    if (event.damaged > 0) world()->Reach(event.newest ? "a seal fell back behind a damaged checkpoint" : "a seal found only damaged checkpoints");
  }
  void Mark(const core::NodeCreateRefused&) { world()->Reach("a node was refused"); }
  void Mark(const core::NodeReleaseRequested& event) {
    for (const char* reason : {"idle", "boot timeout", "drained", "silent", "drained before it is taken", "the time it was to be taken at has passed"}) {
      if (event.reason == reason) world()->Reach(absl::StrCat("a node was released: ", reason));
    }
  }
  void Mark(const core::NodeGone& event) {
    if (Says(event.reason, "does not list it any more")) world()->Reach("a node ended because no listing shows it");
    if (event.billed_micros < 0) world()->Reach("a node ended without a final bill");
  }
  void Mark(const core::NodeCordoned& event) { world()->Reach(event.on ? "a node was cordoned" : "a node was uncordoned"); }
  void Mark(const core::NodeNoticed& event) {
    if (event.deadline_ms > 0 && event.source == "cloud") world()->Reach("a notice came by the listing first");
  }

  int64_t restarted_ms_ = 0;
};

}  // namespace

std::unique_ptr<Watch> MakeProbeWatch(World** world) { return std::make_unique<ProbeWatch>(world); }

}  // namespace spillway::sim
