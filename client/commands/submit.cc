#include "base/text.h"
#include "base/units.h"
#include "client/commands/commands.h"
#include "client/follow.h"
#include "client/job_files.h"

namespace spillway::client {
namespace {

class Submit final : public Verb {
 public:
  std::string Name() const override { return "submit"; }
  std::string Summary() const override { return "submit jobs described in YAML files, all or none"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway submit train.yaml", "submit one job and print its id"},
            {"spillway submit --wait train.yaml", "and exit with 0 when it has succeeded, 1 when not"},
            {"spillway submit --set resources.gpu.count=2 --set env.SEED=7 train.yaml", "change what the file says"},
            {"spillway submit --request-id nightly-2026-12-24 train.yaml", "submitting again with this id makes no second job"},
            {"spillway submit prepare.yaml train.yaml", "together: `after: [prepare]` in the second means the first, by its name"},
            {"spillway submit --array 100 --parallel 8 trial.yaml", "100 tasks, each with its own SPILLWAY_TASK_INDEX, at most 8 at once"},
            {"spillway submit --deadline 8h --expect 3h train.yaml", "three hours of work, on spot as long as eight hours from now are sure to be kept"},
            {"spillway submit --hold train.yaml", "nothing runs before `spillway resume`"},
            {"spillway submit -", "read the job from standard input"}};
  }
  std::string WhereCommandsGo() const override { return "`submit` takes job files; a command goes to `spillway run --detach -- COMMAND...`"; }
  void Define(VerbBuilder& builder) override {
    builder.Files("JOB.yaml", &files_, "job files; - is standard input");
    builder.Flag("--wait", &wait_, "wait until every job has ended");
    builder.Flag("--hold", &hold_, "held until `spillway resume`");
    builder.Option("--array", &array_, "N", "so many tasks of every file: array.count");
    builder.Option("--parallel", &parallel_, "N", "at most so many of them at once: array.parallel");
    builder.Option("--deadline", &deadline_, "TIME", "when it should have ended, a time or how long from now: limits.deadline");
    builder.Option("--expect", &expected_, "DURATION", "how long it runs in all when nothing interrupts it: limits.expected_duration");
    builder.Option("--request-id", &request_id_, "ID", "your own name for this submission: the same one within 24 h gives the first answer again");
    builder.Options("--set", &settings_, "KEY=VALUE", "one key of every file, such as resources.gpu.count=2");
    builder.Output();
  }
  int Run(Context& context) override {
    // Said by flags they come after what --set says.
    if (!array_.empty()) settings_.push_back("array.count=" + array_);
    if (!parallel_.empty()) settings_.push_back("array.parallel=" + parallel_);
    if (!expected_.empty()) settings_.push_back("limits.expected_duration=" + expected_);
    if (!deadline_.empty()) {
      ASSIGN_OR_FAIL(context, const int64_t deadline_ms, ParseDeadline(deadline_, context.clock->NowUtcMs()));
      settings_.push_back("limits.deadline=" + FormatUtcMs(deadline_ms));
    }
    std::vector<JobFile> jobs;
    absl::Status refused;
    for (const std::string& file : files_) {
      auto job = LoadJobFile(context, file, settings_);
      if (job.ok()) {
        jobs.push_back(*std::move(job));
      } else {
        context.Fail(job.status());  // every file's errors are worth knowing at once
        refused.Update(job.status());
      }
    }
    if (!refused.ok()) return NothingSubmitted(context, ExitCodeOf(refused));
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    auto submitted = SubmitJobs(*api, jobs, request_id_, hold_);
    if (!submitted.ok()) return NothingSubmitted(context, context.Fail(submitted.status()));
    const v1::SubmitResponse response = *std::move(submitted);
    for (const std::string& warning : response.warnings())
      *context.err << context.Painted("warning: ", Colour::kYellow) << Printable(NameTheJob(warning, jobs), 400) << '\n';
    if (context.json) {
      context.PrintJson(response);
    } else {
      if (response.repeated_request()) *context.err << "spillway: this request id was answered before; nothing new was created\n";
      for (int i = 0; i < response.job_ids_size(); ++i)
        *context.out << "submitted " << response.job_ids(i) << ' ' << jobs[static_cast<size_t>(i)].spec.name() << '\n';
    }
    context.out->flush();
    if (wait_ && hold_) *context.err << "spillway: held: this waits until somebody resumes them\n";
    return wait_ ? Wait(context, *api, response) : kExitOk;
  }

 private:
  static int Wait(Context& context, Api& api, const v1::SubmitResponse& response) {
    int code = kExitOk;
    for (const JobId id : response.job_ids()) {
      ASSIGN_OR_FAIL(context, const v1::Job job, WaitForEnd(context, api, id, 0));
      if (const int ended = ReportEnd(context, job); ended != kExitOk) code = ended;
    }
    return code;
  }

  std::vector<std::string> files_, settings_;
  std::string request_id_, array_, parallel_, deadline_, expected_;
  bool wait_ = false, hold_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeSubmit() { return std::make_unique<Submit>(); }

}  // namespace spillway::client
