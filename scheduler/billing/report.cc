#include "scheduler/billing/report.h"

namespace spillway::billing {

Report MakeReport(const std::vector<store::CostRow>& rows) {
  Report report;
  std::map<JobId, JobCost> jobs;
  for (const store::CostRow& row : rows) {
    const bool burst = row.market != Market::kReserved;
    if (burst) report.burst_micros += row.amount_micros;
    if (row.job == 0) {
      (!burst ? report.reserved_idle_micros : row.kind == "idle" ? report.idle_micros : report.overhead_micros) += row.amount_micros;
      continue;
    }
    JobCost& job = jobs[row.job];
    job.job = row.job;
    job.name = row.job_name;
    job.run_ms += row.duration_ms;
    switch (row.market) {
      case Market::kReserved:
        job.reserved_micros += row.amount_micros;
        report.reserved_used_micros += row.amount_micros;
        break;
      case Market::kSpot: job.spot_micros += row.amount_micros; break;
      default: job.on_demand_micros += row.amount_micros;
    }
  }
  for (auto& [id, job] : jobs) report.jobs.push_back(std::move(job));
  report.total_micros = report.burst_micros + report.reserved_used_micros;
  return report;
}

}  // namespace spillway::billing
