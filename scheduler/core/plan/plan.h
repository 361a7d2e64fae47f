// One cycle of Decide while it is being made: what is already planned counts as done for everything planned after it. The state itself never changes.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "scheduler/core/core.h"
#include "scheduler/core/fit/room.h"
#include "scheduler/core/plan/open_nodes.h"

namespace spillway::core {

// A task for which a node, or some of it, is kept.
struct Promise {
  TaskId task;
  int64_t priority = 0;
};

// Where tasks of one shape could go at all, as far as deadlines care.
struct Outlets {
  bool spot = false;     // machines that can be taken away are offered, and cheaper than those that stay
  bool staying = false;  // a machine that stays has room or could be asked for
  bool coming = false;   // one comes up, be it for others
  int64_t boot_ms = 0;   // of one that stays
};

struct Plan {
  const State& state;
  const Soft& soft;
  const Policy& policy;
  const int64_t now_ms;

  std::vector<Command> commands;
  int64_t candidates_left;                          // step budget: pairs of task and node looked at
  std::set<TaskId> placed;                          // by this cycle
  std::set<NodeId> wanted;                          // nodes that this cycle gave work, or counts on for a waiting task
  std::set<NodeId> leaving;                         // nodes that this cycle ends
  std::set<AttemptId> fenced;                       // attempts that this cycle ends
  std::set<TaskId> served;                          // waiting tasks that a node which is coming, or room that is being made, will hold
  std::map<JobId, std::set<TaskIndex>> starting;    // of jobs with a limit: tasks that are placed, served, or will have room that becomes free anyway
  std::map<NodeId, std::vector<Promise>> promises;  // room is being made there
  // What stops there anyway will hold these, so nobody of lower priority is started there meanwhile, only to be stopped again. Found out by an earlier round.
  std::map<NodeId, std::vector<Promise>> kept;
  std::map<int64_t, Outlets> outlets;  // by shape, of jobs with a deadline that this cycle has looked at
  bool again = false;                  // this round found one more of them, and the cycle is planned anew
  OpenNodes open{state};               // what may be given work, less what this cycle has given
};
// All that gives work, asks for nodes and makes room: round by round until the last one found nothing more to keep.
Plan MakePlan(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms);
Plan BeginPlan(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms);
// The task counts against its job's limit from here on.
void CountStart(Plan* plan, const Job& job, TaskId task);
// The job has as many tasks ACTIVE or starting as it may have at once, and this one is none of them; or none of it may begin yet after a restore.
bool IsLimited(const Plan& plan, const Job& job, TaskId task);

// The steps, in the order in which Decide runs them.
void ExpireNodes(Plan* plan);          // silence, lapsed leases, boots that never end
void DrainNoticed(Plan* plan);         // stop what runs on machines that will be taken; let go of those that are empty
void HoldGangs(Plan* plan);            // nodes that wait for the others of a gang, and those that have waited long enough
void KeepPromises(Plan* plan);         // nodes on which room is being made
void KeepDeadlines(Plan* plan);        // what must go where nothing is taken away
void SettleJobs(Plan* plan);           // jobs that waited for others
void PlaceTasks(Plan* plan);           // on reserved nodes first, then on burst nodes that already bill
void PlaceUrgentAnywhere(Plan* plan);  // what has no time for machines that can be taken away, and finds no others
void RequestNodes(Plan* plan);         // for what fits nowhere, unless a node that is coming will hold it
void MakeRoom(Plan* plan);             // for higher priority, where there is none otherwise
void ReleaseIdle(Plan* plan);
void ForgetOld(Plan* plan);

// Promises the gang so many nodes with room, beside those that it was promised, as it has members.
void PromiseFree(Plan* plan, const Job& job, TaskId gang);
// The earliest time at which a node or an attempt stops waiting for the others of its gang; INT64_MAX when none does.
int64_t NextGangStepMs(const State& state, const Policy& policy, int64_t now_ms);

// Until when an idle node of ours is kept: its idle time, or the end of what is paid for anyway under a coarse billing rule.
int64_t KeepIdleUntilMs(const State& state, const Node& node);
int64_t BootDeadlineMs(const State& state, const Node& node);
// Whether the task may be asked to make room for one of higher priority, and how much work that may cost: what came after its newest checkpoint.
bool MayMakeRoom(const State& state, const Job& job, const Task& task, const Policy& policy, int64_t now_ms);
int64_t WorkAtRiskMs(const Task& task, int64_t now_ms);
// The earliest time at which a task that made room may be asked again; INT64_MAX when nobody would ask.
int64_t NextToMakeRoomMs(const State& state, const Policy& policy, int64_t now_ms);
// Keeps the node for the task too, once.
void PromiseTo(Plan* plan, NodeId node, const Job& job, TaskId task);
bool IsPromisedTo(const Plan& plan, NodeId node, TaskId task);
// The node is kept for a task of another job than this one: room is made there for one of no less priority, or what stops there will hold one of higher
// priority. (Tasks of its own job are as good: the next one goes first.)
bool IsPromised(const Plan& plan, NodeId node, const Job& job);
// And is within reach, and this cycle does not end it.
bool MayPlaceOn(const Plan& plan, const Node& node);

}  // namespace spillway::core
