#include "sim/job_plan.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spillway::sim {

std::string JobPlan::ToSpec() const {
  return absl::StrCat("plan ", total_steps, " ", step_ms, " ", save_every, " ", save_ms, " ", static_cast<int>(on_term), " ", reports_checkpoints ? 1 : 0, " ",
                      fail_at_step, " ", fail_attempts, " ", ask_at_step);
}

absl::StatusOr<JobPlan> JobPlan::FromSpec(absl::string_view spec) {
  const std::vector<std::string> words = absl::StrSplit(spec, ' ');
  std::vector<int64_t> numbers;
  for (size_t i = 1; i < words.size(); ++i) {
    int64_t number;
    if (!absl::SimpleAtoi(words[i], &number)) return absl::InvalidArgumentError(absl::StrCat("spec: not a number: ", words[i]));
    numbers.push_back(number);
  }
  if (words[0] != "plan" || numbers.size() != 9) return absl::InvalidArgumentError("spec: not a plan");
  JobPlan plan;
  plan.total_steps = numbers[0];
  plan.step_ms = numbers[1];
  plan.save_every = numbers[2];
  plan.save_ms = numbers[3];
  plan.on_term = static_cast<OnTerm>(numbers[4]);
  plan.reports_checkpoints = numbers[5] != 0;
  plan.fail_at_step = numbers[6];
  plan.fail_attempts = numbers[7];
  plan.ask_at_step = numbers[8];
  return plan;
}

}  // namespace spillway::sim
