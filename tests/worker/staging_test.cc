// From an offer and a spec to a START; the translation of the wire.
#include "worker/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "spillway/v1/job_spec.pb.h"
#include "tests/worker/rig.h"
#include "worker/session_wire.h"

namespace spillway::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

StagingContext Context() {
  StagingContext context;
  context.attempt_folder = "/home/n1/attempts/1.0@2";
  context.secrets_folder = "/home/n1/secrets/1.0@2";
  context.store_root = "/store";
  context.cluster_uuid = "c1";
  context.node_name = "n1";
  context.master_port = 4711;
  context.now_utc_ms = 1'750'000'000'000;
  context.base_env = {{"PATH", "/usr/bin:/bin"}, {"HOME", "/root"}};
  return context;
}

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.add_command("./train");
  spec.add_command("--lr=3e-4");
  return spec;
}

Offer Offered() {
  Offer offer = OfferOf({1, 0, 2});
  offer.resume_from = "c1/1/0/a1/step-000000000040";
  return offer;
}

absl::StatusOr<StartPlan> Plan(const v1::JobSpec& spec, const StagingContext& context = Context(), const Offer& offer = Offered()) {
  return PlanStart(offer, "c1/1.0@2", spec.SerializeAsString(), context);
}

TEST(Staging, GivesTheProcessWhatItIsPromised) {
  v1::JobSpec spec = Spec();
  (*spec.mutable_env())["MODEL"] = "bert";
  (*spec.mutable_env())["PATH"] = "/opt/bin";
  spec.mutable_limits()->set_max_duration_ms(3'600'000);
  ASSERT_OK_AND_ASSIGN(const StartPlan plan, Plan(spec));
  EXPECT_THAT(plan.start.argv, ElementsAre("./train", "--lr=3e-4"));
  EXPECT_EQ(plan.start.cwd, "/home/n1/attempts/1.0@2");
  EXPECT_EQ(plan.start.log_path, "/store/logs/1/0/a1.log");
  EXPECT_EQ(plan.start.attempt.key, "c1/1.0@2");
  EXPECT_EQ(plan.start.max_duration_ms, 3'600'000);
  EXPECT_EQ(DecodeTag(plan.start.tag).checkpoint_dir, "c1/1/0/a1");
  EXPECT_TRUE(plan.start.lease_bound);
  EXPECT_THAT(plan.folders, ElementsAre("/home/n1/attempts/1.0@2", "/store/checkpoints/c1/1/0/a1"));
  for (const char* pair : {"SPILLWAY_JOB_ID=1", "SPILLWAY_TASK_INDEX=0", "SPILLWAY_ATTEMPT=2", "SPILLWAY_JOB_UID=uid", "SPILLWAY_CLUSTER=c1",
                           "SPILLWAY_NODE_RANK=0", "SPILLWAY_NUM_NODES=1", "SPILLWAY_NODE_LIST=n1", "SPILLWAY_CHECKPOINT_DIR=/store/checkpoints/c1/1/0/a1",
                           "SPILLWAY_RESUME_FROM=/store/checkpoints/c1/1/0/a1/step-000000000040", "SPILLWAY_DEADLINE=2025-06-15T16:06:40Z",
                           "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4711", "MODEL=bert", "PATH=/opt/bin", "HOME=/root"}) {
    EXPECT_THAT(plan.start.env, Contains(pair));
  }
  EXPECT_THAT(plan.start.env, Not(Contains(StartsWith("CUDA_"))));  // no device, or simulated ones
}

TEST(Staging, AMemberOfAGangKnowsWhoAndWhereTheOthersAre) {
  Offer offer = Offered();
  offer.rank = 2;
  offer.members = 3;
  offer.node_list = "n7,n9,n1";
  offer.rendezvous = "10.0.0.7:29501";
  ASSERT_OK_AND_ASSIGN(const StartPlan plan, Plan(Spec(), Context(), offer));
  for (const char* pair : {"SPILLWAY_NODE_RANK=2", "SPILLWAY_NUM_NODES=3", "SPILLWAY_NODE_LIST=n7,n9,n1", "MASTER_ADDR=10.0.0.7", "MASTER_PORT=29501"}) {
    EXPECT_THAT(plan.start.env, Contains(pair));
  }
  EXPECT_EQ(DecodeTag(plan.start.tag).rank, 2);
  EXPECT_EQ(DecodeTag(plan.start.tag).members, 3);
}

TEST(Staging, StartsFromTheBeginningWithEmptyWords) {
  Offer offer = Offered();
  offer.resume_from.clear();
  ASSERT_OK_AND_ASSIGN(const StartPlan plan, Plan(Spec(), Context(), offer));
  EXPECT_THAT(plan.start.env, Contains("SPILLWAY_RESUME_FROM="));
  EXPECT_THAT(plan.start.env, Contains("SPILLWAY_DEADLINE="));
}

TEST(Staging, RealDevicesAreShownAndTheOthersHidden) {
  StagingContext context = Context();
  context.device_indices = {0, 1, 4};
  v1::JobSpec spec = Spec();
  (*spec.mutable_env())["CUDA_VISIBLE_DEVICES"] = "0,1,2,3,4,5";  // not the user's to choose
  Offer offer = Offered();
  offer.devices = {0, 2};
  ASSERT_OK_AND_ASSIGN(StartPlan plan, Plan(spec, context, offer));
  EXPECT_THAT(plan.start.env, Contains("CUDA_VISIBLE_DEVICES=0,4"));
  EXPECT_THAT(plan.start.env, Contains("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  offer.devices = {};
  ASSERT_OK_AND_ASSIGN(plan, Plan(spec, context, offer));
  EXPECT_THAT(plan.start.env, Contains("CUDA_VISIBLE_DEVICES="));
  offer.devices = {3};
  EXPECT_THAT(Plan(spec, context, offer), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("device 3 was offered")));
}

TEST(Staging, LimitsAndSignalsFollowTheSpec) {
  v1::JobSpec spec = Spec();
  ASSERT_OK_AND_ASSIGN(StartPlan plan, Plan(spec));
  EXPECT_EQ(plan.start.stop_signal, SIGTERM);
  EXPECT_EQ(plan.start.grace_ms, 30'000);
  EXPECT_EQ(plan.start.memory_bytes, 0);
  EXPECT_EQ(plan.start.pids_max, 2'048) << "one cpu when nothing is said";
  EXPECT_EQ(plan.disk_bytes, 0);
  spec.mutable_checkpoint()->set_signal("SIGUSR1");
  spec.mutable_checkpoint()->set_grace_ms(90'000);
  spec.mutable_resources()->set_memory_bytes(1 << 30);
  spec.set_workdir("/data/work");
  ASSERT_OK_AND_ASSIGN(plan, Plan(spec));
  EXPECT_EQ(plan.start.stop_signal, SIGUSR1);
  EXPECT_EQ(plan.start.grace_ms, 90'000);
  EXPECT_EQ(plan.start.memory_bytes, 1 << 30);
  EXPECT_EQ(plan.start.cwd, "/data/work");
  for (const auto& [cpu_milli, pids] : std::vector<std::pair<int64_t, int64_t>>{{100, 2'048}, {1'001, 3'072}, {31'000, 32'768}, {1'000'000'000, 32'768}}) {
    spec.mutable_resources()->set_cpu_milli(cpu_milli);
    spec.mutable_resources()->set_disk_bytes(cpu_milli);
    ASSERT_OK_AND_ASSIGN(plan, Plan(spec));
    EXPECT_EQ(plan.start.pids_max, pids);
    EXPECT_EQ(plan.disk_bytes, cpu_milli);
  }
  StagingContext narrow = Context();
  narrow.pids_max = 64;
  ASSERT_OK_AND_ASSIGN(plan, Plan(spec, narrow));
  EXPECT_EQ(plan.start.pids_max, 64) << "a node may allow less";
  spec.mutable_checkpoint()->set_signal("SIGWHAT");
  EXPECT_THAT(Plan(spec), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SIGWHAT")));
}

TEST(Staging, AScriptBecomesAFileAndNeverPassesThroughAnArgument) {
  v1::JobSpec spec;
  spec.set_script("echo \"$HOME\"; exit 3\n");
  char pattern[] = "/tmp/spillway-staging-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  StagingContext context = Context();
  context.attempt_folder = JoinPath(folder, "attempts/1.0@2");
  context.store_root = JoinPath(folder, "store");
  ASSERT_OK_AND_ASSIGN(const StartPlan plan, Plan(spec, context));
  EXPECT_THAT(plan.start.argv, ElementsAre("/bin/sh", "-eu", context.attempt_folder + "/script.sh"));
  ASSERT_OK(ApplyPlan(plan, false));
  EXPECT_EQ(*ReadFile(plan.script_path), spec.script());
  EXPECT_TRUE(PathExists(folder + "/store/checkpoints/c1/1/0/a1"));
  ASSERT_OK(Unstage(context.attempt_folder, context.secrets_folder, folder + "/store/checkpoints/c1/1/0/a1"));
  EXPECT_FALSE(PathExists(context.attempt_folder));
  EXPECT_FALSE(PathExists(folder + "/store/checkpoints/c1/1/0/a1"));
  (void)RemoveTree(folder);
}

TEST(Staging, SecretsAreFilesOfTheirOwnBesideTheFolder) {
  v1::JobSpec spec = Spec();
  spec.add_secrets("HF_TOKEN");
  char pattern[] = "/tmp/spillway-staging-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  StagingContext context = Context();
  context.attempt_folder = JoinPath(folder, "attempts/1.0@2");
  context.secrets_folder = JoinPath(folder, "secrets/1.0@2");
  context.store_root = JoinPath(folder, "store");
  Offer offer = Offered();
  EXPECT_THAT(Plan(spec, context, offer).status(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("HF_TOKEN is not there")));
  offer.secrets = {{"HF_TOKEN", std::string("a\0b\n", 4)}};
  ASSERT_OK_AND_ASSIGN(const StartPlan plan, Plan(spec, context, offer));
  EXPECT_THAT(plan.start.env, Contains("SPILLWAY_SECRETS_DIR=" + context.secrets_folder));
  EXPECT_THAT(plan.start.env, Not(Contains(HasSubstr("HF_TOKEN"))));
  ASSERT_OK(ApplyPlan(plan, false));
  EXPECT_EQ(*ReadFile(context.secrets_folder + "/HF_TOKEN"), offer.secrets.at("HF_TOKEN"));
  struct stat info = {};
  ASSERT_EQ(stat((context.secrets_folder + "/HF_TOKEN").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0400u);
  ASSERT_OK(ApplyPlan(plan, false)) << "a second time after a restart of the worker";
  ASSERT_OK(Unstage(context.attempt_folder, context.secrets_folder, ""));
  EXPECT_FALSE(PathExists(context.secrets_folder));
  EXPECT_THAT(Plan(Spec(), context)->start.env, Not(Contains(HasSubstr("SPILLWAY_SECRETS_DIR"))));
  (void)RemoveTree(folder);
}

TEST(Staging, ACheckpointFolderWithContentStays) {
  char pattern[] = "/tmp/spillway-staging-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  ASSERT_OK(MakeDirectories(folder + "/a1/step-1"));
  ASSERT_OK(Unstage(folder + "/absent", folder + "/absent-too", folder + "/a1"));
  EXPECT_TRUE(PathExists(folder + "/a1/step-1"));
  (void)RemoveTree(folder);
}

TEST(Staging, PathsThatLeaveTheStoreAreRefused) {
  for (const char* path : {"", "/etc", "../x", "a/../../x", "a//b", "./a", "a/"}) {
    EXPECT_THAT(InStore("/store", path), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_)) << path;
    Offer offer = Offered();
    offer.log_path = path;
    EXPECT_FALSE(Plan(Spec(), Context(), offer).ok()) << path;
  }
  EXPECT_EQ(*InStore("/store", "a/b..c/d"), "/store/a/b..c/d");
}

TEST(Staging, OnlyDirectoriesAreStores) {
  EXPECT_EQ(*StoreRoot("file:/a/b/"), "/a/b");
  EXPECT_THAT(StoreRoot("s3://bucket"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("s3://bucket")));
  EXPECT_FALSE(StoreRoot("file:relative").ok());
  EXPECT_FALSE(StoreRoot("").ok());
}

TEST(Staging, ASpecWithoutACommandIsTheJobsFault) {
  EXPECT_THAT(Plan(v1::JobSpec()), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  EXPECT_THAT(PlanStart(Offered(), "c1/1.0@2", "\xff\xff", Context()), StatusIs(absl::StatusCode::kInternal, ::testing::_));
}

// ---- the wire ----

TEST(Wire, WorkerFramesSurvive) {
  WorkerFrame frame;
  Hello hello;
  hello.node_name = "n1";
  hello.provider = "local";
  hello.instance_id = "i-1";
  hello.boot_id = "b";
  hello.resources = {2'000, 8, 9, {{"H100", 2, 80, false}, {"T4", 1, 16, true}}};
  hello.zone = "z";
  hello.region = "r";
  hello.market = Market::kSpot;
  hello.isolation = "cgroup2";
  hello.inventory = {{{1, 2, 3}, AttemptState::kStopping}};
  hello.worker_version = "v";
  hello.cluster_uuid = "c";
  hello.node_id = 5;
  frame.hello = hello;
  frame.renewal = 9;
  for (const auto kind : {Report::Kind::kAccepted, Report::Kind::kStarted, Report::Kind::kCheckpoint, Report::Kind::kEnded}) {
    Report report;
    report.seq = static_cast<int64_t>(frame.reports.size()) + 1;
    report.attempt = {1, 2, 3};
    report.kind = kind;
    if (kind == Report::Kind::kCheckpoint) report.checkpoint = {7, "p", "sha", 8};
    if (kind == Report::Kind::kEnded) report.end = {EndCause::kHang, Initiator::kNode, "d", 1, 2, 3, 4};
    frame.reports.push_back(report);
  }
  frame.progress = {{{1, 2, 3}, 5, 10, {{"loss", 0.5}}}};
  frame.notice = NodeNotice{30'000, "aws", true};
  v1::WorkerFrame message;
  ASSERT_TRUE(message.ParseFromString(ToProto(frame).SerializeAsString()));
  EXPECT_EQ(message.hello().protocol(), "spillway/1");
  const WorkerFrame back = FromProto(message);
  EXPECT_EQ(back.hello->resources, hello.resources);
  EXPECT_EQ(back.hello->inventory, hello.inventory);
  EXPECT_EQ(back.hello->market, Market::kSpot);
  EXPECT_EQ(back.hello->isolation + back.hello->zone + back.hello->region + back.hello->cluster_uuid + back.hello->instance_id, "cgroup2zrci-1");
  EXPECT_EQ(back.hello->node_id, 5);
  EXPECT_EQ(back.renewal, 9);
  EXPECT_EQ(back.reports, frame.reports);
  EXPECT_EQ(back.progress[0].metrics, frame.progress[0].metrics);
  EXPECT_EQ(back.notice->in_ms, 30'000);
  EXPECT_TRUE(back.notice->advisory);
}

TEST(Wire, SchedulerFramesSurvive) {
  SchedulerFrame frame;
  Welcome welcome = Rig::WelcomeOf();
  welcome.report_ack = 4;
  welcome.wanted = {{1, 2, 3}};
  welcome.offers = {Offered()};
  welcome.offers[0].devices = {1, 3};
  welcome.stops = {{{1, 2, 3}, EndCause::kMoved, Initiator::kScheduler, 5, "why"}};
  welcome.specs = {{"digest", "spec"}};
  frame.welcome = welcome;
  frame.renewal_ack = 6;
  frame.report_ack = 7;
  frame.offers = welcome.offers;
  frame.stops = welcome.stops;
  frame.specs = welcome.specs;
  frame.forget = welcome.wanted;
  frame.goodbye = Goodbye{"SHUTDOWN", "soon back", true};
  v1::SchedulerFrame message;
  ASSERT_TRUE(message.ParseFromString(ToProto(frame).SerializeAsString()));
  const SchedulerFrame back = FromProto(message);
  EXPECT_EQ(back.welcome->store_url, "file:/store");
  EXPECT_EQ(back.welcome->lease_ms, kLease);
  EXPECT_EQ(back.welcome->report_ack, 4);
  EXPECT_EQ(back.welcome->wanted, welcome.wanted);
  EXPECT_EQ(back.offers, frame.offers);
  EXPECT_EQ(back.stops[0].cause, EndCause::kMoved);
  EXPECT_EQ(back.stops[0].reason, "why");
  EXPECT_EQ(back.specs[0].spec, "spec");
  EXPECT_EQ(back.forget, frame.forget);
  EXPECT_EQ(back.renewal_ack, 6);
  EXPECT_EQ(back.report_ack, 7);
  EXPECT_EQ(back.goodbye->code, "SHUTDOWN");
  EXPECT_TRUE(back.goodbye->come_back);
}

TEST(Wire, UnknownWordsBecomeUnspecified) {
  v1::SchedulerFrame message;
  message.add_stops()->set_cause(static_cast<v1::EndCause>(999));
  EXPECT_EQ(FromProto(message).stops[0].cause, EndCause::kUnspecified);
}

}  // namespace
}  // namespace spillway::worker
