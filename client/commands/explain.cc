#include "absl/strings/str_cat.h"
#include "base/attempt_words.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Explain final : public Verb {
 public:
  std::string Name() const override { return "explain"; }
  std::string Summary() const override { return "why a job waits and what would unblock it, or why it runs where it runs"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway explain 5", "the reasons, the least change that would unblock it"}, {"spillway explain last -o json", "the same as codes for programs"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("JOB", &job_, "a job or task", true);
    builder.Output();
  }
  int Run(Context& context) override {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const TaskId task, ResolveTask(*api, job_));
    v1::ExplainRequest request;
    request.set_job_id(task.job);
    request.set_task_index(task.index);
    ASSIGN_OR_FAIL(context, const v1::ExplainResponse response, api->Explain(request));
    if (context.json) return context.PrintJson(response);
    const std::string state(spillway::Name(static_cast<TaskState>(response.state())));
    *context.out << task.ToString() << "  " << context.Painted(state, ColourOfState(state));
    // The summary is the first reason's sentence: once is enough.
    const bool said = response.reasons_size() > 0 && response.reasons(0).message() == response.summary();
    *context.out << (said || response.summary().empty() ? "" : absl::StrCat("  ", Printable(response.summary(), 400))) << '\n';
    for (const v1::Reason& reason : response.reasons()) {
      *context.out << "  " << Printable(reason.code(), 60) << ": " << Printable(reason.message(), 600) << '\n';
      if (!reason.unblocks().empty()) *context.out << "      would help: " << Printable(reason.unblocks(), 600) << '\n';
    }
    return kExitOk;
  }

 private:
  std::string job_;
};

}  // namespace

std::unique_ptr<Verb> MakeExplain() { return std::make_unique<Explain>(); }

}  // namespace spillway::client
