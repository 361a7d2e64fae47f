// The arithmetic of "can it still be on time?" and the published policies' rules, by hand-made numbers.
#include "scheduler/core/policy/deadline/deadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/core/policy/deadline/make.h"
#include "scheduler/core/policy/deadline/uniform_progress.h"

namespace spillway::core::deadline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMinute = 60'000;
constexpr int64_t kTick = 10 * kMinute;
// Ten ticks of work in fourteen, and a start costs one tick and a fifth.
const Job kJob{.work_ms = 10 * kTick, .deadline_ms = 14 * kTick, .overhead_ms = 12 * kMinute, .tick_ms = kTick};

Standing At(int64_t ticks, int64_t done_minutes, Mode mode, int64_t overhead_left_minutes = 0) {
  return {.elapsed_ms = ticks * kTick,
          .done_ms = done_minutes * kMinute,
          .overhead_left_ms = overhead_left_minutes * kMinute,
          .now = {mode, mode == Mode::kIdle ? -1 : 0}};
}

TEST(Deadline, CountsWholeTicks) {
  EXPECT_EQ(RemainMs(kJob, 0), 14 * kTick);
  EXPECT_EQ(RemainMs(kJob, 5 * kMinute), 13 * kTick);
  EXPECT_EQ(RemainMs(kJob, 14 * kTick), 0);
  EXPECT_EQ(RemainMs(kJob, 20 * kTick), 0);
  EXPECT_EQ(NeedMs(kJob, kTick, 0), kTick);
  EXPECT_EQ(NeedMs(kJob, kTick, 1), 3 * kTick) << "22 minutes";
  EXPECT_EQ(NeedMs(kJob, 6 * kMinute, 2), 3 * kTick) << "30 minutes";
}

TEST(Deadline, ProgressLosesTheOverheadFirst) {
  EXPECT_EQ(ProgressMs(kJob, 10 * kTick, 12 * kMinute), 0);
  EXPECT_EQ(OverheadAfterMs(kJob, 12 * kMinute), 2 * kMinute);
  EXPECT_EQ(ProgressMs(kJob, 10 * kTick, 2 * kMinute), 8 * kMinute);
  EXPECT_EQ(OverheadAfterMs(kJob, 2 * kMinute), 0);
  EXPECT_EQ(ProgressMs(kJob, 3 * kMinute, 0), 3 * kMinute) << "no more than is left";
}

TEST(Deadline, AgainstSteadyProgressIsExact) {
  EXPECT_EQ(AgainstSteadyProgress(kJob, At(7, 50, Mode::kIdle), 0), 0) << "half the time, half the work";
  EXPECT_EQ(AgainstSteadyProgress(kJob, At(7, 49, Mode::kIdle), 0), -1);
  EXPECT_EQ(AgainstSteadyProgress(kJob, At(7, 51, Mode::kIdle), 0), 1);
  EXPECT_EQ(AgainstSteadyProgress(kJob, At(7, 51, Mode::kIdle), kTick), -1);
  const Job century{.work_ms = 3'000'000'000'000, .deadline_ms = 3'155'760'000'000, .overhead_ms = 0, .tick_ms = 1};
  EXPECT_EQ(AgainstSteadyProgress(century, {.elapsed_ms = 3'155'759'999'999, .done_ms = 3'000'000'000'000}, 0), 1) << "no overflow";
}

TEST(Deadline, SafeForAsksWhetherOnDemandStillMakesItAfterTheWorst) {
  // 14 ticks left, 10 ticks + 12 minutes needed: 2 ticks may be idled, for then 11.2 ticks need 12.
  EXPECT_TRUE(SafeFor(kJob, At(0, 0, Mode::kIdle), {Mode::kIdle, -1}));
  EXPECT_TRUE(SafeFor(kJob, At(1, 0, Mode::kIdle), {Mode::kIdle, -1}));
  EXPECT_FALSE(SafeFor(kJob, At(2, 0, Mode::kIdle), {Mode::kIdle, -1}));
  // A spot start that is taken after one tick has done nothing.
  EXPECT_TRUE(SafeFor(kJob, At(1, 0, Mode::kIdle), {Mode::kSpot, 0}));
  EXPECT_FALSE(SafeFor(kJob, At(2, 0, Mode::kIdle), {Mode::kSpot, 0}));
  EXPECT_TRUE(SafeFor(kJob, At(2, 0, Mode::kIdle), {Mode::kOnDemand, 0}));
  EXPECT_FALSE(SafeFor(kJob, At(3, 0, Mode::kIdle), {Mode::kOnDemand, 0})) << "too late for anything";
  // A warm spot machine earns its tick: staying keeps what slack there is, down to none but the start.
  EXPECT_TRUE(SafeFor(kJob, At(6, 40, Mode::kSpot), {Mode::kSpot, 0}));
  EXPECT_FALSE(SafeFor(kJob, At(7, 40, Mode::kSpot), {Mode::kSpot, 0}));
  EXPECT_TRUE(SafeFor(kJob, At(7, 40, Mode::kOnDemand), {Mode::kOnDemand, 0}));
  // The tick that finishes the work is safe wherever it runs.
  EXPECT_TRUE(SafeFor(kJob, At(13, 95, Mode::kSpot), {Mode::kSpot, 0}));
}

TEST(Deadline, FeasibleNeedsTheFirstStart) {
  Job job = kJob;
  job.deadline_ms = 12 * kTick;
  EXPECT_TRUE(Feasible(job));
  job.deadline_ms = 12 * kTick - 1;
  EXPECT_FALSE(Feasible(job));
}

TEST(Deadline, CheapestOnDemandCountsTheCheckpointsWay) {
  const Market market{.zones = {{1, 3'000'000}, {1, 2'900'000}}, .egress_micros = {{0, 1'000'000}, {1'000'000, 0}}};
  EXPECT_EQ(CheapestOnDemand(market, -1, 3'600'000), 1);
  EXPECT_EQ(CheapestOnDemand(market, 0, 3'600'000), 0) << "saves 0.10, costs 1.00";
  EXPECT_EQ(CheapestOnDemand(market, 0, 20 * 3'600'000), 1);
  EXPECT_THAT(CheapestFirst(market, Mode::kOnDemand), ElementsAre(1, 0));
  EXPECT_THAT(CheapestFirst(market, Mode::kSpot), ElementsAre(0, 1)) << "equal prices keep their order";
}

struct Case {
  const char* what;
  Standing standing;
  bool has_spot;
  Mode greedy, up, up_without;
};

TEST(UniformProgress, WantsWhatThePaperWants) {
  const Job job{.work_ms = 100 * kTick, .deadline_ms = 200 * kTick, .overhead_ms = 12 * kMinute, .tick_ms = kTick};
  using enum Mode;
  const Case cases[] = {
      {"on it, spot", At(100, 500, kIdle), true, kSpot, kSpot, kSpot},
      {"on it, no spot", At(100, 500, kIdle), false, kIdle, kIdle, kIdle},
      {"behind, no spot", At(100, 499, kIdle), false, kIdle, kOnDemand, kOnDemand},
      {"behind, spot", At(100, 499, kIdle), true, kSpot, kSpot, kSpot},
      {"on demand, a little ahead, spot", At(100, 512, kOnDemand), true, kSpot, kOnDemand, kSpot},
      {"on demand, two overheads ahead, spot", At(100, 513, kOnDemand), true, kSpot, kSpot, kSpot},
      {"on demand, two overheads ahead, no spot", At(100, 513, kOnDemand), false, kIdle, kOnDemand, kOnDemand},
      {"behind from the start, idle", At(10, 0, kIdle), false, kIdle, kOnDemand, kOnDemand},
      {"nearly none, idle", At(97, 0, kIdle), true, kOnDemand, kOnDemand, kOnDemand},
      {"nearly none, on demand", At(97, 0, kOnDemand), true, kOnDemand, kOnDemand, kOnDemand},
      {"nearly none, on warm spot", At(97, 0, kSpot), true, kSpot, kSpot, kSpot},
      {"none, on warm spot", At(98, 0, kSpot), true, kSpot, kSpot, kSpot},
      {"none, on cold spot", At(98, 0, kSpot, 2), true, kOnDemand, kOnDemand, kOnDemand},
      {"done", At(150, 1000, kOnDemand), true, kIdle, kIdle, kIdle},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(ModeWanted(job, one.standing, one.has_spot, Rule::kGreedy), one.greedy) << one.what;
    EXPECT_EQ(ModeWanted(job, one.standing, one.has_spot, Rule::kUniformProgress), one.up) << one.what;
    EXPECT_EQ(ModeWanted(job, one.standing, one.has_spot, Rule::kUniformProgressWithoutHysteresis), one.up_without) << one.what;
  }
}

TEST(UniformProgress, TriesZonesByPriceAndFallsBack) {
  const Market market{.zones = {{2'000'000, 9'000'000}, {1'000'000, 8'000'000}}, .egress_micros = {{0, 0}, {0, 0}}};
  Job job = kJob;
  job.deadline_ms = 20 * kTick;
  UniformProgress up(job, Rule::kUniformProgress);
  EXPECT_THAT(up.Options(At(1, 0, Mode::kIdle), market), ElementsAre(Choice{Mode::kSpot, 1}, Choice{Mode::kSpot, 0}, Choice{Mode::kOnDemand, 1}));
  EXPECT_THAT(up.Options(At(1, 0, Mode::kSpot), market), ElementsAre(Choice{Mode::kSpot, 0})) << "a running machine is kept";
}

TEST(MakePolicy, KnowsItsNamesAndSuggestsThem) {
  const Market market{.zones = {{1'000'000, 3'000'000}}, .egress_micros = {{0}}};
  std::shared_ptr<const Outlook> outlook;
  for (const std::string& name : PolicyNames()) EXPECT_TRUE(MakePolicy(name, kJob, market, 50, &outlook).ok()) << name;
  const auto wrong = MakePolicy("skynomat", kJob, market, 50, &outlook);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("did you mean 'skynomad'"));
}

}  // namespace
}  // namespace spillway::core::deadline
