// The pure core in four functions. No clock, no randomness, no I/O, no threads; floats only inside Decide. Same input, same output, on every machine.
//
//   Admit(state, command, now)        -> events (or a refusal; nothing half-applied)
//   Reduce(state, event, now)         -> the new state, and which rows changed
//   Decide(state, soft, policy, now)  -> commands, each with its reason, admitted like any other
//   Effects(state, changes)           -> what is owed to the outside; a row in OFFERED, STOPPING, REQUESTED or RELEASING is the durable intent
#pragma once

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/command.h"
#include "scheduler/core/event.h"
#include "scheduler/core/model.h"
#include "scheduler/core/soft.h"

namespace spillway::core {

// The numbers that decisions go by. They are read when something is decided (Admit, Decide, Explain), never when it is applied.
struct Policy {
  int64_t lease_ms, renew_every_ms, silence_ms, lease_grace_ms;  // defaults: base/limits.h
  int64_t retry_backoff_ms;                                      // first; doubles up to limits::kRetryBackoffMsMax
  int64_t pool_avoid_ms;                                         // a pool that preempted is avoided this long where another will do
  int64_t offer_backoff_ms;                                      // first after a refusal; doubles up to 5 min
  int64_t candidates_max;                                        // step budget of one Decide
  int64_t displace_again_ms;                                     // a task that made room for another is left alone this long
  int64_t gang_hold_ms;                                          // so long nodes are held for a gang that is not complete
  Policy();
};

// --- Admit ---

// The answer to whoever sent the command; which fields mean something depends on it.
struct Reply {
  std::vector<JobId> jobs;            // Submit
  bool repeated = false;              // Submit
  std::vector<std::string> warnings;  // Submit
  int64_t affected = 0;               // Cancel, Preempt, Pause, Resume, Update, Drain: tasks
  NodeId node = 0;                    // NodeHello
  int64_t report_ack = 0;             // NodeHello, NodeReports: durable once this turn is committed
  std::string message;
};
struct Admission {
  std::vector<Event> events;                               // may be empty: nothing to change, yet an answer
  std::vector<std::pair<std::string, std::string>> specs;  // (digest, bytes) to be stored with the events
  Reply reply;
};
absl::StatusOr<Admission> Admit(const State& state, const Command& command, int64_t now_ms, const Policy& policy = Policy());

// --- Reduce ---

// Rows touched since the last commit: each is written once. Ended tasks, jobs and nodes have left the State, so their last values travel here.
struct Changes {
  bool meta = false;
  std::set<JobId> jobs;
  std::set<TaskId> tasks;
  std::set<NodeId> nodes;
  std::set<int64_t> shapes;
  std::set<OfferKey> offers;
  std::set<std::string> requests;  // absent from the state: delete the row
  std::map<JobId, Job> ended_jobs;
  std::map<TaskId, Task> ended_tasks;
  std::map<NodeId, Node> gone_nodes;
  std::vector<Charge> charges;                                // to append
  std::vector<std::pair<TaskId, CheckpointRef>> checkpoints;  // to append
  bool Empty() const;
  void Clear() { *this = Changes(); }
};
// Precondition: the event was admitted against this very state. A broken one is a CHECK failure, never an error value.
void Reduce(State* state, const Event& event, int64_t now_ms, Changes* changes);

// --- Decide ---

// Numbered steps, in this order: expire nodes (partition guard), drain what is noticed, keep deadlines, settle jobs that wait for others, place on reserved,
// place on paid burst nodes, request nodes, make room for higher priority, release idle nodes, forget.
std::vector<Command> Decide(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms);
// The earliest time at which Decide may answer differently without any command arriving; INT64_MAX when none.
int64_t NextDeadlineMs(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms);

// --- Effects ---

struct OfferAttempt {  // to a gang's member that has accepted, once all have: the word to start
  NodeId node;
  AttemptId attempt;
};
struct StopOnNode {
  NodeId node;
  AttemptId attempt;
};
struct SealAttempt {
  AttemptId attempt;
};
struct CreateInstance {
  NodeId node;
};
struct TerminateInstance {
  NodeId node;
};
using Effect = std::variant<OfferAttempt, StopOnNode, SealAttempt, CreateInstance, TerminateInstance>;
// Everything owed. With `changes`, only what the touched rows owe; null: all (after a restart, and now and then to make sure).
std::vector<Effect> Effects(const State& state, const Changes* changes);
// The full set that may live on a node, for a session's welcome.
std::vector<AttemptId> WantedOn(const State& state, NodeId node);

// --- Explain ---

struct Why {
  std::string code;  // "NO_NODE_FITS", "RESERVED_BUSY", "OFFER_BACKOFF", "BOOTING", "SEALING", "BACKOFF", "NODE_LIMIT", ...
  std::string message;
  std::string unblocks;  // the least change that would unblock; may be empty
};
// Every reason why a living task waits, or why it runs where it runs. Never empty for a living task.
std::vector<Why> Explain(const State& state, const Soft& soft, const Policy& policy, TaskId task, int64_t now_ms);
std::string DescribePlace(const PlaceReason& reason);

// --- Invariants ---

// "" when everything holds, else the first thing that does not. Checked in tests after every turn, sampled in production.
std::string BrokenInvariant(const State& state);

}  // namespace spillway::core
