// The raw limit of the wire: the same services, answered at once, with nothing behind them.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <iostream>

#include "base/limits.h"
#include "base/mutex.h"
#include "spillway/v1/job_service.grpc.pb.h"
#include "spillway/v1/worker_service.grpc.pb.h"
#include "tests/bench/load.h"

namespace spillway::bench {
namespace {

class BareJobs final : public v1::JobService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context, const v1::SubmitRequest* request, v1::SubmitResponse* response) override {
    for (int i = 0; i < request->specs_size(); ++i) response->add_job_ids(i + 1);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// Welcomes, and acknowledges renewals: what came while a frame was being written is answered by the next.
class BareSession final : public grpc::ServerBidiReactor<v1::WorkerFrame, v1::SchedulerFrame> {
 public:
  BareSession() { StartRead(&in_); }
  void OnReadDone(bool ok) override {
    MutexLock lock(&mutex_);
    if (!ok) {
      ended_ = true;
      if (!writing_) Finish(grpc::Status::OK);
      return;
    }
    welcome_ = welcome_ || in_.has_hello();
    if (in_.renewal() > 0) renewal_ = in_.renewal();
    Write();
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (ended_) return Finish(grpc::Status::OK);
    if (ok) Write();
  }
  void OnDone() override { delete this; }

 private:
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || (!welcome_ && renewal_ == 0)) return;
    out_.Clear();
    if (welcome_) out_.mutable_welcome()->set_node_id(1);
    if (renewal_ > 0) out_.set_renewal_ack(renewal_);
    welcome_ = false, renewal_ = 0, writing_ = true;
    StartWrite(&out_);
  }

  v1::WorkerFrame in_;
  Mutex mutex_;
  v1::SchedulerFrame out_ ABSL_GUARDED_BY(mutex_);
  bool welcome_ ABSL_GUARDED_BY(mutex_) = false, writing_ ABSL_GUARDED_BY(mutex_) = false, ended_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t renewal_ ABSL_GUARDED_BY(mutex_) = 0;
};

class BareWorkers final : public v1::WorkerService::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::WorkerFrame, v1::SchedulerFrame>* Session(grpc::CallbackServerContext*) override { return new BareSession; }
};

}  // namespace

Measured ServeBare() {
  BareJobs jobs;
  BareWorkers workers;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(limits::kGrpcMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.RegisterService(&jobs);
  builder.RegisterService(&workers);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return absl::UnavailableError("no free port on 127.0.0.1");
  std::cout << nlohmann::json{{"port", port}} << std::endl;
  while (getchar() != EOF) {
  }
  server->Shutdown(std::chrono::system_clock::now());
  server->Wait();
  return nlohmann::json::object();
}

}  // namespace spillway::bench
