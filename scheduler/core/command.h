// What the outside asks of the core, and what Decide proposes: a Command is admitted or refused as a whole by Admit (admit.cc), which answers with events.
// Owns the input vocabulary; never applies anything.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/core/model.h"

namespace spillway::core {

// --- From users (rpc) ---

struct NewNeed {
  JobId job = 0;
  int64_t place = -1;                         // instead of a job: one of this submission, by its place in it
  bool any = false;                           // see Need
  TaskState ended = TaskState::kUnspecified;  // how it ended, where the edge knows that it has
};
struct NewJob {
  std::string uid;  // chosen by the server's edge: the core draws no random numbers
  std::string name, owner;
  std::string spec_digest;  // 32 bytes
  std::string spec_bytes;   // stored once by digest, outside the state
  Shape shape;
  int64_t priority = 50;
  RetryPolicy retry;
  int64_t grace_ms = 0, max_silence_ms = 0;
  int64_t task_count = 1;
  int64_t parallel = 0;                      // 0: no limit
  int64_t deadline_ms = 0, expected_ms = 0;  // see Job
  std::vector<NewNeed> needs;
  bool paused = false;  // submitted with hold
};
// The same request_id within limits::kRequestIdTtlMs gets the first answer again (Reply::repeated); with other specs it is ALREADY_EXISTS.
// A shape that no living node, no offer and no node a creating provider could make can ever hold is INVALID_ARGUMENT "never fits: ..."
// naming the need and the nearest thing there is; with no node and no offer known yet (a cluster that just started) it is accepted with a warning.
// Jobs that wait for each other in a circle are INVALID_ARGUMENT. ABORTED: a job that was to be waited for has ended since the edge looked: look again.
struct Submit {
  std::string request_id;
  std::string request_digest;
  std::vector<NewJob> jobs;
};
struct Cancel {  // NOT_FOUND; a job that has ended is FAILED_PRECONDITION, and so is one none of whose `tasks` lives
  JobId job = 0;
  bool now = false;
  std::string reason;
  std::vector<TaskRange> tasks;  // in any order; empty: the whole job
};
struct Preempt {  // FAILED_PRECONDITION unless the task has a STARTING or RUNNING attempt
  TaskId task;
  int64_t grace_ms = 0;  // 0: the job's own
};
struct Pause {  // waiting tasks are held, running ones save and stop; again changes nothing
  JobId job = 0;
};
struct Resume {
  JobId job = 0;
};
struct Update {
  JobId job = 0;
  std::optional<int64_t> priority;
  std::optional<int64_t> parallel;     // of an array; as many as it has tasks, or more, is no limit
  std::optional<int64_t> deadline_ms;  // of a job that has one
};
struct CordonNode {
  NodeId node = 0;
  bool on = true;
};
struct DrainNode {
  NodeId node = 0;
  int64_t grace_ms = 0;
};

// --- From start-up ---

struct Configure {
  std::string cluster_uuid;  // taken on the first start only; a mismatch later is FAILED_PRECONDITION
  std::vector<ProviderInfo> providers;
  std::vector<Reservation> reservations;
};

// The rows come from a backup (policy/restored.h). FAILED_PRECONDITION unless `incarnation` is above every one before.
struct Restore {
  int64_t incarnation = 0;
  JobId seen_job = 0;  // the highest that left anything in the store
};

// --- From worker sessions ---

struct InventoryEntry {
  AttemptId attempt;
  AttemptState state = AttemptState::kUnspecified;
};
// A node says who it is and everything it has. Static nodes come into being by it; nodes we created are matched by (provider, instance id or name).
// Attempts that the state believes on this node but that the inventory lacks ended with NODE_LOST ("the node forgot it") when boot_id is new, OFFERED ones
// too: the life before may have begun them. With the same boot_id OFFERED and STARTING ones are offered again (the worker may have forgotten what it
// accepted), and of the others the Ended report is still to come (reports are kept until acked).
// ALREADY_EXISTS when a node of this name lives with another boot_id and a session (`other_session_alive`).
struct NodeHello {
  std::string name, provider, instance_id, boot_id, zone, region, isolation, cluster_uuid;
  Market market = Market::kUnspecified;
  Capacity capacity;
  std::vector<InventoryEntry> inventory;
  bool other_session_alive = false;
};
struct Report {
  enum class Kind { kAccepted = 1, kStarted = 2, kCheckpoint = 3, kEnded = 4 };
  int64_t seq = 0;
  AttemptId attempt;
  Kind kind = Kind::kAccepted;
  std::string rendezvous;                   // kAccepted, of member 0 of several: "HOST:PORT"
  CheckpointRef checkpoint;                 // kCheckpoint: attempt, step, path, manifest, bytes
  EndCause cause = EndCause::kUnspecified;  // kEnded
  Initiator initiator = Initiator::kUnspecified;
  std::string detail;
  int64_t last_step = 0;
};
// Reports with seq <= Node::report_ack are duplicates and change nothing; a gap is refused (FAILED_PRECONDITION, the session starts again).
// Reports about an attempt that the state does not have alive on this node are acknowledged and change nothing (it was fenced, moved or forgotten).
// A checkpoint of an attempt that has ended or was sealed is never registered.
struct NodeReports {
  NodeId node = 0;
  std::string boot_id;
  std::vector<Report> reports;
};
struct NodeNotice {
  NodeId node = 0;
  int64_t in_ms = 0;  // it will be taken this long from now
  std::string source;
  bool advisory = false;
};

// --- From the effects' executors ---

struct SealResult {  // the store was listed; what is not here will never be read
  AttemptId attempt;
  std::optional<CheckpointRef> newest;  // newest committed and verified manifest of this attempt's directory
  int64_t damaged = 0;                  // manifests that failed verification
};
struct OffersListed {
  std::string provider;
  std::vector<Offer> offers;  // the whole list; learned fields are ignored
};
struct InstanceCreated {  // NODE may be RELEASING by now: then the effect to terminate follows
  NodeId node = 0;
  std::string instance_id;
};
struct InstanceRefused {
  NodeId node = 0;
  enum class Code { kCapacity = 1, kThrottled = 2, kRejected = 3 } code = Code::kCapacity;  // kRejected: the request itself is wrong (long back-off)
  std::string message;
  int64_t retry_after_ms = 0;  // 0: the policy's
};
// An instance younger than this when a listing began may be missing from it.
inline constexpr int64_t kListingGraceMs = 60'000;
// One complete listing of a provider, begun at `asked_ms`, a time of turns (instances created later may be missing: absence proves nothing for them).
struct InstanceListing {
  std::string provider;
  int64_t asked_ms = 0;
  struct Instance {
    std::string instance_id, name;  // name is the node name we gave it
    bool alive = true;
    bool reclaimed = false;  // the provider took it (with or without notice)
    std::string reason;
    int64_t billed_micros = -1;  // final bill when it has ended; -1 unknown
    int64_t notice_in_ms = -1;   // announced reclaim; -1 none
  };
  std::vector<Instance> instances;  // ours only (by cluster tag)
  int64_t doubt_ms = 0;             // set by the engine: so much of the time before asked_ms may never have passed (the clock was set, or nobody looked at it)
};
struct InstanceGone {  // the provider's word about one node, after Terminate or Describe
  NodeId node = 0;
  bool reclaimed = false;
  std::string reason;
  int64_t billed_micros = -1;
};

// --- From Decide ---

struct Place {
  TaskId task;
  std::vector<Member> members;  // each on a node of its own; the first is member 0
  PlaceReason reason;
};
struct RequestNode {
  OfferKey offer;
  TaskId for_task;
  PlaceReason reason;
};
struct ReleaseNode {
  NodeId node = 0;
  std::string reason;
};
struct StopAttempt {
  AttemptId attempt;
  StopRequest stop;
};
struct DeclareLost {  // its lease has lapsed and nobody can testify
  NodeId node = 0;
  std::string reason;
};
struct FenceAttempt {  // its node has been silent for longer than the job allows (Job::max_silence_ms): the owner accepts that it may still run
  AttemptId attempt;
  NodeId node = 0;
  std::string reason;
};
struct SettleJob {  // what it waited for has come to something
  JobId job = 0;
};
struct ForgetRequests {  // idempotency records older than their time to live
  int64_t before_ms = 0;
};

using Command = std::variant<Submit, Cancel, Preempt, CordonNode, DrainNode, Configure, NodeHello, NodeReports, NodeNotice, SealResult, OffersListed,
                             InstanceCreated, InstanceRefused, InstanceListing, InstanceGone, Place, RequestNode, ReleaseNode, StopAttempt, DeclareLost,
                             ForgetRequests, FenceAttempt, Pause, Resume, Update, SettleJob, Restore>;

}  // namespace spillway::core
