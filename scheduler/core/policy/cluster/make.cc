#include "scheduler/core/policy/cluster/make.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "scheduler/core/policy/cluster/easy.h"
#include "scheduler/core/policy/cluster/fifo.h"
#include "scheduler/core/policy/cluster/las.h"
#include "scheduler/core/policy/cluster/laxity.h"

namespace spillway::core::cluster {

std::vector<std::string> PolicyNames() { return {"easy", "fifo", "las", "laxity", "spillway"}; }

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(absl::string_view name, const Patience& patience) {
  std::unique_ptr<Policy> policy;
  if (name == "easy") policy = std::make_unique<Easy>();
  if (name == "fifo") policy = std::make_unique<Fifo>();
  if (name == "las") policy = std::make_unique<Las>();
  if (name == "laxity") policy = std::make_unique<Laxity>();
  if (name == "spillway") policy = std::make_unique<Spillway>(patience);
  if (policy != nullptr) return policy;
  return absl::InvalidArgumentError(absl::StrCat("there is no policy '", Printable(name, 80), "'; did you mean '", NearestName(name, PolicyNames()), "'?"));
}

}  // namespace spillway::core::cluster
