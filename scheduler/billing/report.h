// The cost report: sums over the ledger's rows. Pure arithmetic; the rows come from the store.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/store/reader.h"

namespace spillway::billing {

struct JobCost {
  JobId job = 0;
  std::string name;
  int64_t reserved_micros = 0;  // at the amortised price; already paid for
  int64_t spot_micros = 0;
  int64_t on_demand_micros = 0;
  int64_t run_ms = 0;
};
struct Report {
  std::vector<JobCost> jobs;  // by id
  int64_t burst_micros = 0;   // everything on spot and on-demand nodes, idle and overhead included
  int64_t reserved_used_micros = 0;
  int64_t idle_micros = 0;           // of burst nodes
  int64_t overhead_micros = 0;       // of burst nodes: boot, fencing, billing increments, adjustments
  int64_t total_micros = 0;          // burst + reserved used
  int64_t reserved_idle_micros = 0;  // of reserved nodes, used by no job: paid for all the same; total + this is the sum of every charge
};

Report MakeReport(const std::vector<store::CostRow>& rows);

}  // namespace spillway::billing
