// Job files on their way to the scheduler: read, bound, overridden, checked, and the scheduler's objections brought back to their lines.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/verb.h"
#include "spec/yaml.h"

namespace spillway::client {

struct JobFile {
  std::string source;  // the file as the user named it; empty for a job made from flags
  spec::FieldLines lines;
  v1::JobSpec spec;  // normalized
};

// Reads `path` ("-": context.in), applies the `--set` assignments, validates. INVALID_ARGUMENT has one error a line, with file and line.
// A relative workdir means one beside the job file.
absl::StatusOr<JobFile> LoadJobFile(const Context& context, const std::string& path, const std::vector<std::string>& settings);

// Normalizes and validates what was made otherwise.
absl::Status FinishJob(JobFile* job);

// What --deadline takes: a time, or a duration from now on.
absl::StatusOr<int64_t> ParseDeadline(const std::string& text, int64_t now_ms);

// Submits all or none; with `hold` they wait for a resume. An empty request id is replaced by a fresh one, so that a doubled send never makes a doubled job.
absl::StatusOr<v1::SubmitResponse> SubmitJobs(Api& api, const std::vector<JobFile>& jobs, std::string request_id, bool hold = false);

// Says so where a submission was refused, and that `last`, which a script may use next, still means an earlier job. Returns `code`.
int NothingSubmitted(const Context& context, int code);

// The scheduler names the jobs of one submission by number ("jobs[2] never fits", "jobs[0]: ..."); people know them by file or name.
std::string NameTheJob(absl::string_view said, const std::vector<JobFile>& jobs);

}  // namespace spillway::client
