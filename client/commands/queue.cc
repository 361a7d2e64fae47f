#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/attempt_words.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

constexpr int64_t kRefreshMs = 1'000;

class Queue final : public Verb {
 public:
  std::string Name() const override { return "queue"; }
  std::vector<std::string> Aliases() const override { return {"ps"}; }
  std::string Summary() const override { return "list jobs: where they run or why they wait"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway queue", "jobs that wait or run"},
            {"spillway ps --all", "ended jobs too, the newest first"},
            {"spillway queue --watch", "the same, kept up to date, with progress bars"},
            {"spillway queue --state FAILED -o json", "one JSON document for scripts"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Flag("-a,--all", &all_, "ended jobs too");
    builder.Options("--state", &states_, "STATE", "only jobs in this state");
    builder.Option("--name", &name_, "NAME", "only jobs of this name");
    builder.Option("-n,--limit", &limit_, "N", "at most so many (200)");
    builder.Flag("-w,--watch", &watch_, "keep it up to date until interrupted");
    builder.Output();
  }
  int Run(Context& context) override {
    if (limit_ < 1 || limit_ > kRangeMax) return context.Fail(absl::InvalidArgumentError(absl::StrCat("--limit: ", limit_, " is outside 1 to ", kRangeMax)));
    if (watch_ && context.json)
      return context.Fail(absl::InvalidArgumentError("--watch and -o json do not go together; `events -f -o json` is the stream for programs"));
    v1::ListJobsRequest request;
    request.set_include_tasks(true);
    request.set_name(name_);
    request.set_newest_first(all_);
    if (states_.empty() && !all_) states_ = LivingStates();
    for (const std::string& text : states_) {
      const auto state = ParseWord<TaskState>(text);  // a job's states are those of its tasks
      if (!state.ok()) return context.Fail(state.status());
      request.add_states(std::string(spillway::Name(*state)));
    }
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    for (;;) {
      ASSIGN_OR_FAIL(context, const v1::ListJobsResponse jobs, ListJobs(*api, request, limit_));
      if (context.json) return context.PrintJson(jobs);
      if (watch_ && context.out_is_terminal) *context.out << "\x1b[H\x1b[J";
      *context.out << Render(context, jobs) << std::flush;
      if (!watch_ || !context.out->good()) return kExitOk;
      context.sleep_ms(kRefreshMs);
    }
  }

 private:
  std::string Render(const Context& context, const v1::ListJobsResponse& jobs) const {
    if (jobs.jobs_size() == 0) return all_ ? "no jobs\n" : "no job waits or runs (--all shows the ended ones)\n";
    const int64_t now_ms = context.clock->NowUtcMs();
    Table table({">ID", "NAME", "STATE", ">PRIO", "NODE", "MARKET", "PROGRESS", ">TRY", ">AGE", ">RAN", ">COST", "WAITS FOR"});
    for (const v1::Job& job : jobs.jobs()) {
      const v1::Task none;
      const v1::Task& task = job.tasks_size() > 0 ? job.tasks(0) : none;
      const v1::Attempt* last = task.attempts_size() > 0 ? &task.attempts(task.attempts_size() - 1) : nullptr;
      const bool alive = last != nullptr && last->state() != v1::ENDED;
      const std::string state = job.state() == "HELD" ? absl::StrCat("HELD ", LowerName(static_cast<HoldReason>(task.hold_reason()))) : job.state();
      std::string progress = HumanProgress(task.progress().step(), task.progress().total());
      if (watch_ && task.progress().total() > 0) progress = absl::StrCat(Bar(task.progress().step(), task.progress().total(), 16), " ", progress);
      const int64_t ran_ms = RanMs(task, now_ms);
      table.Add({absl::StrCat(job.job_id()),
                 job.name(),
                 {state, ColourOfState(job.state())},
                 absl::StrCat(job.priority()),
                 alive ? last->node_name() : "",
                 alive ? LowerName(static_cast<Market>(last->market())) : "",
                 progress,
                 task.attempts_total() > 0 ? absl::StrCat(task.attempts_total()) : "",
                 HumanAge(now_ms, job.submitted_utc_ms()),
                 ran_ms > 0 ? HumanDuration(ran_ms) : "",
                 job.cost_micros() > 0 ? HumanMoney(job.cost_micros()) : "",
                 task.waiting()});
    }
    std::string text = table.Render(context.colours);
    if (!jobs.next_page_token().empty()) absl::StrAppend(&text, "... and more; --limit shows more than ", limit_, "\n");
    return text;
  }

  bool all_ = false, watch_ = false;
  std::vector<std::string> states_;
  std::string name_;
  int64_t limit_ = 200;
};

}  // namespace

std::unique_ptr<Verb> MakeQueue() { return std::make_unique<Queue>(); }

}  // namespace spillway::client
