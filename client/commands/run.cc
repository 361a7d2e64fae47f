#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "client/follow.h"
#include "client/job_files.h"

namespace spillway::client {
namespace {

class RunCommand final : public Verb {
 public:
  std::string Name() const override { return "run"; }
  std::string Summary() const override { return "submit one command, show its output, exit as it ends"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway run -- python3 train.py --lr 3e-4", "run it somewhere, follow its log across attempts"},
            {"spillway run --gpus H100:2 --memory 64GB --market reserved --market spot -- ./train", "say what it needs and where it may go"},
            {"spillway run --detach --name nightly -- ./train", "only submit it"},
            {"spillway run --env SEED=7 --env HF_HOME -- ./train", "set a variable; take another from your own environment"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Option("--name", &name_, "NAME", "the job's name; default: the program's");
    builder.Option("--cpus", &cpus_, "N", "cores, such as 4 or 0.5");
    builder.Option("--memory", &memory_, "SIZE", "such as 16GB");
    builder.Option("--gpus", &gpus_, "[MODEL:]N", "accelerators, such as 1 or H100:8");
    builder.Options("--env", &env_, "NAME[=VALUE]", "a variable; without a value your own is taken");
    builder.Options("--market", &markets_, "MARKET", "reserved, spot or on_demand; default: all");
    builder.Option("--workdir", &workdir_, "DIR", "where it starts; default: this folder. none: an empty folder of its own");
    builder.Options("--set", &settings_, "KEY=VALUE", "any other key of a job file");
    builder.Flag("--detach", &detach_, "submit and return");
    builder.Positionals("COMMAND", &words_, "the command, where it has no options", false);
    builder.Rest("COMMAND...", &rest_, "the command and its arguments");
    builder.Output();
  }
  int Run(Context& context) override {
    const auto made = MakeJob(context);
    if (!made.ok()) return NothingSubmitted(context, context.Fail(made.status()));
    const JobFile& job = *made;
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    const auto submitted = SubmitJobs(*api, {job}, "");
    if (!submitted.ok()) return NothingSubmitted(context, context.Fail(submitted.status()));
    const v1::SubmitResponse& response = *submitted;
    for (const std::string& warning : response.warnings())
      *context.err << context.Painted("warning: ", Colour::kYellow) << Printable(NameTheJob(warning, {job}), 400) << '\n';
    const JobId id = response.job_ids(0);
    if (detach_) {
      if (context.json) return context.PrintJson(response);
      *context.out << "submitted " << id << ' ' << job.spec.name() << '\n';
      return kExitOk;
    }
    *context.err << context.Painted(
                        absl::StrCat("spillway: job ", id, " (", job.spec.name(), ") submitted; it goes on if you leave (spillway cancel ", id, ")"),
                        Colour::kDim)
                 << std::endl;
    ASSIGN_OR_FAIL(context, v1::Job ended, FollowLogs(context, *api, TaskId{id, 0}, 0));
    if (job.spec.has_array()) {  // the other tasks of it
      ASSIGN_OR_FAIL(context, ended, WaitForEnd(context, *api, id, 0));
    }
    return ReportEnd(context, ended);
  }

 private:
  absl::StatusOr<JobFile> MakeJob(const Context& context) {
    if (context.json && !detach_) return absl::InvalidArgumentError("-o json goes with --detach: otherwise the output is the job's own");
    JobFile job;
    v1::JobSpec& spec = job.spec;
    for (const auto* part : {&words_, &rest_}) {
      for (const std::string& word : *part) spec.add_command(word);
    }
    if (spec.command_size() == 0) return absl::InvalidArgumentError("no command: write it after --, such as `spillway run -- ./train --lr 3e-4`");
    const auto set = [&](const char* flag, const std::string& assignment) { return spec::BindSetting(assignment, &spec, flag); };
    if (!name_.empty()) spec.set_name(name_);
    if (!cpus_.empty()) RETURN_IF_ERROR(set("--cpus", "resources.cpus=" + cpus_));
    if (!memory_.empty()) RETURN_IF_ERROR(set("--memory", "resources.memory=" + memory_));
    if (!gpus_.empty()) RETURN_IF_ERROR(set("--gpus", "resources.gpu=" + gpus_));
    std::string markets;
    for (const std::string& market : markets_) absl::StrAppend(&markets, markets.empty() ? "" : ", ", market);
    if (!markets.empty()) RETURN_IF_ERROR(set("--market", absl::StrCat("placement.markets=[", markets, "]")));
    for (const std::string& variable : env_) {
      const size_t equals = variable.find('=');
      if (equals == std::string::npos && !context.environment_has(variable.c_str())) {
        return absl::InvalidArgumentError(
            absl::StrCat("--env ", Printable(variable, 60), ": no such variable is set here; write ", Printable(variable, 60), "=VALUE, or export it first"));
      }
      (*spec.mutable_env())[variable.substr(0, equals)] = equals == std::string::npos ? context.environment(variable.c_str()) : variable.substr(equals + 1);
    }
    if (workdir_ != "none") spec.set_workdir(AbsolutePath(workdir_.empty() ? "." : ExpandHome(workdir_)));
    for (const std::string& setting : settings_) RETURN_IF_ERROR(spec::BindSetting(setting, &spec));
    RETURN_IF_ERROR(FinishJob(&job));
    return job;
  }

  std::string name_, cpus_, memory_, gpus_, workdir_;
  std::vector<std::string> env_, markets_, settings_, words_, rest_;
  bool detach_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeRun() { return std::make_unique<RunCommand>(); }

}  // namespace spillway::client
