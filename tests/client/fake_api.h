// A scheduler made of literal messages, and a Context whose streams are strings: what the verbs are tested against.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli.h"
#include "client/verb.h"

namespace spillway::client {

// Keeps every request as text ("Cancel job_id: 5 now: true") and answers from what the test put in. An error in `fail` answers instead.
class FakeApi final : public Api {
 public:
  std::vector<std::string> calls;
  std::map<std::string, absl::Status> fail;
  std::map<int64_t, v1::Job> jobs;
  std::map<int64_t, std::deque<v1::Job>> later;  // what Get answers after each Watch of the job
  v1::SubmitRequest submitted;
  v1::SubmitResponse submit_response;
  v1::ListJobsResponse list;    // used where it has jobs; else `jobs`
  v1::JobActionResponse acted;  // what Resume answers
  v1::ExplainResponse explain;
  v1::ListCheckpointsResponse checkpoints;
  v1::ListNodesResponse nodes;
  v1::ListOffersResponse offers;
  v1::ListReservationsResponse reservations;
  v1::CostReportResponse cost;
  v1::SetSecretResponse set_secret;
  v1::ListSecretsResponse secrets;
  v1::ServerInfo info;
  std::vector<v1::Event> events;
  std::vector<v1::BackupChunk> backup;
  std::map<int64_t, std::string> logs;  // by attempt number
  ManualClock* clock = nullptr;         // moved by a Watch that nothing ends

  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request) override {
    submitted = request;
    return Answer("Submit", v1::SubmitRequest(), submit_response);
  }
  absl::StatusOr<v1::Job> Get(const v1::GetJobRequest& request) override {
    if (auto status = Note("Get", request); !status.ok()) return status;
    for (const auto& [id, job] : jobs) {
      if (id == request.job_id() || (!request.name().empty() && job.name() == request.name())) return job;
    }
    return absl::NotFoundError(absl::StrCat("there is no job ", request.job_id()));
  }
  absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request) override {
    if (list.jobs_size() > 0) return Answer("List", request, list);
    v1::ListJobsResponse response;
    response.set_event_seq(100);
    for (const auto& [id, job] : jobs) {
      if (request.newest_first() && request.page_size() == 1) response.clear_jobs();
      *response.add_jobs() = job;
    }
    return Answer("List", request, response);
  }
  absl::StatusOr<v1::ListTasksResponse> ListTasks(const v1::ListTasksRequest& request) override {
    const auto job = jobs.find(request.job_id());
    if (job == jobs.end()) return absl::NotFoundError(absl::StrCat("there is no job ", request.job_id()));
    v1::ListTasksResponse response;
    const int64_t size = request.page_size() == 0 ? 100 : request.page_size();
    for (const v1::Task& task : job->second.tasks()) {
      if (task.task_index() < request.first_index()) continue;
      if (response.tasks_size() < size) {
        *response.add_tasks() = task;
      } else {
        response.set_next_page_token(absl::StrCat(task.task_index()));
        break;
      }
    }
    if (response.tasks_size() == 0)
      return absl::NotFoundError(absl::StrCat("job ", request.job_id(), " has no task ", request.first_index(), "; its only task is ", request.job_id(), ".0"));
    return Answer("ListTasks", request, response);
  }
  absl::StatusOr<v1::JobActionResponse> Cancel(const v1::CancelRequest& request) override {
    if (!jobs.contains(request.job_id())) return absl::NotFoundError("there is no such job");
    return Answer("Cancel", request, v1::JobActionResponse());
  }
  absl::StatusOr<v1::JobActionResponse> Preempt(const v1::PreemptRequest& request) override { return Answer("Preempt", request, v1::JobActionResponse()); }
  absl::StatusOr<v1::JobActionResponse> Pause(const v1::PauseRequest& request) override { return Answer("Pause", request, v1::JobActionResponse()); }
  absl::StatusOr<v1::JobActionResponse> Resume(const v1::ResumeRequest& request) override { return Answer("Resume", request, acted); }
  absl::StatusOr<v1::JobActionResponse> Update(const v1::UpdateRequest& request) override { return Answer("Update", request, v1::JobActionResponse()); }
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) override { return Answer("Explain", request, explain); }
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) override {
    return Answer("ListCheckpoints", request, checkpoints);
  }
  absl::Status Watch(const v1::WatchRequest& request, int64_t timeout_ms, const OnEvent& on_event) override {
    if (auto status = Note("Watch", request); !status.ok()) return status;
    if (auto& next = later[request.job_id()]; !next.empty()) {
      jobs[request.job_id()] = next.front();
      next.pop_front();
      on_event(v1::Event());
      return absl::OkStatus();
    }
    for (const v1::Event& event : events) {
      if (!on_event(event)) return absl::OkStatus();
    }
    if (clock != nullptr) clock->AdvanceMs(timeout_ms);
    return absl::OkStatus();
  }
  absl::Status StreamLogs(const v1::StreamLogsRequest& request, const OnLog& on_log) override {
    if (auto status = Note("StreamLogs", request); !status.ok()) return status;
    const int64_t number = request.attempt().attempt() != 0 ? request.attempt().attempt() : logs.empty() ? 0 : logs.rbegin()->first;
    if (!logs.contains(number)) return absl::NotFoundError("no log");
    v1::LogChunk chunk;
    chunk.set_data(logs[number]);
    on_log(chunk);
    return absl::OkStatus();
  }
  absl::StatusOr<v1::ListNodesResponse> ListNodes(const v1::ListNodesRequest& request) override { return Answer("ListNodes", request, nodes); }
  absl::StatusOr<v1::ListOffersResponse> ListOffers(const v1::ListOffersRequest& request) override { return Answer("ListOffers", request, offers); }
  absl::StatusOr<v1::ListReservationsResponse> ListReservations(const v1::ListReservationsRequest& request) override {
    return Answer("ListReservations", request, reservations);
  }
  absl::StatusOr<v1::NodeActionResponse> Cordon(const v1::CordonRequest& request) override { return Answer("Cordon", request, v1::NodeActionResponse()); }
  absl::StatusOr<v1::NodeActionResponse> Drain(const v1::DrainRequest& request) override { return Answer("Drain", request, v1::NodeActionResponse()); }
  absl::StatusOr<v1::ServerInfo> GetServerInfo() override { return Answer("GetServerInfo", v1::GetServerInfoRequest(), info); }
  absl::Status Backup(const OnBackup& on_chunk) override {
    if (auto status = Note("Backup", v1::BackupRequest()); !status.ok()) return status;
    for (const v1::BackupChunk& chunk : backup) {
      if (auto status = on_chunk(chunk); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<v1::ListChargesResponse> ListCharges(const v1::ListChargesRequest& request) override {
    return Answer("ListCharges", request, v1::ListChargesResponse());
  }
  absl::StatusOr<v1::CostReportResponse> CostReport(const v1::CostReportRequest& request) override { return Answer("CostReport", request, cost); }
  absl::StatusOr<v1::SetSecretResponse> SetSecret(const v1::SetSecretRequest& request) override { return Answer("SetSecret", request, set_secret); }
  absl::StatusOr<v1::ListSecretsResponse> ListSecrets(const v1::ListSecretsRequest& request) override { return Answer("ListSecrets", request, secrets); }
  absl::StatusOr<v1::RemoveSecretResponse> RemoveSecret(const v1::RemoveSecretRequest& request) override {
    return Answer("RemoveSecret", request, v1::RemoveSecretResponse());
  }

 private:
  absl::Status Note(const std::string& name, const google::protobuf::Message& request) {
    const std::string text = request.ShortDebugString();
    calls.push_back(text.empty() ? name : absl::StrCat(name, " ", text));
    const auto found = fail.find(name);
    return found == fail.end() ? absl::OkStatus() : found->second;
  }
  template <typename Response>
  absl::StatusOr<Response> Answer(const std::string& name, const google::protobuf::Message& request, const Response& response) {
    if (auto status = Note(name, request); !status.ok()) return status;
    return response;
  }
};

inline constexpr int64_t kNowMs = 1'750'000'000'000;  // 2025-06-15 15:06:40Z

// One command line against the fake.
class Cli {
 public:
  Cli() {
    context.in = &in;
    context.out = &out_stream_;
    context.err = &err_stream_;
    context.clock = &clock;
    context.sleep_ms = [this](int64_t ms) { clock.AdvanceMs(ms); };
    context.environment = [this](const char* name) { return environment.contains(name) ? environment[name] : std::string(); };
    context.environment_has = [this](const char* name) { return environment.contains(name); };
    context.home = "/nowhere";
    context.connect = [this]() -> absl::StatusOr<Api*> {
      if (!connect_error.ok()) return connect_error;
      return &api;
    };
    // A copy: what it is asked stands in nobody's list of calls.
    context.dial = [this](const std::string&, const std::string&, int64_t) -> absl::StatusOr<std::unique_ptr<Api>> {
      if (!connect_error.ok()) return connect_error;
      return std::make_unique<FakeApi>(api);
    };
    api.clock = &clock;
  }
  int Run(const std::vector<std::string>& arguments) {
    out_stream_.str("");
    err_stream_.str("");
    const int code = RunCli(arguments, context);
    out = out_stream_.str();
    err = err_stream_.str();
    return code;
  }

  ManualClock clock{kNowMs};
  FakeApi api;
  Context context;
  std::istringstream in;
  std::map<std::string, std::string> environment;
  absl::Status connect_error;
  std::string out, err;

 private:
  std::ostringstream out_stream_, err_stream_;
};

inline v1::Job MakeJob(int64_t id, const std::string& name, const std::string& state) {
  v1::Job job;
  job.set_job_id(id);
  job.set_name(name);
  job.set_state(state);
  job.set_priority(50);
  job.set_submitted_utc_ms(kNowMs - 600'000);
  job.add_tasks()->set_job_id(id);
  return job;
}

inline v1::Attempt* AddAttempt(v1::Job* job, const std::string& node, v1::Market market, v1::AttemptState state) {
  v1::Task* task = job->mutable_tasks(0);
  v1::Attempt* attempt = task->add_attempts();
  task->set_attempts_total(task->attempts_size());
  attempt->mutable_key()->set_job_id(job->job_id());
  attempt->mutable_key()->set_attempt(task->attempts_size());
  attempt->set_node_name(node);
  attempt->set_market(market);
  attempt->set_state(state);
  return attempt;
}

}  // namespace spillway::client
