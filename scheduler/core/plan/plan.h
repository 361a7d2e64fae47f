// One cycle of Decide while it is being made: what is already planned counts as done for everything planned after it. The state itself never changes.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "scheduler/core/core.h"
#include "scheduler/core/fit/room.h"

namespace spillway::core {

struct Plan {
  const State& state;
  const Soft& soft;
  const Policy& policy;
  const int64_t now_ms;

  std::vector<Command> commands;
  int64_t candidates_left;       // step budget: pairs of task and node looked at
  std::set<TaskId> placed;       // by this cycle
  std::set<NodeId> wanted;       // nodes that this cycle gave work, or counts on for a waiting task
  std::set<NodeId> leaving;      // nodes that this cycle ends
  std::set<AttemptId> fenced;    // attempts that this cycle ends
  std::map<NodeId, Room> rooms;  // free room where this cycle has looked
};
Room* RoomIn(Plan* plan, const Node& node);

// The steps, in the order in which Decide runs them.
void ExpireNodes(Plan* plan);   // silence, lapsed leases, boots that never end
void DrainNoticed(Plan* plan);  // stop what runs on machines that will be taken; let go of those that are empty
void PlaceTasks(Plan* plan);    // on reserved nodes first, then on burst nodes that already bill
void RequestNodes(Plan* plan);  // for what fits nowhere, unless a node that is coming will hold it
void ReleaseIdle(Plan* plan);
void ForgetOld(Plan* plan);

// Until when an idle node of ours is kept: its idle time, or the end of what is paid for anyway under a coarse billing rule.
int64_t KeepIdleUntilMs(const State& state, const Node& node);
int64_t BootDeadlineMs(const State& state, const Node& node);
// READY, not cordoned, no notice: it may be given work (as far as the state knows).
bool TakesWork(const Node& node);

}  // namespace spillway::core
