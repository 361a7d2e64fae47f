#include "client/follow.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/attempt_words.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

// A job together with the number of an event before which it looked so: watching from there misses no change.
struct Snapshot {
  v1::Job job;
  int64_t event_seq = 0;
};

absl::StatusOr<Snapshot> TakeSnapshot(Api& api, JobId job) {
  Snapshot snapshot;
  v1::ListJobsRequest list;
  list.set_page_size(1);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse listed, api.List(list));
  snapshot.event_seq = listed.event_seq();
  v1::GetJobRequest get;
  get.set_job_id(job);
  ASSIGN_OR_RETURN(snapshot.job, api.Get(get));
  return snapshot;
}

// Until anything happens to the job, or the time is up.
absl::Status AwaitChange(Api& api, const Snapshot& snapshot, int64_t timeout_ms) {
  v1::WatchRequest watch;
  watch.set_after_seq(snapshot.event_seq > 0 ? snapshot.event_seq : -1);
  watch.set_job_id(snapshot.job.job_id());
  watch.set_follow(true);
  const absl::Status status = api.Watch(watch, timeout_ms, [](const v1::Event&) { return false; });
  // Fallen behind is a change too: the caller looks anew.
  return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
}

const v1::Task* FindTask(const v1::Job& job, TaskIndex index) {
  for (const v1::Task& task : job.tasks()) {
    if (task.task_index() == index) return &task;
  }
  return nullptr;
}

std::string Announce(const v1::Attempt& attempt) {
  std::string text = absl::StrCat("attempt ", HumanAttempt(attempt.key()), " on ", Printable(attempt.node_name(), 60), " (",
                                  LowerName(static_cast<Market>(attempt.market())), ")");
  if (attempt.from_step() > 0) absl::StrAppend(&text, ", from step ", attempt.from_step());
  return text;
}

}  // namespace

absl::StatusOr<v1::Job> WaitForEnd(Context& context, Api& api, JobId job, int64_t timeout_ms) {
  const int64_t end_ms = context.clock->NowSteadyMs() + timeout_ms;
  for (;;) {
    ASSIGN_OR_RETURN(const Snapshot snapshot, TakeSnapshot(api, job));
    if (JobEnded(snapshot.job)) return snapshot.job;
    const int64_t left_ms = timeout_ms == 0 ? 0 : end_ms - context.clock->NowSteadyMs();
    if (timeout_ms > 0 && left_ms <= 0) return snapshot.job;
    RETURN_IF_ERROR(AwaitChange(api, snapshot, left_ms));
  }
}

absl::Status CopyLog(Context& context, Api& api, const AttemptId& attempt, bool follow) {
  v1::StreamLogsRequest request;
  request.mutable_attempt()->set_job_id(attempt.job);
  request.mutable_attempt()->set_task_index(attempt.index);
  request.mutable_attempt()->set_attempt(attempt.number);
  request.set_follow(follow);
  TerminalText text;  // a job's output is anybody's: it does not steer the reader's terminal
  const absl::Status status = api.StreamLogs(request, [&](const v1::LogChunk& chunk) {
    if (context.out_is_terminal) {
      *context.out << text.Next(chunk.data()) << std::flush;
    } else {
      *context.out << chunk.data() << std::flush;
    }
    return context.out->good();  // the reader of a pipe may have gone
  });
  *context.out << text.Rest() << std::flush;
  return status;
}

absl::StatusOr<v1::Job> FollowLogs(Context& context, Api& api, TaskId task, AttemptNumber after_attempt) {
  AttemptNumber shown = after_attempt;
  for (;;) {
    ASSIGN_OR_RETURN(const Snapshot snapshot, TakeSnapshot(api, task.job));
    const v1::Task* now = FindTask(snapshot.job, task.index);
    if (now == nullptr) return absl::NotFoundError(absl::StrCat("job ", task.job, " has no task ", task.index));
    bool news = false;
    for (const v1::Attempt& attempt : now->attempts()) {
      if (attempt.key().attempt() <= shown) continue;
      shown = attempt.key().attempt();
      news = true;
      if (!context.json) *context.err << context.Painted(absl::StrCat("spillway: ", Announce(attempt)), Colour::kDim) << std::endl;
      const absl::Status copied = CopyLog(context, api, AttemptId{task.job, task.index, shown}, true);
      if (!copied.ok() && !absl::IsNotFound(copied)) return copied;
      if (!context.out->good()) return snapshot.job;
    }
    if (news) continue;
    if (JobEnded(snapshot.job)) return snapshot.job;
    RETURN_IF_ERROR(AwaitChange(api, snapshot, 0));
  }
}

int ReportEnd(Context& context, const v1::Job& job) {
  const bool good = job.state() == "SUCCEEDED";
  std::string text = absl::StrCat("job ", job.job_id(), " (", Printable(job.name(), 60), ") ");
  if (!JobEnded(job)) {
    *context.err << "spillway: " << text << "is still " << job.state() << '\n';
    return kExitRefused;
  }
  absl::StrAppend(&text, job.state());
  if (job.tasks_size() > 0 && job.tasks(0).attempts_total() > 0) {
    const v1::Task& task = job.tasks(0);
    absl::StrAppend(&text, " after ", task.attempts_total(), task.attempts_total() == 1 ? " attempt" : " attempts");
    if (!good && task.attempts_size() > 0) {
      const v1::Attempt& last = task.attempts(task.attempts_size() - 1);
      absl::StrAppend(&text, ": ", Name(static_cast<EndCause>(last.end_cause())),
                      last.detail().empty() ? "" : absl::StrCat(" (", Printable(last.detail(), 200), ")"));
    }
  }
  if (job.end_cause() != v1::END_CAUSE_UNSPECIFIED) {
    absl::StrAppend(&text, ": ", Name(static_cast<EndCause>(job.end_cause())), " (", Printable(job.end_detail(), 200), ")");
  }
  *context.err << "spillway: " << context.Painted(text, ColourOfState(job.state())) << '\n';
  return good ? kExitOk : kExitJobFailed;
}

}  // namespace spillway::client
