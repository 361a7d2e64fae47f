#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "client/commands/commands.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Checkpoints final : public Verb {
 public:
  std::string Name() const override { return "checkpoints"; }
  std::string Summary() const override { return "the registered checkpoints of a job"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway checkpoints list 5", "the newest first: step, size, who wrote it, where it lies"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("list", &what_, "the only one built yet", true);
    builder.Positional("JOB", &job_, "a job or task", true);
    builder.Output();
  }
  int Run(Context& context) override {
    if (what_ != "list")
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("`checkpoints ", Printable(what_, 40), "` is not built yet; `checkpoints list JOB` is")));
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const AttemptId task, ResolveTask(*api, job_));
    v1::ListCheckpointsRequest request;
    request.set_job_id(task.job);
    request.set_task_index(task.index);
    ASSIGN_OR_FAIL(context, const v1::ListCheckpointsResponse response, api->ListCheckpoints(request));
    if (context.json) return context.PrintJson(response);
    Table table({">STEP", ">SIZE", "ATTEMPT", "REGISTERED", "BY", "PATH"});
    for (const v1::Checkpoint& checkpoint : response.checkpoints()) {
      table.Add({absl::StrCat(checkpoint.step()), FormatBytes(checkpoint.bytes()), HumanAttempt(checkpoint.attempt()),
                 HumanTime(checkpoint.registered_utc_ms()), checkpoint.sealed() ? "seal" : "node", checkpoint.path()});
    }
    *context.out << (table.empty() ? "no checkpoint is registered\n" : table.Render(context.colours));
    return kExitOk;
  }

 private:
  std::string what_, job_;
};

}  // namespace

std::unique_ptr<Verb> MakeCheckpoints() { return std::make_unique<Checkpoints>(); }

}  // namespace spillway::client
