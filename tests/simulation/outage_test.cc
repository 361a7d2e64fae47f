// Promise 9: a scheduler that is away for less than the lease disturbs no running job, however often it dies and wherever in a commit.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

// Only the scheduler fails: everything else works.
class OnlyOutages final : public Observer {
 public:
  void TurnDurable(const store::Batch& batch) override {
    for (const core::Event& event : batch.events) {
      if (const auto* asked = std::get_if<core::AttemptStopRequested>(&event)) {
        const absl::string_view reason = asked->stop.reason;
        if (absl::StartsWith(reason, "makes room for ") || absl::StartsWith(reason, "its deadline of ")) wanted.insert({asked->attempt, asked->stop.cause});
      }
      const auto* ended = std::get_if<core::AttemptEnded>(&event);
      if (ended == nullptr) continue;
      ++ends;
      // A job ends by itself, by its user's wish, for one of higher priority, or for its deadline.
      if (ended->initiator == Initiator::kJob || ended->initiator == Initiator::kUser) continue;
      if (ended->initiator == Initiator::kScheduler && wanted.count({ended->attempt, ended->cause}) > 0) continue;
      disturbed = absl::StrCat(ended->attempt.ToString(), " ended with ", std::string(Name(ended->cause)), ": ", ended->detail);
    }
  }
  int64_t ends = 0;
  std::string disturbed;
  std::set<std::pair<AttemptId, EndCause>> wanted;  // by the scheduler, for a reason of its own
};

TEST(Outage, ShorterThanTheLeaseDisturbsNobody) {
  int64_t ends = 0, deaths = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    FaultPlan plan;
    plan.day_min = 180;
    plan.storms = {{0, 180}};
    plan.rates.scheduler_dies = 8;
    plan.rates.outage_ms_max = (plan.policy.lease_ms - 120'000) / 2;  // two with a moment between them, too short for a worker to come back, are one
    plan.static_nodes = 3;
    plan.jobs = 6;
    plan.spot = true;
    plan.spot_mean_ms = 3'600'000;
    SimOptions options;
    options.seed = seed;
    options.plan = plan;
    OnlyOutages watch;
    const SimResult result = Simulation(std::move(options), &watch).Run();
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(watch.disturbed, "");
    ends += watch.ends;
    for (const auto& [situation, times] : result.reached) deaths += situation.find("the scheduler died") == 0 ? times : 0;
  }
  EXPECT_GT(ends, 200);
  EXPECT_GT(deaths, 100);
}

}  // namespace
}  // namespace spillway::sim
