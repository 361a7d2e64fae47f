#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "client/commands/commands.h"

namespace spillway::client {
namespace {

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
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::CostReportResponse report, api->CostReport(request));
    if (context.json) return context.PrintJson(report);
    *context.out << Render(report, context);
    return kExitOk;
  }

 private:
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
    if (report.running_estimate_micros() > 0) sums.Add({"running, not charged yet", HumanMoney(report.running_estimate_micros()), "not in the total"});
    const std::string rows = sums.Render(context.colours);
    return absl::StrCat(text, rows.substr(rows.find('\n') + 1));
  }

  std::string what_, from_, to_;
};

}  // namespace

std::unique_ptr<Verb> MakeCost() { return std::make_unique<Cost>(); }

}  // namespace spillway::client
