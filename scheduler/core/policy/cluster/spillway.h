// Our own policy. Reserved nodes are paid for: they are filled first, with what has the least time to spare and, among the rest, with what belongs to whoever
// had least of them. What does not fit waits for a reserved place only where it will have one well before a new machine would have booted, or as much later as
// Patience allows; then it spills to the spot machines with the lowest expected price, or on demand where a deadline leaves no time for a spot machine to be
// taken away. Whoever waits so keeps its turn. A task that can make its deadline neither so may take the place of one that has time: that one checkpoints and is
// served anew. When reserved nodes come free, burst tasks come back to them, the dearest rest first, as long as some room is left to what comes next; and with
// patience, tasks on dear machines go over to cheap ones that boot beside them.
//
// Nothing starves: what has waited for long is served in the order in which it came, and the first that cannot be served keeps its place (EASY).
#pragma once

#include "scheduler/core/policy/cluster/cluster.h"

namespace spillway::core::cluster {

// How much later a task may be expected to end for less money, in thousandths of its work left: by waiting for reserved nodes beyond the boot of a new machine,
// by going over to cheaper machines.
struct Patience {
  int64_t permille = 0;
};

class Spillway : public Policy {
 public:
  explicit Spillway(Patience patience) : patience_(patience) {}
  Decision Decide(const View& view) const override;

 private:
  Patience patience_;
};

}  // namespace spillway::core::cluster
