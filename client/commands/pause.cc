// What a user changes about jobs that wait or run: pause, resume, update.
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "client/act.h"
#include "client/commands/commands.h"
#include "client/job_files.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Pause final : public Verb {
 public:
  std::string Name() const override { return "pause"; }
  std::string Summary() const override { return "hold jobs: what runs saves and stops, and nothing starts until `resume`"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway pause 5", "its checkpoint is where `spillway resume 5` goes on"}, {"spillway pause all --yes", "everything, without being asked"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positionals("JOB", &jobs_, kJobForms, true);
    builder.Output();
  }
  int Run(Context& context) override {
    const auto pause = [](Api& api, const JobTasks& target) {
      v1::PauseRequest request;
      request.set_job_id(target.job);
      return api.Pause(request);
    };
    return ActOnJobs{jobs_, "Pause", "paused", pause}.Run(context);
  }

 private:
  std::vector<std::string> jobs_;
};

class Resume final : public Verb {
 public:
  std::string Name() const override { return "resume"; }
  std::string Summary() const override { return "let paused jobs go on from their checkpoints"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway resume 5", "it is queued again"}, {"spillway resume all", "every job that waits or runs and was paused"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positionals("JOB", &jobs_, kJobForms, true);
    builder.Output();
  }
  int Run(Context& context) override {
    const auto resume = [](Api& api, const JobTasks& target) {
      v1::ResumeRequest request;
      request.set_job_id(target.job);
      return api.Resume(request);
    };
    return ActOnJobs{jobs_, "", "resumed", resume}.Run(context);
  }

 private:
  std::vector<std::string> jobs_;
};

class Update final : public Verb {
 public:
  std::string Name() const override { return "update"; }
  std::string Summary() const override { return "change the priority of jobs that wait or run, how many tasks of an array may run at once, or a deadline"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway update 5 --priority 80", "before everything of less; what runs with less may have to make room"},
            {"spillway update 7-9 --priority 10", "these can wait"},
            {"spillway update 5 --parallel 20", "at most so many of its tasks start from now on; what runs goes on"},
            {"spillway update 5 --deadline 6h", "in six hours from now; a time such as 2026-12-24T08:00:00Z will do too"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positionals("JOB", &jobs_, kJobForms, true);
    builder.Option("--priority", &priority_, "N", "0 to 100, higher first");
    builder.Option("--parallel", &parallel_, "N", "at most so many tasks of an array at once");
    builder.Option("--deadline", &deadline_, "TIME", "when it should have ended: a time, or how long from now");
    builder.Output();
  }
  int Run(Context& context) override {
    if (!priority_ && !parallel_ && deadline_.empty()) {
      return context.Fail(absl::InvalidArgumentError("nothing to change: give --priority, --parallel or --deadline"));
    }
    std::optional<int64_t> deadline_ms;
    if (!deadline_.empty()) {
      ASSIGN_OR_FAIL(context, deadline_ms, ParseDeadline(deadline_, context.clock->NowUtcMs()));
    }
    if (parallel_ && *parallel_ < 1) return context.Fail(absl::InvalidArgumentError(absl::StrCat("--parallel: ", *parallel_, " is less than 1")));
    if (priority_ && (*priority_ < 0 || *priority_ > limits::kPriorityMax)) {
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("--priority: ", *priority_, " is outside 0 to ", limits::kPriorityMax)));
    }
    const auto update = [&](Api& api, const JobTasks& target) {
      v1::UpdateRequest request;
      request.set_job_id(target.job);
      if (priority_) request.set_priority(static_cast<int32_t>(*priority_));
      if (parallel_) request.set_parallel(*parallel_);
      if (deadline_ms) request.set_deadline_utc_ms(*deadline_ms);
      return api.Update(request);
    };
    return ActOnJobs{jobs_, "", "updated", update}.Run(context);
  }

 private:
  std::vector<std::string> jobs_;
  std::optional<int64_t> priority_, parallel_;
  std::string deadline_;
};

}  // namespace

std::unique_ptr<Verb> MakePause() { return std::make_unique<Pause>(); }
std::unique_ptr<Verb> MakeResume() { return std::make_unique<Resume>(); }
std::unique_ptr<Verb> MakeUpdate() { return std::make_unique<Update>(); }

}  // namespace spillway::client
