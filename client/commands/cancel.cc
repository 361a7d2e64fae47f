#include "base/text.h"
#include "base/units.h"
#include "client/act.h"
#include "client/commands/commands.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Cancel final : public Verb {
 public:
  std::string Name() const override { return "cancel"; }
  std::string Summary() const override { return "end jobs, or tasks of them, for good"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway cancel 5", "signal, grace, then the end"},
            {"spillway cancel --now 5 7-9", "without grace"},
            {"spillway cancel 5.17 5.100-199", "some tasks of an array; the others go on"},
            {"spillway cancel all --yes", "everything that waits or runs, without being asked"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positionals("JOB", &jobs_, kTaskForms, true);
    builder.Flag("--now", &now_, "SIGKILL at once: no checkpoint");
    builder.Option("--reason", &reason_, "TEXT", "kept with the job");
    builder.Output();
  }
  int Run(Context& context) override {
    const auto cancel = [this](Api& api, const JobTasks& target) {
      v1::CancelRequest request;
      request.set_job_id(target.job);
      for (const TaskSpan& span : target.tasks) {
        v1::TaskRange* range = request.add_tasks();
        range->set_first(span.first);
        range->set_last(span.last);
      }
      request.set_now(now_);
      request.set_reason(reason_);
      return api.Cancel(request);
    };
    return ActOnJobs{jobs_, "Cancel", "cancelled", cancel, true}.Run(context);
  }

 private:
  std::vector<std::string> jobs_;
  bool now_ = false;
  std::string reason_;
};

class Preempt final : public Verb {
 public:
  std::string Name() const override { return "preempt"; }
  std::string Summary() const override { return "stop the running attempt after a checkpoint and queue the task again"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway preempt 5", "with the job's own grace"}, {"spillway preempt 5.0 --grace 2m", "with another one"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("JOB", &job_, "a job or task", true);
    builder.Option("--grace", &grace_, "DURATION", "from the signal to SIGKILL; default: the job's own");
    builder.Output();
  }
  int Run(Context& context) override {
    v1::PreemptRequest request;
    if (!grace_.empty()) {
      ASSIGN_OR_FAIL(context, const int64_t grace_ms, ParseDurationMs(grace_));
      if (grace_ms == 0) return context.Fail(absl::InvalidArgumentError("--grace 0: without grace there is no checkpoint; 1ms is the least"));
      request.set_grace_ms(grace_ms);
    }
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const TaskId task, ResolveTask(*api, job_));
    request.set_job_id(task.job);
    request.set_task_index(task.index);
    ASSIGN_OR_FAIL(context, const v1::JobActionResponse response, api->Preempt(request));
    if (context.json) return context.PrintJson(response);
    *context.out << task.ToString() << ": " << (response.message().empty() ? "stopping; it will be queued again" : Printable(response.message(), 400)) << '\n';
    return kExitOk;
  }

 private:
  std::string job_, grace_;
};

}  // namespace

std::unique_ptr<Verb> MakeCancel() { return std::make_unique<Cancel>(); }
std::unique_ptr<Verb> MakePreempt() { return std::make_unique<Preempt>(); }

}  // namespace spillway::client
