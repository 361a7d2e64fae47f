// Planted bugs, for tests of the tests: each makes one thing around the scheduler go wrong that a promise forbids. All off in an honest world.
// Only surroundings are touched (sinks, executors, the store's door, the worker's hands): the product's own code has no such switch.
#pragma once

#include <functional>

#include "scheduler/core/command.h"
#include "scheduler/store/store.h"
#include "sim/sim_node.h"

namespace spillway::sim {

struct Hooks {
  NodeBugs node;
  bool reply_before_commit = false;                  // replies and orders do not wait for their turn to be durable
  bool drop_stops = false;                           // nodes never hear of a stop
  bool drop_terminates = false;                      // instances are not ended
  bool seal_blindly = false;                         // a seal answers without a look into the store
  bool orphans_unseen = false;                       // listings show only what the state knows already
  bool new_request_ids = false;                      // every try to submit is a request of its own
  std::function<void(store::Batch*)> before_commit;  // what is written is not what was decided
};

}  // namespace spillway::sim
