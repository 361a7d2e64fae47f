#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "client/follow.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Logs final : public Verb {
 public:
  std::string Name() const override { return "logs"; }
  std::string Summary() const override { return "what a job, or a task of an array, wrote"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway logs 5", "the newest attempt so far"},
            {"spillway logs -f last", "follow it, and every attempt after it, until the job has ended"},
            {"spillway logs 5.17", "the task 17 of an array"},
            {"spillway logs 5 --attempt 1", "the first attempt; 5.0@1 means the same"},
            {"spillway logs 5 --attempt all", "every attempt, one after the other"},
            {"spillway logs 5 --member 1", "of a job on several nodes, the second one's"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("JOB", &job_, "a job, task or attempt", true);
    builder.Flag("-f,--follow", &follow_, "go on until it has ended");
    builder.Option("--attempt", &attempt_, "N|all", "one attempt, or all; default: the newest");
    builder.Option("--member", &member_, "RANK", "of a job on several nodes, which; default: 0");
  }
  int Run(Context& context) override {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, AttemptId attempt, ResolveAttempt(*api, job_));
    const bool all = attempt_ == "all";
    if (!attempt_.empty() && !all) {
      int64_t number = 0;
      if (!absl::SimpleAtoi(attempt_, &number) || number < 1)
        return context.Fail(absl::InvalidArgumentError(absl::StrCat("--attempt ", Printable(attempt_, 40), ": expected a number from 1, or all")));
      if (attempt.number != 0 && attempt.number != number)
        return context.Fail(absl::InvalidArgumentError(absl::StrCat("`", job_, "` and --attempt ", number, " name two attempts")));
      attempt.number = number;
    }
    int32_t member = 0;
    if (!member_.empty() && (!absl::SimpleAtoi(member_, &member) || member < 0)) {
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("--member ", Printable(member_, 40), ": expected a rank from 0")));
    }
    if (all && attempt.number != 0)
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("`", job_, "` is one attempt, and --attempt all means every one")));
    if (attempt.number != 0) {
      OR_FAIL(context, CopyLog(context, *api, attempt, follow_, member));
      return kExitOk;
    }
    ASSIGN_OR_FAIL(context, const v1::Task task, GetTask(*api, attempt.task()));
    if (follow_) {
      // From the newest attempt on, or from the first one kept.
      const AttemptNumber after = all ? 0 : std::max<AttemptNumber>(0, task.attempts_total() - 1);
      OR_FAIL(context, FollowLogs(context, *api, attempt.task(), after, member).status());
      return kExitOk;
    }
    if (task.attempts_total() == 0) {
      *context.err << "spillway: " << attempt.task().ToString() << " has not started yet" << (task.waiting().empty() ? "" : ": ")
                   << Printable(task.waiting(), 400) << '\n';
      return kExitOk;
    }
    if (!all) {
      OR_FAIL(context, CopyLog(context, *api, AttemptId{attempt.job, attempt.index, 0}, false, member));
      return kExitOk;
    }
    for (const v1::Attempt& each : task.attempts()) {
      *context.out << context.Painted(absl::StrCat("==> ", HumanAttempt(each.key()), " on ", Printable(each.node_name(), 60), " <=="), Colour::kBold) << '\n';
      const absl::Status copied = CopyLog(context, *api, AttemptId{attempt.job, attempt.index, each.key().attempt()}, false, member);
      if (!copied.ok() && !absl::IsNotFound(copied)) return context.Fail(copied);
    }
    return kExitOk;
  }

 private:
  std::string job_, attempt_, member_;
  bool follow_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeLogs() { return std::make_unique<Logs>(); }

}  // namespace spillway::client
