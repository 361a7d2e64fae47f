// The one translator between wire and core, with literal messages.
#include <google/protobuf/text_format.h>

#include <functional>

#include "base/limits.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "scheduler/rpc/translate_session.h"
#include "scheduler/rpc/translate_spec.h"
#include "scheduler/rpc/translate_view.h"

namespace spillway::rpc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Message>
Message Parse(const char* text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// --- specs ---

TEST(Spec, WhatIsUnsetMeansAnyOrHasItsDefault) {
  const core::NewJob job = NewJobOf(Parse<v1::JobSpec>("name: 'a' command: 'true'"), "uid-1", "user");
  core::Shape any;
  any.cpu_milli = 1000;
  any.nodes = 1;
  EXPECT_EQ(job.shape, any);
  EXPECT_TRUE(job.shape.interruptible);
  EXPECT_EQ(job.priority, 50);
  EXPECT_EQ(job.grace_ms, 30'000);
  EXPECT_EQ(job.max_silence_ms, 0);
  EXPECT_EQ(job.retry, core::RetryPolicy());
  EXPECT_EQ(job.uid, "uid-1");
  EXPECT_EQ(job.owner, "user");
}

TEST(Spec, EveryFieldOfAShapeComesFromItsPlace) {
  const v1::JobSpec spec = Parse<v1::JobSpec>(R"(
    name: 'a' command: 'true' priority: 0
    resources { gpu { model: 'H100' model: 'A100' memory { min_bytes: 40 max_bytes: 80 } count: 8 } cpu_milli: 1500 memory_bytes: 7 disk_bytes: 9 }
    placement { markets: RESERVED markets: SPOT regions: 'r' zones: 'z' providers: 'p' nodes: 'n' max_price_micros_per_hour: 3500000 interruptible: false
                max_silence_ms: 90000 }
    checkpoint { grace_ms: 90000 } retry { preempted: 3 node_fault: 0 user_error: -1 })");
  const core::NewJob job = NewJobOf(spec, "u", "o");
  const core::Shape& shape = job.shape;
  EXPECT_THAT(shape.gpu_models, ElementsAre("H100", "A100"));
  EXPECT_EQ(shape.gpu_count, 8);
  EXPECT_EQ(shape.gpu_memory_bytes_min, 40);
  EXPECT_EQ(shape.gpu_memory_bytes_max, 80);
  EXPECT_EQ(shape.cpu_milli, 1500);
  EXPECT_EQ(shape.memory_bytes, 7);
  EXPECT_EQ(shape.disk_bytes, 9);
  EXPECT_THAT(shape.markets, ElementsAre(Market::kReserved, Market::kSpot));
  EXPECT_FALSE(shape.interruptible);
  EXPECT_THAT(shape.regions, ElementsAre("r"));
  EXPECT_THAT(shape.zones, ElementsAre("z"));
  EXPECT_THAT(shape.providers, ElementsAre("p"));
  EXPECT_THAT(shape.node_names, ElementsAre("n"));
  EXPECT_EQ(shape.max_price_micros_per_hour, 3'500'000);
  EXPECT_EQ(job.priority, 0) << "0 is a priority, not 'unset'";
  EXPECT_EQ(job.grace_ms, 90'000);
  EXPECT_EQ(job.max_silence_ms, 90'000);
  EXPECT_EQ(job.retry, (core::RetryPolicy{3, 0, -1}));
}

TEST(Spec, AGpuWithoutACountIsOneGpu) {
  EXPECT_EQ(ShapeOfSpec(Parse<v1::JobSpec>("resources { gpu {} }")).gpu_count, 1);
  EXPECT_EQ(ShapeOfSpec(Parse<v1::JobSpec>("resources {}")).gpu_count, 0);
}

TEST(Spec, EqualSpecsHaveEqualBytesWhateverTheOrderOfTheirMaps) {
  v1::JobSpec a = Parse<v1::JobSpec>("name: 'a' command: 'true'"), b = a;
  for (int i = 0; i < 100; ++i) (*a.mutable_env())["K" + std::to_string(i)] = "v";
  for (int i = 99; i >= 0; --i) (*b.mutable_env())["K" + std::to_string(i)] = "v";
  EXPECT_EQ(SerializeSpec(a), SerializeSpec(b));
  const core::NewJob job_a = NewJobOf(a, "1", "o"), job_b = NewJobOf(b, "2", "o");
  EXPECT_EQ(job_a.spec_digest, job_b.spec_digest);
  const Sha256Digest digest = Sha256Of(job_a.spec_bytes);
  EXPECT_EQ(job_a.spec_digest, std::string(digest.begin(), digest.end()));
  v1::JobSpec parsed;
  ASSERT_TRUE(parsed.ParseFromString(job_a.spec_bytes));
  EXPECT_EQ(parsed.env().at("K7"), "v");
}

TEST(Spec, TheDigestOfARequestCoversEverySpecAndTheirOrder) {
  const core::NewJob a = NewJobOf(Parse<v1::JobSpec>("name: 'a'"), "1", "o"), b = NewJobOf(Parse<v1::JobSpec>("name: 'b'"), "2", "o");
  EXPECT_EQ(RequestDigest({a, b}), RequestDigest({a, b}));
  EXPECT_NE(RequestDigest({a, b}), RequestDigest({b, a}));
  EXPECT_NE(RequestDigest({a}), RequestDigest({a, a}));
}

// --- the session ---

constexpr char kHello[] = R"(
    protocol: 'spillway/1' node_name: 'n1' provider: 'static' instance_id: 'i-1' boot_id: 'b-1' zone: 'z' region: 'r' market: SPOT isolation: 'cgroup2; memory: cgroup'
    cluster_uuid: 'c'
    resources { cpu_milli: 4000 memory_bytes: 5 disk_bytes: 6 accelerators { model: 'A100' count: 2 memory_bytes: 7 simulated: true } }
    inventory { attempt { job_id: 5 task_index: 17 attempt: 3 } state: RUNNING })";

TEST(Hello, IsTakenWhole) {
  ASSERT_OK_AND_ASSIGN(const core::NodeHello hello, HelloOf(Parse<v1::Hello>(kHello)));
  EXPECT_EQ(hello.name, "n1");
  EXPECT_EQ(hello.provider, "static");
  EXPECT_EQ(hello.instance_id, "i-1");
  EXPECT_EQ(hello.boot_id, "b-1");
  EXPECT_EQ(hello.zone, "z");
  EXPECT_EQ(hello.region, "r");
  EXPECT_EQ(hello.market, Market::kSpot);
  EXPECT_EQ(hello.isolation, "cgroup2; memory: cgroup");
  EXPECT_EQ(hello.cluster_uuid, "c");
  EXPECT_EQ(hello.capacity, (core::Capacity{4000, 5, 6, "A100", 2, 7, true}));
  ASSERT_EQ(hello.inventory.size(), 1u);
  EXPECT_EQ(hello.inventory[0].attempt.ToString(), "5.17@3");
  EXPECT_EQ(hello.inventory[0].state, AttemptState::kRunning);
}

TEST(Hello, ThatBreaksABoundIsRefusedByField) {
  const auto refused = [](const std::function<void(v1::Hello*)>& change) {
    v1::Hello hello = Parse<v1::Hello>(kHello);
    change(&hello);
    return HelloOf(hello).status();
  };
  using H = v1::Hello*;
  EXPECT_THAT(refused([](H h) { h->set_protocol("spillway/9"); }),
              StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr("spillway/1"), HasSubstr("spillway/9"))));
  EXPECT_THAT(refused([](H h) { h->clear_node_name(); }), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node_name")));
  EXPECT_THAT(refused([](H h) { h->set_node_name(std::string(129, 'x')); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node_name is longer than 128")));
  EXPECT_THAT(refused([](H h) { h->set_zone("a\x1b[2Jb"); }), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("zone"), HasSubstr("\\x1b"))));
  EXPECT_THAT(refused([](H h) { h->clear_boot_id(); }), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("boot_id")));
  EXPECT_THAT(refused([](H h) { h->mutable_resources()->set_cpu_milli(-1); }), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(refused([](H h) { h->mutable_resources()->add_accelerators(); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one kind of accelerator")));
  EXPECT_THAT(refused([](H h) { h->mutable_resources()->mutable_accelerators(0)->set_count(65); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 to 64, not 65")));
  EXPECT_THAT(refused([](H h) {
                for (int i = 0; i < 100'001; ++i) h->add_inventory();
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limit is 100000")));
}

TEST(Reports, EachKindIsTakenWithItsFields) {
  ASSERT_OK_AND_ASSIGN(const std::vector<core::Report> reports, ReportsOf(Parse<v1::WorkerFrame>(R"(
    reports { seq: 1 attempt { job_id: 5 attempt: 2 } accepted {} }
    reports { seq: 2 attempt { job_id: 5 attempt: 2 } started {} }
    reports { seq: 3 attempt { job_id: 5 attempt: 2 } checkpoint { step: 40 path: 'c/5/0/a2/step-40' manifest_sha256: 'ab' bytes: 9 } }
    reports { seq: 4 attempt { job_id: 5 attempt: 2 } ended { cause: USER_ERROR initiator: BY_JOB detail: "exit 3\n" last_step: 41 } })")));
  ASSERT_EQ(reports.size(), 4u);
  using Kind = core::Report::Kind;
  EXPECT_EQ(reports[0].kind, Kind::kAccepted);
  EXPECT_EQ(reports[0].attempt.ToString(), "5.0@2");
  EXPECT_EQ(reports[1].kind, Kind::kStarted);
  EXPECT_EQ(reports[2].kind, Kind::kCheckpoint);
  EXPECT_EQ(reports[2].checkpoint.attempt, 2);
  EXPECT_EQ(reports[2].checkpoint.step, 40);
  EXPECT_EQ(reports[2].checkpoint.path, "c/5/0/a2/step-40");
  EXPECT_EQ(reports[2].checkpoint.manifest_sha256, "ab");
  EXPECT_EQ(reports[2].checkpoint.bytes, 9);
  EXPECT_EQ(reports[3].kind, Kind::kEnded);
  EXPECT_EQ(reports[3].cause, EndCause::kUserError);
  EXPECT_EQ(reports[3].initiator, Initiator::kJob);
  EXPECT_EQ(reports[3].detail, "exit 3\\x0a") << "control characters do not reach a terminal";
  EXPECT_EQ(reports[3].last_step, 41);
  EXPECT_EQ(reports[3].seq, 4);
}

TEST(Reports, ThatSayNothingOrTooMuchAreRefusedAndUnknownCausesAreUnspecified) {
  EXPECT_THAT(ReportsOf(Parse<v1::WorkerFrame>("reports { seq: 8 }")), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("report 8 says nothing")));
  v1::WorkerFrame frame = Parse<v1::WorkerFrame>("reports { seq: 1 checkpoint {} }");
  frame.mutable_reports(0)->mutable_checkpoint()->set_path(std::string(2'000, 'p'));
  EXPECT_THAT(ReportsOf(frame), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlong path")));
  for (int i = 0; i < 10'000; ++i) frame.add_reports();
  EXPECT_THAT(ReportsOf(frame), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("10001 reports")));
  v1::WorkerFrame progress;
  EXPECT_OK(CheckProgress(progress));
  for (int i = 0; i < 10'001; ++i) progress.add_progress();
  EXPECT_THAT(CheckProgress(progress), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("10001 progress reports")));
  v1::WorkerFrame later = Parse<v1::WorkerFrame>("reports { seq: 1 ended {} }");
  later.mutable_reports(0)->mutable_ended()->set_cause(static_cast<v1::EndCause>(99));
  ASSERT_OK_AND_ASSIGN(const std::vector<core::Report> reports, ReportsOf(later));
  EXPECT_EQ(reports[0].cause, EndCause::kUnspecified);
}

TEST(Progress, IsStampedByTheSchedulerAndBounded) {
  v1::ProgressReport report = Parse<v1::ProgressReport>("step: 120 total: 1000 metrics { key: 'loss' value: 1.5 }");
  core::Progress progress = ProgressOf(report, 77);
  EXPECT_EQ(progress.step, 120);
  EXPECT_EQ(progress.total, 1000);
  EXPECT_EQ(progress.at_ms, 77);
  EXPECT_EQ(progress.metrics.at("loss"), 1.5);
  for (int i = 0; i < 1'000; ++i) (*report.mutable_metrics())["m" + std::to_string(i)] = i;
  (*report.mutable_metrics())[std::string(500, 'x')] = 1;
  progress = ProgressOf(report, 77);
  EXPECT_EQ(progress.metrics.size(), limits::kMetricsPerProgressMax);
}

// --- what people see ---

TEST(View, ATaskShowsItsAttemptsOldestFirstAndTheLivingOneLast) {
  core::Task task;
  task.id = {5, 17};
  task.state = TaskState::kActive;
  task.attempts = 2;
  core::Attempt ended;
  ended.number = 1;
  ended.state = AttemptState::kEnded;
  ended.cause = EndCause::kPreempted;
  ended.initiator = Initiator::kProvider;
  ended.node_names = {"burst-1"};
  task.history = {ended};
  core::Attempt living;
  living.number = 2;
  living.state = AttemptState::kRunning;
  living.members = {{7, 3, false}};
  living.node_names = {"n1"};
  living.market = Market::kReserved;
  living.from_step = 40;
  task.attempt = living;
  task.checkpoint = core::CheckpointRef{1, 40, "p", "ab", 9, 11, true};
  const v1::Task view = TaskView(task);
  EXPECT_EQ(view.state(), v1::ACTIVE);
  ASSERT_EQ(view.attempts_size(), 2);
  EXPECT_EQ(view.attempts(0).key().attempt(), 1);
  EXPECT_EQ(view.attempts(0).end_cause(), v1::PREEMPTED);
  EXPECT_EQ(view.attempts(0).initiator(), v1::BY_PROVIDER);
  EXPECT_EQ(view.attempts(1).key().job_id(), 5);
  EXPECT_EQ(view.attempts(1).key().task_index(), 17);
  EXPECT_EQ(view.attempts(1).state(), v1::RUNNING);
  EXPECT_EQ(view.attempts(1).node_id(), 7);
  EXPECT_EQ(view.attempts(1).node_name(), "n1");
  EXPECT_EQ(view.attempts(1).from_step(), 40);
  EXPECT_EQ(view.checkpoint().attempt().attempt(), 1);
  EXPECT_TRUE(view.checkpoint().sealed());
}

TEST(View, AJobsStateIsAFoldOverItsTasks) {
  const auto state = [](core::TaskCounts counts) {
    core::Job job;
    job.counts = counts;
    return JobView(job).state();
  };
  EXPECT_EQ(state({.queued = 1, .active = 1, .failed = 1}), "ACTIVE");
  EXPECT_EQ(state({.queued = 1, .held = 1, .failed = 1}), "QUEUED");
  EXPECT_EQ(state({.held = 1, .succeeded = 5}), "HELD");
  EXPECT_EQ(state({.succeeded = 5, .failed = 1, .cancelled = 1}), "FAILED");
  EXPECT_EQ(state({.succeeded = 5, .cancelled = 1}), "CANCELLED");
  EXPECT_EQ(state({.succeeded = 5}), "SUCCEEDED");
}

TEST(View, EventsAreToldInWordsAndBookkeepingIsSilent) {
  v1::Event view;
  core::JobSubmitted submitted;
  submitted.job.id = 5;
  submitted.job.name = "train";
  submitted.job.owner = "user";
  ASSERT_TRUE(EventView(submitted, 9, 1000, &view));
  EXPECT_EQ(view.seq(), 9);
  EXPECT_EQ(view.utc_ms(), 1000);
  EXPECT_EQ(view.kind(), "job_submitted");
  EXPECT_EQ(view.attempt().job_id(), 5);
  EXPECT_THAT(view.message(), HasSubstr("train"));
  view.Clear();
  core::AttemptEnded ended;
  ended.attempt = {5, 17, 3};
  ended.cause = EndCause::kUserError;
  ended.detail = "exit status 3";
  ended.to_step = 41;
  ended.next = TaskState::kFailed;
  ASSERT_TRUE(EventView(ended, 10, 1001, &view));
  EXPECT_EQ(view.attempt().attempt(), 3);
  EXPECT_THAT(view.message(), AllOf(HasSubstr("USER_ERROR"), HasSubstr("exit status 3"), HasSubstr("step 41"), HasSubstr("FAILED")));
  EXPECT_FALSE(EventView(core::ReportsTaken{1, 2}, 11, 1002, &view));
  EXPECT_FALSE(EventView(core::OffersUpdated{}, 11, 1002, &view));
}

TEST(View, FreeIsWhatTheLivingAttemptsLeave) {
  core::State state;
  core::Shape shape;
  shape.cpu_milli = 1'500;
  shape.memory_bytes = 10;
  shape.gpu_count = 1;
  state.shapes[1] = shape;
  for (JobId id : {1, 2}) {
    state.jobs[id].job.id = id;
    state.jobs[id].job.shape_id = 1;
  }
  core::Node node;
  node.id = 3;
  node.capacity = {4'000, 100, 0, "A100", 2, 40, false};
  state.index.on_node[3] = {AttemptId{1, 0, 1}, AttemptId{2, 0, 4}};
  core::Soft soft;
  soft.leases[3] = {.session = 8, .heard_ms = 55};
  const v1::Node view = NodeView(node, UseOfNode(state, soft, node));
  EXPECT_EQ(view.total().cpu_milli(), 4'000);
  EXPECT_EQ(view.free().cpu_milli(), 1'000);
  EXPECT_EQ(view.free().memory_bytes(), 80);
  EXPECT_EQ(view.free().accelerators(0).count(), 0);
  EXPECT_EQ(view.attempts_size(), 2);
  EXPECT_TRUE(view.connected());
  EXPECT_EQ(view.last_seen_utc_ms(), 55);
}

}  // namespace
}  // namespace spillway::rpc
