#include "client/follow.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/attempt_words.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::client {
namespace {

constexpr int64_t kArrayLookMs = 200;

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
  get.set_tasks_max(1);
  ASSIGN_OR_RETURN(snapshot.job, api.Get(get));
  return snapshot;
}

// Until anything happens to the job, or the time is up.
absl::Status AwaitChange(Context& context, Api& api, const Snapshot& snapshot, int64_t timeout_ms) {
  // Something happens to an array all the time.
  if (IsArray(snapshot.job)) context.sleep_ms(timeout_ms > 0 ? std::min(timeout_ms, kArrayLookMs) : kArrayLookMs);
  v1::WatchRequest watch;
  watch.set_after_seq(snapshot.event_seq > 0 ? snapshot.event_seq : -1);
  watch.set_job_id(snapshot.job.job_id());
  watch.set_follow(true);
  const absl::Status status = api.Watch(watch, timeout_ms, [](const v1::Event&) { return false; });
  // Fallen behind is a change too: the caller looks anew.
  return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
}

// From what is there already, where it is.
absl::StatusOr<v1::Task> TaskOf(Api& api, const v1::Job& job, TaskIndex index) {
  for (const v1::Task& task : job.tasks()) {
    if (task.task_index() == index) return task;
  }
  return GetTask(api, {job.job_id(), index});
}

// How its last attempt ended.
std::string LastEnd(const v1::Task& task) {
  if (task.attempts_size() == 0) return "";
  const v1::Attempt& last = task.attempts(task.attempts_size() - 1);
  return absl::StrCat(": ", Name(static_cast<EndCause>(last.end_cause())), last.detail().empty() ? "" : absl::StrCat(" (", Printable(last.detail(), 200), ")"));
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
    RETURN_IF_ERROR(AwaitChange(context, api, snapshot, left_ms));
  }
}

absl::StatusOr<int> WaitForTasks(Context& context, Api& api, const JobTasks& tasks, int64_t timeout_ms) {
  const int64_t end_ms = context.clock->NowSteadyMs() + timeout_ms;
  v1::TaskCounts counts;
  int64_t ended = 0;
  v1::Task last;
  for (const TaskSpan& span : tasks.tasks) {
    for (TaskIndex index = span.first; index <= span.last;) {
      ASSIGN_OR_RETURN(const Snapshot snapshot, TakeSnapshot(api, tasks.job));
      v1::ListTasksRequest request;
      request.set_job_id(tasks.job);
      request.set_first_index(index);
      request.set_page_size(static_cast<int32_t>(std::min(span.last - index + 1, limits::kPageSizeMax)));
      ASSIGN_OR_RETURN(v1::ListTasksResponse page, api.ListTasks(request));
      const TaskIndex before = index;
      for (v1::Task& task : *page.mutable_tasks()) {
        if (!TaskEnded(task)) break;
        if (task.state() == v1::SUCCEEDED) counts.set_succeeded(counts.succeeded() + 1);
        if (task.state() == v1::FAILED) counts.set_failed(counts.failed() + 1);
        if (task.state() == v1::CANCELLED_STATE) counts.set_cancelled(counts.cancelled() + 1);
        ++ended;
        ++index;
        last.Swap(&task);
      }
      if (index > before) continue;
      const int64_t left_ms = timeout_ms == 0 ? 0 : end_ms - context.clock->NowSteadyMs();
      if (timeout_ms > 0 && left_ms <= 0) {
        *context.err << "spillway: " << tasks.ToString() << ": task " << TaskId{tasks.job, index}.ToString() << " has not ended\n";
        return kExitRefused;
      }
      RETURN_IF_ERROR(AwaitChange(context, api, snapshot, left_ms));
    }
  }
  const bool good = counts.succeeded() == ended;
  const std::string how = ended > 1 ? HumanCounts(counts) : absl::StrCat(Name(static_cast<TaskState>(last.state())), good ? "" : LastEnd(last));
  *context.err << "spillway: " << (ended > 1 ? "" : "task ") << tasks.ToString() << (ended > 1 ? ": " : " ")
               << context.Painted(how, good ? Colour::kGreen : Colour::kRed) << '\n';
  return good ? kExitOk : kExitJobFailed;
}

absl::Status CopyLog(Context& context, Api& api, const AttemptId& attempt, bool follow, int32_t member) {
  v1::StreamLogsRequest request;
  request.mutable_attempt()->set_job_id(attempt.job);
  request.mutable_attempt()->set_task_index(attempt.index);
  request.mutable_attempt()->set_attempt(attempt.number);
  request.set_follow(follow);
  request.set_member(member);
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

absl::StatusOr<v1::Job> FollowLogs(Context& context, Api& api, TaskId task, AttemptNumber after_attempt, int32_t member) {
  AttemptNumber shown = after_attempt;
  for (;;) {
    ASSIGN_OR_RETURN(const Snapshot snapshot, TakeSnapshot(api, task.job));
    ASSIGN_OR_RETURN(const v1::Task now, TaskOf(api, snapshot.job, task.index));
    bool news = false;
    for (const v1::Attempt& attempt : now.attempts()) {
      if (attempt.key().attempt() <= shown) continue;
      shown = attempt.key().attempt();
      news = true;
      if (!context.json) *context.err << context.Painted(absl::StrCat("spillway: ", Announce(attempt)), Colour::kDim) << std::endl;
      const absl::Status copied = CopyLog(context, api, AttemptId{task.job, task.index, shown}, true, member);
      if (!copied.ok() && !absl::IsNotFound(copied)) return copied;
      if (!context.out->good()) return snapshot.job;
    }
    if (news) continue;
    if (JobEnded(snapshot.job) || (IsArray(snapshot.job) && TaskEnded(now))) return snapshot.job;
    RETURN_IF_ERROR(AwaitChange(context, api, snapshot, 0));
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
  if (IsArray(job)) {
    absl::StrAppend(&text, ": ", HumanCounts(job.counts()));
  } else if (job.tasks_size() > 0 && job.tasks(0).attempts_total() > 0) {
    const v1::Task& task = job.tasks(0);
    absl::StrAppend(&text, " after ", task.attempts_total(), task.attempts_total() == 1 ? " attempt" : " attempts", good ? "" : LastEnd(task));
  }
  if (job.end_cause() != v1::END_CAUSE_UNSPECIFIED) {
    absl::StrAppend(&text, ": ", Name(static_cast<EndCause>(job.end_cause())), " (", Printable(job.end_detail(), 200), ")");
  }
  *context.err << "spillway: " << context.Painted(text, ColourOfState(job.state())) << '\n';
  return good ? kExitOk : kExitJobFailed;
}

}  // namespace spillway::client
