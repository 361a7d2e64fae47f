#include "scheduler/core/policy/deadline/make.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "scheduler/core/policy/deadline/skynomad.h"
#include "scheduler/core/policy/deadline/spillway.h"
#include "scheduler/core/policy/deadline/uniform_progress.h"

namespace spillway::core::deadline {

std::vector<std::string> PolicyNames() { return {"greedy", "skynomad", "spillway", "up", "up-without-hysteresis"}; }

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(absl::string_view name, const Job& job, const Market& market, int64_t checkpoint_gb,
                                                   std::shared_ptr<const Outlook>* outlook) {
  std::unique_ptr<Policy> policy;
  if (name == "greedy") policy = std::make_unique<UniformProgress>(job, Rule::kGreedy);
  if (name == "up") policy = std::make_unique<UniformProgress>(job, Rule::kUniformProgress);
  if (name == "up-without-hysteresis") policy = std::make_unique<UniformProgress>(job, Rule::kUniformProgressWithoutHysteresis);
  if (name == "skynomad") policy = std::make_unique<SkyNomad>(job, static_cast<int>(market.zones.size()), checkpoint_gb);
  if (name == "spillway") {
    *outlook = OutlookFor(job, market, *outlook);
    policy = std::make_unique<Spillway>(job, market, *outlook);
  }
  if (policy != nullptr) return policy;
  return absl::InvalidArgumentError(absl::StrCat("there is no policy '", Printable(name, 80), "'; did you mean '", NearestName(name, PolicyNames()), "'?"));
}

}  // namespace spillway::core::deadline
