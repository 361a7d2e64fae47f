// The scheduler without its processes: real engine, real store in a folder of its own, real gRPC servers on ports the system chose. Stands in for the effects
// alone (seals find nothing). Clients use what anybody would: a channel, a stub, a deadline.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "scheduler/rpc/billing_service.h"
#include "scheduler/rpc/fleet_service.h"
#include "scheduler/rpc/job_service.h"
#include "scheduler/rpc/secret_service.h"
#include "scheduler/rpc/server.h"
#include "scheduler/rpc/worker_sessions.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/support/temporary_folder.h"

namespace spillway::rpc {

inline constexpr char kUserToken[] = "user-token-of-this-test";
inline constexpr char kWorkerToken[] = "worker-token-of-this-test";
inline constexpr char kCluster[] = "0f1e2d3c-0000-4000-8000-000000000001";

// Waits on a condition, never on time alone.
inline bool Eventually(const std::function<bool()>& condition, int seconds = 20) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A disk that the test fills and empties.
class GatedStore final : public store::Store {
 public:
  explicit GatedStore(store::Store* store) : store_(store) {}
  absl::StatusOr<store::Loaded> Load() override { return store_->Load(); }
  absl::Status Commit(const store::Batch& batch) override {
    if (full) return absl::ResourceExhaustedError("no space left on device");
    return store_->Commit(batch);
  }
  absl::Status Maintain() override { return store_->Maintain(); }
  bool DiskLow() const override { return store_->DiskLow(); }
  std::atomic<bool> full = false;

 private:
  store::Store* const store_;
};

class Daemon : public engine::EffectSink {
 public:
  struct Options {
    engine::Options engine;
    int64_t keep_batches_min = 20'000;
    size_t outbox_orders_max = SessionOutbox::kOrdersMax;
  };
  explicit Daemon(const std::string& folder) : Daemon(folder, Options()) {}
  Daemon(const std::string& folder, Options options) : folder_(folder) {
    options.engine.check_invariants_every = 1;
    EXPECT_OK(MakeDirectories(JoinPath(folder, "logs")));
    const std::string database = JoinPath(folder, "spillway.db");
    store::SqliteOptions on;
    on.path = database;
    on.ballast_bytes = 0;
    on.keep_batches_min = options.keep_batches_min;
    store_ = store::SqliteStore::Open(on).value();
    gate = std::make_unique<GatedStore>(store_.get());
    reader = store::Reader::Open(database).value();
    spec_reader_ = store::Reader::Open(database).value();
    specs_ = std::make_unique<SpecCache>(spec_reader_.get());
    secrets = secrets::SecretStore::Open(JoinPath(folder, "secrets"), JoinPath(folder, "secrets.key")).value();
    sessions = std::make_unique<WorkerSessions>(
        WorkerSessions::Options{&worker_guard_, specs_.get(), secrets.get(), &clock, "file:/somewhere", options.outbox_orders_max});
    engine::ThreadOptions thread;
    thread.engine = options.engine;
    thread.disk_retry_ms = 10;
    engine = std::make_unique<engine::EngineThread>(thread, gate.get(), &clock, sessions.get(), this);
    sessions->Attach(engine.get());
    EXPECT_OK(engine->Start());
    pool_ = std::make_unique<ReadPool>(2);
    const Backend backend{engine.get(), reader.get(), pool_.get(),     specs_.get(), secrets.get(), &clock, &user_guard_, JoinPath(folder, "logs"),
                          database,     "0.0.test",   clock.NowUtcMs()};
    job_service_ = std::make_unique<JobService>(backend);
    fleet_service_ = std::make_unique<FleetService>(backend);
    billing_service_ = std::make_unique<BillingService>(backend);
    secret_service_ = std::make_unique<SecretService>(backend);
    worker_server = Server::Start("127.0.0.1:0", {sessions.get()}).value();
    user_server = Server::Start("127.0.0.1:0", {job_service_.get(), fleet_service_.get(), billing_service_.get(), secret_service_.get()}).value();
    core::ProviderInfo fixed;
    fixed.name = fixed.kind = "static";
    core::Reservation reservation;
    reservation.name = "rack";
    reservation.nodes = {"n1"};
    reservation.price_micros_per_hour = 2'000'000;
    EXPECT_OK(Do(core::Configure{kCluster, {fixed}, {reservation}}));
    user_channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", user_server->port()), grpc::InsecureChannelCredentials());
    worker_channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", worker_server->port()), grpc::InsecureChannelCredentials());
    jobs = v1::JobService::NewStub(user_channel);
    fleet = v1::FleetService::NewStub(user_channel);
    billing = v1::BillingService::NewStub(user_channel);
    workers = v1::WorkerService::NewStub(worker_channel);
  }
  ~Daemon() override { Stop(); }

  // As the daemon does it.
  void Stop() {
    user_server->Stop(0);
    sessions->CloseAll("SHUTDOWN", "the scheduler stops");
    worker_server->Stop(2'000);
    engine->Stop();
  }

  // A command as main and the effects post it.
  absl::StatusOr<core::Reply> Do(core::Command command) {
    std::promise<absl::StatusOr<core::Reply>> answer;
    const absl::Status posted = engine->Post(std::move(command), [&](absl::StatusOr<core::Reply> reply) { answer.set_value(std::move(reply)); });
    return posted.ok() ? answer.get_future().get() : posted;
  }

  // EffectSink: a store that holds no checkpoints, and providers that never act.
  void Seal(const engine::SealOrder& order) override {
    core::SealResult nothing;
    nothing.attempt = order.attempt;
    EXPECT_OK(engine->Post(nothing, {}));
  }
  void Create(const engine::CreateOrder&) override {}
  void Terminate(const engine::TerminateOrder&) override {}
  void AskAbout(const std::string&) override {}

  std::string LogFile(const std::string& relative) const { return JoinPath(JoinPath(folder_, "logs"), relative); }

  RealClock clock;
  std::unique_ptr<GatedStore> gate;
  std::unique_ptr<store::Reader> reader;
  std::unique_ptr<secrets::SecretStore> secrets;
  std::unique_ptr<WorkerSessions> sessions;
  std::unique_ptr<engine::EngineThread> engine;
  std::unique_ptr<Server> user_server, worker_server;
  std::shared_ptr<grpc::Channel> user_channel, worker_channel;
  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<v1::FleetService::Stub> fleet;
  std::unique_ptr<v1::BillingService::Stub> billing;
  std::unique_ptr<v1::WorkerService::Stub> workers;

 private:
  const std::string folder_;
  const auth::TokenGuard user_guard_{kUserToken}, worker_guard_{kWorkerToken};
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::Reader> spec_reader_;
  std::unique_ptr<SpecCache> specs_;
  std::unique_ptr<ReadPool> pool_;
  std::unique_ptr<JobService> job_service_;
  std::unique_ptr<FleetService> fleet_service_;
  std::unique_ptr<BillingService> billing_service_;
  std::unique_ptr<SecretService> secret_service_;
};

// The context of one call: its token ("" sends none) and a deadline that only a hang would reach.
struct Call {
  explicit Call(const std::string& token = kUserToken, int deadline_ms = 30'000) {
    if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms));
  }
  operator grpc::ClientContext*() { return &context; }
  std::string Trailer(const std::string& key) const {
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto it = trailers.find(key);
    return it == trailers.end() ? "" : std::string(it->second.data(), it->second.size());
  }
  grpc::ClientContext context;
};

inline absl::Status StatusOf(const grpc::Status& status) { return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()); }

inline v1::JobSpec MakeSpec(const std::string& name = "train") {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.add_command("/bin/true");
  return spec;
}
inline v1::SubmitRequest SubmitOf(std::vector<v1::JobSpec> specs, const std::string& request_id = "") {
  v1::SubmitRequest request;
  request.set_request_id(request_id);
  for (v1::JobSpec& spec : specs) *request.add_specs() = std::move(spec);
  return request;
}

// Submits and expects it to be taken.
inline std::vector<int64_t> Submit(const Daemon& daemon, std::vector<v1::JobSpec> specs) {
  Call call;
  v1::SubmitResponse response;
  EXPECT_OK(StatusOf(daemon.jobs->Submit(call, SubmitOf(std::move(specs)), &response)));
  return {response.job_ids().begin(), response.job_ids().end()};
}
inline v1::Job GetJob(const Daemon& daemon, int64_t id) {
  Call call;
  v1::GetJobRequest request;
  request.set_job_id(id);
  v1::Job job;
  EXPECT_OK(StatusOf(daemon.jobs->Get(call, request, &job)));
  return job;
}

// A worker's end of one session, by hand. Everything that arrived is kept.
class WorkerClient {
 public:
  explicit WorkerClient(const Daemon& daemon, const std::string& token = kWorkerToken) : call_(token), stream_(daemon.workers->Session(call_)) {}
  ~WorkerClient() {
    if (!ended_) call_.context.TryCancel();
    if (!ended_) End().IgnoreError();
  }

  static v1::Hello MakeHello(const std::string& name = "n1", const std::string& boot_id = "boot-1") {
    v1::Hello hello;
    hello.set_protocol("spillway/1");
    hello.set_node_name(name);
    hello.set_provider("static");
    hello.set_boot_id(boot_id);
    hello.mutable_resources()->set_cpu_milli(4'000);
    hello.mutable_resources()->set_memory_bytes(8LL << 30);
    v1::Accelerator* gpu = hello.mutable_resources()->add_accelerators();
    gpu->set_model("A100");
    gpu->set_count(2);
    gpu->set_memory_bytes(40LL << 30);
    return hello;
  }
  bool SayHello(const v1::Hello& hello = MakeHello()) {
    v1::WorkerFrame frame;
    *frame.mutable_hello() = hello;
    return Write(frame);
  }
  // Says hello and waits for the welcome.
  v1::Welcome Open(const v1::Hello& hello = MakeHello()) {
    EXPECT_TRUE(SayHello(hello));
    EXPECT_TRUE(ReadUntil([&] { return welcome.has_value(); }));
    return welcome.value_or(v1::Welcome());
  }
  bool Write(const v1::WorkerFrame& frame) { return stream_->Write(frame); }
  bool Report(v1::Report report, const v1::AttemptKey& attempt) {
    report.set_seq(++reported);
    *report.mutable_attempt() = attempt;
    v1::WorkerFrame frame;
    *frame.add_reports() = std::move(report);
    return Write(frame);
  }
  bool Accept(const v1::AttemptKey& attempt) {
    v1::Report report;
    report.mutable_accepted();
    return Report(report, attempt);
  }
  bool Start(const v1::AttemptKey& attempt) {
    v1::Report report;
    report.mutable_started();
    return Report(report, attempt);
  }
  bool EndAttempt(const v1::AttemptKey& attempt, v1::EndCause cause, v1::Initiator initiator = v1::BY_JOB) {
    v1::Report report;
    report.mutable_ended()->set_cause(cause);
    report.mutable_ended()->set_initiator(initiator);
    return Report(report, attempt);
  }

  // False when the stream ended first.
  bool ReadUntil(const std::function<bool()>& condition) {
    while (!condition()) {
      v1::SchedulerFrame frame;
      if (!stream_->Read(&frame)) return false;
      ++frames;
      if (frame.has_welcome()) {
        EXPECT_FALSE(welcome.has_value()) << "a second welcome";
        welcome = frame.welcome();
        offers.insert(offers.end(), frame.welcome().offers().begin(), frame.welcome().offers().end());
        specs.insert(specs.end(), frame.welcome().specs().begin(), frame.welcome().specs().end());
      }
      offers.insert(offers.end(), frame.offers().begin(), frame.offers().end());
      stops.insert(stops.end(), frame.stops().begin(), frame.stops().end());
      specs.insert(specs.end(), frame.specs().begin(), frame.specs().end());
      forget.insert(forget.end(), frame.forget().begin(), frame.forget().end());
      report_ack = std::max(report_ack, frame.report_ack());
      renewal_ack = std::max(renewal_ack, frame.renewal_ack());
      if (frame.has_goodbye()) goodbye = frame.goodbye();
    }
    return true;
  }
  // Reads to the end and gives its status.
  absl::Status End() {
    if (ended_) return status_;
    ReadUntil([] { return false; });
    ended_ = true;
    status_ = StatusOf(stream_->Finish());
    return status_;
  }
  void Cancel() { call_.context.TryCancel(); }
  void HalfClose() { stream_->WritesDone(); }

  std::optional<v1::Welcome> welcome;
  std::vector<v1::SchedulerFrame::Offer> offers;
  std::vector<v1::Stop> stops;
  std::vector<v1::SpecData> specs;
  std::vector<v1::AttemptKey> forget;
  std::optional<v1::Goodbye> goodbye;
  int64_t report_ack = 0, renewal_ack = 0, reported = 0, frames = 0;

 private:
  Call call_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerFrame, v1::SchedulerFrame>> stream_;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace spillway::rpc
