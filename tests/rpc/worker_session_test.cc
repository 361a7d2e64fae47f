// The session between node and scheduler, with a worker played by hand.
#include <grpcpp/generic/generic_stub.h>

#include "tests/rpc/harness.h"

namespace spillway::rpc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class WorkerSessionTest : public ::testing::Test {
 protected:
  v1::Node NodeNamed(const std::string& name) {
    v1::ListNodesRequest request;
    request.set_include_gone(true);
    v1::ListNodesResponse response;
    Call call;
    EXPECT_OK(StatusOf(daemon->fleet->ListNodes(call, request, &response)));
    for (const v1::Node& node : response.nodes()) {
      if (node.name() == name) return node;
    }
    return v1::Node();
  }
  void CancelJob(int64_t id) {
    v1::CancelRequest request;
    request.set_job_id(id);
    v1::JobActionResponse response;
    Call call;
    ASSERT_OK(StatusOf(daemon->jobs->Cancel(call, request, &response)));
  }

  TemporaryFolder folder;
  std::unique_ptr<Daemon> daemon = std::make_unique<Daemon>(folder.path());
};

TEST_F(WorkerSessionTest, AHelloIsWelcomedAndTheNodeIsThere) {
  WorkerClient worker(*daemon);
  const v1::Welcome welcome = worker.Open();
  EXPECT_EQ(welcome.cluster_uuid(), kCluster);
  EXPECT_EQ(welcome.node_id(), 1);
  EXPECT_EQ(welcome.lease_ms(), limits::kLeaseMs);
  EXPECT_EQ(welcome.renew_every_ms(), limits::kRenewEveryMs);
  EXPECT_EQ(welcome.store_url(), "file:/somewhere");
  EXPECT_EQ(welcome.wanted_size(), 0);
  const v1::Node node = NodeNamed("n1");
  EXPECT_EQ(node.state(), v1::READY);
  EXPECT_TRUE(node.connected());
  EXPECT_EQ(node.total().cpu_milli(), 4'000);
  EXPECT_EQ(node.free().accelerators(0).count(), 2);
  EXPECT_EQ(node.price_micros_per_hour(), 2'000'000) << "its reservation's";
}

TEST_F(WorkerSessionTest, AStrangerIsRefusedBeforeAnythingIsRead) {
  for (const std::string& token : {std::string(), std::string("wrong"), std::string(kUserToken)}) {
    WorkerClient worker(*daemon, token);
    worker.SayHello();
    EXPECT_THAT(worker.End(), StatusIs(Code::kUnauthenticated, AllOf(HasSubstr("token"), Not(HasSubstr(kWorkerToken)))));
    EXPECT_FALSE(worker.welcome.has_value());
  }
  EXPECT_EQ(NodeNamed("n1").node_id(), 0);
}

TEST_F(WorkerSessionTest, ASessionBeginsWithItsHelloAndHasOne) {
  WorkerClient silent(*daemon);
  v1::WorkerFrame renewal;
  renewal.set_renewal(1);
  silent.Write(renewal);
  EXPECT_THAT(silent.End(), StatusIs(Code::kFailedPrecondition, HasSubstr("the first frame of a session must be its hello")));
  WorkerClient twice(*daemon);
  twice.Open();
  twice.SayHello();
  EXPECT_THAT(twice.End(), StatusIs(Code::kFailedPrecondition, HasSubstr("a second hello")));
}

TEST_F(WorkerSessionTest, BadHellosAreRefusedWithTheirReasonAndLeaveNoNode) {
  const auto refused = [&](const std::function<void(v1::Hello*)>& change) {
    v1::Hello hello = WorkerClient::MakeHello("bad");
    change(&hello);
    WorkerClient worker(*daemon);
    worker.SayHello(hello);
    return worker.End();
  };
  using H = v1::Hello*;
  EXPECT_THAT(refused([](H h) { h->set_protocol("spillway/2"); }), StatusIs(Code::kFailedPrecondition, HasSubstr("spillway/2")));
  EXPECT_THAT(refused([](H h) { h->set_node_name(std::string(1'000, 'n')); }), StatusIs(Code::kInvalidArgument, HasSubstr("node_name")));
  EXPECT_THAT(refused([](H h) { h->mutable_resources()->set_memory_bytes(-1); }), StatusIs(Code::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(refused([](H h) { h->set_cluster_uuid("another-cluster"); }), StatusIs(Code::kFailedPrecondition, HasSubstr("another-cluster")));
  EXPECT_THAT(refused([](H h) { h->set_provider("statik"); }), StatusIs(Code::kFailedPrecondition, HasSubstr("did you mean static")));
  EXPECT_EQ(NodeNamed("bad").node_id(), 0);
}

TEST_F(WorkerSessionTest, BytesThatAreNoFrameEndTheStreamAndHarmNobody) {
  grpc::GenericStub stub(daemon->worker_channel);
  for (const std::string& garbage : {std::string("\xff\xff\xff\xff garbage", 12), std::string(100'000, '\x0a'), std::string()}) {
    Call call(kWorkerToken);
    grpc::CompletionQueue queue;
    auto stream = stub.PrepareCall(call, "/spillway.v1.WorkerService/Session", &queue);
    void* tag = nullptr;
    bool ok = false;
    stream->StartCall(nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    grpc::Slice slice(garbage);
    stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_FALSE(ok) << "something was answered";
    grpc::Status status;
    stream->Finish(&status, nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }
  WorkerClient worker(*daemon);
  EXPECT_EQ(worker.Open().node_id(), 1);
}

TEST_F(WorkerSessionTest, AJobsWholeLife) {
  v1::JobSpec spec = MakeSpec();
  spec.mutable_resources()->mutable_gpu()->set_count(1);
  WorkerClient worker(*daemon);
  worker.Open();
  Submit(*daemon, {spec, spec});
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.offers.size() == 2; }));
  EXPECT_THAT(worker.specs, SizeIs(1)) << "a spec is sent once a session";
  EXPECT_EQ(worker.specs[0].digest(), worker.offers[0].spec_digest());
  v1::JobSpec sent;
  ASSERT_TRUE(sent.ParseFromString(worker.specs[0].spec()));
  EXPECT_EQ(sent.command(0), "/bin/true");
  const v1::SchedulerFrame::Offer offer = worker.offers[0];
  EXPECT_EQ(offer.attempt().attempt(), 1);
  EXPECT_EQ(offer.job_name(), "train");
  EXPECT_EQ(offer.resume_from(), "");
  EXPECT_EQ(offer.checkpoint_dir(), absl::StrCat(kCluster, "/", offer.attempt().job_id(), "/0/a1"));
  EXPECT_EQ(offer.devices_size(), 1);
  EXPECT_NE(worker.offers[0].devices(0), worker.offers[1].devices(0)) << "a device is one job's";
  EXPECT_EQ(GetJob(*daemon, offer.attempt().job_id()).tasks(0).attempts(0).state(), v1::OFFERED);

  ASSERT_TRUE(worker.Accept(offer.attempt()));
  ASSERT_TRUE(worker.Start(offer.attempt()));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 2; }));
  EXPECT_EQ(GetJob(*daemon, offer.attempt().job_id()).tasks(0).attempts(0).state(), v1::RUNNING);
  v1::WorkerFrame progress;
  *progress.add_progress()->mutable_attempt() = offer.attempt();
  progress.mutable_progress(0)->set_step(7);
  progress.mutable_progress(0)->set_total(10);
  (*progress.mutable_progress(0)->mutable_metrics())["loss"] = 1.25;
  ASSERT_TRUE(worker.Write(progress));
  ASSERT_TRUE(Eventually([&] { return GetJob(*daemon, offer.attempt().job_id()).tasks(0).progress().step() == 7; }));
  EXPECT_EQ(GetJob(*daemon, offer.attempt().job_id()).tasks(0).progress().metrics().at("loss"), 1.25);

  v1::Report saved;
  saved.mutable_checkpoint()->set_step(7);
  saved.mutable_checkpoint()->set_path(offer.checkpoint_dir() + "/step-7");
  saved.mutable_checkpoint()->set_manifest_sha256(std::string(64, 'a'));
  saved.mutable_checkpoint()->set_bytes(123);
  ASSERT_TRUE(worker.Report(saved, offer.attempt()));
  ASSERT_TRUE(worker.EndAttempt(offer.attempt(), v1::COMPLETED));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 4 && !worker.forget.empty(); }));
  EXPECT_EQ(worker.forget[0].job_id(), offer.attempt().job_id());
  const v1::Job job = GetJob(*daemon, offer.attempt().job_id());
  EXPECT_EQ(job.state(), "SUCCEEDED");
  EXPECT_GT(job.ended_utc_ms(), 0);
  EXPECT_EQ(job.tasks(0).attempts(0).end_cause(), v1::COMPLETED);
  EXPECT_EQ(job.tasks(0).checkpoint().step(), 7);
  v1::ListCheckpointsRequest request;
  request.set_job_id(offer.attempt().job_id());
  v1::ListCheckpointsResponse checkpoints;
  Call call;
  ASSERT_OK(StatusOf(daemon->jobs->ListCheckpoints(call, request, &checkpoints)));
  ASSERT_EQ(checkpoints.checkpoints_size(), 1);
  EXPECT_EQ(checkpoints.checkpoints(0).bytes(), 123);
}

TEST_F(WorkerSessionTest, RenewalsAreAckedTheNewestCounts) {
  WorkerClient worker(*daemon);
  worker.Open();
  for (int renewal = 1; renewal <= 5; ++renewal) {
    v1::WorkerFrame frame;
    frame.set_renewal(renewal);
    ASSERT_TRUE(worker.Write(frame));
  }
  EXPECT_TRUE(worker.ReadUntil([&] { return worker.renewal_ack == 5; }));
}

TEST_F(WorkerSessionTest, ReportsSentTwiceAreTakenOnceAndAGapStartsTheSessionAnew) {
  WorkerClient worker(*daemon);
  worker.Open();
  Submit(*daemon, {MakeSpec()});
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.offers.empty(); }));
  const v1::AttemptKey attempt = worker.offers[0].attempt();
  ASSERT_TRUE(worker.Accept(attempt));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 1; }));
  worker.reported = 0;
  worker.report_ack = 0;
  ASSERT_TRUE(worker.Accept(attempt));
  EXPECT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 1; })) << "what is durable is acked again";
  worker.reported = 7;
  ASSERT_TRUE(worker.Start(attempt));
  EXPECT_OK(worker.End());
  ASSERT_TRUE(worker.goodbye.has_value());
  EXPECT_EQ(worker.goodbye->code(), "RESTART");
  EXPECT_TRUE(worker.goodbye->come_back());
  EXPECT_THAT(worker.goodbye->message(), HasSubstr("go from 1 to 8"));

  WorkerClient again(*daemon);
  v1::Hello hello = WorkerClient::MakeHello();
  *hello.add_inventory()->mutable_attempt() = attempt;
  hello.mutable_inventory(0)->set_state(v1::STARTING);
  const v1::Welcome welcome = again.Open(hello);
  EXPECT_EQ(welcome.report_ack(), 1);
  EXPECT_EQ(welcome.wanted_size(), 1);
  EXPECT_EQ(welcome.offers_size(), 0) << "it has it";
  again.reported = 1;
  ASSERT_TRUE(again.EndAttempt(attempt, v1::COMPLETED));
  ASSERT_TRUE(again.ReadUntil([&] { return again.report_ack == 2; }));
  EXPECT_EQ(GetJob(*daemon, 1).state(), "SUCCEEDED");
}

TEST_F(WorkerSessionTest, ASecondSessionOfANodeReplacesTheFirstAndIsToldEverything) {
  WorkerClient first(*daemon);
  first.Open();
  Submit(*daemon, {MakeSpec()});
  ASSERT_TRUE(first.ReadUntil([&] { return !first.offers.empty(); }));
  WorkerClient second(*daemon);
  const v1::Welcome welcome = second.Open();
  EXPECT_EQ(welcome.node_id(), 1);
  ASSERT_EQ(welcome.wanted_size(), 1);
  ASSERT_EQ(welcome.offers_size(), 1) << "offered again: the node's inventory lacks it";
  EXPECT_EQ(welcome.specs_size(), 1) << "with its spec: it is a session of its own";
  EXPECT_OK(first.End());
  ASSERT_TRUE(first.goodbye.has_value());
  EXPECT_EQ(first.goodbye->code(), "REPLACED");
  EXPECT_TRUE(NodeNamed("n1").connected());
}

TEST_F(WorkerSessionTest, AnotherMachineOfALivingName) {
  WorkerClient first(*daemon);
  first.Open();
  WorkerClient other(*daemon);
  other.SayHello(WorkerClient::MakeHello("n1", "another-boot"));
  EXPECT_THAT(other.End(), StatusIs(Code::kAlreadyExists, HasSubstr("another machine called n1")));
  v1::WorkerFrame renewal;
  renewal.set_renewal(1);
  ASSERT_TRUE(first.Write(renewal));
  EXPECT_TRUE(first.ReadUntil([&] { return first.renewal_ack == 1; })) << "the living one is not disturbed";
}

TEST_F(WorkerSessionTest, ACancelledJobIsStoppedOnItsNode) {
  WorkerClient worker(*daemon);
  worker.Open();
  Submit(*daemon, {MakeSpec()});
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.offers.empty(); }));
  const v1::AttemptKey attempt = worker.offers[0].attempt();
  ASSERT_TRUE(worker.Accept(attempt));
  ASSERT_TRUE(worker.Start(attempt));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 2; }));
  CancelJob(1);
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.stops.empty(); }));
  EXPECT_EQ(worker.stops[0].cause(), v1::CANCELLED);
  EXPECT_EQ(worker.stops[0].initiator(), v1::BY_USER);
  EXPECT_EQ(worker.stops[0].grace_ms(), 30'000);
  EXPECT_EQ(GetJob(*daemon, 1).state(), "ACTIVE") << "until the node says that it is over";
  ASSERT_TRUE(worker.EndAttempt(attempt, v1::CANCELLED, v1::BY_USER));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 3; }));
  EXPECT_EQ(GetJob(*daemon, 1).state(), "CANCELLED");
}

TEST_F(WorkerSessionTest, APreemptedTaskRunsAgainAfterItsSeal) {
  WorkerClient worker(*daemon);
  worker.Open();
  Submit(*daemon, {MakeSpec()});
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.offers.empty(); }));
  const v1::AttemptKey attempt = worker.offers[0].attempt();
  ASSERT_TRUE(worker.Accept(attempt));
  ASSERT_TRUE(worker.Start(attempt));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 2; }));
  v1::PreemptRequest request;
  request.set_job_id(1);
  request.set_grace_ms(1'234);
  v1::JobActionResponse response;
  Call call;
  ASSERT_OK(StatusOf(daemon->jobs->Preempt(call, request, &response)));
  EXPECT_EQ(response.tasks_affected(), 1);
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.stops.empty(); }));
  EXPECT_EQ(worker.stops[0].cause(), v1::PREEMPTED);
  EXPECT_EQ(worker.stops[0].grace_ms(), 1'234);
  ASSERT_TRUE(worker.EndAttempt(attempt, v1::PREEMPTED, v1::BY_USER));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.offers.size() == 2; }));
  EXPECT_EQ(worker.offers[1].attempt().attempt(), 2);
  EXPECT_THAT(worker.specs, SizeIs(1)) << "known to the session already";
}

TEST_F(WorkerSessionTest, ALostSessionKeepsItsAttemptsAndItsNode) {
  {
    WorkerClient worker(*daemon);
    worker.Open();
    Submit(*daemon, {MakeSpec()});
    ASSERT_TRUE(worker.ReadUntil([&] { return !worker.offers.empty(); }));
    ASSERT_TRUE(worker.Accept(worker.offers[0].attempt()));
    ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 1; }));
    worker.Cancel();
    EXPECT_THAT(worker.End(), StatusIs(Code::kCancelled, ::testing::_));
  }
  ASSERT_TRUE(Eventually([&] { return !NodeNamed("n1").connected(); }));
  EXPECT_EQ(NodeNamed("n1").state(), v1::READY) << "unreachable is not failed";
  EXPECT_EQ(GetJob(*daemon, 1).state(), "ACTIVE");
  WorkerClient half(*daemon);
  half.Open();
  half.HalfClose();
  EXPECT_OK(half.End());
  EXPECT_TRUE(Eventually([&] { return !NodeNamed("n1").connected(); }));
}

TEST_F(WorkerSessionTest, APlannedStopSaysGoodbye) {
  WorkerClient worker(*daemon);
  worker.Open();
  std::thread stopping([&] { daemon->Stop(); });
  EXPECT_OK(worker.End());
  stopping.join();
  ASSERT_TRUE(worker.goodbye.has_value());
  EXPECT_EQ(worker.goodbye->code(), "SHUTDOWN");
  EXPECT_TRUE(worker.goodbye->come_back());
}

TEST_F(WorkerSessionTest, OneThatDoesNotReadIsCutOffAndMayComeBack) {
  daemon.reset();
  Daemon::Options options;
  options.outbox_orders_max = 1'000;
  daemon = std::make_unique<Daemon>(folder.path(), options);
  WorkerClient worker(*daemon);
  worker.Open();  // session 1; from here it does not read
  engine::StopOrder stop;
  stop.attempt = {1, 0, 1};
  stop.stop.reason = std::string(10'000, 'x');
  // More than every buffer between the two holds; then the outbox fills.
  for (int i = 0; i < 5'000; ++i) daemon->sessions->Stop(1, stop);
  ASSERT_TRUE(Eventually([&] { return !NodeNamed("n1").connected(); })) << "the engine must not take it for alive";
  EXPECT_THAT(worker.End(), Not(IsOk()));
  EXPECT_LT(worker.stops.size(), 5'000u);
  WorkerClient again(*daemon);
  EXPECT_EQ(again.Open().node_id(), 1);
}

TEST_F(WorkerSessionTest, ManySessionsThatComeAndGoInEveryWayLeaveNothingBehind) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        WorkerClient worker(*daemon, i % 10 == 9 ? "wrong" : kWorkerToken);
        worker.SayHello(WorkerClient::MakeHello(absl::StrCat("node-", t)));
        switch (i % 5) {
          case 0: worker.Cancel(); break;
          case 1: worker.HalfClose(); break;
          case 2: worker.SayHello(); break;
          case 3: worker.ReadUntil([&] { return worker.welcome.has_value(); }); break;
          default: break;  // the destructor cancels
        }
      }
    });
  }
  // Meanwhile the scheduler has something to say to all of them.
  std::atomic<bool> done = false;
  std::thread talker([&] {
    for (int64_t session = 1; !done; session = session % 100 + 1) {
      daemon->sessions->AckRenewal(session, 1);
      daemon->sessions->Close(session, "BUSY", "go away", true);
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  talker.join();
  for (int t = 0; t < 4; ++t) {
    EXPECT_TRUE(Eventually([&] { return !NodeNamed(absl::StrCat("node-", t)).connected(); }));
  }
  WorkerClient worker(*daemon);
  EXPECT_NE(worker.Open().node_id(), 0);
}

TEST_F(WorkerSessionTest, CordonDrainAndUncordonByNameOrId) {
  WorkerClient worker(*daemon);
  worker.Open();
  v1::CordonRequest cordon;
  cordon.set_node("n1");
  cordon.set_on(true);
  v1::NodeActionResponse response;
  Call on, wrong, off, drain, about;
  ASSERT_OK(StatusOf(daemon->fleet->Cordon(on, cordon, &response)));
  EXPECT_TRUE(NodeNamed("n1").cordoned());
  cordon.set_node("n2");
  EXPECT_THAT(StatusOf(daemon->fleet->Cordon(wrong, cordon, &response)), StatusIs(Code::kNotFound, HasSubstr("did you mean n1")));
  cordon.set_node("1");
  cordon.set_on(false);
  ASSERT_OK(StatusOf(daemon->fleet->Cordon(off, cordon, &response)));
  EXPECT_FALSE(NodeNamed("n1").cordoned());
  v1::DrainRequest leave;
  leave.set_node("n1");
  ASSERT_OK(StatusOf(daemon->fleet->Drain(drain, leave, &response)));
  EXPECT_EQ(NodeNamed("n1").state(), v1::DRAINING);
  v1::ServerInfo info;
  ASSERT_OK(StatusOf(daemon->fleet->GetServerInfo(about, {}, &info)));
  EXPECT_EQ(info.version(), "0.0.test");
  EXPECT_EQ(info.cluster_uuid(), kCluster);
  EXPECT_EQ(info.ready_nodes(), 0);
  EXPECT_GT(info.event_seq(), 0);
}

TEST_F(WorkerSessionTest, ReservationsAndTheBillAreShown) {
  WorkerClient worker(*daemon);
  worker.Open();
  Submit(*daemon, {MakeSpec("billed")});
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.offers.empty(); }));
  const v1::AttemptKey attempt = worker.offers[0].attempt();
  ASSERT_TRUE(worker.Accept(attempt));
  ASSERT_TRUE(worker.Start(attempt));
  ASSERT_TRUE(worker.EndAttempt(attempt, v1::COMPLETED));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 3; }));
  v1::ListReservationsResponse reservations;
  v1::CostReportResponse report;
  v1::ListChargesResponse charges;
  Call list, sum, ledger, bad;
  ASSERT_OK(StatusOf(daemon->fleet->ListReservations(list, {}, &reservations)));
  ASSERT_EQ(reservations.reservations_size(), 1);
  EXPECT_EQ(reservations.reservations(0).name(), "rack");
  EXPECT_THAT(reservations.reservations(0).nodes(), ElementsAre("n1"));
  ASSERT_OK(StatusOf(daemon->billing->ListCharges(ledger, {}, &charges)));
  ASSERT_OK(StatusOf(daemon->billing->CostReport(sum, {}, &report)));
  int64_t of_job = 0, of_all = 0;
  for (const v1::Charge& charge : charges.charges()) {
    of_all += charge.amount_micros();
    if (charge.attempt().job_id() == 1) of_job += charge.amount_micros();
  }
  EXPECT_EQ(report.reserved_used_micros(), of_job);
  EXPECT_EQ(report.burst_micros(), 0);
  EXPECT_EQ(report.total_micros(), report.burst_micros() + report.reserved_used_micros());
  EXPECT_EQ(report.total_micros() + report.reserved_idle_micros(), of_all) << "every charge stands in one line";
  Call backwards;
  v1::CostReportRequest none;
  none.set_from_utc_ms(2);
  none.set_to_utc_ms(1);
  EXPECT_THAT(StatusOf(daemon->billing->CostReport(backwards, none, &report)), StatusIs(Code::kInvalidArgument, HasSubstr("before to_utc_ms")));
  v1::ListChargesRequest page;
  page.set_page_token("yesterday");
  EXPECT_THAT(StatusOf(daemon->billing->ListCharges(bad, page, &charges)), StatusIs(Code::kInvalidArgument, HasSubstr("page_token")));
}

}  // namespace
}  // namespace spillway::rpc
