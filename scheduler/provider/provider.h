// The seam to whoever supplies machines. Calls block and may fail; they run on the effects' executor, never on the engine's thread.
// Every call is idempotent by the client token (CLUSTER-NODE). Implementations: static/ local/ playground/, one folder each; registry.h makes them by kind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/command.h"
#include "scheduler/engine/orders.h"

namespace spillway::provider {

struct Capabilities {
  bool create = false;   // can make and end nodes
  bool testify = false;  // its listing proves that a node is dead
  bool offers = false;   // has a price list
};

class Provider {
 public:
  virtual ~Provider() = default;
  virtual const std::string& name() const = 0;
  virtual Capabilities capabilities() const = 0;
  virtual absl::StatusOr<std::vector<core::Offer>> ListOffers() = 0;
  // The instance id. RESOURCE_EXHAUSTED: no capacity now; UNAVAILABLE: throttled or out of reach (try again); INVALID_ARGUMENT: the request is wrong.
  virtual absl::StatusOr<std::string> Create(const engine::CreateOrder& order) = 0;
  // OK when the provider took the wish; an instance it does not know counts as gone. The end itself shows in List.
  virtual absl::Status Terminate(const engine::TerminateOrder& order) = 0;
  // Everything that carries our cluster's tag, ended ones for as long as the provider remembers. `asked_ms` is filled by the caller.
  virtual absl::StatusOr<core::InstanceListing> List() = 0;
};

}  // namespace spillway::provider
