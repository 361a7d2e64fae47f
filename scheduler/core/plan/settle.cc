// Jobs that waited for others, where that has come to something: they are released, or end because what they need failed. Admit looks which.
#include "scheduler/core/plan/plan.h"

namespace spillway::core {

void SettleJobs(Plan* plan) {
  for (const JobId job : plan->state.index.settled) plan->commands.push_back(SettleJob{job});
}

}  // namespace spillway::core
