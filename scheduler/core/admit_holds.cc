// Admits what holds jobs back and lets them go: the jobs they wait for, the user's pause, a changed priority or limit.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/units.h"
#include "scheduler/core/admit_internal.h"

namespace spillway::core {
namespace {

int64_t LivingTasks(const Job& job) { return job.counts.queued + job.counts.held + job.counts.active; }

// "priority 60, was 50".
std::string Changed(absl::string_view what, const std::string& was, const std::string& is) {
  return absl::StrCat(what, " ", is, is == was ? " as before" : absl::StrCat(", was ", was));
}
std::string LimitText(int64_t parallel) { return parallel == 0 ? "without limit" : absl::StrCat(parallel); }

absl::Status Invalid(size_t place, absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("jobs[", place, "]: ", what)); }

// The jobs of one submission that wait for each other, in the order in which they do, the first one twice; empty when there are none.
std::vector<size_t> CircleIn(const std::vector<NewJob>& jobs) {
  std::vector<std::vector<size_t>> needed_by(jobs.size());
  std::vector<size_t> open(jobs.size(), 0);
  for (size_t i = 0; i < jobs.size(); ++i) {
    for (const NewNeed& need : jobs[i].needs) {
      if (need.place < 0) continue;
      needed_by[static_cast<size_t>(need.place)].push_back(i);
      ++open[i];
    }
  }
  std::vector<size_t> ready;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (open[i] == 0) ready.push_back(i);
  }
  for (size_t next = 0; next < ready.size(); ++next) {
    for (const size_t waits : needed_by[ready[next]]) {
      if (--open[waits] == 0) ready.push_back(waits);
    }
  }
  if (ready.size() == jobs.size()) return {};
  // Whoever is left waits for one that is left: following them leads round.
  size_t at = static_cast<size_t>(std::find_if(open.begin(), open.end(), [](size_t count) { return count > 0; }) - open.begin());
  std::vector<size_t> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    for (const NewNeed& need : jobs[at].needs) {
      if (need.place < 0 || open[static_cast<size_t>(need.place)] == 0) continue;
      at = static_cast<size_t>(need.place);
      break;
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  path.push_back(at);
  return path;
}

}  // namespace

absl::Status NoSuchJob(const State& state, JobId job) {
  if (job > 0 && job < state.meta.next_job) return absl::FailedPreconditionError(absl::StrCat("job ", job, " has ended"));
  return absl::NotFoundError(absl::StrCat("there is no job ", job));
}

absl::Status CheckNeeds(const Submit& command) {
  for (size_t i = 0; i < command.jobs.size(); ++i) {
    for (const NewNeed& need : command.jobs[i].needs) {
      if (need.place >= static_cast<int64_t>(command.jobs.size())) return Invalid(i, absl::StrCat("waits for jobs[", need.place, "], which is not there"));
    }
  }
  const std::vector<size_t> circle = CircleIn(command.jobs);
  if (circle.empty()) return absl::OkStatus();
  if (circle.size() == 2) return Invalid(circle[0], "waits for itself");
  const std::string names = absl::StrJoin(circle, " -> ", [&](std::string* out, size_t place) { absl::StrAppend(out, command.jobs[place].name); });
  return Invalid(circle[0], absl::StrCat("jobs of this submission wait for each other: ", names));
}

absl::Status TakeNeeds(const AdmitContext& context, const Submit& command, size_t place, Job* job, Reply* reply) {
  const State& state = context.state;
  for (const NewNeed& wanted : command.jobs[place].needs) {
    Need need{wanted.job, wanted.any, TaskState::kUnspecified};
    if (wanted.place >= 0) {
      need.job = state.meta.next_job + wanted.place;
    } else if (wanted.job < 1 || wanted.job >= state.meta.next_job) {
      return Invalid(place, absl::StrCat("there is no job ", wanted.job, " to wait for"));
    } else if (!state.jobs.contains(wanted.job)) {
      if (wanted.ended == TaskState::kUnspecified) return absl::AbortedError(absl::StrCat("job ", wanted.job, " has just ended"));
      need.ended = wanted.ended;
    }
    if (need.ended != TaskState::kUnspecified && !Failed(need)) continue;
    const auto same = std::find_if(job->needs.begin(), job->needs.end(), [&](const Need& one) { return one.job == need.job; });
    if (same != job->needs.end()) {
      same->any = same->any && need.any;
      continue;
    }
    job->needs.push_back(need);
    if (!Failed(need)) continue;
    reply->warnings.push_back(absl::StrCat("jobs[", place, "]: job ", need.job, " ended ", Name(need.ended), ": it ends at once with DEPENDENCY_FAILED"));
  }
  return absl::OkStatus();
}

Admitted AdmitOne(const AdmitContext& context, const Pause& command) {
  const Job* job = FindJob(context.state, command.job);
  if (job == nullptr) return NoSuchJob(context.state, command.job);
  if (job->cancel_requested) return absl::FailedPreconditionError(absl::StrCat("job ", job->id, " is being cancelled"));
  Admission admission;
  if (job->paused && job->detail.empty()) {  // what a lacking secret paused may still run in part
    admission.reply.message = "it is paused already";
    return admission;
  }
  StopRequest stop;
  stop.cause = EndCause::kPreempted;
  stop.initiator = Initiator::kUser;
  stop.grace_ms = job->grace_ms;
  stop.requested_ms = context.now_ms;
  stop.reason = "paused by the user";
  admission.events.push_back(JobPaused{job->id, std::move(stop)});
  admission.reply.affected = LivingTasks(*job);
  const int64_t active = job->counts.active;
  admission.reply.message = active == 0 ? "held until it is resumed"
                                        : absl::StrCat(active == 1 ? "its running task saves and stops" : absl::StrCat(active, " running tasks save and stop"),
                                                       ", then it is held until it is resumed");
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const Resume& command) {
  const Job* job = FindJob(context.state, command.job);
  if (job == nullptr) return NoSuchJob(context.state, command.job);
  const std::string waits = job->needs.empty() ? "" : absl::StrCat("it waits for job ", absl::StrJoin(job->needs, ", ", [](std::string* out, const Need& need) {
                                                                     absl::StrAppend(out, need.job);
                                                                   }));
  Admission admission;
  if (!job->paused) {
    admission.reply.message = absl::StrCat("it was not paused", waits.empty() ? "" : "; ", waits);
    return admission;
  }
  admission.events.push_back(JobResumed{job->id});
  admission.reply.affected = LivingTasks(*job);
  admission.reply.message = absl::StrCat("resumed", waits.empty() ? "" : "; ", waits);
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const Update& command) {
  const Job* job = FindJob(context.state, command.job);
  if (job == nullptr) return NoSuchJob(context.state, command.job);
  if (!command.priority && !command.parallel && !command.deadline_ms) {
    return absl::InvalidArgumentError("nothing to change: give a priority, parallel or a deadline");
  }
  if (command.priority && (*command.priority < 0 || *command.priority > limits::kPriorityMax)) {
    return absl::InvalidArgumentError(absl::StrCat("priority: must be 0 to ", limits::kPriorityMax, ", not ", *command.priority));
  }
  if (command.parallel && *command.parallel < 1) return absl::InvalidArgumentError(absl::StrCat("parallel: must be 1 or more, not ", *command.parallel));
  if (command.parallel && job->task_count == 1)
    return absl::FailedPreconditionError(absl::StrCat("job ", job->id, " has one task only: parallel is for arrays"));
  if (command.deadline_ms && job->expected_ms == 0) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job->id, " was submitted without a deadline and limits.expected_duration"));
  }
  if (command.deadline_ms && *command.deadline_ms <= context.now_ms) {
    return absl::InvalidArgumentError(absl::StrCat("deadline: ", FormatUtcMs(*command.deadline_ms), " is over"));
  }
  JobUpdated event{job->id, command.priority.value_or(job->priority), command.parallel.value_or(job->parallel), command.deadline_ms.value_or(job->deadline_ms)};
  if (event.parallel >= job->task_count) event.parallel = 0;
  std::vector<std::string> changes;
  if (command.priority) changes.push_back(Changed("priority", absl::StrCat(job->priority), absl::StrCat(event.priority)));
  if (command.parallel) changes.push_back(Changed("parallel", LimitText(job->parallel), LimitText(event.parallel)));
  if (command.deadline_ms) changes.push_back(Changed("deadline", FormatUtcMs(job->deadline_ms), FormatUtcMs(event.deadline_ms)));
  Admission admission;
  admission.reply.message = absl::StrJoin(changes, "; ");
  if (event.priority == job->priority && event.parallel == job->parallel && event.deadline_ms == job->deadline_ms) return admission;
  admission.reply.affected = LivingTasks(*job);
  admission.events.push_back(event);
  return admission;
}

Admitted AdmitOne(const AdmitContext& context, const SettleJob& command) {
  const Job* job = FindJob(context.state, command.job);
  if (job == nullptr) return NoSuchJob(context.state, command.job);
  if (job->needs.empty()) return absl::FailedPreconditionError(absl::StrCat("job ", job->id, " waits for no other"));
  Admission admission;
  switch (StandOf(job->needs)) {
    case NeedsStand::kOpen: return absl::FailedPreconditionError(absl::StrCat("what job ", job->id, " waits for has not come"));
    case NeedsStand::kMet: admission.events.push_back(JobReleased{job->id}); break;
    case NeedsStand::kFailed: {
      const Need& failed = *std::find_if(job->needs.begin(), job->needs.end(), Failed);
      admission.events.push_back(
          JobFailed{job->id, EndCause::kDependencyFailed, absl::StrCat("job ", failed.job, ", which it needs, ended ", Name(failed.ended))});
      break;
    }
  }
  admission.reply.affected = LivingTasks(*job);
  return admission;
}

}  // namespace spillway::core
