#include "scheduler/rpc/job_service.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/core/metering.h"
#include "scheduler/rpc/follow.h"
#include "scheduler/rpc/live.h"
#include "scheduler/rpc/log_follower.h"
#include "scheduler/rpc/needs.h"
#include "scheduler/rpc/translate_spec.h"
#include "scheduler/rpc/translate_view.h"
#include "scheduler/rpc/unary.h"
#include "spec/validate.h"

namespace spillway::rpc {
namespace {

constexpr size_t kLiveTasksMax = 1'000;

// "5.0 MB"; just above a limit of whole megabytes, to the byte.
std::string MegabytesOf(size_t bytes) {
  return bytes * 10 < limits::kSpecBytesMax * 11 ? absl::StrCat(bytes, " bytes") : absl::StrFormat("%.1f MB", bytes / 1048576.0);
}

std::vector<spec::Violation> SecretsThatLack(const v1::JobSpec& spec, const secrets::SecretStore& secrets) {
  std::vector<spec::Violation> lack;
  for (int i = 0; i < spec.secrets_size(); ++i) {
    std::string nearest;
    if (std::string why_not = secrets.WhyNot(spec.secrets(i), &nearest); !why_not.empty()) {
      lack.push_back({absl::StrCat("secrets[", i, "]"), absl::StrCat(why_not, " (`spillway secrets set ", spec.secrets(i), "` makes it)"), nearest});
    }
  }
  return lack;
}

// Everything that is wrong with the request, or the jobs for the core.
absl::StatusOr<std::vector<core::NewJob>> JobsOf(const v1::SubmitRequest& request, const secrets::SecretStore& secrets,
                                                 std::vector<spec::Violation>* violations) {
  if (request.specs().empty()) return absl::InvalidArgumentError("no specs: a submit carries at least one");
  if (request.specs_size() > limits::kJobsPerSubmitMax) {
    return absl::InvalidArgumentError(absl::StrCat(request.specs_size(), " specs in one submit; the limit is ", limits::kJobsPerSubmitMax));
  }
  if (request.request_id().size() > limits::kRequestIdBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("request_id is longer than ", limits::kRequestIdBytesMax, " bytes"));
  }
  std::vector<core::NewJob> jobs;
  for (const v1::JobSpec& submitted : request.specs()) {
    const size_t bytes = submitted.ByteSizeLong();
    const std::string prefix = request.specs_size() == 1 ? "" : absl::StrCat("specs[", jobs.size(), "].");
    if (bytes > limits::kSpecBytesMax) {
      return absl::InvalidArgumentError(absl::StrFormat("%sspec is %s; the limit is %d MB", prefix.empty() ? "" : absl::StrCat("specs[", jobs.size(), "]: "),
                                                        MegabytesOf(bytes), limits::kSpecBytesMax >> 20));
    }
    v1::JobSpec job_spec = submitted;
    spec::NormalizeJobSpec(&job_spec);
    std::vector<spec::Violation> found = spec::ValidateJobSpec(job_spec);
    if (found.empty()) found = SecretsThatLack(job_spec, secrets);
    for (spec::Violation& violation : found) {
      if (violations->size() >= spec::kViolationsMax) break;
      violation.field_path = prefix + violation.field_path;
      violations->push_back(std::move(violation));
    }
    jobs.push_back(NewJobOf(job_spec, NewUuid(), "user"));
    jobs.back().paused = request.hold();
  }
  return jobs;
}

template <typename View>
absl::Status FillTasks(const Backend& backend, const core::Job& job, TaskIndex first, int64_t limit, const LiveTasks& live, View* view) {
  ASSIGN_OR_RETURN(const std::vector<core::Task> tasks, backend.reader->ListTasks(job, first, limit));
  for (const core::Task& task : tasks) {
    v1::Task* task_view = view->add_tasks();
    *task_view = TaskView(task);
    MergeLive(live, task_view);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PageSizeOf(int64_t page_size) {
  if (page_size == 0) return limits::kPageSizeDefault;
  if (page_size >= 1 && page_size <= limits::kPageSizeMax) return page_size;
  return absl::InvalidArgumentError(absl::StrCat("page_size must be 1 to ", limits::kPageSizeMax, ", not ", page_size));
}

absl::Status FillSpec(const Backend& backend, const core::Job& job, v1::Job* view) {
  ASSIGN_OR_RETURN(const std::string bytes, backend.reader->GetSpec(job.spec_digest));
  if (!view->mutable_spec()->ParseFromString(bytes)) return absl::DataLossError(absl::StrCat("the stored spec of job ", job.id, " does not parse"));
  return absl::OkStatus();
}

absl::StatusOr<JobId> FindJob(const Backend& backend, int64_t id, const std::string& name) {
  if (id != 0) return id;
  if (name.empty()) return absl::InvalidArgumentError("give a job_id or a name");
  if (name.size() > limits::kNameBytesMax) return absl::InvalidArgumentError(absl::StrCat("name is longer than ", limits::kNameBytesMax, " bytes"));
  absl::StatusOr<core::Job> job = backend.reader->GetNewestJobNamed(name);
  if (absl::IsNotFound(job.status())) return absl::NotFoundError(absl::StrCat("there is no job named '", Printable(name), "'"));
  RETURN_IF_ERROR(job.status());
  return job->id;
}

// Reads turns for one watcher: few at a time where they are large, so that what waits to be sent stays bounded. Runs on the pool, one call at a time.
class TurnReader {
 public:
  TurnReader(const Backend& backend, const v1::WatchRequest& request)
      : backend_(backend), at_(request.after_seq()), job_(request.job_id()), follow_(request.follow()) {}

  absl::StatusOr<Follow> Read(std::deque<v1::Event>* out) {
    if (!begun_) RETURN_IF_ERROR(Begin());
    const Follow end = follow_ ? Follow::kWait : Follow::kEnd;
    if (backend_.engine->committed_seq() <= at_) return end;  // costs no query
    ASSIGN_OR_RETURN(const std::vector<store::EventRecord> turns, backend_.reader->Events(at_, turns_per_read_));
    int64_t events = 0;
    for (const store::EventRecord& turn : turns) {
      at_ = turn.seq;
      events += static_cast<int64_t>(turn.events.size());
      for (const core::Event& event : turn.events) {
        v1::Event view;
        if (EventView(event, turn.seq, turn.now_ms, &view) && (job_ == 0 || view.attempt().job_id() == job_)) out->push_back(std::move(view));
      }
    }
    const bool more = static_cast<int64_t>(turns.size()) == turns_per_read_;
    turns_per_read_ = events > kEventsPerReadAim ? std::max<int64_t>(1, turns_per_read_ / 2) : std::min(kTurnsPerReadMax, turns_per_read_ * 2);
    return more ? Follow::kMore : end;
  }

 private:
  static constexpr int64_t kTurnsPerReadMax = 256;
  static constexpr int64_t kEventsPerReadAim = 4'096;

  // 0 is "from now on", -1 "from the oldest kept".
  absl::Status Begin() {
    ASSIGN_OR_RETURN(const int64_t newest, backend_.reader->NewestSeq());
    if (at_ > newest) return absl::OutOfRangeError(absl::StrCat("after_seq ", at_, " is beyond turn ", newest, ", the newest: list anew"));
    if (at_ == 0) at_ = newest;
    if (at_ < 0) {
      ASSIGN_OR_RETURN(at_, backend_.reader->PrunedSeq());
    }
    begun_ = true;
    return absl::OkStatus();
  }

  const Backend& backend_;
  int64_t at_;
  const JobId job_;
  const bool follow_;
  bool begun_ = false;
  int64_t turns_per_read_ = 8;
};

absl::StatusOr<store::JobFilter> FilterOf(const v1::ListJobsRequest& request) {
  store::JobFilter filter;
  filter.name = request.name();
  filter.newest_first = request.newest_first();
  ASSIGN_OR_RETURN(filter.limit, PageSizeOf(request.page_size()));
  if (!request.page_token().empty() && (!absl::SimpleAtoi(request.page_token(), &filter.after) || filter.after < 1)) {
    return absl::InvalidArgumentError("page_token is not one of ours");
  }
  for (const std::string& name : request.states()) {
    ASSIGN_OR_RETURN(const TaskState state, ParseWord<TaskState>(name));
    filter.states.push_back(state);
  }
  return filter;
}

std::vector<JobId> IdsOf(const std::vector<core::Job>& jobs) {
  std::vector<JobId> ids;
  for (const core::Job& job : jobs) ids.push_back(job.id);
  return ids;
}

void FillSubmitted(const core::Reply& reply, v1::SubmitResponse* response) {
  for (const JobId id : reply.jobs) response->add_job_ids(id);
  response->set_repeated_request(reply.repeated);
  for (const std::string& warning : reply.warnings) response->add_warnings(warning);
}

// A submission whose jobs wait for others: those are looked up on the pool, and again when one has ended before the engine saw the submission. Each job ends
// once, so this comes to an end. Holds its own copy of what was asked; context and response are touched only while the call lives.
class NeedySubmit : public std::enable_shared_from_this<NeedySubmit> {
 public:
  NeedySubmit(const Backend& backend, grpc::CallbackServerContext* context, v1::SubmitResponse* response, std::shared_ptr<EngineCall::Slot> slot,
              std::vector<std::vector<NamedNeed>> needs, core::Submit submit)
      : backend_(backend), context_(context), response_(response), slot_(std::move(slot)), needs_(std::move(needs)), submit_(std::move(submit)) {}

  void Begin() {
    if (backend_.pool->Run([self = shared_from_this()] { self->LookUpAndPost(); })) return;
    Exhausted(absl::ResourceExhaustedError("too many reads are waiting; try again"));
  }

 private:
  void LookUpAndPost() {
    std::vector<spec::Violation> violations;
    const absl::Status looked = ResolveNeeds(needs_, backend_.reader, &submit_.jobs, &violations);
    if (!looked.ok()) return slot_->End([&] { return ToGrpc(looked); });
    if (!violations.empty()) return slot_->End([&] { return RefuseWithViolations(context_, violations); });
    const absl::Status posted = backend_.engine->Post(submit_, [self = shared_from_this()](absl::StatusOr<core::Reply> reply) { self->Answered(reply); });
    if (!posted.ok()) Exhausted(posted);
  }

  void Answered(const absl::StatusOr<core::Reply>& reply) {
    if (absl::IsAborted(reply.status())) return Begin();
    if (absl::IsResourceExhausted(reply.status())) return Exhausted(reply.status());
    slot_->End([&] {
      if (reply.ok()) FillSubmitted(*reply, response_);
      return ToGrpc(reply.status());
    });
  }

  void Exhausted(const absl::Status& status) {
    slot_->End([&] {
      SuggestRetry(context_, kRetryAfterMs);
      return ToGrpc(status);
    });
  }

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  v1::SubmitResponse* const response_;
  const std::shared_ptr<EngineCall::Slot> slot_;
  const std::vector<std::vector<NamedNeed>> needs_;
  core::Submit submit_;
};

}  // namespace

grpc::ServerUnaryReactor* JobService::Submit(grpc::CallbackServerContext* context, const v1::SubmitRequest* request, v1::SubmitResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  std::vector<spec::Violation> violations;
  absl::StatusOr<std::vector<core::NewJob>> jobs = JobsOf(*request, *backend_.secrets, &violations);
  if (!jobs.ok()) return Refuse(context, jobs.status());
  if (!violations.empty()) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(RefuseWithViolations(context, violations));
    return reactor;
  }
  // What is submitted is soon offered. Stored by content: a submission that is refused leaves nothing wrong behind.
  for (const core::NewJob& job : *jobs) backend_.specs->Put(job.spec_digest, job.spec_bytes);
  core::Submit submit{request->request_id(), RequestDigest(*jobs), *std::move(jobs)};
  std::vector<std::vector<NamedNeed>> needs = NeedsNamedIn(*request);
  if (needs.empty()) return AskEngine(context, backend_, std::move(submit), [response](const core::Reply& reply) { FillSubmitted(reply, response); });
  auto* call = new EngineCall;
  const auto needy = std::make_shared<NeedySubmit>(backend_, context, response, call->slot(), std::move(needs), std::move(submit));
  call->slot()->Wait(call);
  needy->Begin();
  return call;
}

// First what only the engine knows, then the rows: they are at least as new.
grpc::ServerUnaryReactor* JobService::Get(grpc::CallbackServerContext* context, const v1::GetJobRequest* request, v1::Job* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const JobId id, FindJob(backend_, request->job_id(), request->name()));
    const int64_t tasks_max = request->has_tasks_max() ? request->tasks_max() : limits::kPageSizeMax;
    if (tasks_max < 0 || tasks_max > limits::kPageSizeMax) {
      return absl::InvalidArgumentError(absl::StrCat("tasks_max must be 0 to ", limits::kPageSizeMax, ", not ", tasks_max));
    }
    std::optional<core::CostSoFar> cost;
    ASSIGN_OR_RETURN(const LiveTasks live, AskState(backend_, [&](const core::State& state, const core::Soft& soft, int64_t now_ms) {
                       cost = core::JobCostSoFar(state, id, now_ms);
                       return CollectLive(state, soft, backend_.engine->policy(), now_ms, {id}, {0, tasks_max}, static_cast<size_t>(tasks_max));
                     }));
    ASSIGN_OR_RETURN(const core::Job job, backend_.reader->GetJob(id));
    *response = JobView(job);
    // Not when it has ended since: then the row has all of it.
    if (cost.has_value() && job.ended_ms == 0) {
      response->set_cost_micros(cost->burst_micros);
      response->set_reserved_micros(cost->reserved_micros);
    }
    RETURN_IF_ERROR(FillSpec(backend_, job, response));
    return FillTasks(backend_, job, 0, tasks_max, live, response);
  });
}

grpc::ServerUnaryReactor* JobService::ListTasks(grpc::CallbackServerContext* context, const v1::ListTasksRequest* request, v1::ListTasksResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t page_size, PageSizeOf(request->page_size()));
    TaskIndex first = request->first_index();
    if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &first)) return absl::InvalidArgumentError("page_token is not one of ours");
    if (first < 0 || first > limits::kArrayTasksMax) {
      return absl::InvalidArgumentError(absl::StrCat("first_index must be 0 to ", limits::kArrayTasksMax, ", not ", first));
    }
    ASSIGN_OR_RETURN(
        const LiveTasks live, AskState(backend_, [&](const core::State& state, const core::Soft& soft, int64_t now_ms) {
          return CollectLive(state, soft, backend_.engine->policy(), now_ms, {request->job_id()}, {first, first + page_size}, static_cast<size_t>(page_size));
        }));
    ASSIGN_OR_RETURN(const core::Job job, backend_.reader->GetJob(request->job_id()));
    RETURN_IF_ERROR(store::HasTask(job, first));
    RETURN_IF_ERROR(FillTasks(backend_, job, first, page_size, live, response));
    if (first + page_size < job.task_count) response->set_next_page_token(absl::StrCat(first + page_size));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobService::List(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request, v1::ListJobsResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const store::JobFilter filter, FilterOf(*request));
    // The position comes first: a watcher that begins there misses nothing that the list does not show.
    ASSIGN_OR_RETURN(const int64_t seq, backend_.reader->NewestSeq());
    ASSIGN_OR_RETURN(const std::vector<core::Job> jobs, backend_.reader->ListJobs(filter));
    response->set_event_seq(seq);
    LiveTasks live;
    if (request->include_tasks()) {
      ASSIGN_OR_RETURN(live, AskState(backend_, [&](const core::State& state, const core::Soft& soft, int64_t now_ms) {
                         return CollectLive(state, soft, backend_.engine->policy(), now_ms, IdsOf(jobs), kAllTasks, kLiveTasksMax);
                       }));
    }
    for (const core::Job& job : jobs) {
      v1::Job* view = response->add_jobs();
      *view = JobView(job);
      if (request->include_spec()) RETURN_IF_ERROR(FillSpec(backend_, job, view));
      const TaskIndex shown = job.next_index < job.task_count && job.ended_ms == 0 ? job.next_index : 0;
      if (request->include_tasks()) RETURN_IF_ERROR(FillTasks(backend_, job, shown, 1, live, view));
    }
    if (static_cast<int64_t>(jobs.size()) == filter.limit) response->set_next_page_token(absl::StrCat(jobs.back().id));
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::Event>* JobService::Watch(grpc::CallbackServerContext* context, const v1::WatchRequest* request) {
  if (absl::Status status = Authenticate(*context, *backend_.user_guard); !status.ok()) return new RefusedStream<v1::Event>(ToGrpc(status));
  auto reader = std::make_shared<TurnReader>(backend_, *request);
  auto* stream = new FollowReactor<v1::Event>(backend_.pool, [reader](std::deque<v1::Event>* out) { return reader->Read(out); });
  stream->Begin();
  return stream;
}

grpc::ServerUnaryReactor* JobService::Act(grpc::CallbackServerContext* context, core::Command command, v1::JobActionResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return AskEngine(context, backend_, std::move(command), [response](const core::Reply& reply) {
    response->set_tasks_affected(reply.affected);
    response->set_message(reply.message);
  });
}

grpc::ServerUnaryReactor* JobService::Cancel(grpc::CallbackServerContext* context, const v1::CancelRequest* request, v1::JobActionResponse* response) {
  core::Cancel cancel{request->job_id(), request->now(), Printable(request->reason()), {}};
  for (const v1::TaskRange& range : request->tasks()) {
    // The core says what is wrong with a range; one that ends at the end of numbers has no task after it.
    cancel.tasks.push_back({range.first(), range.last() < std::numeric_limits<int64_t>::max() ? range.last() + 1 : range.last()});
  }
  return Act(context, std::move(cancel), response);
}

grpc::ServerUnaryReactor* JobService::Preempt(grpc::CallbackServerContext* context, const v1::PreemptRequest* request, v1::JobActionResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  if (request->grace_ms() < 0 || request->grace_ms() > kDurationMsMax)
    return Refuse(context, absl::InvalidArgumentError("grace_ms is negative or longer than ten years"));
  return Act(context, core::Preempt{{request->job_id(), request->task_index()}, request->grace_ms()}, response);
}

grpc::ServerUnaryReactor* JobService::Update(grpc::CallbackServerContext* context, const v1::UpdateRequest* request, v1::JobActionResponse* response) {
  core::Update update;
  update.job = request->job_id();
  if (request->has_priority()) update.priority = request->priority();
  if (request->has_parallel()) update.parallel = request->parallel();
  if (request->has_deadline_utc_ms()) update.deadline_ms = request->deadline_utc_ms();
  return Act(context, update, response);
}

grpc::ServerUnaryReactor* JobService::Pause(grpc::CallbackServerContext* context, const v1::PauseRequest* request, v1::JobActionResponse* response) {
  return Act(context, core::Pause{request->job_id()}, response);
}

grpc::ServerUnaryReactor* JobService::Resume(grpc::CallbackServerContext* context, const v1::ResumeRequest* request, v1::JobActionResponse* response) {
  return Act(context, core::Resume{request->job_id()}, response);
}

// A living task is explained by the engine; one that has ended by its row.
grpc::ServerUnaryReactor* JobService::Explain(grpc::CallbackServerContext* context, const v1::ExplainRequest* request, v1::ExplainResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    const TaskId id{request->job_id(), request->task_index()};
    ASSIGN_OR_RETURN(const core::Job job, backend_.reader->GetJob(id.job));
    RETURN_IF_ERROR(store::HasTask(job, id.index));
    struct Answer {
      bool living = false;
      TaskState state = TaskState::kQueued;
      std::vector<core::Why> reasons;
    };
    ASSIGN_OR_RETURN(const Answer answer, AskState(backend_, [&](const core::State& state, const core::Soft& soft, int64_t now_ms) {
                       Answer out;
                       const std::optional<core::Task> living = core::GetTask(state, id);
                       out.living = living.has_value();
                       if (out.living) out.state = living->state;
                       if (out.living) out.reasons = core::Explain(state, soft, backend_.engine->policy(), id, now_ms);
                       return out;
                     }));
    if (answer.living) {
      response->set_state(static_cast<v1::TaskState>(answer.state));
      for (const core::Why& why : answer.reasons) {
        v1::Reason* reason = response->add_reasons();
        reason->set_code(why.code);
        reason->set_message(why.message);
        reason->set_unblocks(why.unblocks);
      }
      if (!answer.reasons.empty()) response->set_summary(answer.reasons.front().message);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const core::Task task, backend_.reader->GetTask(id));
    response->set_state(static_cast<v1::TaskState>(task.state));
    v1::Reason* reason = response->add_reasons();
    reason->set_code("ENDED");
    reason->set_message(job.cause != EndCause::kUnspecified ? absl::StrCat("its job ended with ", Name(job.cause), ": ", job.detail)
                        : task.history.empty()              ? absl::StrCat("it ended ", Name(task.state), " before it ran")
                                               : absl::StrCat("its last attempt ", task.history.back().number, " ended ", Name(task.history.back().cause),
                                                              task.history.back().detail.empty() ? "" : absl::StrCat(": ", task.history.back().detail)));
    response->set_summary(reason->message());
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::LogChunk>* JobService::StreamLogs(grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) {
  if (absl::Status status = Authenticate(*context, *backend_.user_guard); !status.ok()) return new RefusedStream<v1::LogChunk>(ToGrpc(status));
  if (request->offset() < 0) return new RefusedStream<v1::LogChunk>(ToGrpc(absl::InvalidArgumentError("offset is negative")));
  const AttemptId attempt{request->attempt().job_id(), request->attempt().task_index(), request->attempt().attempt()};
  if (attempt.number < 0) return new RefusedStream<v1::LogChunk>(ToGrpc(absl::InvalidArgumentError("attempt is negative; 0 means the newest")));
  if (request->member() < 0) return new RefusedStream<v1::LogChunk>(ToGrpc(absl::InvalidArgumentError("member is negative")));
  auto follower = std::make_shared<LogFollower>(backend_.reader, backend_.log_root, attempt, request->member(), request->offset(), request->follow());
  auto* stream = new FollowReactor<v1::LogChunk>(backend_.pool, [follower](std::deque<v1::LogChunk>* out) { return follower->Read(out); });
  stream->Begin();
  return stream;
}

grpc::ServerUnaryReactor* JobService::ListCheckpoints(grpc::CallbackServerContext* context, const v1::ListCheckpointsRequest* request,
                                                      v1::ListCheckpointsResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    const TaskId task{request->job_id(), request->task_index()};
    ASSIGN_OR_RETURN(const core::Job job, backend_.reader->GetJob(task.job));
    RETURN_IF_ERROR(store::HasTask(job, task.index));
    ASSIGN_OR_RETURN(const std::vector<core::CheckpointRef> checkpoints, backend_.reader->ListCheckpoints(task));
    for (const core::CheckpointRef& checkpoint : checkpoints) *response->add_checkpoints() = CheckpointView(task, checkpoint);
    return absl::OkStatus();
  });
}

}  // namespace spillway::rpc
