#include "sim/cluster/cluster_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "scheduler/core/policy/cluster/make.h"

namespace spillway::sim {
namespace {

double Hours(int64_t ms) { return static_cast<double>(ms) / kMsPerHour; }
double Dollars(int64_t micros) { return static_cast<double>(micros) / kMicrosPerUnit; }

Spread SpreadOf(std::vector<int64_t> ms) {
  std::sort(ms.begin(), ms.end());
  int64_t sum = 0;
  for (const int64_t one : ms) sum += one;
  const size_t rank = (ms.size() * 99 + 99) / 100;
  return {Hours(sum) / static_cast<double>(ms.size()), Hours(ms[rank - 1])};
}

bool Missed(const SimJob& job, const JobOutcome& outcome) { return job.deadline_ms > 0 && outcome.end_ms > job.deadline_ms; }

// 1 for one tenant, and for none.
double Jain(const std::map<std::string, double>& shares) {
  double sum = 0, squares = 0;
  for (const auto& [tenant, share] : shares) sum += share, squares += share * share;
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1;
}

}  // namespace

ClusterReport Summarize(Workload workload, ClusterRun run, const std::string& policy) {
  ClusterReport report;
  report.policy = policy;
  std::vector<int64_t> completions, waits;
  int64_t first_ms = INT64_MAX, last_ms = 0, reserved_ms = 0, spot = 0, on_demand = 0, lost_ms = 0;
  std::map<std::string, int64_t> jobs_of;
  for (size_t i = 0; i < workload.jobs.size(); ++i) {
    const SimJob& job = workload.jobs[i];
    const JobOutcome& outcome = run.jobs[i];
    completions.push_back(outcome.end_ms - job.arrival_ms);
    waits.push_back(outcome.first_work_ms - job.arrival_ms);
    first_ms = std::min(first_ms, job.arrival_ms);
    last_ms = std::max(last_ms, outcome.end_ms);
    reserved_ms += outcome.reserved_ms;
    spot += outcome.spot_micros;
    on_demand += outcome.on_demand_micros;
    lost_ms += outcome.lost_ms;
    report.deadlines += job.deadline_ms > 0 ? 1 : 0;
    report.missed += Missed(job, outcome) ? 1 : 0;
    report.preemptions += outcome.preemptions;
    report.moves += outcome.moves;
    report.tenants[job.tenant] += static_cast<double>(job.duration_ms) / static_cast<double>(completions.back());
    ++jobs_of[job.tenant];
  }
  for (auto& [tenant, share] : report.tenants) share /= static_cast<double>(jobs_of[tenant]);
  report.fairness = Jain(report.tenants);
  report.completion_hours = SpreadOf(std::move(completions));
  report.wait_hours = SpreadOf(std::move(waits));
  report.makespan_hours = Hours(last_ms - first_ms);
  const int64_t gpus = run.nodes * run.gpus_per_node;
  if (gpus > 0) report.reserved_utilization = Hours(reserved_ms) / (static_cast<double>(gpus) * report.makespan_hours);
  report.reserved_cost = Dollars(run.reserved_micros);
  report.spot_cost = Dollars(spot);
  report.on_demand_cost = Dollars(on_demand);
  report.lost_hours = Hours(lost_ms);
  report.workload = std::move(workload);
  report.run = std::move(run);
  return report;
}

absl::StatusOr<ClusterReport> RunCluster(const ClusterRequest& request) {
  ASSIGN_OR_RETURN(const std::unique_ptr<core::cluster::Policy> policy, core::cluster::MakePolicy(request.policy, {request.patience_permille}));
  ASSIGN_OR_RETURN(const ClusterSpec spec, LoadClusterSpec(request.cluster));
  ASSIGN_OR_RETURN(Workload workload, LoadWorkload(request.jobs, request.seed));
  ASSIGN_OR_RETURN(ClusterRun run, PlayCluster(workload, spec, *policy));
  return Summarize(std::move(workload), std::move(run), request.policy);
}

std::string ClusterJson(const ClusterReport& report, bool each) {
  nlohmann::ordered_json root;
  root["policy"] = report.policy;
  root["seed"] = report.workload.seed;
  root["jobs"] = report.workload.jobs.size();
  root["estimated_durations"] = report.workload.estimated;
  root["completion_hours"] = {{"mean", report.completion_hours.mean}, {"p99", report.completion_hours.p99}};
  root["wait_hours"] = {{"mean", report.wait_hours.mean}, {"p99", report.wait_hours.p99}};
  root["makespan_hours"] = report.makespan_hours;
  root["reserved"] = {{"nodes", report.run.nodes}, {"gpus", report.run.nodes * report.run.gpus_per_node}, {"utilization", report.reserved_utilization}};
  root["cost"] = {{"burst", report.burst_cost()}, {"spot", report.spot_cost}, {"on_demand", report.on_demand_cost}, {"reserved", report.reserved_cost}};
  root["deadlines"] = {{"set", report.deadlines}, {"missed", report.missed}};
  root["preemptions"] = report.preemptions;
  root["moves"] = report.moves;
  root["lost_hours"] = report.lost_hours;
  root["fairness"] = report.fairness;
  root["tenants"] = report.tenants;
  if (each) {
    root["each"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < report.run.jobs.size(); ++i) {
      const SimJob& job = report.workload.jobs[i];
      const JobOutcome& outcome = report.run.jobs[i];
      nlohmann::ordered_json row;
      row["job"] = i;
      row["name"] = Printable(job.name);
      row["tenant"] = Printable(job.tenant);
      row["gpus"] = job.gpus;
      row["arrival_hours"] = Hours(job.arrival_ms);
      row["duration_hours"] = Hours(job.duration_ms);
      row["wait_hours"] = Hours(outcome.first_work_ms - job.arrival_ms);
      row["completion_hours"] = Hours(outcome.end_ms - job.arrival_ms);
      row["missed"] = Missed(job, outcome);
      row["starts"] = outcome.starts;
      row["preemptions"] = outcome.preemptions;
      row["moves"] = outcome.moves;
      row["spot_cost"] = Dollars(outcome.spot_micros);
      row["on_demand_cost"] = Dollars(outcome.on_demand_micros);
      root["each"].push_back(std::move(row));
    }
  }
  return root.dump(2) + "\n";
}

std::string ClusterTable(const ClusterReport& report, bool each) {
  std::string out;
  if (each) {
    absl::StrAppendFormat(&out, "%10s %10s %10s %8s %6s %6s %10s  %s\n", "arrival h", "duration h", "completed", "wait h", "GPUs", "moves", "burst $", "job");
    for (size_t i = 0; i < report.run.jobs.size(); ++i) {
      const SimJob& job = report.workload.jobs[i];
      const JobOutcome& outcome = report.run.jobs[i];
      absl::StrAppendFormat(&out, "%10.2f %10.2f %10.2f %8.2f %6d %6d %10.2f  %s%s\n", Hours(job.arrival_ms), Hours(job.duration_ms),
                            Hours(outcome.end_ms - job.arrival_ms), Hours(outcome.first_work_ms - job.arrival_ms), job.gpus,
                            outcome.moves + outcome.preemptions, Dollars(outcome.spot_micros + outcome.on_demand_micros), Printable(job.name, 40),
                            Missed(job, outcome) ? "  LATE" : "");
    }
    out += "\n";
  }
  absl::StrAppendFormat(&out, "%-24s %s\n", "policy", report.policy);
  absl::StrAppendFormat(&out, "%-24s %d\n", "jobs", report.workload.jobs.size());
  absl::StrAppendFormat(&out, "%-24s mean %.3f, p99 %.3f\n", "completion, hours", report.completion_hours.mean, report.completion_hours.p99);
  absl::StrAppendFormat(&out, "%-24s mean %.3f, p99 %.3f\n", "wait, hours", report.wait_hours.mean, report.wait_hours.p99);
  absl::StrAppendFormat(&out, "%-24s %.2f\n", "makespan, hours", report.makespan_hours);
  absl::StrAppendFormat(&out, "%-24s %d nodes of %d GPUs, %.1f %% used\n", "reserved", report.run.nodes, report.run.gpus_per_node,
                        100 * report.reserved_utilization);
  absl::StrAppendFormat(&out, "%-24s $%.2f burst (spot %.2f, on demand %.2f), reserved %.2f\n", "cost", report.burst_cost(), report.spot_cost,
                        report.on_demand_cost, report.reserved_cost);
  absl::StrAppendFormat(&out, "%-24s %d of %d\n", "deadlines missed", report.missed, report.deadlines);
  absl::StrAppendFormat(&out, "%-24s %d, moves %d, work lost %.2f h\n", "preemptions", report.preemptions, report.moves, report.lost_hours);
  absl::StrAppendFormat(&out, "%-24s %.4f over %d tenants\n", "fairness (Jain)", report.fairness, report.tenants.size());
  return out;
}

}  // namespace spillway::sim
