#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/attempt_words.h"
#include "base/limits.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "client/commands/task_table.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

constexpr int64_t kRefreshMs = 1'000;

// What a task with a deadline may still lose, or by how much it will be late.
std::string SlackText(const v1::Task& task) {
  if (!task.has_slack_ms()) return "";
  return task.slack_ms() < 0 ? absl::StrCat("-", HumanDuration(-task.slack_ms())) : HumanDuration(task.slack_ms());
}

class Queue final : public Verb {
 public:
  std::string Name() const override { return "queue"; }
  std::vector<std::string> Aliases() const override { return {"ps"}; }
  std::string Summary() const override { return "list jobs: where they run or why they wait"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway queue", "jobs that wait or run"},
            {"spillway ps --all", "ended jobs too, the newest first"},
            {"spillway queue --tasks 5", "the tasks of an array; 5.100-199 for some of them"},
            {"spillway queue --watch", "the same, kept up to date, with progress bars"},
            {"spillway queue --state FAILED -o json", "one JSON document for scripts"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Flag("-a,--all", &all_, "ended jobs too");
    builder.Options("--state", &states_, "STATE", "only jobs in this state");
    builder.Option("--name", &name_, "NAME", "only jobs of this name");
    builder.Option("--tasks", &tasks_, "JOB", "the tasks of one job instead, or some of them: 5, 5.17, 5.100-199");
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
      std::string text;
      if (tasks_.empty()) {
        ASSIGN_OR_FAIL(context, const v1::ListJobsResponse jobs, ListJobs(*api, request, limit_));
        if (context.json) return context.PrintJson(jobs);
        text = Render(context, jobs);
      } else {
        ASSIGN_OR_FAIL(context, const v1::ListTasksResponse tasks, ListTasksMeant(*api));
        if (context.json) return context.PrintJson(tasks);
        text = TaskTable(tasks.tasks(), context);
        if (!tasks.next_page_token().empty()) absl::StrAppend(&text, "... and more; --limit shows more than ", limit_, "\n");
      }
      if (watch_ && context.out_is_terminal) *context.out << "\x1b[H\x1b[J";
      *context.out << text << std::flush;
      if (!watch_ || !context.out->good()) return kExitOk;
      context.sleep_ms(kRefreshMs);
    }
  }

 private:
  absl::StatusOr<v1::ListTasksResponse> ListTasksMeant(Api& api) const {
    ASSIGN_OR_RETURN(const std::vector<JobTasks> meant, ResolveJobTasks(api, {tasks_}, true));
    if (meant.size() != 1) return absl::InvalidArgumentError(absl::StrCat("`", Printable(tasks_, 60), "` means several jobs; one is meant here"));
    std::vector<TaskSpan> spans = meant[0].tasks;
    if (spans.empty()) spans.push_back({0, limits::kArrayTasksMax});
    // In order and each task once, however they were written.
    std::sort(spans.begin(), spans.end(), [](const TaskSpan& a, const TaskSpan& b) { return std::tie(a.first, a.last) < std::tie(b.first, b.last); });
    std::vector<TaskSpan> apart;
    for (TaskSpan span : spans) {
      span.last = std::min(span.last, std::max(span.first, limits::kArrayTasksMax));
      if (!apart.empty() && span.first <= apart.back().last) {
        apart.back().last = std::max(apart.back().last, span.last);
      } else {
        apart.push_back(span);
      }
    }
    v1::ListTasksResponse all;
    for (const TaskSpan& span : apart) {
      v1::ListTasksRequest request;
      request.set_job_id(meant[0].job);
      request.set_first_index(span.first);
      do {
        if (all.tasks_size() == limit_) {
          all.set_next_page_token("more");
          return all;
        }
        request.set_page_size(static_cast<int32_t>(std::min({limits::kPageSizeMax, limit_ - all.tasks_size(), span.last - request.first_index() + 1})));
        ASSIGN_OR_RETURN(v1::ListTasksResponse page, api.ListTasks(request));
        for (v1::Task& task : *page.mutable_tasks()) all.mutable_tasks()->Add(std::move(task));
        request.set_first_index(request.first_index() + page.tasks_size());
        if (page.next_page_token().empty()) break;
      } while (request.first_index() <= span.last);
    }
    return all;
  }

  std::string Render(const Context& context, const v1::ListJobsResponse& jobs) const {
    if (jobs.jobs_size() == 0) return all_ ? "no jobs\n" : "no job waits or runs (--all shows the ended ones)\n";
    const int64_t now_ms = context.clock->NowUtcMs();
    Table table({">ID", "NAME", "STATE", ">PRIO", "NODE", "MARKET", "PROGRESS", "TASKS", ">SLACK", ">TRY", ">AGE", ">RAN", ">COST", "WAITS FOR"});
    for (const v1::Job& job : jobs.jobs()) {
      const v1::Task none;
      const v1::Task& task = job.tasks_size() > 0 ? job.tasks(0) : none;
      const v1::Attempt* last = task.attempts_size() > 0 ? &task.attempts(task.attempts_size() - 1) : nullptr;
      const bool alive = last != nullptr && last->state() != v1::ENDED && !IsArray(job);
      const std::string state = job.state() == "HELD" ? absl::StrCat("HELD ", LowerName(static_cast<HoldReason>(task.hold_reason()))) : job.state();
      const int64_t step = IsArray(job) ? EndedTasks(job) : task.progress().step();
      const int64_t total = IsArray(job) ? job.task_count() : task.progress().total();
      std::string progress = HumanProgress(step, total);
      if (watch_ && total > 0) progress = absl::StrCat(Bar(step, total, 16), " ", progress);
      const int64_t ran_ms = IsArray(job) ? 0 : RanMs(task, now_ms);
      table.Add({absl::StrCat(job.job_id()),
                 job.name(),
                 {state, ColourOfState(job.state())},
                 absl::StrCat(job.priority()),
                 alive ? last->node_name() : "",
                 alive ? LowerName(static_cast<Market>(last->market())) : "",
                 progress,
                 IsArray(job) ? HumanCounts(job.counts()) : "",
                 SlackText(task),
                 task.attempts_total() > 0 && !IsArray(job) ? absl::StrCat(task.attempts_total()) : "",
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
  std::string name_, tasks_;
  int64_t limit_ = 200;
};

}  // namespace

std::unique_ptr<Verb> MakeQueue() { return std::make_unique<Queue>(); }

}  // namespace spillway::client
