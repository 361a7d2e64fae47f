// A thousand days of storms and lulls under every watch, and the rare situations that must have been reached by them.
#include <gtest/gtest.h>

#include "tests/simulation/seeds.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

// Each half of the seeds must reach each of these: a simulation that no longer gets there tests nothing there.
const char* const kMustReach[] = {
    "a bill of the cloud was matched",
    "a checkpoint landed after its writer's death",
    "a gang came together",
    "a gang completed",
    "a job ended because of what it needs",
    "a job failed",
    "a job succeeded",
    "a job was cancelled",
    "a job was paused",
    "a job was released by what it waited for",
    "a lease's checkpoint request was withdrawn",
    "a link was cut both ways",
    "a link was cut one way",
    "a member ended and took the others along",
    "a seal found an unreported checkpoint",
    "a silent machine was fenced by its provider",
    "a static node was lost by its lease",
    "a submission was repeated",
    "a turn was durable and nobody was told",
    "a turn was lost with its process",
    "a worker died between two outputs",
    "a worker's frame came twice",
    "an array was at its limit",
    "an attempt resumed from a checkpoint",
    "an attempt was lost with its supervisor",
    "an attempt was moved for its deadline",
    "an instance never booted",
    "an instance was asked for twice",
    "an instance was taken with notice",
    "an instance was taken without notice",
    "an offer was lost",
    "an orphan was adopted",
    "attempts were stopped because the lease ran out",
    "fell back behind a damaged checkpoint",
    "old answers came through a link that was cut again",
    "old events were pruned",
    "reports were lost",
    "some tasks of a job were cancelled",
    "the engine stood still",
    "the scheduler died between commit and reply",
    "the scheduler died in the middle of a commit",
    "the scheduler was the partition",
};

void Storm(uint64_t first, int64_t count) {
  const SeedsResult all = RunSeeds(first, count, RunSetup(), 3, false);
  EXPECT_EQ(all.failed, 0) << all.report;
  if (all.failed > 0) return;
  for (const char* situation : kMustReach) EXPECT_TRUE(all.reached.count(situation)) << "no seed reached: " << situation;
}

TEST(Storm, Seeds1To500) { Storm(1, 500); }
TEST(Storm, Seeds501To1000) { Storm(501, 500); }

TEST(Simulation, SameSeedSameRun) {
  for (const uint64_t seed : {3, 4, 5}) {
    SaySeedOnAbort(seed, "");
    std::string traces[2];
    SimResult results[2];
    for (int i : {0, 1}) {
      SimOptions options;
      options.seed = seed;
      options.trace = &traces[i];
      results[i] = RunWatched(std::move(options));
    }
    EXPECT_EQ(results[0].failure, "");
    EXPECT_EQ(results[0].chain_hash, results[1].chain_hash);
    EXPECT_EQ(results[0].steps, results[1].steps);
    EXPECT_TRUE(traces[0] == traces[1]) << "the traces of seed " << seed << " differ";
    EXPECT_GT(results[0].turns, 100);
  }
}

}  // namespace
}  // namespace spillway::sim
