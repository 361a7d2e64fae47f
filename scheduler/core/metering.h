// Turns the time a node was there into rows of the ledger: every millisecond between created_ms and its end exactly once.
//
// Up to Node::metered_ms everything stands in charges; [metered_ms, now) is charged whenever what the node does is about to change, with the kind and
// the split that held during it. The cost of an interval is C(to) - C(from) with C(t) = price x (t - created_ms) rounded down, so the parts add up to the
// whole whatever the cuts. A node without a price leaves no rows. Owns Charge, Node::metered_ms/charged_micros and the money of jobs; never a state.
#pragma once

#include <optional>

#include "scheduler/core/core.h"

namespace spillway::core {

// Call before the change. Does nothing for a node that does not bill yet, or was metered at this very time.
void Meter(State* state, NodeId node, int64_t now_ms, Changes* changes);

// The same for a node that is gone and was billed until `billed_until_ms`: what it ran on is run until then, and overhead from then to now.
void MeterGone(State* state, NodeId node, int64_t billed_until_ms, int64_t now_ms, Changes* changes);

// Until when a bill of so much covers the node at its price, at most `now_ms`. Requires that the node was created.
int64_t BilledUntil(const Node& node, int64_t billed_micros, int64_t now_ms);

// The node has ended: brings the sum of its charges to what the billing rule says ("overhead"), then to what the provider billed ("adjustment";
// billed_micros -1: unknown). Nodes we did not create have no bill: their charges stand as they are.
void CloseMeter(State* state, NodeId node, int64_t billed_micros, int64_t now_ms, Changes* changes);

// What has accrued on the node since its newest charge.
int64_t UnmeteredMicros(const Node& node, int64_t now_ms);

// A living job's charges, and its share of what has accrued since then where it runs: what they would be if all of that were metered now.
struct CostSoFar {
  int64_t burst_micros = 0;
  int64_t reserved_micros = 0;  // at the amortised price
};
std::optional<CostSoFar> JobCostSoFar(const State& state, JobId job, int64_t now_ms);

}  // namespace spillway::core
