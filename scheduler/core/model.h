// The state of the scheduler: plain values, ordered containers, integers. Everything that must survive a restart is a field here and is listed in Fields(),
// the one description from which the codec, equality and dumps are made. Volatile knowledge (leases, last progress) lives in soft.h.
//
// Owns the shape of the state; never its rules: reduce.cc changes it, transitions.h says which moves are legal, invariants.h what must hold after every turn.
// Times are UTC milliseconds named *_ms; 0 means "not yet" or "none". Money is micros. Field numbers are stored for ever: never reuse one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/attempt_words.h"
#include "base/ids.h"

namespace spillway::core {

// What one member needs of a node. Jobs of equal needs share one Shape, interned in State::shapes; the spec itself never enters the core.
struct Shape {
  std::vector<std::string> gpu_models;  // any of these, compared without case; empty: any model
  int64_t gpu_count = 0;
  int64_t gpu_memory_bytes_min = 0;  // of one device
  int64_t gpu_memory_bytes_max = 0;  // 0: no upper end
  int64_t cpu_milli = 1000;
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  int64_t nodes = 1;                                            // members of a gang
  std::set<Market> markets;                                     // allowed; empty: all
  bool interruptible = true;                                    // false: never on spot
  std::set<std::string> regions, zones, providers, node_names;  // allowed; empty: any
  int64_t max_price_micros_per_hour = 0;                        // of one node; 0: no limit

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.gpu_models), a(2, s.gpu_count), a(3, s.gpu_memory_bytes_min), a(4, s.gpu_memory_bytes_max), a(5, s.cpu_milli), a(6, s.memory_bytes);
    a(7, s.disk_bytes), a(8, s.nodes), a(9, s.markets), a(10, s.interruptible), a(11, s.regions), a(12, s.zones), a(13, s.providers);
    a(14, s.node_names), a(15, s.max_price_micros_per_hour);
  }
  auto operator<=>(const Shape&) const = default;
};

// What a node has. One kind of accelerator a node; devices are numbered 0 .. gpu_count-1 (at most 64).
struct Capacity {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  std::string gpu_model;
  int64_t gpu_count = 0;
  int64_t gpu_memory_bytes = 0;
  bool gpu_simulated = false;

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.cpu_milli), a(2, s.memory_bytes), a(3, s.disk_bytes), a(4, s.gpu_model), a(5, s.gpu_count), a(6, s.gpu_memory_bytes), a(7, s.gpu_simulated);
  }
  auto operator<=>(const Capacity&) const = default;
};

// How often a task is run again, by cause; -1 unlimited.
struct RetryPolicy {
  int64_t preempted = -1;
  int64_t node_fault = 5;  // NODE_LOST, FENCED, LAUNCH_FAILED on the node's account, STAGING_FAILED, GPU_FAULT, DISK_FULL
  int64_t user_error = 0;  // USER_ERROR, OUT_OF_MEMORY, TIMEOUT, HANG

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.preempted), a(2, s.node_fault), a(3, s.user_error);
  }
  bool operator==(const RetryPolicy&) const = default;
};

// A committed, verified manifest. The newest registered of a task is what its next attempt resumes from.
struct CheckpointRef {
  AttemptNumber attempt = 0;  // who wrote it
  int64_t step = 0;
  std::string path;             // relative to the checkpoint root: CLUSTER/JOB/TASK/aN/step-S
  std::string manifest_sha256;  // hex
  int64_t bytes = 0;
  int64_t registered_ms = 0;
  bool sealed = false;  // found by the seal rather than reported by the node

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.attempt), a(2, s.step), a(3, s.path), a(4, s.manifest_sha256), a(5, s.bytes), a(6, s.registered_ms), a(7, s.sealed);
  }
  bool operator==(const CheckpointRef&) const = default;
};

// A durable wish to end an attempt; the first one stays, a stronger one (shorter grace) may tighten it.
struct StopRequest {
  EndCause cause = EndCause::kUnspecified;  // what the end will count as unless the job completes first
  Initiator initiator = Initiator::kUnspecified;
  int64_t grace_ms = 0;  // 0: kill at once
  int64_t requested_ms = 0;
  std::string reason;
  TaskId for_task;  // of higher priority, for which room is made; job 0: none

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.cause), a(2, s.initiator), a(3, s.grace_ms), a(4, s.requested_ms), a(5, s.reason), a(6, s.for_task.job), a(7, s.for_task.index);
  }
  bool operator==(const StopRequest&) const = default;
};

// Why a task was put where it is: a code and integers, rendered by explain.cc when somebody asks.
enum class PlaceCode {
  kUnspecified = 0,
  kReservedFits = 1,       // already paid for, packed
  kPaidNodeFits = 2,       // a burst node that already bills had room; a = its price per hour, b = 1 when it was requested for this task
  kCheapestOffer = 3,      // a = expected cost per hour of useful work (micros), b = list price, c = number of offers compared
  kOnlyMarketAllowed = 4,  // the job's markets left one
  kDeadline = 5,           // the cheapest that is not taken away: the deadline leaves no time for others; a, b, c as for the cheapest offer
};
struct PlaceReason {
  PlaceCode code = PlaceCode::kUnspecified;
  int64_t a = 0, b = 0, c = 0;

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.code), a(2, s.a), a(3, s.b), a(4, s.c);
  }
  bool operator==(const PlaceReason&) const = default;
};

// The part of an attempt on one node.
struct Member {
  NodeId node = 0;
  uint64_t devices = 0;   // bit i: device i of the node
  bool stopped = false;   // proven over: it holds nothing on its node any more
  bool accepted = false;  // of several members, until all have: then the attempt says when
  bool started = false;   // likewise

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.node), a(2, s.devices), a(3, s.stopped), a(4, s.accepted), a(5, s.started);
  }
  bool operator==(const Member&) const = default;
};

struct Attempt {
  AttemptNumber number = 0;
  AttemptState state = AttemptState::kUnspecified;
  std::vector<Member> members;  // exactly Shape::nodes of them
  Market market = Market::kUnspecified;
  int64_t price_micros_per_hour = 0;  // of the dearest member's node, when it was offered
  PlaceReason place;
  int64_t offered_ms = 0, accepted_ms = 0, started_ms = 0, ended_ms = 0;  // accepted and started: by every member
  std::string resume_path;                                                // "" from the start
  int64_t from_step = 0;                                                  // step of the checkpoint resumed from
  int64_t to_step = 0;                                                    // last step reported with the end
  int64_t saved_step = 0;                                                 // newest checkpoint this attempt committed
  std::optional<StopRequest> stop;                                        // set while STOPPING and after
  EndCause cause = EndCause::kUnspecified;                                // while it lives: why, by what the members say that have ended
  Initiator initiator = Initiator::kUnspecified;
  std::string detail;
  std::vector<std::string> node_names;  // by member, so that history reads without the nodes
  int64_t worked_before_ms = 0;         // Task::worked_ms when it was offered
  std::string rendezvous;               // "HOST:PORT" where member 0 of several listens for the others
  NodeId cause_node = 0;                // while it lives: of several members, the one whose end is `cause`

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.number), a(2, s.state), a(3, s.members), a(4, s.market), a(5, s.price_micros_per_hour), a(6, s.place), a(7, s.offered_ms), a(8, s.accepted_ms);
    a(9, s.started_ms), a(10, s.ended_ms), a(11, s.resume_path), a(12, s.from_step), a(13, s.to_step), a(14, s.saved_step), a(15, s.stop);
    a(16, s.cause), a(17, s.initiator), a(18, s.detail), a(19, s.node_names), a(20, s.worked_before_ms);
    a(21, s.rendezvous), a(22, s.cause_node);
  }
  bool operator==(const Attempt&) const = default;
};

// Of several members: nothing of it starts before all have accepted, and it lives until every one has stopped.
inline bool IsGang(const Attempt& attempt) { return attempt.members.size() > 1; }
// OFFERED, STARTING (accepted), RUNNING or ENDED.
AttemptState StateOf(const Attempt& attempt, const Member& member);
// The member on this node that has not stopped; null when there is none.
const Member* LivingMember(const Attempt& attempt, NodeId node);

// The unit that is scheduled. In memory while it lives; its row stays when it has ended.
struct Task {
  TaskId id;
  TaskState state = TaskState::kQueued;
  HoldReason hold = HoldReason::kUnspecified;
  AttemptNumber attempts = 0;                               // numbers given out so far
  std::optional<Attempt> attempt;                           // the living one; set exactly while ACTIVE
  std::vector<Attempt> history;                             // ended attempts, oldest first; the newest limits::kAttemptHistoryMax
  AttemptNumber seal_owed = 0;                              // this attempt must be sealed before the next is offered; 0: none
  std::optional<CheckpointRef> checkpoint;                  // newest registered
  int64_t preempted = 0, node_faults = 0, user_errors = 0;  // counted against RetryPolicy
  int64_t checkpointed_in_vain = 0;                         // exits 85 in a row without a newer checkpoint
  int64_t not_before_ms = 0;                                // back-off
  NodeId avoid_node = 0;                                    // failed there last; chosen again only where nothing else fits
  int64_t queued_ms = 0;                                    // since when it waits
  bool cancel_requested = false;                            // it alone, while it ran
  int64_t worked_ms = 0;                                    // running time whose result `checkpoint` holds

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.id.job), a(2, s.id.index), a(3, s.state), a(4, s.hold), a(5, s.attempts), a(6, s.attempt), a(7, s.history), a(8, s.seal_owed), a(9, s.checkpoint);
    a(10, s.preempted), a(11, s.node_faults), a(12, s.user_errors), a(13, s.checkpointed_in_vain), a(14, s.not_before_ms), a(15, s.avoid_node);
    a(16, s.queued_ms), a(17, s.cancel_requested), a(18, s.worked_ms);
  }
  bool operator==(const Task&) const = default;
};

struct TaskCounts {
  int64_t queued = 0, held = 0, active = 0, succeeded = 0, failed = 0, cancelled = 0;

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.queued), a(2, s.held), a(3, s.active), a(4, s.succeeded), a(5, s.failed), a(6, s.cancelled);
  }
  bool operator==(const TaskCounts&) const = default;
};

// A job that another one waits for.
struct Need {
  JobId job = 0;
  bool any = false;                           // however it ends; else it must succeed
  TaskState ended = TaskState::kUnspecified;  // how it ended; UNSPECIFIED while it lives

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.any), a(3, s.ended);
  }
  bool operator==(const Need&) const = default;
};

// Some tasks of a job that follow each other.
struct TaskRange {
  TaskIndex first = 0, end = 0;  // without `end`

  int64_t size() const { return end - first; }
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.first), a(2, s.end);
  }
  bool operator==(const TaskRange&) const = default;
};

// What a user submitted, without the spec's bytes. Its row stays when every task has ended; the memory does not.
struct Job {
  JobId id = 0;
  std::string uid;  // UUID
  std::string name;
  std::string owner;
  std::string request_id;
  std::string spec_digest;  // 32 bytes: SHA-256 of the serialized JobSpec
  int64_t shape_id = 0;
  int64_t priority = 50;
  int64_t submitted_ms = 0, ended_ms = 0;
  RetryPolicy retry;
  int64_t grace_ms = 0;        // SIGTERM to SIGKILL
  int64_t max_silence_ms = 0;  // 0: the lease
  int64_t task_count = 1;      // size of the task source
  int64_t next_index = 0;      // tasks below it began or were skipped; those from it on take no memory: QUEUED, or HELD as HoldOf() says
  TaskCounts counts;
  bool cancel_requested = false;
  int64_t charged_micros = 0, reserved_micros = 0;  // burst money, and reserved time at the amortised price
  std::vector<Need> needs;                          // nothing of it starts before; empty once they are met
  bool paused = false;                              // nothing of it starts before it is resumed
  EndCause cause = EndCause::kUnspecified;          // why the job as a whole was ended by the scheduler; else each task's attempts say how it ended
  std::string detail;                               // of `cause`; of a paused job: the end that paused it, "" where the user did
  int64_t parallel = 0;                             // at most so many tasks ACTIVE at once; 0: no limit
  std::vector<TaskRange> skipped;  // cancelled before they began, so that they have no rows: in order, never next to each other; never holds next_index
  int64_t deadline_ms = 0;         // when each of its tasks should have ended; 0: none
  int64_t expected_ms = 0;         // how long a task runs in all when nothing interrupts it, as far as the user knows; above 0 with a deadline

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.id), a(2, s.uid), a(3, s.name), a(4, s.owner), a(5, s.request_id), a(6, s.spec_digest), a(7, s.shape_id), a(8, s.priority), a(9, s.submitted_ms);
    a(10, s.ended_ms), a(11, s.retry), a(12, s.grace_ms), a(13, s.max_silence_ms), a(14, s.task_count), a(15, s.next_index), a(16, s.counts);
    a(17, s.cancel_requested), a(18, s.charged_micros), a(19, s.reserved_micros), a(20, s.needs), a(21, s.paused), a(22, s.cause), a(23, s.detail);
    a(24, s.parallel), a(25, s.skipped), a(26, s.deadline_ms), a(27, s.expected_ms);
  }
  bool operator==(const Job&) const = default;
};

// Why the tasks that never began may not begin; UNSPECIFIED: they are QUEUED.
HoldReason HoldOf(const Job& job);
// A job's state is a fold over its tasks.
TaskState FoldState(const Job& job);
bool Skipped(const Job& job, TaskIndex index);
// The first task from `index` on that was not skipped; task_count when there is none.
TaskIndex NotSkippedFrom(const Job& job, TaskIndex index);
// How many tasks wait without a row, and how many have begun.
int64_t Unstarted(const Job& job);
int64_t Begun(const Job& job);
// `job` runs as many tasks as its limit allows, `more` counted in.
bool AtLimit(const Job& job, int64_t more = 0);
// What a task without a row of its own is: it waits, or it ended with its job or by itself before it began. Nullopt for one that began, and where there is none.
std::optional<Task> TaskWithoutRow(const Job& job, TaskIndex index);
// What the needs of a job come to: one that failed decides at once.
enum class NeedsStand { kOpen, kMet, kFailed };
NeedsStand StandOf(const std::vector<Need>& needs);
bool Failed(const Need& need);

// Waiting tasks of a job that never ran are held as (next_index); `tasks` has those that ran or are exceptions, and have not ended for good.
struct LiveJob {
  Job job;
  std::map<TaskIndex, Task> tasks;
};

struct BillingRule {
  int64_t increment_ms = 1;  // rounded up to a multiple of this
  int64_t minimum_ms = 0;

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.increment_ms), a(2, s.minimum_ms);
  }
  bool operator==(const BillingRule&) const = default;
};

// One machine. In memory until RELEASED or LOST.
struct Node {
  NodeId id = 0;
  std::string name;  // unique among living nodes of a provider
  std::string provider;
  std::string offer;        // the offer it came from; "" when it registered itself
  std::string instance_id;  // the provider's name for it, once known
  std::string boot_id;      // of the worker's supervisor, once registered
  std::string zone, region, reservation;
  std::string isolation;
  NodeState state = NodeState::kUnspecified;
  Market market = Market::kUnspecified;
  Capacity capacity;
  int64_t price_micros_per_hour = 0;
  BillingRule billing;
  bool owned = false;  // we created it, so we must end it
  bool cordoned = false;
  int64_t requested_ms = 0, created_ms = 0, ready_ms = 0, releasing_ms = 0, gone_ms = 0;
  int64_t idle_since_ms = 0;       // 0 while something runs on it
  int64_t notice_deadline_ms = 0;  // it will be taken then; 0: no notice
  TaskId for_task;                 // the task it was requested for; job 0: none
  std::string reason;              // why requested; later why gone
  int64_t report_ack = 0;          // every report of boot_id up to here is durable
  int64_t metered_ms = 0;          // usage up to here stands in charges; 0 before billing starts
  int64_t charged_micros = 0;      // sum of its charges

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.id), a(2, s.name), a(3, s.provider), a(4, s.offer), a(5, s.instance_id), a(6, s.boot_id), a(7, s.zone), a(8, s.region), a(9, s.reservation);
    a(10, s.isolation), a(11, s.state), a(12, s.market), a(13, s.capacity), a(14, s.price_micros_per_hour), a(15, s.billing), a(16, s.owned), a(17, s.cordoned);
    a(18, s.requested_ms), a(19, s.created_ms), a(20, s.ready_ms), a(21, s.releasing_ms), a(22, s.gone_ms), a(23, s.idle_since_ms), a(24, s.notice_deadline_ms);
    a(25, s.for_task.job), a(26, s.for_task.index), a(27, s.reason), a(28, s.report_ack), a(29, s.metered_ms), a(30, s.charged_micros);
  }
  bool operator==(const Node&) const = default;
};

// Something a provider can supply, and what was learned about the pool behind it (integer counts).
struct Offer {
  std::string provider, name;
  Market market = Market::kUnspecified;
  std::string instance_type, zone, region;
  Capacity capacity;
  int64_t price_micros_per_hour = 0;
  BillingRule billing;
  int64_t notice_ms = 0;
  int64_t available = -1;        // how many more could be had; -1 unknown
  bool withdrawn = false;        // no longer in the provider's list; kept for what was learned
  int64_t backoff_until_ms = 0;  // a refusal: not asked before this
  std::string backoff_reason;
  int64_t refusals = 0;                                             // in a row
  int64_t preemptions = 0, last_preempted_ms = 0, exposure_ms = 0;  // of nodes from here; exposure is their READY time
  int64_t boots = 0, boot_ms = 0;                                   // of nodes from here that came up: how many, and how long they took in all

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.provider), a(2, s.name), a(3, s.market), a(4, s.instance_type), a(5, s.zone), a(6, s.region), a(7, s.capacity), a(8, s.price_micros_per_hour);
    a(9, s.billing), a(10, s.notice_ms), a(11, s.available), a(12, s.withdrawn), a(13, s.backoff_until_ms), a(14, s.backoff_reason), a(15, s.refusals);
    a(16, s.preemptions), a(17, s.last_preempted_ms), a(18, s.exposure_ms), a(19, s.boots), a(20, s.boot_ms);
  }
  bool operator==(const Offer&) const = default;
};
using OfferKey = std::pair<std::string, std::string>;  // (provider, name)

// What the core must know of a configured provider.
struct ProviderInfo {
  std::string name, kind;
  bool can_create = false;   // it makes nodes on request
  bool can_testify = false;  // its word about a node's death is proof (it can list and terminate)
  int64_t max_nodes = 0;
  int64_t idle_release_ms = 0;
  int64_t boot_timeout_ms = 0;

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.name), a(2, s.kind), a(3, s.can_create), a(4, s.can_testify), a(5, s.max_nodes), a(6, s.idle_release_ms), a(7, s.boot_timeout_ms);
  }
  bool operator==(const ProviderInfo&) const = default;
};

struct Reservation {
  std::string name;
  std::set<std::string> nodes;
  int64_t price_micros_per_hour = 0;  // amortised, of one node
  int64_t from_ms = 0, to_ms = 0;     // 0 open

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.name), a(2, s.nodes), a(3, s.price_micros_per_hour), a(4, s.from_ms), a(5, s.to_ms);
  }
  bool operator==(const Reservation&) const = default;
};

// A row of the ledger; appended, never changed.
struct Charge {
  int64_t id = 0;
  NodeId node = 0;
  AttemptId attempt;  // job 0: idle, boot, overhead or adjustment
  std::string kind;   // "run", "idle", "boot", "overhead", "adjustment"
  Market market = Market::kUnspecified;
  int64_t from_ms = 0, to_ms = 0;
  int64_t amount_micros = 0;

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.id), a(2, s.node), a(3, s.attempt.job), a(4, s.attempt.index), a(5, s.attempt.number), a(6, s.kind), a(7, s.market), a(8, s.from_ms);
    a(9, s.to_ms), a(10, s.amount_micros);
  }
  bool operator==(const Charge&) const = default;
};

struct RequestRecord {
  std::vector<JobId> jobs;
  std::string digest;  // of the request: the same id with other specs is refused
  int64_t at_ms = 0;

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.jobs), a(2, s.digest), a(3, s.at_ms);
  }
  bool operator==(const RequestRecord&) const = default;
};

// Scalars of the state: one row.
struct Meta {
  std::string cluster_uuid;
  int64_t incarnation = 1;
  int64_t now_ms = 0;  // time of the newest turn; never decreases
  JobId next_job = 1;
  NodeId next_node = 1;
  int64_t next_shape = 1;
  int64_t next_charge = 1;
  std::map<std::string, ProviderInfo> providers;
  std::map<std::string, Reservation> reservations;
  std::map<std::string, int64_t> ended_instances;  // "PROVIDER/ID" -> when it ended: a listing that is a little old may still show it alive
  // After a restore from a backup (policy/restored.h): until then what the lost life began may still run, and which jobs may have been in it.
  int64_t adopt_until_ms = 0;
  JobId first_job = 0;  // of this incarnation

  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.cluster_uuid), a(2, s.incarnation), a(3, s.now_ms), a(4, s.next_job), a(5, s.next_node), a(6, s.next_shape), a(7, s.next_charge);
    a(8, s.providers), a(9, s.reservations), a(10, s.ended_instances), a(11, s.adopt_until_ms), a(12, s.first_job);
  }
  bool operator==(const Meta&) const = default;
};

struct State {
  Meta meta;
  std::map<JobId, LiveJob> jobs;  // with at least one task that has not ended
  std::map<NodeId, Node> nodes;   // not RELEASED, not LOST
  std::map<int64_t, Shape> shapes;
  std::map<OfferKey, Offer> offers;
  std::map<std::string, RequestRecord> requests;

  // Derived, rebuilt by RebuildIndexes() after a load; never stored, never part of equality.
  struct Indexes {
    std::map<NodeId, std::set<AttemptId>> on_node;  // living attempts by node
    // What they hold of it. Of a node that came back smaller than it was it may be more than there is.
    struct Taken {
      int64_t cpu_milli = 0, memory_bytes = 0, disk_bytes = 0;
      uint64_t devices = 0;
      bool operator==(const Taken&) const = default;
    };
    std::map<NodeId, Taken> taken;
    // Everything that a shape may ask of a machine, but its name.
    struct NodeKind {
      Market market = Market::kUnspecified;
      int64_t price_micros_per_hour = 0;
      Capacity capacity;
      std::string provider, zone, region;
      auto operator<=>(const NodeKind&) const = default;
    };
    struct FreeOn {
      int64_t devices = 0, cpu_milli = 0;
      NodeId node = 0;
      auto operator<=>(const FreeOn&) const = default;
    };
    std::map<NodeKind, std::set<FreeOn>> open;  // nodes that may be given work as far as the state knows: the fullest of each kind first
    // QUEUED tasks ready for placement or back-off, best first: (-priority, queued_ms, job, index).
    struct QueueKey {
      int64_t negative_priority;
      int64_t queued_ms;
      TaskId task;
      auto operator<=>(const QueueKey&) const = default;
    };
    std::set<QueueKey> queue;
    std::map<std::pair<std::string, std::string>, NodeId> node_by_name;      // (provider, name)
    std::map<std::pair<std::string, std::string>, NodeId> node_by_instance;  // (provider, instance id)
    std::map<Shape, int64_t> shape_ids;
    std::map<std::string, JobId> newest_by_name;           // of living jobs
    std::set<std::pair<std::string, JobId>> job_names;     // every living job
    std::map<int64_t, std::set<QueueKey>> queue_by_shape;  // `queue`, by shape id: one key a job stands for all its tasks from next_index on
    std::set<std::pair<int64_t, TaskId>> back_offs;        // (not_before_ms, task) of QUEUED tasks that have one
    std::set<std::pair<int64_t, std::string>> requests_by_age;
    std::set<std::pair<int64_t, JobId>> deadlines;      // of living jobs
    std::map<JobId, std::set<JobId>> needed_by;         // living or not, as long as somebody waits for it
    std::set<JobId> settled;                            // jobs whose needs have come to something: they are to be released or ended
    std::map<int64_t, int64_t> active_priorities;       // attempts that nobody has asked to stop, by the priority of their job
    std::set<AttemptId> making_room;                    // attempts that stop so that a task of higher priority gets their room
    std::set<std::pair<int64_t, AttemptId>> gathering;  // (offered_ms, attempt) of OFFERED gangs: not every member has accepted
  } index;
};

void RebuildIndexes(State* state);

// Null when it is not alive. Also null for a waiting task that never ran (index >= next_index): it takes no memory; GetTask makes its value.
const Task* FindTask(const State& state, TaskId id);
std::optional<Task> GetTask(const State& state, TaskId id);
const Job* FindJob(const State& state, JobId id);
const Node* FindNode(const State& state, NodeId id);
const Shape& ShapeOf(const State& state, const Job& job);  // CHECK-fails on a dangling id

}  // namespace spillway::core
