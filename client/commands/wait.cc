#include "base/units.h"
#include "client/commands/commands.h"
#include "client/follow.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Wait final : public Verb {
 public:
  std::string Name() const override { return "wait"; }
  std::string Summary() const override { return "wait until jobs, or tasks of them, have ended; exit 0 when all succeeded, 1 when not"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway wait 5 7-9", "these four"},
            {"spillway wait 5.0-99", "the first hundred tasks of an array"},
            {"spillway wait all --timeout 2h", "every job that lives now; exit 4 when the time is over first"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positionals("JOB", &jobs_, kTaskForms, true);
    builder.Option("--timeout", &timeout_, "DURATION", "at most so long in all, such as 90s or 2h30m");
  }
  int Run(Context& context) override {
    int64_t timeout_ms = 0;
    if (!timeout_.empty()) {
      ASSIGN_OR_FAIL(context, timeout_ms, ParseDurationMs(timeout_));
    }
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const std::vector<JobTasks> targets, ResolveJobTasks(*api, jobs_, false));
    const int64_t end_ms = context.clock->NowSteadyMs() + timeout_ms;
    int code = kExitOk;
    for (const JobTasks& target : targets) {
      const int64_t left_ms = timeout_.empty() ? 0 : std::max<int64_t>(1, end_ms - context.clock->NowSteadyMs());
      if (!target.tasks.empty()) {
        ASSIGN_OR_FAIL(context, const int ended, WaitForTasks(context, *api, target, left_ms));
        code = std::max(code, ended);
        continue;
      }
      ASSIGN_OR_FAIL(context, const v1::Job job, WaitForEnd(context, *api, target.job, left_ms));
      // One that still lives outweighs one that failed: nothing can be said about it yet.
      code = std::max(code, ReportEnd(context, job));
    }
    return code;
  }

 private:
  std::vector<std::string> jobs_;
  std::string timeout_;
};

}  // namespace

std::unique_ptr<Verb> MakeWait() { return std::make_unique<Wait>(); }

}  // namespace spillway::client
