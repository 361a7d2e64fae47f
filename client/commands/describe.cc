#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/attempt_words.h"
#include "base/text.h"
#include "base/units.h"
#include "client/commands/commands.h"
#include "client/commands/task_table.h"
#include "client/node_lookup.h"
#include "client/targets.h"
#include "spec/yaml.h"

namespace spillway::client {
namespace {

void Line(std::string* out, absl::string_view label, absl::string_view text) {
  if (!text.empty()) absl::StrAppend(out, "  ", label, std::string(label.size() < 12 ? 12 - label.size() : 1, ' '), text, "\n");
}

std::string AgoText(int64_t now_ms, int64_t then_ms) { return then_ms == 0 ? "" : absl::StrCat(HumanTime(then_ms), " (", HumanAge(now_ms, then_ms), " ago)"); }

std::string ProgressText(const v1::Task& task) {
  const v1::Progress& progress = task.progress();
  std::string text = HumanProgress(progress.step(), progress.total());
  if (progress.total() > 0) absl::StrAppend(&text, " ", Bar(progress.step(), progress.total(), 20));
  std::vector<std::pair<std::string, double>> metrics(progress.metrics().begin(), progress.metrics().end());
  std::sort(metrics.begin(), metrics.end());
  for (const auto& [name, value] : metrics) absl::StrAppend(&text, text.empty() ? "" : " ", Printable(name, 40), "=", value);
  return text;
}

std::string CheckpointText(const v1::Checkpoint& checkpoint, int64_t now_ms) {
  if (checkpoint.attempt().job_id() == 0) return "";
  return absl::StrCat("step ", checkpoint.step(), ", ", FormatBytes(checkpoint.bytes()), ", by ", HumanAttempt(checkpoint.attempt()), ", ",
                      HumanAge(now_ms, checkpoint.registered_utc_ms()), " ago", checkpoint.sealed() ? ", sealed" : "", ", ", Printable(checkpoint.path()));
}

// Work that had been done and must be done again: what came after the newest checkpoint, or after the start where there was none.
int64_t StepsLost(const v1::Attempt& attempt) {
  if (attempt.state() != v1::ENDED || attempt.end_cause() == v1::COMPLETED) return 0;
  return std::max<int64_t>(0, attempt.to_step() - std::max(attempt.saved_step(), attempt.from_step()));
}

std::string EndText(const v1::Attempt& attempt) {
  if (attempt.state() != v1::ENDED) return std::string(Name(static_cast<AttemptState>(attempt.state())));
  std::string text(Name(static_cast<EndCause>(attempt.end_cause())));
  if (attempt.initiator() != v1::INITIATOR_UNSPECIFIED) absl::StrAppend(&text, " by ", LowerName(static_cast<Initiator>(attempt.initiator())));
  return text;
}

std::string MembersText(const v1::Attempt& attempt) {
  std::string text;
  for (int rank = 0; rank < attempt.members_size(); ++rank) {
    const v1::Attempt::Member& member = attempt.members(rank);
    absl::StrAppend(&text, "  member ", rank, " on ", Printable(member.node_name(), 60), ": ", Name(static_cast<AttemptState>(member.state())), "\n");
  }
  return text;
}

std::string Timeline(const v1::Task& task, const Context& context) {
  Table table({">TRY", "NODE", "MARKET", "OFFERED", ">RAN", "STEPS", "END", ">SAVED", ">LOST", "DETAIL"});
  for (const v1::Attempt& kept : task.attempts()) {
    v1::Attempt attempt = kept;
    // Of the attempt that runs the newest progress is known, before it is kept with the attempt.
    if (&kept == &task.attempts(task.attempts_size() - 1) && kept.state() != v1::ENDED) attempt.set_to_step(std::max(kept.to_step(), task.progress().step()));
    const int64_t until_ms = attempt.ended_utc_ms() > 0 ? attempt.ended_utc_ms() : context.clock->NowUtcMs();
    const bool ended = attempt.state() == v1::ENDED;
    const std::string end = EndText(attempt);
    const bool steps = attempt.to_step() > 0 || attempt.from_step() > 0;
    table.Add({absl::StrCat("@", attempt.key().attempt()),
               attempt.node_name(),
               LowerName(static_cast<Market>(attempt.market())),
               HumanTime(attempt.offered_utc_ms()),
               attempt.started_utc_ms() > 0 ? HumanDuration(std::max<int64_t>(0, until_ms - attempt.started_utc_ms())) : "",
               steps ? absl::StrCat(attempt.from_step(), "-", std::max(attempt.from_step(), attempt.to_step())) : "",
               {end, ColourOfState(std::string(absl::string_view(end).substr(0, end.find(' '))))},
               attempt.saved_step() > 0 ? absl::StrCat(attempt.saved_step()) : "",
               ended && steps ? absl::StrCat(StepsLost(attempt)) : "",
               attempt.detail()});
  }
  if (table.empty()) return "";
  std::string text;
  if (task.attempts_total() > task.attempts_size()) absl::StrAppend(&text, "the newest ", task.attempts_size(), " of ", task.attempts_total(), " attempts\n");
  absl::StrAppend(&text, table.Render(context.colours));
  const v1::Attempt& last = task.attempts(task.attempts_size() - 1);
  if (last.state() != v1::ENDED) absl::StrAppend(&text, MembersText(last));
  if (last.state() != v1::ENDED && !last.placement_reason().empty()) absl::StrAppend(&text, "  there because: ", Printable(last.placement_reason(), 400), "\n");
  return text;
}

// As one would type it: what a shell would take apart or change is quoted.
template <typename Words>
std::string ShellQuoted(const Words& words) {
  std::string out;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::string_view("_@%+=:,./-").find(c) != absl::string_view::npos;
    });
    absl::StrAppend(&out, out.empty() ? "" : " ", plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"));
  }
  return out;
}

std::string DeadlineText(const v1::Job& job, int64_t now_ms) {
  const std::string time = FormatUtcMs(job.deadline_utc_ms());
  if (JobEnded(job)) {
    const int64_t late_ms = job.ended_utc_ms() - job.deadline_utc_ms();
    return absl::StrCat(time, late_ms > 0 ? absl::StrCat(": ", HumanDuration(late_ms), " late") : absl::StrCat(": met, ", HumanDuration(-late_ms), " before"));
  }
  const int64_t left_ms = job.deadline_utc_ms() - now_ms;
  std::string text = absl::StrCat(time, left_ms > 0 ? absl::StrCat(" (in ", HumanDuration(left_ms), ")") : absl::StrCat(", ", HumanDuration(-left_ms), " ago"));
  if (job.tasks_size() == 0 || !job.tasks(0).has_slack_ms() || IsArray(job) || left_ms <= 0) return text;
  const int64_t slack_ms = job.tasks(0).slack_ms();
  return absl::StrCat(text, slack_ms < 0 ? absl::StrCat(", ends ", HumanDuration(-slack_ms), " too late") : absl::StrCat(", slack ", HumanDuration(slack_ms)));
}

// `one_task`: of an array only the one task that it holds is meant.
std::string DescribeJob(const v1::Job& job, bool one_task, const Context& context) {
  const int64_t now_ms = context.clock->NowUtcMs();
  std::string out = absl::StrCat("job ", job.job_id(), "  ", Printable(job.name()), "  ", context.Painted(job.state(), ColourOfState(job.state())), "\n");
  if (job.has_spec() && job.spec().command_size() > 0) Line(&out, "command", Printable(ShellQuoted(job.spec().command()), 2000));
  Line(&out, "uid", job.uid());
  Line(&out, "owner", Printable(job.owner()));
  Line(&out, "priority", absl::StrCat(job.priority()));
  Line(&out, "submitted", AgoText(now_ms, job.submitted_utc_ms()));
  if (job.deadline_utc_ms() > 0) Line(&out, "deadline", DeadlineText(job, now_ms));
  Line(&out, "ended", AgoText(now_ms, job.ended_utc_ms()));
  if (job.end_cause() != v1::END_CAUSE_UNSPECIFIED)
    Line(&out, "because", absl::StrCat(Name(static_cast<EndCause>(job.end_cause())), ": ", Printable(job.end_detail(), 400)));
  if (job.paused() && !JobEnded(job))
    Line(&out, "paused",
         absl::StrCat("until `spillway resume ", job.job_id(), "`", job.end_detail().empty() ? "" : absl::StrCat(": ", Printable(job.end_detail(), 400))));
  Line(&out, "cost",
       absl::StrCat(HumanMoney(job.cost_micros()), JobEnded(job) ? "" : " so far",
                    job.reserved_micros() > 0 ? absl::StrCat(", and ", HumanMoney(job.reserved_micros()), " of reserved hours") : ""));
  if (IsArray(job)) {
    Line(&out, "tasks",
         absl::StrCat(job.task_count(), ": ", HumanCounts(job.counts()), job.parallel() > 0 ? absl::StrCat("; at most ", job.parallel(), " at once") : ""));
    Line(&out, "done", absl::StrCat(HumanProgress(EndedTasks(job), job.task_count()), " ", Bar(EndedTasks(job), job.task_count(), 20)));
  }
  if (!one_task && IsArray(job)) {
    if (job.tasks_size() > 0) absl::StrAppend(&out, "\n", TaskTable(job.tasks(), context));
    if (job.tasks_size() < job.task_count()) {
      absl::StrAppend(&out, "... and ", job.task_count() - job.tasks_size(), " more: spillway queue --tasks ", job.job_id(), ".", job.tasks_size(), "-",
                      job.task_count() - 1, "\n");
    }
  }
  for (const v1::Task& task : one_task || !IsArray(job) ? job.tasks() : Tasks()) {
    if (IsArray(job)) absl::StrAppend(&out, "\ntask ", job.job_id(), ".", task.task_index(), "  ", Name(static_cast<TaskState>(task.state())), "\n");
    Line(&out, "progress", ProgressText(task));
    Line(&out, "checkpoint", CheckpointText(task.checkpoint(), now_ms));
    Line(&out, "waits for", Printable(task.waiting(), 400));
    if (task.not_before_utc_ms() > now_ms)
      Line(&out, "not before", absl::StrCat(HumanTime(task.not_before_utc_ms()), " (in ", HumanDuration(task.not_before_utc_ms() - now_ms), ")"));
    if (const std::string timeline = Timeline(task, context); !timeline.empty()) absl::StrAppend(&out, "\n", timeline);
  }
  if (job.has_spec()) {
    absl::StrAppend(&out, "\njob file\n");
    const std::string yaml = spec::JobSpecToYaml(job.spec());
    for (const absl::string_view line : absl::StrSplit(absl::string_view(yaml).substr(0, yaml.size() - 1), '\n'))
      absl::StrAppend(&out, "  ", Printable(line, 2000), "\n");
  }
  return out;
}

std::string DescribeNode(const v1::Node& node, const Context& context) {
  const int64_t now_ms = context.clock->NowUtcMs();
  const std::string state(Name(static_cast<NodeState>(node.state())));
  std::string out = absl::StrCat("node ", node.node_id(), "  ", Printable(node.name()), "  ", context.Painted(state, ColourOfState(state)),
                                 node.cordoned() ? "  cordoned" : "", "\n");
  Line(&out, "provider",
       absl::StrCat(Printable(node.provider()), node.instance_id().empty() ? "" : absl::StrCat(", instance ", Printable(node.instance_id()))));
  Line(&out, "market",
       absl::StrCat(LowerName(static_cast<Market>(node.market())),
                    node.price_micros_per_hour() > 0 ? absl::StrCat(", ", HumanMoney(node.price_micros_per_hour()), " an hour") : ""));
  Line(&out, "place", absl::StrCat(Printable(node.region()), node.region().empty() || node.zone().empty() ? "" : " / ", Printable(node.zone())));
  Line(&out, "total", HumanResources(node.total()));
  Line(&out, "free", HumanResources(node.free()));
  Line(&out, "isolation", Printable(node.isolation()));
  Line(&out, "session",
       node.connected()              ? "connected"
       : node.last_seen_utc_ms() > 0 ? absl::StrCat("silent for ", HumanAge(now_ms, node.last_seen_utc_ms()))
                                     : "never seen");
  Line(&out, "requested", AgoText(now_ms, node.requested_utc_ms()));
  Line(&out, "ready", AgoText(now_ms, node.ready_utc_ms()));
  Line(&out, "gone", AgoText(now_ms, node.gone_utc_ms()));
  Line(&out, "reason", Printable(node.reason(), 400));
  Line(&out, "charged", node.charged_micros() > 0 ? HumanMoney(node.charged_micros()) : "");
  std::string attempts;
  for (const v1::AttemptKey& key : node.attempts()) absl::StrAppend(&attempts, attempts.empty() ? "" : ", ", HumanAttempt(key));
  Line(&out, "runs", attempts);
  return out;
}

class Describe final : public Verb {
 public:
  std::string Name() const override { return "describe"; }
  std::string Summary() const override { return "all about one job, its attempts and checkpoint, or one node"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway describe last", "the newest job: each attempt with its node, steps, end and lost work"},
            {"spillway describe bert-base", "the newest job of this name"},
            {"spillway describe 5.17", "the task 17 of an array, with its attempts"},
            {"spillway describe node gpu-3", "a node: what it has, costs and runs"},
            {"spillway describe 5 -o json", "the Job message"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("JOB|node", &what_, "a job, or the word node", true);
    builder.Positional("NODE", &node_, "after the word node: its name or number", false);
    builder.Output();
  }
  int Run(Context& context) override {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    if (!node_.empty()) {
      if (what_ != "node") return context.Fail(absl::InvalidArgumentError(absl::StrCat("`", Printable(node_, 40), "`: one job at a time, or `node NAME`")));
      ASSIGN_OR_FAIL(context, const v1::Node node, FindNode(*api, node_));
      if (context.json) return context.PrintJson(node);
      *context.out << DescribeNode(node, context);
      return kExitOk;
    }
    ASSIGN_OR_FAIL(context, const AttemptId task, ResolveAttempt(*api, what_));
    const auto target = ParseTarget(what_);
    const bool one_task = target.ok() && (target->kind == Target::Kind::kTask || target->kind == Target::Kind::kAttempt);
    v1::GetJobRequest request;
    request.set_job_id(task.job);
    if (one_task) {
      request.set_tasks_max(0);
    } else if (!context.json) {
      request.set_tasks_max(kTasksShown);
    }
    ASSIGN_OR_FAIL(context, v1::Job job, api->Get(request));
    if (one_task) {
      ASSIGN_OR_FAIL(context, v1::Task only, GetTask(*api, task.task()));
      OR_FAIL(context, CheckAttempt(only, task));
      job.clear_tasks();
      *job.add_tasks() = std::move(only);
    }
    if (context.json) return context.PrintJson(job);
    *context.out << DescribeJob(job, one_task, context);
    return kExitOk;
  }

 private:
  static constexpr int32_t kTasksShown = 20;

  // `5.17@3` names what must be there, though the whole task is shown.
  static absl::Status CheckAttempt(const v1::Task& task, const AttemptId& named) {
    if (named.number <= task.attempts_total()) return absl::OkStatus();
    const std::string newest =
        task.attempts_total() > 0 ? absl::StrCat("the newest is ", named.task().ToString(), "@", task.attempts_total()) : "it has had none yet";
    return absl::NotFoundError(absl::StrCat("task ", named.task().ToString(), " has no attempt ", named.number, "; ", newest));
  }

  std::string what_, node_;
};

}  // namespace

std::unique_ptr<Verb> MakeDescribe() { return std::make_unique<Describe>(); }

}  // namespace spillway::client
