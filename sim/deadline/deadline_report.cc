#include "sim/deadline/deadline_report.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "scheduler/core/policy/deadline/make.h"
#include "sim/deadline/omniscient.h"

namespace spillway::sim {
namespace {

constexpr absl::string_view kOmniscient = "omniscient";
constexpr absl::string_view kOmniscientExact = "omniscient-exact";

absl::StatusOr<TraceSet> ReadAll(const DeadlineRequest& request) {
  TraceSet all;
  for (const std::string& path : request.traces) {
    ASSIGN_OR_RETURN(TraceSet one, ReadTraces(path, request.gang));
    if (all.tick_ms != 0 && one.tick_ms != all.tick_ms) return absl::InvalidArgumentError(absl::StrCat(path, ": its tick is not that of the traces before it"));
    all.tick_ms = one.tick_ms;
    if (!all.starts.has_value()) all.starts = std::move(one.starts);
    for (TraceZone& zone : one.zones) all.zones.push_back(std::move(zone));
  }
  if (all.zones.empty()) return absl::InvalidArgumentError("no traces were named");
  if (!request.zones.empty()) {
    ASSIGN_OR_RETURN(all, SelectZones(all, request.zones));
  }
  if (!request.prices.empty()) RETURN_IF_ERROR(ReadPrices(request.prices, &all));
  for (TraceZone& zone : all.zones) {
    if (request.spot_micros_per_hour.has_value()) zone.spot_micros_per_hour = {*request.spot_micros_per_hour};
    if (request.on_demand_micros_per_hour.has_value()) zone.on_demand_micros_per_hour = *request.on_demand_micros_per_hour;
    if (zone.spot_micros_per_hour.empty())
      return absl::InvalidArgumentError(absl::StrCat(zone.file, ": the trace has no spot price; give --spot-price or --prices"));
    if (zone.on_demand_micros_per_hour <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(zone.file, ": the trace has no on-demand price; give --od-price or --prices"));
    }
  }
  return all;
}

absl::StatusOr<std::vector<Environment>> Environments(const DeadlineRequest& request, TraceSet set) {
  EgressTable egress;
  if (!request.egress.empty()) {
    ASSIGN_OR_RETURN(egress, EgressTable::Read(request.egress));
  }
  std::vector<Environment> environments;
  if (request.zones.empty()) {
    for (TraceZone& zone : set.zones) environments.push_back({zone.file, {std::move(zone)}, {}});
  } else {
    environments.push_back({absl::StrJoin(request.zones, ","), std::move(set.zones), {}});
  }
  for (Environment& environment : environments) {
    for (const TraceZone& from : environment.zones) {
      std::vector<int64_t>& row = environment.egress_micros.emplace_back();
      for (const TraceZone& to : environment.zones) row.push_back(egress.MicrosPerGb(from.region, to.region) * request.checkpoint_gb);
    }
  }
  return environments;
}

absl::StatusOr<std::vector<int64_t>> StartsIn(const DeadlineRequest& request, const Job& job, const TraceSet& set, int64_t ticks) {
  const int64_t length = job.deadline_ms / job.tick_ms;
  std::vector<int64_t> starts;
  if (!request.windows.empty()) {
    ASSIGN_OR_RETURN(starts, ReadStarts(request.windows));
  } else if (request.every_ms == 0 && set.starts.has_value()) {
    starts = *set.starts;
  } else {
    const int64_t step = request.every_ms > 0 ? std::max<int64_t>(request.every_ms / job.tick_ms, 1) : length;
    for (int64_t start = 0; start + length <= ticks; start += step) starts.push_back(start);
  }
  std::vector<int64_t> wanted;
  for (const int64_t start : starts) {
    if (start < request.from_tick || start > request.until_tick) continue;
    if (start + length > ticks) {
      return absl::InvalidArgumentError(
          absl::StrCat("the window at tick ", start, " needs ", length, " ticks until the deadline, but the trace ends after ", ticks, " ticks"));
    }
    wanted.push_back(start);
  }
  if (wanted.empty()) return absl::InvalidArgumentError("no window is left to run: the deadline, or --from and --until, leave none");
  return wanted;
}

absl::StatusOr<RunResult> RunOne(const DeadlineRequest& request, const Environment& environment, int64_t start, const Job& job, LastTick last_tick,
                                 std::shared_ptr<const core::deadline::Outlook>* outlook) {
  std::unique_ptr<core::deadline::Policy> policy;
  if (request.policy == kOmniscient || request.policy == kOmniscientExact) {
    const bool whole_ticks = request.policy == kOmniscient && environment.zones.size() > 1;
    ASSIGN_OR_RETURN(OmniscientPlan plan, whole_ticks ? PlanInWholeTicks(environment, start, job) : PlanOmnisciently(environment, start, job, last_tick));
    policy = std::make_unique<Playback>(std::move(plan));
  } else {
    ASSIGN_OR_RETURN(policy, core::deadline::MakePolicy(request.policy, job, environment.MarketAt(start), request.checkpoint_gb, outlook));
  }
  return PlayDeadline(environment, start, job, last_tick, *policy);
}

void Summarize(const std::vector<Environment>& environments, const Job& job, DeadlineReport* report) {
  const double n = static_cast<double>(report->runs.size());
  for (const DeadlineRun& run : report->runs) {
    const auto environment = std::find_if(environments.begin(), environments.end(), [&](const Environment& one) { return one.name == run.environment; });
    int64_t cheapest = INT64_MAX;
    for (const TraceZone& zone : environment->zones) cheapest = std::min(cheapest, zone.on_demand_micros_per_hour);
    const double on_demand = static_cast<double>(cheapest) / kMicrosPerUnit * static_cast<double>(job.work_ms) / kMsPerHour;
    report->mean_cost += run.result.dollars() / n;
    report->mean_cost_over_on_demand += run.result.dollars() / on_demand / n;
    report->late_runs += run.result.late ? 1 : 0;
    report->mean_starts += static_cast<double>(run.result.starts) / n;
    report->mean_moves += static_cast<double>(run.result.moves) / n;
    report->spot_hours += static_cast<double>(run.result.spot_ms) / kMsPerHour / n;
    report->on_demand_hours += static_cast<double>(run.result.on_demand_ms) / kMsPerHour / n;
    report->idle_hours += static_cast<double>(run.result.idle_ms) / kMsPerHour / n;
  }
}

}  // namespace

std::vector<std::string> DeadlinePolicyNames() {
  std::vector<std::string> names = core::deadline::PolicyNames();
  names.emplace_back(kOmniscient);
  names.emplace_back(kOmniscientExact);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<DeadlineReport> RunDeadline(const DeadlineRequest& request) {
  ASSIGN_OR_RETURN(TraceSet set, ReadAll(request));
  Job job = request.job;
  job.tick_ms = set.tick_ms;
  if (!core::deadline::Feasible(job)) {
    return absl::InvalidArgumentError(absl::StrCat("work of ", FormatDurationMs(job.work_ms), " and a start of ", FormatDurationMs(job.overhead_ms),
                                                   " do not fit before a deadline of ", FormatDurationMs(job.deadline_ms), " in ticks of ",
                                                   FormatDurationMs(job.tick_ms)));
  }
  const TraceSet head{set.tick_ms, {}, set.starts};
  ASSIGN_OR_RETURN(const std::vector<Environment> environments, Environments(request, std::move(set)));
  DeadlineReport report;
  report.policy = request.policy;
  report.last_tick = request.last_tick.value_or(request.zones.size() > 1 ? LastTick::kFree : LastTick::kFull);
  std::shared_ptr<const core::deadline::Outlook> outlook;
  for (const Environment& environment : environments) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> starts, StartsIn(request, job, head, environment.ticks()));
    for (const int64_t start : starts) {
      ASSIGN_OR_RETURN(const RunResult result, RunOne(request, environment, start, job, report.last_tick, &outlook));
      report.runs.push_back({environment.name, start, result});
    }
  }
  Summarize(environments, job, &report);
  return report;
}

std::string DeadlineJson(const DeadlineReport& report, bool each) {
  nlohmann::ordered_json root;
  root["policy"] = report.policy;
  root["windows"] = report.runs.size();
  root["mean_cost"] = report.mean_cost;
  root["mean_cost_over_on_demand"] = report.mean_cost_over_on_demand;
  root["late_runs"] = report.late_runs;
  root["mean_starts"] = report.mean_starts;
  root["mean_hours"] = {{"spot", report.spot_hours}, {"on_demand", report.on_demand_hours}, {"idle", report.idle_hours}};
  root["mean_moves"] = report.mean_moves;
  root["last_tick"] = report.last_tick == LastTick::kFull ? "full" : "free";
  if (each) {
    root["runs"] = nlohmann::ordered_json::array();
    for (const DeadlineRun& run : report.runs) {
      nlohmann::ordered_json row;
      row["environment"] = run.environment;
      row["start"] = run.start_tick;
      row["cost"] = run.result.dollars();
      row["late"] = run.result.late;
      row["starts"] = run.result.starts;
      row["moves"] = run.result.moves;
      root["runs"].push_back(std::move(row));
    }
  }
  return root.dump(2) + "\n";
}

std::string DeadlineTable(const DeadlineReport& report, bool each) {
  std::string out;
  if (each) {
    absl::StrAppendFormat(&out, "%10s %8s %6s %6s  %s\n", "cost", "start", "starts", "moves", "environment");
    for (const DeadlineRun& run : report.runs) {
      absl::StrAppendFormat(&out, "%10.2f %8d %6d %6d  %s%s\n", run.result.dollars(), run.start_tick, run.result.starts, run.result.moves, run.environment,
                            run.result.late ? "  LATE" : "");
    }
    out += "\n";
  }
  absl::StrAppendFormat(&out, "%-24s %s\n", "policy", report.policy);
  absl::StrAppendFormat(&out, "%-24s %d\n", "windows", report.runs.size());
  absl::StrAppendFormat(&out, "%-24s $%.2f\n", "mean cost", report.mean_cost);
  absl::StrAppendFormat(&out, "%-24s %.4f\n", "over all on demand", report.mean_cost_over_on_demand);
  absl::StrAppendFormat(&out, "%-24s %d\n", "late runs", report.late_runs);
  absl::StrAppendFormat(&out, "%-24s %.2f, of them to another zone %.2f\n", "mean starts", report.mean_starts, report.mean_moves);
  absl::StrAppendFormat(&out, "%-24s spot %.2f, on demand %.2f, idle %.2f\n", "mean hours", report.spot_hours, report.on_demand_hours, report.idle_hours);
  return out;
}

}  // namespace spillway::sim
