// The world of `spillway-sim cluster` by hand: what a boot, a restore, a lost machine and a move cost; that what is wrong is refused by file, line and field;
// that the same seed gives the same bytes; and that under our policy nothing starves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/money.h"
#include "base/rng.h"
#include "scheduler/core/policy/cluster/make.h"
#include "sim/cluster/cluster_report.h"
#include "tests/support/temporary_folder.h"

namespace spillway::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMinuteMs = 60'000;
constexpr int64_t kHourMs = 60 * kMinuteMs;

SimJob JobAt(int64_t arrival_minutes, int64_t minutes, int64_t gpus, int64_t deadline_minutes = 0) {
  SimJob job;
  job.name = "job";
  job.tenant = "anna";
  job.arrival_ms = arrival_minutes * kMinuteMs;
  job.duration_ms = job.predicted_ms = minutes * kMinuteMs;
  job.deadline_ms = deadline_minutes * kMinuteMs;
  job.gpus = gpus;
  return job;
}

// Boot 10 minutes, restore 2, a checkpoint every 30.
ClusterSpec SpecOf(int64_t nodes, int64_t gpus, std::vector<Pool> pools) {
  ClusterSpec spec;
  spec.nodes = nodes;
  spec.gpus_per_node = gpus;
  spec.pools = std::move(pools);
  spec.boot_ms = 10 * kMinuteMs;
  spec.restore_ms = 2 * kMinuteMs;
  spec.checkpoint_every_ms = 30 * kMinuteMs;
  return spec;
}

Pool OnDemand(int64_t price = 3'000'000) {
  return {.zone = "od", .market = spillway::Market::kOnDemand, .gpus = {1, 2, 4, 8}, .price_micros_per_gpu_hour = {price}};
}
// `machines` by ticks of ten minutes.
Pool Spot(std::string zone, std::vector<int64_t> machines, int64_t price = 1'000'000) {
  return {.zone = std::move(zone),
          .market = spillway::Market::kSpot,
          .gpus = {1, 2, 4, 8},
          .tick_ms = 10 * kMinuteMs,
          .machines = std::move(machines),
          .price_micros_per_gpu_hour = {price}};
}

ClusterRun Played(const std::vector<SimJob>& jobs, const ClusterSpec& spec, absl::string_view policy, int64_t patience_permille = 0) {
  const auto made = core::cluster::MakePolicy(policy, {patience_permille});
  EXPECT_TRUE(made.ok());
  absl::StatusOr<ClusterRun> run = PlayCluster({jobs, 1, 0}, spec, **made);
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? *std::move(run) : ClusterRun();
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ClusterRun, BurstBootsAndIsBilledFromAskingToEnd) {
  const ClusterRun run = Played({JobAt(0, 60, 2), JobAt(5, 60, 2)}, SpecOf(1, 2, {OnDemand()}), "easy");
  EXPECT_EQ(run.jobs[0].end_ms, kHourMs);
  EXPECT_EQ(run.jobs[0].reserved_ms, 2 * kHourMs);
  EXPECT_EQ(run.jobs[1].first_work_ms, 15 * kMinuteMs);
  EXPECT_EQ(run.jobs[1].end_ms, 75 * kMinuteMs);
  EXPECT_EQ(run.jobs[1].on_demand_micros, 2 * 3'000'000 * 70 / 60);
}

TEST(ClusterRun, ALostSpotMachineLosesWhatCameAfterTheLastCheckpoint) {
  // Works from minute 10; taken at 60 with 50 minutes done, 30 of them saved; on demand from there: boot, restore, and the other 60.
  std::vector<int64_t> machines(100, 0);
  std::fill(machines.begin(), machines.begin() + 6, 1);
  const ClusterRun run = Played({JobAt(0, 90, 1)}, SpecOf(0, 0, {Spot("a", machines), OnDemand()}), "easy");
  EXPECT_EQ(run.jobs[0].preemptions, 1);
  EXPECT_EQ(run.jobs[0].lost_ms, 20 * kMinuteMs);
  EXPECT_EQ(run.jobs[0].spot_micros, 1'000'000);
  EXPECT_EQ(run.jobs[0].end_ms, (60 + 10 + 2 + 60) * kMinuteMs);
  EXPECT_EQ(run.jobs[0].on_demand_micros, 3'000'000 * 72 / 60);

  Pool with_notice = Spot("a", machines);
  with_notice.notice_ms = 2 * kMinuteMs;
  const ClusterRun saved = Played({JobAt(0, 90, 1)}, SpecOf(0, 0, {with_notice, OnDemand()}), "easy");
  EXPECT_EQ(saved.jobs[0].lost_ms, 0);
  EXPECT_EQ(saved.jobs[0].end_ms, (60 + 10 + 2 + 40) * kMinuteMs);
}

TEST(ClusterRun, AShrinkingPoolTakesTheYoungestAndAGangGoesWhole) {
  // Four machines, then two: the gang of two that came last loses both of its own.
  std::vector<int64_t> machines(100, 2);
  std::fill(machines.begin(), machines.begin() + 3, 3);
  Pool pool = Spot("a", machines);
  pool.gpus = {4};
  ClusterSpec spec = SpecOf(1, 4, {pool, OnDemand()});
  const ClusterRun run = Played({JobAt(0, 300, 4), JobAt(0, 60, 4), JobAt(1, 60, 8)}, spec, "easy");
  EXPECT_EQ(run.jobs[0].preemptions, 0);
  EXPECT_EQ(run.jobs[1].preemptions, 0);
  EXPECT_EQ(run.jobs[2].preemptions, 1);
  EXPECT_GT(run.jobs[2].on_demand_micros, 0) << "one machine is left, and it needs two";
}

TEST(ClusterRun, PricesFollowTheTrace) {
  Pool pool = Spot("a", {1});
  pool.price_micros_per_gpu_hour = {1'000'000, 4'000'000};
  const ClusterRun run = Played({JobAt(0, 20, 1)}, SpecOf(0, 0, {pool}), "easy");
  // Boot in the first tick, work in the second and third: 1, 4 and 1 an hour for ten minutes each.
  EXPECT_NEAR(static_cast<double>(run.jobs[0].spot_micros), 1e6, 3);
}

TEST(ClusterRun, AMoveBesideLosesOnlyItsRestoreAndBillsBoth) {
  // Spot comes at minute 60 of a long job on demand; it boots beside until 70, and takes over.
  std::vector<int64_t> machines(200, 1);
  std::fill(machines.begin(), machines.begin() + 6, 0);
  const ClusterRun run = Played({JobAt(0, 600, 1)}, SpecOf(0, 0, {Spot("a", machines), OnDemand()}), "spillway", 50);
  EXPECT_EQ(run.jobs[0].moves, 1);
  EXPECT_EQ(run.jobs[0].on_demand_micros, 3'000'000 * 70 / 60);
  EXPECT_EQ(run.jobs[0].end_ms, (10 + 600 + 2) * kMinuteMs);
  EXPECT_EQ(run.jobs[0].spot_micros, PriceForMs(1'000'000, (612 - 60) * kMinuteMs));
}

TEST(ClusterRun, BurstWorkComesBackToReservedNodes) {
  const ClusterRun run = Played({JobAt(0, 60, 2), JobAt(0, 300, 2)}, SpecOf(1, 2, {OnDemand()}), "spillway");
  // On demand from 0, works from 10; back at 60 with 50 done; a restore.
  EXPECT_EQ(run.jobs[1].on_demand_micros, 2 * 3'000'000);
  EXPECT_EQ(run.jobs[1].end_ms, (60 + 2 + 250) * kMinuteMs);
}

TEST(ClusterRun, WhatCanNeverRunIsSaidBeforeAnythingDoes) {
  const auto policy = core::cluster::MakePolicy("easy");
  SimJob job = JobAt(0, 1, 3);
  absl::StatusOr<ClusterRun> run = PlayCluster({{job}, 1, 0}, SpecOf(1, 2, {}), **policy);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(Message(run.status()), HasSubstr("can never run: it needs 3 x 1 GPUs"));
  job = JobAt(0, 1, 1);
  job.interruptible = false;
  run = PlayCluster({{job}, 1, 0}, SpecOf(0, 0, {Spot("a", {1})}), **policy);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(Message(run.status()), HasSubstr("that are never taken away"));
}

// Asks for what it is told.
class Unruly : public core::cluster::Policy {
 public:
  explicit Unruly(core::cluster::Decision decision) : decision_(std::move(decision)) {}
  core::cluster::Decision Decide(const core::cluster::View&) const override { return decision_; }

 private:
  core::cluster::Decision decision_;
};

TEST(ClusterRun, APolicyCannotCheat) {
  const auto refused = [](core::cluster::Decision decision, bool interruptible = true) {
    SimJob job = JobAt(0, 10, 2);
    job.interruptible = interruptible;
    const absl::StatusOr<ClusterRun> run = PlayCluster({{job}, 1, 0}, SpecOf(2, 2, {Spot("a", {0, 1})}), Unruly(std::move(decision)));
    return Message(run.status());
  };
  const TaskId first{1, 0};
  EXPECT_THAT(refused({{}, {{first, {{1, 0b11, false}, {2, 0b11, false}}, {}, false}}}), HasSubstr("whole or not at all"));
  EXPECT_THAT(refused({{}, {{first, {{1, 0b101, false}}, {}, false}}}), HasSubstr("devices that are not free"));
  EXPECT_THAT(refused({{}, {{first, {{3, 0b11, false}}, {}, false}}}), HasSubstr("no such node"));
  EXPECT_THAT(refused({{}, {{first, {}, {"sim", "a-spot-2"}, false}}}), HasSubstr("has no machine left"));
  EXPECT_THAT(refused({{}, {{first, {}, {"sim", "a-spot-2"}, false}}}, false), HasSubstr("must not be interrupted"));
  EXPECT_THAT(refused({{first}, {}}), HasSubstr("stopped while it does not run"));
  EXPECT_THAT(refused({{}, {{first, {}, {"sim", "a-spot-2"}, true}}}), HasSubstr("not on burst machines"));
}

// Reserved nodes alone, always more work than they can do at once. Whatever came before it may run one after the other, and whatever holds its place may run to
// its end: then it is a job's turn. (Spillway prefers others for twelve hours.)
TEST(ClusterRun, NothingStarves) {
  for (const char* policy : {"fifo", "easy", "spillway"}) {
    for (uint64_t seed = 0; seed < 1'000; ++seed) {
      Rng rng(seed);
      const int64_t nodes = rng.Between(1, 3);
      std::vector<SimJob> jobs;
      int64_t at = 0;
      for (int i = 0; i < 25; ++i) {
        const int64_t minutes = rng.Between(1, 300);
        SimJob job = JobAt(at, minutes, rng.Chance(0.1) ? 4 * nodes : rng.Between(1, 3));
        job.tenant = rng.Chance(0.7) ? "anna" : "ben";
        if (rng.Chance(0.5)) job.deadline_ms = job.arrival_ms + job.duration_ms * 2;
        jobs.push_back(job);
        at += rng.Between(0, 60);
      }
      const ClusterRun run = Played(jobs, SpecOf(nodes, 4, {}), policy);
      int64_t before_ms = 0, longest_ms = 0;
      for (const SimJob& job : jobs) longest_ms = std::max(longest_ms, job.duration_ms);
      for (size_t i = 0; i < jobs.size(); ++i) {
        const int64_t restores_ms = 25 * 2 * kMinuteMs;
        ASSERT_LE(run.jobs[i].first_work_ms - jobs[i].arrival_ms, 12 * kHourMs + before_ms + longest_ms + restores_ms)
            << policy << ", seed " << seed << ", job " << i;
        before_ms += jobs[i].duration_ms;
      }
    }
  }
}

// A stream of small urgent jobs that fills the nodes for days, and one that needs them all.
TEST(ClusterRun, AGangGetsItsTurnInAStreamOfUrgentJobs) {
  std::vector<SimJob> jobs;
  for (int64_t minute = 0; minute < 36 * 60; minute += 10) {
    jobs.push_back(JobAt(minute, 50, 1, minute + 55));
    if (minute == 60) jobs.push_back(JobAt(minute, 60, 4));
  }
  const ClusterRun run = Played(jobs, SpecOf(1, 4, {}), "spillway");
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].gpus == 4) {
      EXPECT_GT(run.jobs[i].first_work_ms - jobs[i].arrival_ms, kHourMs) << "the stream is no stream";
      EXPECT_LE(run.jobs[i].first_work_ms - jobs[i].arrival_ms, 14 * kHourMs);
    }
  }
}

// --- Files ---

TEST(ClusterFiles, ReadsTracesOfEveryForm) {
  int64_t estimated = 0;
  TraceExtras extras;
  extras.throughputs = {{{"LM (batch size 5)", 1}, 10}, {{"LM (batch size 5)", 2}, 16}};
  extras.duration_ms = {{{"bert", 6}, 90'000}};
  const auto gavel = ParseJobTrace("LM (batch size 5)\tcmd\t-steps\t1\t160\t30.5\t2\nLM (batch size 5)\tcmd\t-steps\t1\t160\t60\t4\n", "t", extras, &estimated);
  ASSERT_TRUE(gavel.ok()) << gavel.status().message();
  EXPECT_EQ((*gavel)[0].arrival_ms, 30'500);
  EXPECT_EQ((*gavel)[0].duration_ms, 10'000);
  EXPECT_EQ((*gavel)[1].duration_ms, 5'000) << "four do twice what two do";
  EXPECT_EQ(estimated, 1);
  const auto physical = ParseJobTrace("LM (batch size 5)\tcmd\tdir\t-steps\t1\t160\t2\t1\t-1.0\t12\n", "t", extras, &estimated);
  ASSERT_TRUE(physical.ok()) << physical.status().message();
  EXPECT_EQ((*physical)[0].arrival_ms, 12'000);
  EXPECT_EQ((*physical)[0].gpus, 2);
  const auto pollux = ParseJobTrace("name,time,application,num_replicas,batch_size\nbert-0,5,bert,6,384\n", "t", extras, &estimated);
  ASSERT_TRUE(pollux.ok()) << pollux.status().message();
  EXPECT_EQ((*pollux)[0].duration_ms, 90'000);
  const auto tiresias = ParseJobTrace("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n7,8,30,133,vgg11,147,23\n", "t", {}, &estimated);
  ASSERT_TRUE(tiresias.ok()) << tiresias.status().message();
  EXPECT_EQ((*tiresias)[0].gpus, 8);
  EXPECT_EQ((*tiresias)[0].duration_ms, 147'000);
  const auto ours = ParseJobTrace("arrival_s,duration_s,gpus,tenant,deadline_s,interruptible\n1,2,3,anna,9,false\n1,2,3,ben,,true\n", "t", {}, &estimated);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  EXPECT_EQ((*ours)[0].deadline_ms, 9'000);
  EXPECT_FALSE((*ours)[0].interruptible);
  EXPECT_EQ((*ours)[1].tenant, "ben");
  EXPECT_EQ((*ours)[1].deadline_ms, 0);
}

TEST(ClusterFiles, RefusesTracesByLineAndField) {
  int64_t estimated = 0;
  TraceExtras extras;
  extras.throughputs = {{{"CycleGAN", 1}, 1}};
  const auto refused = [&](absl::string_view text) { return Message(ParseJobTrace(text, "jobs.csv", extras, &estimated).status()); };
  EXPECT_THAT(refused("arrival_s,duration_s,gpus\n1,2,0\n"), HasSubstr("jobs.csv:2: gpus must be a whole number from 1"));
  EXPECT_THAT(refused("arrival_s,duration_s,gpus\n1,-2,1\n"), HasSubstr("jobs.csv:2: duration_s must be seconds"));
  EXPECT_THAT(refused("arrival_s,duration_s,gpus\n1,0,1\n"), HasSubstr("jobs.csv:2: the duration must be above 0"));
  EXPECT_THAT(refused("arrival_s,duration_s,gpus\n1,1\n"), HasSubstr("jobs.csv:2: has 2 fields; 3 were expected"));
  EXPECT_THAT(refused("arrival_s,duratoin_s,gpus\n"), HasSubstr("did you mean 'duration_s'?"));
  EXPECT_THAT(refused("arrival_s,gpus\n"), HasSubstr("column duration_s is missing"));
  EXPECT_THAT(refused("arrival_s,duration_s,gpus\n"), HasSubstr("there is no job in it"));
  EXPECT_THAT(refused("CycleGNA\tcmd\t-n\t1\t5\t0\t1\n"), HasSubstr("jobs.csv:1: there is no throughput of 'CycleGNA'; did you mean 'CycleGAN'?"));
  EXPECT_THAT(refused("name,time,application,num_replicas,batch_size\nb,5,bert,6,384\n"), HasSubstr("jobs.csv:2: the trace has no durations"));
  EXPECT_THAT(Message(ParseThroughputs(R"({"v100":{"LM":{"null":1}}})", "t.json", "v100").status()), HasSubstr("t.json: v100.LM is not"));
  EXPECT_THAT(Message(ParseThroughputs(R"({"v100":{}})", "t.json", "h100").status()), HasSubstr("has no device 'h100'; there are v100"));
}

TEST(ClusterFiles, RefusesClustersByLineAndKey) {
  const auto refused = [](const std::string& yaml) { return Message(ParseClusterSpec(yaml, "c.yaml", ".").status()); };
  EXPECT_THAT(refused("{}"), HasSubstr("nothing could run"));
  EXPECT_THAT(refused("reserved: {nodes: 1, gpu: 8}"), HasSubstr("c.yaml:1: unknown key `gpu` in reserved; did you mean `gpus`?"));
  EXPECT_THAT(refused("reserved: {gpus: 8}"), HasSubstr("one of `nodes` and `peak_percent`"));
  EXPECT_THAT(refused("spot:\n- {zone: a, gpus: [1, 1], price_per_gpu_hour: 1}"), HasSubstr("a size appears twice"));
  EXPECT_THAT(refused("spot:\n- {zone: a, gpus: [1]}"), HasSubstr("c.yaml:2: `price_per_gpu_hour` is missing"));
  EXPECT_THAT(refused("spot:\n- {zone: a, gpus: [1], price_per_gpu_hour: 1, trace_offset: 1h}"), HasSubstr("`trace_offset` needs"));
  EXPECT_THAT(refused("spot:\n- {zone: a, gpus: [1], price_per_gpu_hour: 1, trace: /nowhere.json, machines: 1}"),
              HasSubstr("c.yaml:2: cannot open /nowhere.json"));
  EXPECT_THAT(refused("on_demand: {gpus: [8], price_per_gpu_hour: 1}\nboot: 5"), HasSubstr("c.yaml:2: `boot`"));
}

TEST(ClusterFiles, RefusesJobsFilesByLineAndKey) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& yaml) {
    EXPECT_TRUE(WriteFileAtomically(folder.File("jobs.yaml"), yaml).ok());
    return Message(LoadWorkload(folder.File("jobs.yaml"), std::nullopt).status());
  };
  EXPECT_THAT(refused("tenants: 4"), HasSubstr("one of `trace` and `generate` is needed"));
  EXPECT_THAT(refused("generate: {jobs: 3, mean_gap: 1m, gpus: [0], shortest: 1m, longest: 2m}"), HasSubstr("jobs.yaml:1: `gpus` takes whole numbers"));
  EXPECT_THAT(refused("generate: {jobs: 3, mean_gap: 1m, gpus: [1], shortest: 3m, longest: 2m}"), HasSubstr("`longest` no shorter"));
  EXPECT_THAT(refused("trace: t.csv\ndeadlines: [0.5]"), HasSubstr("jobs.yaml:2: `deadlines` takes factors from 1"));
  EXPECT_THAT(refused("trace: t.csv\ndeadline: [2]"), HasSubstr("did you mean `deadlines`?"));
}

TEST(ClusterFiles, CountsAndPeakShare) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.File("counts.csv"), "scheduled_at,east,west\n1,3,0\n2,1,2\n").ok());
  const auto spec = ParseClusterSpec("reserved: {peak_percent: 50, gpus: 4}\nspot:\n- {zone: west, counts: counts.csv, gpus: [8], price_per_gpu_hour: 2}\n",
                                     "c.yaml", folder.path());
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_THAT(spec->pools[0].machines, ElementsAre(0, 2));
  EXPECT_EQ(spec->pools[0].MachinesAt(25 * kMinuteMs), 0) << "it begins again";
  EXPECT_EQ(spec->pools[0].NextChangeMs(0), 10 * kMinuteMs);
  // Ten at once, of which five: two nodes of four.
  EXPECT_EQ(Played({JobAt(0, 10, 4), JobAt(0, 20, 6), JobAt(20, 10, 8)}, *spec, "easy").nodes, 2);
}

TEST(ClusterReportTest, FiguresByHand) {
  Workload workload{{JobAt(0, 60, 2), JobAt(0, 60, 2, 65)}, 1, 0};
  workload.jobs[1].tenant = "ben";
  ClusterSpec spec = SpecOf(1, 2, {OnDemand()});
  spec.reserved_micros_per_gpu_hour = 500'000;
  const auto policy = core::cluster::MakePolicy("easy");
  absl::StatusOr<ClusterRun> run = PlayCluster(workload, spec, **policy);
  ASSERT_TRUE(run.ok());
  const ClusterReport report = Summarize(workload, *run, "easy");
  EXPECT_DOUBLE_EQ(report.completion_hours.mean, 65.0 / 60);
  EXPECT_DOUBLE_EQ(report.completion_hours.p99, 70.0 / 60);
  EXPECT_DOUBLE_EQ(report.wait_hours.mean, 5.0 / 60);
  EXPECT_DOUBLE_EQ(report.makespan_hours, 70.0 / 60);
  EXPECT_DOUBLE_EQ(report.reserved_utilization, 60.0 / 70);
  EXPECT_DOUBLE_EQ(report.on_demand_cost, 7);
  EXPECT_NEAR(report.reserved_cost, 70.0 / 60, 1e-6);
  EXPECT_EQ(report.deadlines, 1);
  EXPECT_EQ(report.missed, 1);
  const double other = 60.0 / 70;
  EXPECT_DOUBLE_EQ(report.fairness, (1 + other) * (1 + other) / (2 * (1 + other * other)));
}

TEST(ClusterReportTest, TheSameSeedGivesTheSameBytesAndAnotherOtherOnes) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.File("jobs.yaml"),
                                  "generate: {jobs: 60, mean_gap: 20m, gpus: [1, 2, 8], shortest: 5m, longest: 10h}\ntenants: 3\ndeadlines: [1.5, 3]\n"
                                  "interruptible_percent: 80\nprediction_error_percent: 30\n")
                  .ok());
  ASSERT_TRUE(WriteFileAtomically(folder.File("trace.json"), R"({"metadata":{"gap_seconds":600},"data":[0,0,0,0,1,1,0,0,0,0,0,1,0]})").ok());
  ASSERT_TRUE(WriteFileAtomically(folder.File("cluster.yaml"),
                                  "reserved: {nodes: 1, gpus: 8}\nspot: [{zone: a, trace: trace.json, machines: 3, gpus: [1, 2, 8], price_per_gpu_hour: 1}]\n"
                                  "on_demand: {gpus: [1, 2, 8], price_per_gpu_hour: 3}\nboot: 5m\nrestore: 2m\n")
                  .ok());
  for (const std::string& policy : core::cluster::PolicyNames()) {
    const auto json = [&](std::optional<uint64_t> seed) {
      const auto report = RunCluster({folder.File("jobs.yaml"), folder.File("cluster.yaml"), policy, 0, seed});
      EXPECT_TRUE(report.ok()) << report.status().message();
      return report.ok() ? ClusterJson(*report, true) : "";
    };
    EXPECT_EQ(json(std::nullopt), json(1)) << policy;
    EXPECT_NE(json(1), json(2)) << policy;
  }
}

// The recorded jobs beside the checkout: every policy runs them to their end, and ours bursts for less than EASY. The tables are `./dev bench placement`.
TEST(ClusterReportTest, RecordedJobsRunUnderEveryPolicy) {
  const char* named = std::getenv("SPILLWAY_DATA");
  const char* source = std::getenv("SPILLWAY_SOURCE");
  const std::string data = named != nullptr ? named : JoinPath(source != nullptr ? source : ".", "../shared/data");
  if (!PathExists(data)) GTEST_SKIP() << "there are no recorded jobs at " << data << ": nothing to run";
  const TemporaryFolder folder;
  ASSERT_TRUE(
      WriteFileAtomically(folder.File("jobs.yaml"), absl::StrCat("trace: ", data, "/gavel/physical/max_min_fairness.trace\ntenants: 4\ndeadlines: [1.5, 3]\n"))
          .ok());
  ASSERT_TRUE(WriteFileAtomically(folder.File("cluster.yaml"),
                                  absl::StrCat("reserved: {peak_percent: 50, gpus: 8}\nspot:\n- {zone: us-west-2a, trace: ", data,
                                               "/cant-be-late/us-west-2a_v100_1.json, machines: 64, gpus: [1, 2, 4, 8], price_per_gpu_hour: 0.9731}\n"
                                               "on_demand: {gpus: [1, 2, 4, 8], price_per_gpu_hour: 3.06}\nboot: 10m\nrestore: 2m\n"))
                  .ok());
  double easy = 0;
  for (const std::string& policy : core::cluster::PolicyNames()) {
    const auto report = RunCluster({folder.File("jobs.yaml"), folder.File("cluster.yaml"), policy, 0, std::nullopt});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->run.jobs.size(), 96u);
    EXPECT_EQ(report->run.nodes, 5);
    if (policy == "easy") easy = report->burst_cost();
    if (policy == "spillway") {
      EXPECT_LT(report->burst_cost(), easy);
    }
  }
}

}  // namespace
}  // namespace spillway::sim
