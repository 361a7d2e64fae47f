// Our own policy. Reserved nodes are paid for: they are filled first, with what has the least time to spare and, among the rest, with what belongs to whoever
// had least of them. What does not fit waits for a reserved place only as long as a new machine would take to boot, or as much longer as Patience allows; then
// it spills to the spot machines with the lowest expected price, or on demand where a deadline leaves no time for a spot machine to be taken away.
// A task that can make its deadline neither so may take the place of one that has time: that one checkpoints and is served anew. When reserved nodes come
// free, burst tasks come back to them, the dearest rest first; and tasks on dear machines go over to cheap ones that boot beside them, where that pays.
//
// Nothing starves: what has waited for long is served in the order in which it came, and the first that cannot be served keeps its place (EASY).
#pragma once

#include "scheduler/core/policy/cluster/cluster.h"

namespace spillway::core::cluster {

// How much delay money is worth: a task waits for reserved nodes for as long as a boot takes, and this many thousandths of its work left.
struct Patience {
  int64_t wait_permille = 0;
};

class Spillway : public Policy {
 public:
  explicit Spillway(Patience patience) : patience_(patience) {}
  Decision Decide(const View& view) const override;

 private:
  Patience patience_;
};

}  // namespace spillway::core::cluster
