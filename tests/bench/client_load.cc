// Users: submits with many callers, a run of many jobs, pages of lists, and the time from a submit to its process.
#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "spillway/v1/fleet_service.grpc.pb.h"
#include "spillway/v1/job_service.grpc.pb.h"
#include "tests/bench/load.h"

extern char** environ;

namespace spillway::bench {
namespace {

constexpr int64_t kCallTimeoutMs = 60'000;
constexpr int kMarkTimeoutS = 60;

absl::Status StatusOf(const grpc::Status& status, absl::string_view what) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), absl::StrCat(what, ": ", status.error_message()));
}

class Client {
 public:
  static absl::StatusOr<Client> Open(const Server& server) {
    Client out;
    if (!server.token_file.empty()) {
      ASSIGN_OR_RETURN(const std::string token, ReadFile(server.token_file, 4'096));
      out.authorization_ = absl::StrCat("Bearer ", absl::StripAsciiWhitespace(token));
    }
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(limits::kGrpcMessageBytesMax);
    arguments.SetMaxSendMessageSize(limits::kGrpcMessageBytesMax);
    const auto channel = grpc::CreateCustomChannel(server.address, grpc::InsecureChannelCredentials(), arguments);
    // The connection stands before any clock runs.
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(kCallTimeoutMs)))
      return absl::UnavailableError(absl::StrCat("nobody answers at ", server.address));
    out.jobs = v1::JobService::NewStub(channel);
    out.fleet = v1::FleetService::NewStub(channel);
    return out;
  }
  std::unique_ptr<grpc::ClientContext> Context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(kCallTimeoutMs));
    return context;
  }
  // Tasks that have not ended.
  absl::StatusOr<int64_t> Living() const {
    v1::ServerInfo info;
    RETURN_IF_ERROR(StatusOf(fleet->GetServerInfo(Context().get(), {}, &info), "GetServerInfo"));
    return info.queued_tasks() + info.active_tasks();
  }

  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<v1::FleetService::Stub> fleet;

 private:
  std::string authorization_;
};

v1::JobSpec SpecOf(const Jobs& jobs, int64_t number) {
  v1::JobSpec spec;
  spec.set_name("bench");
  spec.add_command(jobs.program);
  spec.mutable_resources()->set_cpu_milli(jobs.cpu_milli);
  if (!jobs.node.empty()) spec.mutable_placement()->add_nodes(jobs.node);
  if (jobs.array > 0) spec.mutable_array()->set_count(jobs.array);
  std::string& distinct = (*spec.mutable_env())["RUN"];
  distinct = absl::StrCat(jobs.tag, "-", number);
  // Not compressible, should anybody try.
  std::minstd_rand random(static_cast<uint32_t>(number + 1));
  for (auto bytes = static_cast<int64_t>(spec.ByteSizeLong()); bytes < jobs.spec_bytes; ++bytes) distinct.push_back(static_cast<char>('a' + random() % 26));
  return spec;
}

std::vector<v1::SubmitRequest> Requests(const Jobs& jobs, int64_t calls, int64_t per_call) {
  std::vector<v1::SubmitRequest> out(static_cast<size_t>(calls));
  int64_t number = 0;
  for (v1::SubmitRequest& request : out) {
    for (int64_t i = 0; i < per_call; ++i) *request.add_specs() = SpecOf(jobs, number++);
  }
  return out;
}

// All callers together: each answer starts the next call.
class Callers {
 public:
  Callers(const Client* client, std::vector<v1::SubmitRequest> requests) : client_(client), calls_(requests.size()) {
    for (size_t i = 0; i < requests.size(); ++i) calls_[i].request = std::move(requests[i]);
  }
  absl::Status Run(int64_t callers) {
    for (int64_t i = 0; i < callers; ++i) Next();
    MutexLock lock(&mutex_);
    while (answered_ < calls_.size()) changed_.Wait(&mutex_);
    return failed_;
  }
  std::vector<double> LatenciesMs() const {
    std::vector<double> out;
    for (const Call& call : calls_) out.push_back(call.took_ms);
    return out;
  }

 private:
  struct Call {
    v1::SubmitRequest request;
    v1::SubmitResponse response;
    std::unique_ptr<grpc::ClientContext> context;
    double began = 0, took_ms = 0;
  };
  void Next() {
    const size_t number = next_++;
    if (number >= calls_.size()) return;
    Call& call = calls_[number];
    call.context = client_->Context();
    call.began = MonotonicSeconds();
    client_->jobs->async()->Submit(call.context.get(), &call.request, &call.response, [this, &call](const grpc::Status& status) {
      call.took_ms = (MonotonicSeconds() - call.began) * 1e3;
      absl::Status result = StatusOf(status, "Submit");
      if (result.ok() && call.response.job_ids_size() != call.request.specs_size()) result = absl::InternalError("not every job of a call has an id");
      Next();
      MutexLock lock(&mutex_);
      failed_.Update(result);
      if (++answered_ == calls_.size()) changed_.Signal();
    });
  }

  const Client* const client_;
  std::vector<Call> calls_;
  std::atomic<size_t> next_ = 0;
  Mutex mutex_;
  CondVar changed_;
  size_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
};

absl::Status WaitForLiving(const Client& client, int64_t living, std::chrono::milliseconds between) {
  while (true) {
    ASSIGN_OR_RETURN(const int64_t now, client.Living());
    if (now <= living) return absl::OkStatus();
    std::this_thread::sleep_for(between);
  }
}

}  // namespace

Measured Submit(const Server& server, const Jobs& jobs, int64_t callers, int64_t calls, int64_t per_call) {
  ASSIGN_OR_RETURN(const Client client, Client::Open(server));
  Callers measured(&client, Requests(jobs, calls, per_call));
  const double began = MonotonicSeconds();
  RETURN_IF_ERROR(measured.Run(callers));
  const double took = MonotonicSeconds() - began;
  return nlohmann::json{{"jobs", calls * per_call},
                        {"seconds", took},
                        {"per_second", static_cast<double>(calls * per_call) / took},
                        {"call_ms", Quantiles(measured.LatenciesMs())}};
}

Measured RunAll(const Server& server, const Jobs& jobs, int64_t count) {
  ASSIGN_OR_RETURN(const Client client, Client::Open(server));
  ASSIGN_OR_RETURN(const int64_t before, client.Living());
  Callers submit(&client, Requests(jobs, 1, count));
  const double began = MonotonicSeconds();
  RETURN_IF_ERROR(submit.Run(1));
  RETURN_IF_ERROR(WaitForLiving(client, before, std::chrono::milliseconds(5)));
  const double took = MonotonicSeconds() - began;
  const int64_t tasks = count * std::max<int64_t>(1, jobs.array);
  return nlohmann::json{{"seconds", took}, {"per_second", static_cast<double>(tasks) / took}};
}

Measured ListPages(const Server& server, int64_t pages, int64_t page_size, int64_t last_job) {
  ASSIGN_OR_RETURN(const Client client, Client::Open(server));
  std::mt19937_64 random(1);
  std::vector<double> took_ms;
  for (int64_t i = 0; i < pages; ++i) {
    v1::ListJobsRequest request;
    request.set_page_size(static_cast<int32_t>(page_size));
    request.set_newest_first(i % 2 == 1);
    // A whole page from there, in either direction.
    const int64_t after = page_size + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(1, last_job - 2 * page_size)));
    request.set_page_token(absl::StrCat(after));
    v1::ListJobsResponse response;
    const double began = MonotonicSeconds();
    RETURN_IF_ERROR(StatusOf(client.jobs->List(client.Context().get(), request, &response), "List"));
    took_ms.push_back((MonotonicSeconds() - began) * 1e3);
    if (response.jobs_size() != page_size) return absl::InternalError(absl::StrCat("a page after job ", after, " has ", response.jobs_size(), " jobs"));
  }
  return nlohmann::json{{"pages", pages}, {"page_ms", Quantiles(took_ms)}};
}

Measured ListTaskPages(const Server& server, int64_t pages, int64_t page_size, JobId job, int64_t tasks) {
  ASSIGN_OR_RETURN(const Client client, Client::Open(server));
  std::mt19937_64 random(1);
  std::vector<double> took_ms;
  for (int64_t i = 0; i < pages; ++i) {
    v1::ListTasksRequest request;
    request.set_job_id(job);
    request.set_page_size(static_cast<int32_t>(page_size));
    request.set_first_index(static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(1, tasks - page_size))));
    v1::ListTasksResponse response;
    const double began = MonotonicSeconds();
    RETURN_IF_ERROR(StatusOf(client.jobs->ListTasks(client.Context().get(), request, &response), "ListTasks"));
    took_ms.push_back((MonotonicSeconds() - began) * 1e3);
    if (response.tasks_size() != page_size || response.tasks(0).task_index() != request.first_index())
      return absl::InternalError(absl::StrCat("a page from task ", request.first_index(), " on is not the one that was asked for"));
  }
  return nlohmann::json{{"pages", pages}, {"page_ms", Quantiles(took_ms)}};
}

Measured CountStates(const Server& server, JobId job, const std::string& finished) {
  ASSIGN_OR_RETURN(const Client client, Client::Open(server));
  std::map<std::string, int64_t> states;
  std::set<TaskId> succeeded;
  const auto count = [&](TaskId id, const std::string& state) {
    ++states[state];
    if (state == "SUCCEEDED") succeeded.insert(id);
  };
  // Each answer's token asks for the next page.
  const auto all_pages = [](auto request, const auto& page) -> absl::Status {
    request.set_page_size(limits::kPageSizeMax);
    do {
      ASSIGN_OR_RETURN(const std::string next, page(request));
      request.set_page_token(next);
    } while (!request.page_token().empty());
    return absl::OkStatus();
  };
  if (job != 0) {
    v1::ListTasksRequest first;
    first.set_job_id(job);
    RETURN_IF_ERROR(all_pages(first, [&](const v1::ListTasksRequest& request) -> absl::StatusOr<std::string> {
      v1::ListTasksResponse response;
      RETURN_IF_ERROR(StatusOf(client.jobs->ListTasks(client.Context().get(), request, &response), "ListTasks"));
      for (const v1::Task& task : response.tasks()) count({job, task.task_index()}, v1::TaskState_Name(task.state()));
      return response.next_page_token();
    }));
  } else {
    RETURN_IF_ERROR(all_pages(v1::ListJobsRequest(), [&](const v1::ListJobsRequest& request) -> absl::StatusOr<std::string> {
      v1::ListJobsResponse response;
      RETURN_IF_ERROR(StatusOf(client.jobs->List(client.Context().get(), request, &response), "List"));
      for (const v1::Job& each : response.jobs()) count({each.job_id(), 0}, each.state());
      return response.next_page_token();
    }));
  }
  int64_t acknowledged = 0, missing = 0;
  std::ifstream in(finished);
  for (std::string line; std::getline(in, line); ++acknowledged) {
    ASSIGN_OR_RETURN(const TaskId id, ParseTaskId(line));
    missing += succeeded.count(id) == 0;
  }
  return nlohmann::json{{"states", states}, {"acknowledged", acknowledged}, {"missing", missing}};
}

Measured SubmitToRunning(const Server& server, const Jobs& jobs, const std::string& mark, const std::string& socket_path, int64_t count) {
  ASSIGN_OR_RETURN(const Client client, Client::Open(server));
  ASSIGN_OR_RETURN(const int64_t living, client.Living());
  sockaddr_un address = {.sun_family = AF_UNIX};
  if (socket_path.size() >= sizeof address.sun_path) return absl::InvalidArgumentError(absl::StrCat(socket_path, ": too long for a socket"));
  socket_path.copy(address.sun_path, socket_path.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup end = [&] { close(fd), unlink(socket_path.c_str()); };
  const timeval timeout = {.tv_sec = kMarkTimeoutS};
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0)
    return ErrnoStatus(errno, socket_path);
  const auto marked = [&]() -> absl::StatusOr<double> {
    char byte;
    if (recv(fd, &byte, 1, 0) != 1) return ErrnoStatus(errno, "nothing was heard of the process");
    return MonotonicSeconds();
  };

  std::vector<double> spawn_ms, run_ms;
  for (int64_t i = 0; i < count; ++i) {
    std::string program = mark, argument = socket_path;
    char* argv[] = {program.data(), argument.data(), nullptr};
    pid_t pid;
    double began = MonotonicSeconds();
    if (const int error = posix_spawn(&pid, mark.c_str(), nullptr, nullptr, argv, environ); error != 0) return ErrnoStatus(error, mark);
    ASSIGN_OR_RETURN(const double spawned, marked());
    spawn_ms.push_back((spawned - began) * 1e3);
    if (waitpid(pid, nullptr, 0) != pid) return ErrnoStatus(errno, "waitpid");

    v1::SubmitRequest request;
    Jobs one = jobs;
    one.program = mark;
    *request.add_specs() = SpecOf(one, i);
    request.mutable_specs(0)->add_command(socket_path);
    v1::SubmitResponse response;
    began = MonotonicSeconds();
    RETURN_IF_ERROR(StatusOf(client.jobs->Submit(client.Context().get(), request, &response), "Submit"));
    ASSIGN_OR_RETURN(const double ran, marked());
    run_ms.push_back((ran - began) * 1e3);
    RETURN_IF_ERROR(WaitForLiving(client, living, std::chrono::milliseconds(10)));
  }
  const nlohmann::json spawn = Quantiles(spawn_ms);
  std::vector<double> above_ms;
  for (const double ms : run_ms) above_ms.push_back(ms - spawn["p50"].get<double>());
  return nlohmann::json{{"spawn_ms", spawn}, {"run_ms", Quantiles(run_ms)}, {"above_spawn_ms", Quantiles(above_ms)}};
}

}  // namespace spillway::bench
