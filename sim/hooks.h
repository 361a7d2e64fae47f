// Planted bugs, for tests of the tests: each makes one thing around the scheduler go wrong that a promise forbids. All off in an honest world.
// Only surroundings are touched (sinks, executors, the store's door, the worker's hands): the product's own code has no such switch.
#pragma once

#include <functional>

#include "scheduler/core/command.h"
#include "scheduler/core/core.h"
#include "scheduler/store/store.h"
#include "sim/sim_node.h"

namespace spillway::sim {

struct Hooks {
  NodeBugs node;
  // The scheduler's door.
  bool reply_before_commit = false;  // replies and orders do not wait for their turn to be durable
  bool acks_early = false;           // reports are acknowledged when they come, not when they are durable
  bool fencing_ignored = false;      // a report of an old attempt counts for the living one
  bool drop_stops = false;           // nodes never hear of a stop
  bool drop_offers = false;          // nor, within a session, of an offer
  // What the state owes the store.
  bool drop_seals = false;          // no seal is answered
  bool seal_blindly = false;        // a seal answers without a look into the store
  bool seal_takes_damaged = false;  // a seal registers what is newest, whole or not
  // What it owes the cloud, and what it hears of it.
  bool drop_terminates = false;   // instances are not ended
  bool terminate_is_end = false;  // an instance whose end was asked for counts as ended
  bool absent_is_gone = false;    // what a listing lacks counts as ended, however young it is
  bool orphans_unseen = false;    // listings show only what the state knows already
  bool orphans_late = false;      // and others only after half an hour
  // Users.
  bool new_request_ids = false;  // every try to submit is a request of its own
  // What is written is not what was decided.
  std::function<void(store::Batch*)> before_commit;
  bool unsynced = false;  // the disk is told, and not waited for
  // What is decided by.
  std::function<void(core::Policy*)> policy;
};

}  // namespace spillway::sim
