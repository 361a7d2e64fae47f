// JobService: parses, checks, enqueues; answers come from the engine's thread after their commit, or from the read pool. Owns no state.
#pragma once

#include "scheduler/rpc/backend.h"
#include "spillway/v1/job_service.grpc.pb.h"

namespace spillway::rpc {

class JobService final : public v1::JobService::CallbackService {
 public:
  explicit JobService(Backend backend) : backend_(std::move(backend)) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext*, const v1::SubmitRequest*, v1::SubmitResponse*) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse*) override;
  grpc::ServerWriteReactor<v1::Event>* Watch(grpc::CallbackServerContext*, const v1::WatchRequest*) override;
  grpc::ServerUnaryReactor* Update(grpc::CallbackServerContext*, const v1::UpdateRequest*, v1::JobActionResponse*) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext*, const v1::CancelRequest*, v1::JobActionResponse*) override;
  grpc::ServerUnaryReactor* Pause(grpc::CallbackServerContext*, const v1::PauseRequest*, v1::JobActionResponse*) override;
  grpc::ServerUnaryReactor* Resume(grpc::CallbackServerContext*, const v1::ResumeRequest*, v1::JobActionResponse*) override;
  grpc::ServerUnaryReactor* Preempt(grpc::CallbackServerContext*, const v1::PreemptRequest*, v1::JobActionResponse*) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext*, const v1::ExplainRequest*, v1::ExplainResponse*) override;
  grpc::ServerWriteReactor<v1::LogChunk>* StreamLogs(grpc::CallbackServerContext*, const v1::StreamLogsRequest*) override;
  grpc::ServerUnaryReactor* ListTasks(grpc::CallbackServerContext*, const v1::ListTasksRequest*, v1::ListTasksResponse*) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext*, const v1::ListCheckpointsRequest*, v1::ListCheckpointsResponse*) override;

 private:
  // Posts a command whose reply is a JobActionResponse.
  grpc::ServerUnaryReactor* Act(grpc::CallbackServerContext* context, core::Command command, v1::JobActionResponse* response);

  const Backend backend_;
};

}  // namespace spillway::rpc
