// Admits what users ask about jobs, and what the sealer found.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/units.h"
#include "scheduler/core/admit_internal.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/policy/slack.h"

namespace spillway::core {
namespace {

absl::Status ValidateJob(const NewJob& job, size_t number) {
  const auto bad = [&](absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("jobs[", number, "]", what)); };
  if (job.uid.empty()) return bad(".uid: must not be empty");
  if (job.name.size() > limits::kNameBytesMax) return bad(absl::StrCat(".name: longer than ", limits::kNameBytesMax, " bytes"));
  if (job.spec_digest.size() != 32) return bad(absl::StrCat(".spec_digest: must have 32 bytes, not ", job.spec_digest.size()));
  if (job.task_count < 1 || job.task_count > limits::kArrayTasksMax) {
    return bad(absl::StrCat(".array.count: must be 1 to ", limits::kArrayTasksMax, ", not ", job.task_count));
  }
  if (job.parallel < 0) return bad(absl::StrCat(".array.parallel: must be 1 or more, not ", job.parallel));
  const Shape& shape = job.shape;
  if (shape.nodes < 1 || shape.nodes > limits::kGangMembersMax) {
    return bad(absl::StrCat(".resources.nodes: must be 1 to ", limits::kGangMembersMax, ", not ", shape.nodes));
  }
  if (shape.gpu_count < 0 || shape.gpu_count > 64) return bad(absl::StrCat(".resources.gpu.count: must be 0 to 64, not ", shape.gpu_count));
  if (shape.cpu_milli < 0 || shape.memory_bytes < 0 || shape.disk_bytes < 0 || shape.gpu_memory_bytes_min < 0 || shape.gpu_memory_bytes_max < 0) {
    return bad(".resources: must not be negative");
  }
  if (shape.max_price_micros_per_hour < 0) return bad(".placement.max_price: must not be negative");
  if (job.deadline_ms < 0) return bad(".limits.deadline: must not be negative");
  if ((job.deadline_ms > 0) != (job.expected_ms > 0)) return bad(".limits: a deadline needs an expected duration, and the other way round");
  for (const int64_t duration_ms : {job.grace_ms, job.max_silence_ms, job.expected_ms}) {
    if (duration_ms < 0 || duration_ms > kDurationMsMax) return bad(": a duration is negative or longer than ten years");
  }
  if (job.retry.preempted < -1 || job.retry.node_fault < -1 || job.retry.user_error < -1) return bad(".retry: must be -1 (unlimited) or more");
  return absl::OkStatus();
}

// Whether what there is could ever hold the shape, each member on a machine of its own.
struct Reach {
  bool fits = false;
  int64_t machines = 0;  // that could hold a member
  bool anything_known = false;
  bool offers_pending = false;  // a provider that creates has not listed its offers yet
  std::string nearest;          // what comes closest, and what it lacks
};

Reach ReachOf(const State& state, const Shape& shape) {
  Reach reach;
  int least = std::numeric_limits<int>::max();
  // At once, by provider: those that are there, or as many as it may make.
  std::map<std::string, int64_t> living, most;
  const auto consider = [&](uint32_t misfits, const std::string& called, const auto& thing) {
    reach.anything_known = true;
    if (misfits == 0) {
      reach.machines = 0;
      for (const auto& [provider, count] : most) reach.machines += count;
      reach.fits = reach.machines >= shape.nodes;
      return;
    }
    if (const int distance = Distance(misfits, shape, thing.capacity); distance < least) {
      least = distance;
      reach.nearest = absl::StrCat(called, thing.name, " ", DescribeMisfits(misfits, shape, thing));
    }
  };
  for (const auto& [id, node] : state.nodes) {
    if (node.state == NodeState::kReleasing) continue;
    const uint32_t misfits = Misfits(shape, node);
    if (misfits == 0) most[node.provider] = std::max(most[node.provider], ++living[node.provider]);
    consider(misfits, "node ", node);
    if (reach.fits) return reach;
  }
  std::set<std::string> listed;
  for (const auto& [key, offer] : state.offers) {
    listed.insert(offer.provider);
    if (offer.withdrawn) continue;
    const auto provider = state.meta.providers.find(offer.provider);
    if (provider == state.meta.providers.end() || !provider->second.can_create || provider->second.max_nodes <= 0) continue;
    const uint32_t misfits = Misfits(shape, offer);
    if (misfits == 0) most[offer.provider] = std::max(most[offer.provider], provider->second.max_nodes);
    consider(misfits, absl::StrCat("offer ", offer.provider, "/"), offer);
    if (reach.fits) return reach;
  }
  for (const auto& [name, provider] : state.meta.providers) {
    const bool allowed = shape.providers.empty() || shape.providers.contains(name);
    if (provider.can_create && provider.max_nodes > 0 && allowed && !listed.contains(name)) reach.offers_pending = true;
  }
  return reach;
}

std::string NeverFits(const Shape& shape, const Reach& reach, size_t place) {
  const std::string what = absl::StrCat("jobs[", place, "] never fits: needs ", shape.nodes > 1 ? absl::StrCat(shape.nodes, " nodes, each with ") : "");
  return absl::StrCat(what, DescribeNeed(shape), reach.machines > 0 ? absl::StrCat("; only ", reach.machines, reach.machines == 1 ? " fits" : " fit") : "",
                      reach.nearest.empty() ? "" : absl::StrCat("; nearest: ", reach.nearest));
}

// A deadline that is over is a mistake; one that cannot be met is told, for the expectation may be one.
absl::Status CheckDeadline(const AdmitContext& context, const Shape& shape, size_t place, const Job& job, Reply* reply) {
  if (job.deadline_ms == 0) return absl::OkStatus();
  if (job.deadline_ms <= context.now_ms) {
    return absl::InvalidArgumentError(absl::StrCat("jobs[", place, "].limits.deadline: ", FormatUtcMs(job.deadline_ms), " is over"));
  }
  if (!shape.markets.empty() && !shape.markets.contains(Market::kReserved) && !shape.markets.contains(Market::kOnDemand)) {
    reply->warnings.push_back(absl::StrCat("jobs[", place, "]: no deadline can be promised where the only market allowed is spot"));
  }
  const int64_t ends_ms = SlackOf(job, nullptr, BootMs(context.state, shape), context.now_ms).ends_ms;
  if (ends_ms > job.deadline_ms) reply->warnings.push_back(absl::StrCat("jobs[", place, "]: ", DeadlineLost(job.deadline_ms, ends_ms)));
  return absl::OkStatus();
}

StopRequest CancelStop(const AdmitContext& context, const Job& job, const Cancel& command) {
  StopRequest stop;
  stop.cause = EndCause::kCancelled;
  stop.initiator = Initiator::kUser;
  stop.grace_ms = command.now ? 0 : job.grace_ms;
  stop.requested_ms = context.now_ms;
  stop.reason = command.reason;
  return stop;
}

// In order, each task once.
absl::StatusOr<std::vector<TaskRange>> InOrder(const Job& job, std::vector<TaskRange> tasks) {
  std::sort(tasks.begin(), tasks.end(), [](const TaskRange& a, const TaskRange& b) { return a.first < b.first; });
  std::vector<TaskRange> joined;
  for (const TaskRange& range : tasks) {
    if (range.end <= range.first) return absl::InvalidArgumentError("tasks: a range ends before it begins");
    if (range.first < 0 || range.end > job.task_count) {
      return absl::NotFoundError(absl::StrCat("job ", job.id, " has no task ", range.first < 0 ? range.first : std::max(range.first, job.task_count),
                                              "; its tasks are 0 to ", job.task_count - 1));
    }
    if (!joined.empty() && range.first <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  if (joined.size() > limits::kSkippedRangesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("tasks: ", joined.size(), " separate ranges; the most is ", limits::kSkippedRangesMax, ": cancel longer ranges"));
  }
  return joined;
}

std::string StoppingHow(const Cancel& command, const StopRequest& stop) {
  return command.now ? "being cancelled: killed at once" : absl::StrCat("being cancelled: stopping within its grace of ", FormatDurationMs(stop.grace_ms));
}

Admitted CancelSome(const AdmitContext& context, const LiveJob& live, const Cancel& command) {
  const Job& job = live.job;
  absl::StatusOr<std::vector<TaskRange>> tasks = InOrder(job, command.tasks);
  if (!tasks.ok()) return tasks.status();
  const StopRequest stop = CancelStop(context, job, command);
  Admission admission;
  int64_t waiting = 0, active = 0;
  size_t ranges = job.skipped.size();
  bool changes = false;
  for (const TaskRange& range : *tasks) {
    const TaskRange unstarted{std::max(range.first, job.next_index), range.end};
    if (unstarted.size() > 0) {
      waiting += unstarted.size();
      for (const TaskRange& gone : job.skipped) waiting -= std::max<int64_t>(0, std::min(gone.end, unstarted.end) - std::max(gone.first, unstarted.first));
      ++ranges;
    }
    for (auto task = live.tasks.lower_bound(range.first); task != live.tasks.end() && task->first < range.end; ++task) {
      const std::optional<Attempt>& attempt = task->second.attempt;
      ++(attempt ? active : waiting);
      changes = changes || (attempt && (!(job.cancel_requested || task->second.cancel_requested) || Tightens(attempt->stop, stop)));
    }
  }
  changes = changes || waiting > 0;
  admission.reply.affected = waiting + active;
  if (waiting + active == 0) {
    const bool one = tasks->size() == 1 && tasks->front().size() == 1;
    return absl::FailedPreconditionError(one ? absl::StrCat("task ", TaskId{job.id, tasks->front().first}.ToString(), " has ended")
                                             : absl::StrCat("these tasks of job ", job.id, " have all ended"));
  }
  if (ranges > limits::kSkippedRangesMax) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job.id, " has ", job.skipped.size(),
                                                      " separate ranges of tasks that were cancelled before they began; the most is ",
                                                      limits::kSkippedRangesMax, ": cancel longer ranges"));
  }
  if (changes) admission.events.push_back(TasksCancelRequested{job.id, *std::move(tasks), stop});
  if (active > 0) admission.reply.message = changes ? StoppingHow(command, stop) : "is being cancelled already";
  if (active > 0 && waiting > 0) absl::StrAppend(&admission.reply.message, "; ", waiting, " that waited ", waiting == 1 ? "is" : "are", " cancelled");
  return admission;
}

}  // namespace

Admitted AdmitOne(const AdmitContext& context, const Submit& command) {
  const State& state = context.state;
  Admission admission;
  if (command.request_id.size() > limits::kRequestIdBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("request_id: longer than ", limits::kRequestIdBytesMax, " bytes"));
  }
  const auto known = state.requests.find(command.request_id);
  if (known != state.requests.end() && context.now_ms - known->second.at_ms < limits::kRequestIdTtlMs) {
    if (known->second.digest != command.request_digest) {
      return absl::AlreadyExistsError(
          absl::StrCat("request_id ", command.request_id, " was used for a submission with other specs (jobs ", absl::StrJoin(known->second.jobs, ", "), ")"));
    }
    admission.reply.jobs = known->second.jobs;
    admission.reply.repeated = true;
    return admission;
  }
  if (command.jobs.empty()) return absl::InvalidArgumentError("jobs: at least one is needed");
  if (static_cast<int64_t>(command.jobs.size()) > limits::kJobsPerSubmitMax) {
    return absl::InvalidArgumentError(absl::StrCat("jobs: at most ", limits::kJobsPerSubmitMax, " in one submission, not ", command.jobs.size()));
  }
  if (!command.request_id.empty() && known == state.requests.end() && state.requests.size() >= limits::kRequestIdsMax) {
    return absl::ResourceExhaustedError("too many submissions within a day are remembered; try again later");
  }
  if (const absl::Status needs = CheckNeeds(command); !needs.ok()) return needs;
  JobId next_job = state.meta.next_job;
  int64_t next_shape = state.meta.next_shape;
  std::map<Shape, int64_t> new_shapes;
  std::set<int64_t> looked_at;
  for (size_t i = 0; i < command.jobs.size(); ++i) {
    const NewJob& wanted = command.jobs[i];
    if (const absl::Status valid = ValidateJob(wanted, i); !valid.ok()) return valid;
    JobSubmitted event;
    const auto old_shape = state.index.shape_ids.find(wanted.shape);
    if (old_shape != state.index.shape_ids.end()) {
      event.job.shape_id = old_shape->second;
    } else {
      const auto [shape, is_new] = new_shapes.insert({wanted.shape, next_shape});
      event.job.shape_id = shape->second;
      if (is_new) {
        ++next_shape;
        event.shape = wanted.shape;
      }
    }
    if (looked_at.insert(event.job.shape_id).second) {  // equal shapes of one submission need one look
      const Reach reach = ReachOf(state, wanted.shape);
      if (!reach.fits) {
        if (reach.anything_known && !reach.offers_pending) {
          return absl::InvalidArgumentError(NeverFits(wanted.shape, reach, i));
        }
        const std::string warning = absl::StrCat("jobs[", i, "]: nothing known yet could hold ", DescribeNeed(wanted.shape),
                                                 "; it waits until a node registers or a provider lists its offers");
        admission.reply.warnings.push_back(warning);
      }
    }
    Job& job = event.job;
    job.id = next_job++;
    job.uid = wanted.uid;
    job.name = wanted.name;
    job.owner = wanted.owner;
    job.request_id = command.request_id;
    job.spec_digest = wanted.spec_digest;
    job.priority = wanted.priority;
    job.submitted_ms = context.now_ms;
    job.retry = wanted.retry;
    job.grace_ms = wanted.grace_ms > 0 ? wanted.grace_ms : limits::kStopGraceMs;
    job.max_silence_ms = wanted.max_silence_ms;
    job.task_count = wanted.task_count;
    job.parallel = wanted.parallel;
    job.deadline_ms = wanted.deadline_ms;
    job.expected_ms = wanted.expected_ms;
    job.paused = wanted.paused;
    if (const absl::Status deadline = CheckDeadline(context, wanted.shape, i, job, &admission.reply); !deadline.ok()) return deadline;
    if (const absl::Status needs = TakeNeeds(context, command, i, &job, &admission.reply); !needs.ok()) return needs;
    (HoldOf(job) == HoldReason::kUnspecified ? job.counts.queued : job.counts.held) = wanted.task_count;
    admission.reply.jobs.push_back(job.id);
    admission.specs.emplace_back(wanted.spec_digest, wanted.spec_bytes);
    admission.events.push_back(std::move(event));
  }
  if (!command.request_id.empty()) {
    admission.events.push_back(RequestRecorded{command.request_id, {admission.reply.jobs, command.request_digest, context.now_ms}});
  }
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const Cancel& command) {
  const auto live = context.state.jobs.find(command.job);
  if (live == context.state.jobs.end()) return NoSuchJob(context.state, command.job);
  if (!command.tasks.empty()) return CancelSome(context, live->second, command);
  const Job& job = live->second.job;
  Admission admission;
  admission.reply.affected = job.counts.queued + job.counts.held + job.counts.active;
  const StopRequest stop = CancelStop(context, job, command);
  bool changes = !job.cancel_requested;
  for (const auto& [index, task] : live->second.tasks) changes = changes || (task.attempt && Tightens(task.attempt->stop, stop));
  if (changes) admission.events.push_back(JobCancelRequested{job.id, stop});
  if (job.counts.active > 0) {
    admission.reply.message = changes ? StoppingHow(command, stop) : "is being cancelled already";
  }
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const Preempt& command) {
  const Job* job = FindJob(context.state, command.task.job);
  if (job == nullptr) return NoSuchJob(context.state, command.task.job);
  const Task* task = FindTask(context.state, command.task);
  if (task == nullptr && command.task.index >= job->task_count) return absl::NotFoundError(absl::StrCat("there is no task ", command.task.ToString()));
  const bool runs = task != nullptr && task->attempt && (task->attempt->state == AttemptState::kStarting || task->attempt->state == AttemptState::kRunning);
  if (!runs) {
    const absl::string_view state = task == nullptr ? absl::string_view("has no attempt") : task->attempt ? Name(task->attempt->state) : Name(task->state);
    return absl::FailedPreconditionError(absl::StrCat("task ", command.task.ToString(), " is not running (", state, ")"));
  }
  StopRequest stop;
  stop.cause = EndCause::kPreempted;
  stop.initiator = Initiator::kUser;
  stop.grace_ms = command.grace_ms > 0 ? command.grace_ms : job->grace_ms;
  stop.requested_ms = context.now_ms;
  stop.reason = "preempted by the user";
  Admission admission;
  admission.reply.affected = 1;
  admission.events.push_back(AttemptStopRequested{{task->id.job, task->id.index, task->attempt->number}, stop});
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const ForgetRequests& command) {
  Admission admission;
  const auto& by_age = context.state.index.requests_by_age;
  if (!by_age.empty() && by_age.begin()->first < command.before_ms) admission.events.push_back(RequestsForgotten{command.before_ms});
  return admission;
}

// A seal that nobody waits for any more (the job was cancelled) changes nothing, and neither does a second one.
Admitted AdmitOne(const AdmitContext& context, const SealResult& command) {
  Admission admission;
  const Task* task = FindTask(context.state, command.attempt.task());
  if (task == nullptr || task->seal_owed == 0 || task->seal_owed != command.attempt.number) return admission;
  if (command.newest && command.newest->attempt != command.attempt.number) {
    return absl::InvalidArgumentError(absl::StrCat("the seal of ", command.attempt.ToString(), " names a checkpoint of attempt ", command.newest->attempt));
  }
  AttemptSealed event{command.attempt, command.newest, command.damaged};
  if (event.newest) {
    event.newest->sealed = true;
    event.newest->registered_ms = context.now_ms;
  }
  admission.events.push_back(std::move(event));
  return admission;
}

}  // namespace spillway::core
