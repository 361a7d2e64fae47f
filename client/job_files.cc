#include "client/job_files.h"

#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "spec/utf8.h"
#include "spec/validate.h"

namespace spillway::client {
namespace {

absl::StatusOr<std::string> ReadJobText(const Context& context, const std::string& path) {
  if (path != "-") {
    auto text = ReadFile(path, limits::kSpecBytesMax);
    // A file that is not there is a mistake in the command line, like any other.
    if (absl::IsNotFound(text.status())) {
      const bool yaml = absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml");
      return absl::InvalidArgumentError(
          absl::StrCat(Printable(path), ": there is no such file", yaml ? "" : "; a command goes to `spillway run -- COMMAND...`"));
    }
    return text;
  }
  std::string text;
  char buffer[4096];
  while (context.in->read(buffer, sizeof(buffer)), context.in->gcount() > 0) {
    text.append(buffer, static_cast<size_t>(context.in->gcount()));
    if (text.size() > limits::kSpecBytesMax) return absl::InvalidArgumentError(absl::StrCat("<stdin>: larger than ", limits::kSpecBytesMax, " bytes"));
  }
  return text;
}

// "specs[2].resources.gpu.count" -> 2 and "resources.gpu.count". The scheduler numbers the jobs of one submission so.
size_t TakeJobNumber(std::string* path) {
  absl::string_view rest = *path;
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&rest, "specs[") || !absl::SimpleAtoi(rest.substr(0, rest.find(']')), &number)) return 0;
  rest.remove_prefix(rest.find(']') == absl::string_view::npos ? rest.size() : rest.find(']') + 1);
  absl::ConsumePrefix(&rest, ".");
  *path = std::string(rest);
  return number;
}

absl::Status WithLines(const absl::Status& status, const std::vector<JobFile>& jobs) {
  std::vector<std::string> lines;
  for (spec::Violation violation : ViolationsOf(status)) {
    const size_t number = TakeJobNumber(&violation.field_path);
    const JobFile& job = jobs[number < jobs.size() ? number : 0];
    lines.push_back(spec::RenderViolations({violation}, *v1::JobSpec::descriptor(), job.source, job.lines));
  }
  if (lines.empty()) return absl::Status(status.code(), NameTheJob(status.message(), jobs));
  return absl::Status(status.code(), absl::StrJoin(lines, "\n"));
}

}  // namespace

absl::Status FinishJob(JobFile* job) {
  // First: nothing else can be said about text that cannot be sent.
  std::vector<spec::Violation> violations = spec::Utf8Violations(job->spec);
  if (violations.empty()) violations = spec::ValidateJobSpec(job->spec);
  if (!violations.empty()) return absl::InvalidArgumentError(spec::RenderViolations(violations, *v1::JobSpec::descriptor(), job->source, job->lines));
  spec::NormalizeJobSpec(&job->spec);
  return absl::OkStatus();
}

absl::StatusOr<JobFile> LoadJobFile(const Context& context, const std::string& path, const std::vector<std::string>& settings) {
  JobFile job;
  job.source = path == "-" ? "<stdin>" : Printable(path);
  ASSIGN_OR_RETURN(const std::string text, ReadJobText(context, path));
  ASSIGN_OR_RETURN(job.lines, spec::BindJobFile(text, job.source, &job.spec));
  for (const std::string& setting : settings) RETURN_IF_ERROR(spec::BindSetting(setting, &job.spec));
  if (!job.spec.workdir().empty() && job.spec.workdir()[0] != '/') {
    job.spec.set_workdir(AbsolutePath(absl::StartsWith(job.spec.workdir(), "~")
                                          ? ExpandHome(job.spec.workdir())
                                          : JoinPath(FolderOf(AbsolutePath(path == "-" ? "./stdin" : path)), job.spec.workdir())));
  }
  RETURN_IF_ERROR(FinishJob(&job));
  return job;
}

absl::StatusOr<int64_t> ParseDeadline(const std::string& text, int64_t now_ms) {
  if (const auto from_now_ms = ParseDurationMs(text); from_now_ms.ok()) return (now_ms + *from_now_ms) / 1000 * 1000;
  const auto time_ms = ParseUtcMs(text);
  if (time_ms.ok()) return time_ms;
  return absl::InvalidArgumentError(
      absl::StrCat("--deadline: `", Printable(text, 60), "` is neither a time such as 2026-12-24T08:00:00Z nor a duration from now on such as 6h"));
}

absl::StatusOr<v1::SubmitResponse> SubmitJobs(Api& api, const std::vector<JobFile>& jobs, std::string request_id, bool hold) {
  if (static_cast<int64_t>(jobs.size()) > limits::kJobsPerSubmitMax) {
    return absl::InvalidArgumentError(absl::StrCat(jobs.size(), " jobs at once; the most is ", limits::kJobsPerSubmitMax));
  }
  v1::SubmitRequest request;
  request.set_request_id(request_id.empty() ? NewUuid() : std::move(request_id));
  if (request.request_id().size() > limits::kRequestIdBytesMax)
    return absl::InvalidArgumentError(absl::StrCat("--request-id is longer than ", limits::kRequestIdBytesMax, " bytes"));
  for (const JobFile& job : jobs) *request.add_specs() = job.spec;
  request.set_hold(hold);
  auto response = api.Submit(request);
  if (!response.ok()) return WithLines(response.status(), jobs);
  if (response->job_ids_size() != static_cast<int>(jobs.size()))
    return absl::InternalError("the scheduler answered with another number of jobs than was submitted");
  return response;
}

int NothingSubmitted(const Context& context, int code) {
  // Of a scheduler that did not answer nobody knows what it did.
  if (code != kExitUnreachable) *context.err << "spillway: nothing was submitted; `last` still means an earlier job\n";
  return code;
}

std::string NameTheJob(absl::string_view said, const std::vector<JobFile>& jobs) {
  absl::string_view rest = said;
  uint64_t number = 0;
  const size_t close = said.find(']');
  if (!absl::ConsumePrefix(&rest, "jobs[") || close == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(0, rest.find(']')), &number) ||
      number >= jobs.size()) {
    return std::string(said);
  }
  // "jobs[1] never fits: ..." has its verb without a stop between.
  const absl::string_view what = said.substr(close + 1);
  const std::string job = jobs[number].source.empty() ? absl::StrCat("the job `", jobs[number].spec.name(), "`") : jobs[number].source;
  return absl::StrCat(job, jobs[number].source.empty() || absl::StartsWith(what, ":") ? "" : ": the job", what);
}

}  // namespace spillway::client
