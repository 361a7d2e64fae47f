#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "client/commands/commands.h"
#include "client/node_lookup.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

constexpr int64_t kJobsWithoutPriceMax = 1'000;

class Cost final : public Verb {
 public:
  std::string Name() const override { return "cost"; }
  std::string Summary() const override { return "what was spent, job by job: cost report"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway cost report", "everything since the beginning"},
            {"spillway cost report --from 2026-12-01T00:00:00Z --to 2027-01-01T00:00:00Z", "one month"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("report", &what_, "the only one built yet", true);
    builder.Option("--from", &from_, "TIME", "charges from this time on, in UTC");
    builder.Option("--to", &to_, "TIME", "charges before this time");
    builder.Output();
  }
  int Run(Context& context) override {
    if (what_ != "report")
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("`cost ", Printable(what_, 40), "` is not built yet; `cost report` is")));
    v1::CostReportRequest request;
    if (!from_.empty()) {
      ASSIGN_OR_FAIL(context, const int64_t from_ms, ParseUtcMs(from_));
      request.set_from_utc_ms(from_ms);
    }
    if (!to_.empty()) {
      ASSIGN_OR_FAIL(context, const int64_t to_ms, ParseUtcMs(to_));
      request.set_to_utc_ms(to_ms);
    }
    if (!to_.empty() && request.to_utc_ms() <= std::max<int64_t>(0, request.from_utc_ms())) {
      return context.Fail(absl::InvalidArgumentError(
          absl::StrCat("--to ", Printable(to_, 40), " is not after ", from_.empty() ? "the beginning of time" : "--from " + Printable(from_, 40))));
    }
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::CostReportResponse report, api->CostReport(request));
    if (context.json) return context.PrintJson(report);
    if (HasMoney(report)) {
      *context.out << Render(report, context);
      return kExitOk;
    }
    ASSIGN_OR_FAIL(context, const v1::ListNodesResponse nodes, ListAllNodes(*api, true));
    const bool priced = std::any_of(nodes.nodes().begin(), nodes.nodes().end(), [](const v1::Node& node) { return node.price_micros_per_hour() > 0; });
    if (priced || nodes.nodes().empty()) {
      *context.out << Render(report, context);
      return kExitOk;
    }
    // Without prices the ledger has no rows, so what ran is asked of the jobs themselves.
    if (from_.empty() && to_.empty()) {
      ASSIGN_OR_FAIL(context, const std::string ran, WhatRan(*api, context));
      *context.out << ran;
    }
    *context.out << Render(report, context)
                 << "\nno price declared: no node has one, so everything counts 0. For nodes that are paid for, `reservations: [{name: base, nodes: ["
                 << Printable(nodes.nodes(0).name(), 60) << "], price_per_hour: 1.20}]` in config.yaml of SPILLWAY_HOME says what an hour costs\n";
    return kExitOk;
  }

 private:
  static bool HasMoney(const v1::CostReportResponse& report) {
    return report.total_micros() != 0 || report.reserved_idle_micros() != 0 || report.running_estimate_micros() != 0 || report.jobs_size() > 0;
  }

  static absl::StatusOr<std::string> WhatRan(Api& api, const Context& context) {
    v1::ListJobsRequest request;
    request.set_include_tasks(true);
    ASSIGN_OR_RETURN(const v1::ListJobsResponse response, ListJobs(api, request, kJobsWithoutPriceMax));
    Table table({">JOB", "NAME", ">RAN"});
    for (const v1::Job& job : response.jobs()) {
      int64_t ran_ms = 0;
      for (const v1::Task& task : job.tasks()) ran_ms += RanMs(task, context.clock->NowUtcMs());
      if (ran_ms > 0) table.Add({absl::StrCat(job.job_id()), job.name(), HumanDuration(ran_ms)});
    }
    return table.empty() ? "" : table.Render(context.colours) + "\n";
  }

  static std::string Money(int64_t micros) { return micros == 0 ? "" : HumanMoney(micros); }

  static std::string Render(const v1::CostReportResponse& report, const Context& context) {
    std::string text;
    Table jobs({">JOB", "NAME", ">RAN", ">RESERVED", ">SPOT", ">ON DEMAND"});
    for (const v1::JobCost& job : report.jobs()) {
      jobs.Add({absl::StrCat(job.job_id()), job.name(), HumanDuration(job.run_ms()), Money(job.reserved_micros()), Money(job.spot_micros()),
                Money(job.on_demand_micros())});
    }
    if (!jobs.empty()) absl::StrAppend(&text, jobs.Render(context.colours), "\n");
    Table sums({"", ">AMOUNT", ""});
    sums.Add({"burst (spot and on demand)", HumanMoney(report.burst_micros()), ""});
    sums.Add({"  of it idle", HumanMoney(report.idle_micros()), ""});
    sums.Add({"  of it overhead", HumanMoney(report.overhead_micros()), "boot, fencing, billing increments"});
    sums.Add({"reserved, used by jobs", HumanMoney(report.reserved_used_micros()), "at the amortised price"});
    sums.Add({{"total", Colour::kBold}, {HumanMoney(report.total_micros()), Colour::kBold}, ""});
    if (report.reserved_idle_micros() > 0) {
      sums.Add({"reserved, idle", HumanMoney(report.reserved_idle_micros()), "paid for all the same, used by no job; not in the total"});
      sums.Add({"all charges", HumanMoney(report.total_micros() + report.reserved_idle_micros()), "what `nodes` shows as charged"});
    }
    if (report.running_estimate_micros() > 0) sums.Add({"running, not charged yet", HumanMoney(report.running_estimate_micros()), "not in the total"});
    const std::string rows = sums.Render(context.colours);
    return absl::StrCat(text, rows.substr(rows.find('\n') + 1));
  }

  std::string what_, from_, to_;
};

}  // namespace

std::unique_ptr<Verb> MakeCost() { return std::make_unique<Cost>(); }

}  // namespace spillway::client
