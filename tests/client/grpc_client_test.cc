// The client library over real gRPC on loopback, against a server that fails on purpose: what is repeated, what is resumed, what is told.
#include <grpcpp/grpcpp.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_matchers.h"
#include "client/client.h"
#include "spillway/v1/fleet_service.grpc.pb.h"
#include "spillway/v1/job_service.grpc.pb.h"

namespace spillway::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers from a script; each call takes the next failure of its list first.
class ScriptedServer final : public v1::JobService::Service {
 public:
  ScriptedServer() { Start(0); }
  ~ScriptedServer() override { Stop(); }

  void Start(int port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int port() const { return port_; }

  grpc::Status Submit(grpc::ServerContext* context, const v1::SubmitRequest* request, v1::SubmitResponse* response) override {
    ++submits;
    if (submits <= busy_times) {
      context->AddTrailingMetadata("spillway-retry-after-ms", "10");
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
    }
    if (refuse) {
      v1::FieldViolations violations;
      violations.add_violations()->set_field("resources.gpu.count");
      violations.mutable_violations(0)->set_message("is odd");
      context->AddTrailingMetadata("spillway-violations-bin", violations.SerializeAsString());
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "1 violation");
    }
    response->add_job_ids(7);
    return grpc::Status::OK;
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GetJobRequest* request, v1::Job* response) override {
    const auto& metadata = context->client_metadata();
    const auto found = metadata.find("authorization");
    if (found != metadata.end()) response->set_owner(std::string(found->second.data(), found->second.size()));
    response->set_name(std::string(static_cast<size_t>(answer_bytes), 'x'));
    if (++gets <= unavailable_gets) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    if (request->job_id() == 404) return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no job 404\x1b[2J");
    return grpc::Status::OK;
  }
  grpc::Status Preempt(grpc::ServerContext*, const v1::PreemptRequest*, v1::JobActionResponse*) override {
    ++preempts;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut off");
  }
  // Three turns of two events each, cut off after `cut_after` events of the first stream.
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest* request, grpc::ServerWriter<v1::Event>* writer) override {
    {
      MutexLock lock(&mutex_);
      watched_from.push_back(request->after_seq());
    }
    const bool cut = ++watches == 1;
    int written = 0;
    for (int64_t seq = first_seq; seq < first_seq + 3; ++seq) {
      for (int i = 0; i < 2; ++i) {
        if (request->after_seq() >= seq) continue;
        if (cut && written == cut_after) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut off");
        v1::Event event;
        event.set_seq(seq);
        event.set_message(absl::StrCat(seq, i == 0 ? "a" : "b"));
        writer->Write(event);
        ++written;
      }
    }
    return grpc::Status::OK;
  }
  grpc::Status StreamLogs(grpc::ServerContext*, const v1::StreamLogsRequest* request, grpc::ServerWriter<v1::LogChunk>* writer) override {
    const std::string log = "0123456789";
    const bool cut = ++streams == 1;
    if (!cut && request->attempt().attempt() != 3)
      return grpc::Status(grpc::StatusCode::INTERNAL, "the second stream must name the attempt that the first one had");
    v1::LogChunk chunk;
    chunk.mutable_attempt()->set_attempt(3);
    chunk.set_offset(request->offset());
    chunk.set_data(log.substr(static_cast<size_t>(request->offset()), cut ? 4 : std::string::npos));
    writer->Write(chunk);
    return cut ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut off") : grpc::Status::OK;
  }

  std::atomic<int> submits = 0, gets = 0, preempts = 0, watches = 0, streams = 0;
  int busy_times = 0, unavailable_gets = 0, cut_after = 0, answer_bytes = 1;
  int64_t first_seq = 10;
  bool refuse = false;
  Mutex mutex_;
  std::vector<int64_t> watched_from;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<Api> ConnectTo(const ScriptedServer& server, int64_t reconnect_ms = 20'000) {
  auto api = Connect(ClientOptions{.server = server.address(), .token = "secret", .call_timeout_ms = 10'000, .reconnect_ms = reconnect_ms});
  EXPECT_OK(api);
  return std::move(*api);
}

v1::GetJobRequest JobRequest(int64_t id) {
  v1::GetJobRequest request;
  request.set_job_id(id);
  return request;
}

TEST(GrpcClient, SendsTheToken) {
  ScriptedServer server;
  ASSERT_OK_AND_ASSIGN(const v1::Job job, ConnectTo(server)->Get(JobRequest(1)));
  EXPECT_EQ(job.owner(), "Bearer secret");
}

TEST(GrpcClient, TakesLargeAnswers) {
  ScriptedServer server;
  server.answer_bytes = 8 << 20;  // twice gRPC's own bound
  ASSERT_OK_AND_ASSIGN(const v1::Job job, ConnectTo(server)->Get(JobRequest(1)));
  EXPECT_EQ(job.name().size(), 8u << 20);
}

TEST(GrpcClient, ErrorsKeepTheirCodeAndLoseWhatHarmsATerminal) {
  ScriptedServer server;
  const auto api = ConnectTo(server);
  EXPECT_THAT(api->Get(JobRequest(404)), StatusIs(absl::StatusCode::kNotFound, "there is no job 404\\x1b[2J"));
  EXPECT_THAT(api->Explain({}), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("")));
}

TEST(GrpcClient, ViolationsComeThrough) {
  ScriptedServer server;
  server.refuse = true;
  const auto refused = ConnectTo(server)->Submit({});
  EXPECT_EQ(ExitCodeOf(refused.status()), kExitUsage);
  EXPECT_THAT(ViolationsOf(refused.status()), ElementsAre(spec::Violation{"resources.gpu.count", "is odd", ""}));
}

TEST(GrpcClient, AFullQueueIsTriedAgainWhenItSays) {
  ScriptedServer server;
  server.busy_times = 2;
  ASSERT_OK_AND_ASSIGN(const v1::SubmitResponse response, ConnectTo(server)->Submit({}));
  EXPECT_EQ(response.job_ids(0), 7);
  EXPECT_EQ(server.submits, 3);
}

TEST(GrpcClient, NobodyThereFailsAtOnce) {
  auto gone = std::make_unique<ScriptedServer>();
  const auto api = ConnectTo(*gone);
  const std::string address = gone->address();
  gone.reset();
  const auto refused = api->Get(JobRequest(1));
  EXPECT_EQ(ExitCodeOf(refused.status()), kExitUnreachable);
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(absl::StrCat("the scheduler at ", address, " does not answer (Connection refused)"))));
}

TEST(GrpcClient, ASchedulerThatRestartsIsWaitedFor) {
  ScriptedServer server;
  const auto api = ConnectTo(server);
  ASSERT_OK(api->Get(JobRequest(1)));
  server.unavailable_gets = server.gets + 3;
  EXPECT_OK(api->Get(JobRequest(1)));
  EXPECT_EQ(server.gets, 5);
  // A real restart, on the same port.
  const int port = server.port();
  server.Stop();
  server.Start(port);
  ASSERT_EQ(server.port(), port);
  EXPECT_OK(api->Get(JobRequest(1)));
}

TEST(GrpcClient, WaitingForASchedulerHasAnEnd) {
  ScriptedServer server;
  const auto api = ConnectTo(server, 100);
  ASSERT_OK(api->Get(JobRequest(1)));
  server.unavailable_gets = 1'000'000;
  EXPECT_EQ(ExitCodeOf(api->Get(JobRequest(1)).status()), kExitUnreachable);
}

TEST(GrpcClient, APreemptionIsNeverRepeated) {
  ScriptedServer server;
  const auto api = ConnectTo(server);
  ASSERT_OK(api->Get(JobRequest(1)));
  EXPECT_EQ(ExitCodeOf(api->Preempt({}).status()), kExitUnreachable);
  EXPECT_EQ(server.preempts, 1);
}

TEST(GrpcClient, AWatchGoesOnWhereItWasCutOff) {
  for (int cut_after = 0; cut_after <= 6; ++cut_after) {
    for (const int64_t first_seq : {1, 10}) {
      ScriptedServer server;
      server.cut_after = cut_after;
      server.first_seq = first_seq;
      const auto api = ConnectTo(server);
      ASSERT_OK(api->Get(JobRequest(1)));
      std::vector<std::string> seen;
      v1::WatchRequest request;
      request.set_after_seq(-1);
      request.set_follow(true);
      ASSERT_OK(api->Watch(request, 0, [&](const v1::Event& event) {
        seen.push_back(event.message());
        return true;
      }));
      std::vector<std::string> all;
      for (int64_t seq = first_seq; seq < first_seq + 3; ++seq) {
        all.push_back(absl::StrCat(seq, "a"));
        all.push_back(absl::StrCat(seq, "b"));
      }
      EXPECT_EQ(seen, all) << "cut off after " << cut_after << ", first " << first_seq;
      MutexLock lock(&server.mutex_);
      for (const int64_t from : server.watched_from) EXPECT_NE(from, 0) << "0 would mean from now on";
    }
  }
}

TEST(GrpcClient, AWatchEndsWhenToldOrInTime) {
  ScriptedServer server;
  server.cut_after = 100;
  const auto api = ConnectTo(server);
  int seen = 0;
  ASSERT_OK(api->Watch({}, 5'000, [&](const v1::Event&) { return ++seen < 3; }));
  EXPECT_EQ(seen, 3);
}

TEST(GrpcClient, ALogGoesOnAtTheByteOfTheSameAttempt) {
  ScriptedServer server;
  const auto api = ConnectTo(server);
  std::string log;
  ASSERT_OK(api->StreamLogs({}, [&](const v1::LogChunk& chunk) {
    log += chunk.data();
    return true;
  }));
  EXPECT_EQ(log, "0123456789");
  EXPECT_EQ(server.streams, 2);
}

TEST(GrpcClient, RefusesWhatIsNoAddressOrToken) {
  for (const char* server : {"", "localhost", ":7070", "a:0", "a:70000", "a:b"}) {
    EXPECT_THAT(Connect(ClientOptions{.server = server}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not HOST:PORT"))) << server;
  }
  EXPECT_THAT(Connect(ClientOptions{.server = "a:1", .token = "x\ny"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no token has")));
}

}  // namespace
}  // namespace spillway::client
