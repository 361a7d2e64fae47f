// What one Decide costs on a large cluster: made-up nodes that run something, a queue of many shapes, and then a whole cycle, or what follows one event.
// Owns the clusters it makes (the same for the same numbers); asserts nothing but that a cycle decided what this situation calls for.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "scheduler/core/core.h"

namespace spillway::core {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kNowMs = 1'800'000'000'000;
constexpr int64_t kShapes = 200;
const char* const kModels[] = {"H100", "A100", "L40S", "V100"};

class Cluster {
 public:
  State state;
  Soft soft;
  Policy policy;

  void Do(const Command& command) {
    absl::StatusOr<Admission> admission = Admit(state, command, kNowMs, policy);
    CHECK(admission.ok()) << admission.status().ToString();
    for (const Event& event : admission->events) Reduce(&state, event, kNowMs, &changes_);
    changes_.Clear();
  }

  void Turn() {
    for (const Command& command : Decide(state, soft, policy, kNowMs)) Do(command);
  }

 private:
  Changes changes_;
};

// Machines of four models in four zones, half of them reserved.
void AddNodes(Cluster* cluster, int64_t count) {
  Reservation reservation;
  reservation.name = "half";
  for (int64_t i = 0; i < count; i += 2) reservation.nodes.insert(absl::StrCat("n", i));
  cluster->Do(Configure{"bench", {}, {reservation}});
  for (int64_t i = 0; i < count; ++i) {
    NodeHello hello;
    hello.name = absl::StrCat("n", i);
    hello.provider = "static";
    hello.boot_id = "boot";
    hello.zone = absl::StrCat("zone-", i / 2 % 4);
    hello.capacity = {96'000, 1024 * kGiB, 4096 * kGiB, kModels[i / 8 % 4], 8, 80 * kGiB, false};
    cluster->Do(hello);
    cluster->soft.leases[cluster->state.meta.next_node - 1] = {1, kNowMs, kNowMs + cluster->policy.lease_ms, 0};
  }
}

// Shape k of 200: no two alike.
Shape ShapeNumber(int64_t k) {
  Shape shape;
  shape.gpu_models = {kModels[k % 4]};
  shape.gpu_count = int64_t{1} << (k / 4 % 4);
  shape.cpu_milli = 1'000 + 10 * k;
  shape.memory_bytes = (4 + k % 8) * kGiB;
  return shape;
}

void AddJobs(Cluster* cluster, int64_t count, int64_t tasks_each = 1) {
  std::mt19937_64 random(7);
  for (int64_t done = 0; done < count;) {
    Submit submit;
    for (; done < count && submit.jobs.size() < 1'000; ++done) {
      NewJob job;
      job.uid = absl::StrCat("uid-", done);
      job.name = "bench";
      job.spec_digest = std::string(32, 'd');
      job.shape = ShapeNumber(static_cast<int64_t>(random() % kShapes));
      job.task_count = tasks_each;
      submit.jobs.push_back(std::move(job));
    }
    cluster->Do(submit);
  }
}

// One 8-GPU attempt a node, and then the queue.
std::unique_ptr<Cluster> Full(int64_t nodes, int64_t jobs, int64_t tasks_each = 1) {
  auto cluster = std::make_unique<Cluster>();
  AddNodes(cluster.get(), nodes);
  for (const char* model : kModels) {
    NewJob job;
    job.uid = absl::StrCat("fills-", model);
    job.name = "fills";
    job.spec_digest = std::string(32, 'f');
    job.shape.gpu_models = {model};
    job.shape.gpu_count = 8;
    job.shape.cpu_milli = 90'000;
    job.task_count = nodes;
    cluster->Do(Submit{"", "", {job}});
  }
  while (static_cast<int64_t>(cluster->state.index.on_node.size()) < nodes) {
    const size_t before = cluster->state.index.on_node.size();
    cluster->Turn();
    CHECK(cluster->state.index.on_node.size() > before) << "the cluster does not fill";
  }
  for (JobId job = 1; job <= 4; ++job) cluster->Do(Pause{job});  // those that are left of them wait for nobody here
  AddJobs(cluster.get(), jobs, tasks_each);
  return cluster;
}

std::vector<AttemptId> Living(const State& state) {
  std::vector<AttemptId> living;
  for (const auto& [node, attempts] : state.index.on_node) living.insert(living.end(), attempts.begin(), attempts.end());
  return living;
}

// The attempt began and has completed, as its machine reports it: what it held is free.
void End(Cluster* cluster, const AttemptId& attempt) {
  const Node& node = *FindNode(cluster->state, FindTask(cluster->state, attempt.task())->attempt->members.front().node);
  NodeReports reports;
  reports.node = node.id;
  reports.boot_id = node.boot_id;
  for (const Report::Kind kind : {Report::Kind::kAccepted, Report::Kind::kStarted, Report::Kind::kEnded}) {
    Report report;
    report.seq = node.report_ack + 1 + static_cast<int64_t>(reports.reports.size());
    report.attempt = attempt;
    report.kind = kind;
    if (kind == Report::Kind::kEnded) report.cause = EndCause::kCompleted, report.initiator = Initiator::kJob;
    reports.reports.push_back(std::move(report));
  }
  cluster->Do(reports);
}

// Every `every`-th machine becomes free.
std::unique_ptr<Cluster> WithRoom(int64_t nodes, int64_t jobs, size_t every, int64_t tasks_each = 1) {
  auto cluster = Full(nodes, jobs, tasks_each);
  const std::vector<AttemptId> living = Living(cluster->state);
  for (size_t i = 0; i < living.size(); i += every) End(cluster.get(), living[i]);
  return cluster;
}

// Processor time of this thread, which other programs do not lengthen.
double NowOfThreadMs() {
  timespec now{};
  CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Each call by itself: what the slowest of them takes is what somebody waits for.
template <typename Call>
void EachCall(benchmark::State& run, Call call) {
  std::vector<double> times;
  for (auto _ : run) {
    const double began = NowOfThreadMs();
    call();
    times.push_back(NowOfThreadMs() - began);
  }
  std::sort(times.begin(), times.end());
  run.counters["p50_ms"] = times[(times.size() - 1) / 2];
  run.counters["p99_ms"] = times[(times.size() - 1) * 99 / 100];
}

void Cycle(benchmark::State& run, const Cluster& cluster, size_t placed_at_least) {
  size_t placed = 0;
  EachCall(run, [&] {
    const std::vector<Command> commands = Decide(cluster.state, cluster.soft, cluster.policy, kNowMs);
    placed =
        static_cast<size_t>(std::count_if(commands.begin(), commands.end(), [](const Command& command) { return std::holds_alternative<Place>(command); }));
    CHECK(placed >= placed_at_least) << placed;
  });
  run.counters["placed"] = static_cast<double>(placed);
}

// range(0): nodes, range(1): queued jobs. Nothing can start.
void FullCluster(benchmark::State& run) { Cycle(run, *Full(run.range(0), run.range(1)), 0); }

// Every tenth machine is free.
void TenthFree(benchmark::State& run) { Cycle(run, *WithRoom(run.range(0), run.range(1), 10), static_cast<size_t>(run.range(0)) / 20); }

// One machine is free.
void OneFree(benchmark::State& run) { Cycle(run, *WithRoom(run.range(0), run.range(1), static_cast<size_t>(run.range(0))), 1); }

// The same where what waits is one array of so many tasks.
void OneFreeForArray(benchmark::State& run) { Cycle(run, *WithRoom(run.range(0), 1, static_cast<size_t>(run.range(0)), run.range(1)), 0); }

// When to decide again.
void NextTime(benchmark::State& run) {
  const auto cluster = Full(run.range(0), run.range(1));
  EachCall(run, [&] { benchmark::DoNotOptimize(NextDeadlineMs(cluster->state, cluster->soft, cluster->policy, kNowMs)); });
}

// The least that a cycle over everything could cost: it reads each node and each queued task once.
void Look(benchmark::State& run) {
  const auto cluster = Full(run.range(0), run.range(1));
  EachCall(run, [&] {
    int64_t seen = 0;
    for (const auto& [id, node] : cluster->state.nodes) seen += node.idle_since_ms;
    for (const State::Indexes::QueueKey& waits : cluster->state.index.queue) seen += waits.queued_ms;
    benchmark::DoNotOptimize(seen);
  });
}

const std::vector<std::pair<const char*, void (*)(benchmark::State&)>> kSituations = {
    {"FullCluster", FullCluster}, {"TenthFree", TenthFree}, {"OneFree", OneFree}, {"OneFreeForArray", OneFreeForArray}, {"NextTime", NextTime}, {"Look", Look}};

}  // namespace
}  // namespace spillway::core

// NODES QUEUED CALLS, and Google Benchmark's own options.
int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<int64_t> numbers(3);
  if (argc != 4 || !absl::SimpleAtoi(argv[1], &numbers[0]) || !absl::SimpleAtoi(argv[2], &numbers[1]) || !absl::SimpleAtoi(argv[3], &numbers[2]) ||
      *std::min_element(numbers.begin(), numbers.end()) < 1) {
    std::cerr << "usage: bench-decide NODES QUEUED CALLS [--benchmark_filter=SITUATION ...]\n";
    return 2;
  }
  for (const auto& [name, situation] : spillway::core::kSituations)
    benchmark::RegisterBenchmark(name, situation)->Unit(benchmark::kMillisecond)->Args({numbers[0], numbers[1]})->Iterations(numbers[2]);
  benchmark::RunSpecifiedBenchmarks();
}
