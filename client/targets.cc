#include "client/targets.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "spec/validate.h"

namespace spillway::client {
namespace {

// "5.1-3,7": the tasks that are named behind the dot; empty where the text has not this form.
std::vector<TaskSpan> SpansOf(absl::string_view text) {
  const size_t dot = text.find('.');
  if (dot == absl::string_view::npos || text.find('@') != absl::string_view::npos) return {};
  std::vector<TaskSpan> spans;
  for (const absl::string_view part : absl::StrSplit(text.substr(dot + 1), ',')) {
    const size_t dash = part.find('-');
    const std::string job(text.substr(0, dot + 1));
    const auto first = ParseTaskId(absl::StrCat(job, part.substr(0, dash)));
    const auto last = dash == absl::string_view::npos ? first : ParseTaskId(absl::StrCat(job, part.substr(dash + 1)));
    if (!first.ok() || !last.ok()) return {};
    spans.push_back({first->index, last->index});
  }
  return spans;
}

bool IsForm(absl::string_view text) {
  const size_t dash = text.find('-');
  const bool range = dash != absl::string_view::npos && text.find('.') == absl::string_view::npos && ParseTaskId(text.substr(0, dash)).ok() &&
                     ParseTaskId(text.substr(dash + 1)).ok();
  return ParseAttemptId(text).ok() || range || !SpansOf(text).empty() || spec::JobNameProblem(text).empty();
}

// What was probably meant: the text with the usual slips mended one after the other until it reads; "" when it never does.
std::string NearestForm(absl::string_view written) {
  std::string text = absl::AsciiStrToLower(absl::StripAsciiWhitespace(written));
  const auto mend = [&text](auto change) {
    if (!IsForm(text)) change();
  };
  mend([&] {
    for (const char* prefix : {"#", "job", "task", "attempt"}) {
      if (absl::StartsWith(text, prefix)) text = std::string(absl::StripLeadingAsciiWhitespace(absl::StripPrefix(text, prefix)));
    }
  });
  mend([&] { text = absl::StrReplaceAll(text, {{"..", "-"}, {":", "."}, {"/", "."}, {"#", "@"}}); });
  mend([&] { text.erase(0, std::min(text.find_first_not_of('0'), text.size())); });
  mend([&] { text.erase(text.find_last_not_of(".-@ ") + 1); });
  return IsForm(text) ? text : "";
}

absl::Status NoTarget(absl::string_view text) {
  const std::string nearest = NearestForm(text);
  return absl::InvalidArgumentError(absl::StrCat("`", Printable(text, 60), "` is not a job; write 5, 1-9, 5.17, 5.1-100, 5.17@3, last, all, or a name",
                                                 nearest.empty() ? "" : absl::StrCat(" (did you mean `", nearest, "`?)")));
}

absl::StatusOr<JobId> NewestJob(Api& api) {
  v1::ListJobsRequest request;
  request.set_page_size(1);
  request.set_newest_first(true);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response, api.List(request));
  if (response.jobs_size() == 0) return absl::NotFoundError("there is no job yet, so there is no last one");
  return response.jobs(0).job_id();
}

absl::StatusOr<JobId> JobNamed(Api& api, const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  auto job = api.Get(request);
  if (absl::IsNotFound(job.status())) return absl::NotFoundError(absl::StrCat("no job is called `", Printable(name, 60), "`"));
  RETURN_IF_ERROR(job.status());
  return job->job_id();
}

}  // namespace

absl::StatusOr<Target> ParseTarget(absl::string_view text) {
  Target target;
  if (text == "last" || text == "all") {
    target.kind = text == "last" ? Target::Kind::kLast : Target::Kind::kAll;
    return target;
  }
  if (const auto attempt = ParseAttemptId(text); attempt.ok()) {
    target.attempt = *attempt;
    target.from = target.to = attempt->job;
    target.kind = attempt->number > 0 ? Target::Kind::kAttempt : text.find('.') != absl::string_view::npos ? Target::Kind::kTask : Target::Kind::kJobs;
    if (target.kind == Target::Kind::kTask) target.tasks = {{attempt->index, attempt->index}};
    return target;
  }
  if (target.tasks = SpansOf(text); !target.tasks.empty()) {
    for (const TaskSpan& span : target.tasks) {
      if (span.last < span.first) return absl::InvalidArgumentError(absl::StrCat("the range `", span.first, "-", span.last, "` ends before it begins"));
    }
    target.kind = Target::Kind::kTasks;
    target.attempt.job = ParseTaskId(text.substr(0, text.find('.')))->job;
    return target;
  }
  if (const size_t dash = text.find('-'); dash != absl::string_view::npos && text.find_first_not_of("0123456789-") == absl::string_view::npos) {
    const auto from = ParseTaskId(text.substr(0, dash));
    const auto to = ParseTaskId(text.substr(dash + 1));
    if (!from.ok() || !to.ok()) return NoTarget(text);
    if (to->job < from->job) return absl::InvalidArgumentError(absl::StrCat("the range `", Printable(text, 60), "` ends before it begins"));
    if (to->job - from->job >= kRangeMax)
      return absl::InvalidArgumentError(absl::StrCat("the range `", Printable(text, 60), "` is longer than ", kRangeMax, " jobs"));
    target.from = from->job;
    target.to = to->job;
    return target;
  }
  if (!spec::JobNameProblem(text).empty()) return NoTarget(text);
  target.kind = Target::Kind::kName;
  target.name = std::string(text);
  return target;
}

absl::StatusOr<std::vector<JobId>> ResolveJobs(Api& api, const std::vector<std::string>& texts, bool ended_too) {
  for (const std::string& text : texts) {
    const auto target = ParseTarget(text);
    if (!target.ok() || (target->tasks.empty() && target->kind != Target::Kind::kAttempt)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`", text, "` is ", target->kind == Target::Kind::kTasks ? "some tasks" : "one task", "; a job is meant here: ", target->attempt.job));
  }
  ASSIGN_OR_RETURN(const std::vector<JobTasks> found, ResolveJobTasks(api, texts, ended_too));
  std::vector<JobId> jobs;
  for (const JobTasks& one : found) jobs.push_back(one.job);
  return jobs;
}

std::string JobTasks::ToString() const {
  if (tasks.empty()) return absl::StrCat("job ", job);
  return absl::StrCat(job, ".", absl::StrJoin(tasks, ",", [](std::string* out, const TaskSpan& span) {
                        absl::StrAppend(out, span.first, span.last > span.first ? absl::StrCat("-", span.last) : "");
                      }));
}

absl::StatusOr<std::vector<JobTasks>> ResolveJobTasks(Api& api, const std::vector<std::string>& texts, bool ended_too) {
  std::vector<JobTasks> jobs;
  std::map<JobId, size_t> seen;
  const auto add = [&](JobId job, const std::vector<TaskSpan>& tasks = {}) {
    const auto [at, is_new] = seen.insert({job, jobs.size()});
    if (is_new) return jobs.push_back({job, tasks});
    std::vector<TaskSpan>& known = jobs[at->second].tasks;
    if (tasks.empty()) known.clear();
    if (!known.empty()) known.insert(known.end(), tasks.begin(), tasks.end());
  };
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const Target target, ParseTarget(text));
    switch (target.kind) {
      case Target::Kind::kJobs:
        for (JobId job = target.from; job <= target.to; ++job) add(job);
        break;
      case Target::Kind::kTask:
      case Target::Kind::kTasks: add(target.attempt.job, target.tasks); break;
      case Target::Kind::kAttempt:
        return absl::InvalidArgumentError(absl::StrCat("`", text, "` is one attempt; a task is meant here: ", target.attempt.task().ToString()));
      case Target::Kind::kLast: {
        ASSIGN_OR_RETURN(const JobId job, NewestJob(api));
        add(job);
        break;
      }
      case Target::Kind::kName: {
        ASSIGN_OR_RETURN(const JobId job, JobNamed(api, target.name));
        add(job);
        break;
      }
      case Target::Kind::kAll: {
        v1::ListJobsRequest request;
        if (!ended_too) {
          for (const std::string& state : LivingStates()) request.add_states(state);
        }
        ASSIGN_OR_RETURN(const v1::ListJobsResponse all, ListJobs(api, request, kRangeMax));
        if (!all.next_page_token().empty()) return absl::InvalidArgumentError(absl::StrCat("`all` is more than ", kRangeMax, " jobs; give a range"));
        for (const v1::Job& job : all.jobs()) add(job.job_id());
        break;
      }
    }
  }
  return jobs;
}

absl::StatusOr<AttemptId> ResolveAttempt(Api& api, const std::string& text) {
  ASSIGN_OR_RETURN(const Target target, ParseTarget(text));
  switch (target.kind) {
    case Target::Kind::kTask:
    case Target::Kind::kAttempt: return target.attempt;
    case Target::Kind::kJobs:
      if (target.from == target.to) return AttemptId{target.from, 0, 0};
      break;
    case Target::Kind::kLast: {
      ASSIGN_OR_RETURN(const JobId job, NewestJob(api));
      return AttemptId{job, 0, 0};
    }
    case Target::Kind::kName: {
      ASSIGN_OR_RETURN(const JobId job, JobNamed(api, target.name));
      return AttemptId{job, 0, 0};
    }
    case Target::Kind::kTasks: return absl::InvalidArgumentError(absl::StrCat("`", Printable(text, 60), "` means several tasks; one is meant here"));
    case Target::Kind::kAll: break;
  }
  return absl::InvalidArgumentError(absl::StrCat("`", Printable(text, 60), "` means several jobs; one is meant here"));
}

absl::StatusOr<TaskId> ResolveTask(Api& api, const std::string& text) {
  ASSIGN_OR_RETURN(const AttemptId attempt, ResolveAttempt(api, text));
  if (attempt.number == 0) return attempt.task();
  return absl::InvalidArgumentError(absl::StrCat("`", Printable(text, 60), "` is an attempt; a task is meant here: ", attempt.task().ToString()));
}

absl::StatusOr<v1::Task> GetTask(Api& api, TaskId id) {
  v1::ListTasksRequest request;
  request.set_job_id(id.job);
  request.set_first_index(id.index);
  request.set_page_size(1);
  ASSIGN_OR_RETURN(v1::ListTasksResponse response, api.ListTasks(request));
  if (response.tasks_size() != 1 || response.tasks(0).task_index() != id.index) return absl::InternalError("the scheduler answered with another task");
  return std::move(*response.mutable_tasks(0));
}

absl::StatusOr<v1::ListJobsResponse> ListJobs(Api& api, v1::ListJobsRequest request, int64_t limit) {
  v1::ListJobsResponse all;
  do {
    request.set_page_size(static_cast<int>(std::min(limits::kPageSizeMax, limit - all.jobs_size())));
    ASSIGN_OR_RETURN(v1::ListJobsResponse page, api.List(request));
    if (all.jobs_size() == 0) all.set_event_seq(page.event_seq());
    for (v1::Job& job : *page.mutable_jobs()) all.mutable_jobs()->Add(std::move(job));
    all.set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!all.next_page_token().empty() && all.jobs_size() < limit);
  return all;
}

std::vector<std::string> LivingStates() { return {"QUEUED", "HELD", "ACTIVE"}; }

bool TaskEnded(const v1::Task& task) { return task.state() == v1::SUCCEEDED || task.state() == v1::FAILED || task.state() == v1::CANCELLED_STATE; }

int64_t RanMs(const v1::Task& task, int64_t now_utc_ms) {
  int64_t ran_ms = 0;
  for (const v1::Attempt& attempt : task.attempts()) {
    if (attempt.started_utc_ms() > 0)
      ran_ms += std::max<int64_t>(0, (attempt.ended_utc_ms() > 0 ? attempt.ended_utc_ms() : now_utc_ms) - attempt.started_utc_ms());
  }
  return ran_ms;
}

bool JobEnded(const v1::Job& job) { return job.state() == "SUCCEEDED" || job.state() == "FAILED" || job.state() == "CANCELLED"; }

}  // namespace spillway::client
