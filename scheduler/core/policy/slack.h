// How a task with a deadline stands: what it still needs, and until when it may wait, or run where it can be taken away, and be on time all the same.
// The promise behind it: a machine that stays, asked for at the last safe moment, still makes the deadline by what the user expects and what was seen of
// boots. Owns these estimates; never says where a task goes (plan/deadlines.cc).
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/core/model.h"

namespace spillway::core {

struct Slack {
  int64_t left_ms = 0;   // running time that it still needs: where it can be taken away only what a checkpoint holds counts as done
  int64_t start_ms = 0;  // what one more start costs: to stop what runs, boot, restore, and some to spare
  // See above. For one that waits: a start that comes to nothing may follow, and then the one that counts, so that nothing is begun on spot only to be moved.
  // On a machine that stays: how long it may stand still.
  int64_t last_safe_ms = 0;
  int64_t ends_ms = 0;  // when it ends at the earliest, where nothing comes between

  // What it may still lose; below 0: it will be so much too late.
  int64_t SpareMs(const Job& job, int64_t now_ms) const;
};

// `task` null: one that never began. Precondition: the job has a deadline.
Slack SlackOf(const Job& job, const Task* task, int64_t boot_ms, int64_t now_ms);

// How long a machine that stays takes to come up for this shape, as seen of the offers that could supply one; a cautious guess before the first was seen, 0
// where no offer could.
int64_t BootMs(const State& state, const Shape& shape);

// The same with what was seen of boots.
Slack SlackOf(const State& state, const Job& job, const Task* task, int64_t now_ms);

// "its deadline of ... cannot be met: it ends at ... at the earliest"
std::string DeadlineLost(int64_t deadline_ms, int64_t ends_ms);

// Whether a machine of this market can be taken away at any time.
inline bool CanBeTaken(Market market) { return market == Market::kSpot; }

}  // namespace spillway::core
