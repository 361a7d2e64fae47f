// What the worker and the supervisor of one node say to each other, as plain structs, and their bytes.
//
// Pure: no descriptors, no clock. A frame is bytes; how frames become packets of the SOCK_SEQPACKET socket is packets.h.
//
// Bytes of a frame: one byte format version, one byte kind, then fields as protobuf writes them (signed integers in zigzag). Unknown
// fields are skipped, so a new worker talks to an old supervisor that still owns running jobs. Bounded by limits::kSupervisorFrameBytesMax.
// Decoding hostile bytes gives INVALID_ARGUMENT, never a crash and never more memory than a small multiple of the frame.
//
// Times named *_boottime_ms are milliseconds on this machine's CLOCK_BOOTTIME (Clock::NowSteadyMs). 0 means none unless said otherwise.
//
// A conversation:
//   worker                                   supervisor
//   Hello                               ->
//                                       <-   Inventory (once or more, `more` is true on all but the last): everything it knows
//                                       <-   Event ... every event not acked yet, again, oldest first
//   Renew, Start, Stop, Kill, Notice    ->
//                                       <-   Reply to each that carries request != 0; Events as things happen
//   Ack                                 ->
// A second Hello, on another connection, takes over: the older connection is closed (an upgraded worker replaces the old one).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/attempt_words.h"
#include "base/ids.h"

namespace spillway::frames {

inline constexpr uint32_t kProtocolVersion = 1;

// One attempt on this node. `key` is its identity here ("CLUSTER/5.17@3"): printable, no spaces, at most kAttemptKeyBytesMax; the supervisor
// never looks inside. `id` is for people and for the worker.
struct AttemptRef {
  std::string key;
  AttemptId id;
  bool operator==(const AttemptRef&) const = default;
};
inline constexpr size_t kAttemptKeyBytesMax = 200;
inline constexpr size_t kTagBytesMax = 64 << 10;
inline constexpr size_t kDetailBytesMax = 1024;

// ---- worker to supervisor ----

struct Hello {
  uint32_t version = kProtocolVersion;
  std::string client;  // for the supervisor's log: "spillway-worker 0.1.0 pid 77"
};

struct ResourceLimit {
  int64_t resource = 0;  // RLIMIT_*
  int64_t soft = -1;     // -1: RLIM_INFINITY
  int64_t hard = -1;
};

inline constexpr int64_t kAttemptPidsMax = 32'768;  // processes and threads of one attempt, whatever it asked for

// Run one attempt. Idempotent by `attempt.key`: a second START of a known attempt answers ALREADY_EXISTS and changes nothing.
// The answer to a taken START is the event Started, or Exited with a launch error.
struct Start {
  AttemptRef attempt;
  std::vector<std::string> argv;  // argv[0] is looked up in env's PATH unless it has a slash; never a shell
  std::vector<std::string> env;   // "K=V", complete: nothing is inherited. The supervisor itself sets SPILLWAY_SOCKET,
                                  // SPILLWAY_NOTICE_FILE and SPILLWAY_ATTEMPT_KEY (its mark on every process of the tree), and PATH when absent
  std::string cwd;                // must exist; "" is /
  std::string log_path;           // stdout and stderr, appended; see base/attempt_log.h. "" throws the output away. Parent folders are created
  std::string socket_path;        // where SPILLWAY_SOCKET is bound, at most 107 bytes; "" lets the supervisor choose beside its own socket
  std::string notice_path;        // where SPILLWAY_NOTICE_FILE appears; "" lets the supervisor choose beside its own socket
  int64_t stop_signal = 15;
  int64_t grace_ms = 30'000;    // stop signal to SIGKILL when a Stop does not say
  int64_t max_duration_ms = 0;  // after this: stopped with cause TIMEOUT
  int64_t memory_bytes = 0;     // limit of the whole tree, by the kernel where a memory controller is writable (Started says), else by looking
  int64_t pids_max = 0;         // likewise; processes and threads where the kernel counts, processes where the supervisor looks
  int64_t cpu_milli = 0;        // its weight where processors are short, for the whole tree together (a cpu controller); 0: one cpu's
  int64_t log_bytes_max = 0;    // 0: limits::kLogBytesMax
  bool lease_bound = true;      // ends with the lease. Refused (FAILED_PRECONDITION) while there is no lease, or it is about to end
  std::vector<ResourceLimit> rlimits;
  std::string tag;  // the worker's own memory of the attempt, given back in Inventory; at most kTagBytesMax
};

// The node's authority to run. The newest word counts; lease_end 0 takes the lease away: every lease-bound attempt is stopped at once.
// Towards its end the supervisor acts alone, worker or not: checkpoint request (notice file, reason "lease"), stop signal, SIGKILL of the tree
// at lease end minus limits::kLease{Checkpoint,Term,Kill}BeforeMs; each of the three is scaled by lease_ms / 200 s when lease_ms < 200 s.
// A renewal that comes between the checkpoint request and the stop signal withdraws the request (the notice file is removed).
struct Renew {
  int64_t lease_end_boottime_ms = 0;
  int64_t lease_ms = 0;  // the length granted, for the rule above; 0: what is left now
};

// The whole node will be taken: the notice file appears for every attempt, then each gets its stop signal, and SIGKILL at the deadline.
struct Notice {
  int64_t deadline_boottime_ms = 0;  // required
  Initiator initiator = Initiator::kProvider;
  std::string reason;  // for the notice file; "" is "notice"
};

// Ends one attempt politely: notice file, stop signal, SIGKILL of the tree when grace is over. A second Stop can only bring the end closer;
// the first recorded cause stays.
struct Stop {
  std::string key;
  EndCause cause = EndCause::kCancelled;  // what the end counts as
  Initiator initiator = Initiator::kScheduler;
  std::string reason;                // one word for the notice file: "preempted", "cancelled", ...; "" is the cause in lower case
  std::string detail;                // for people
  int64_t grace_ms = -1;             // -1: the attempt's own; 0: SIGKILL at once
  int64_t deadline_boottime_ms = 0;  // the kill is at the earlier of grace and deadline
};

// SIGKILL of the whole tree, now.
struct Kill {
  std::string key;
  EndCause cause = EndCause::kCancelled;
  Initiator initiator = Initiator::kScheduler;
  std::string detail;
};

struct List {};  // answered by Inventory frames
struct Ack {
  uint64_t number = 0;
};                   // every event up to this number is the worker's now; an acked Exited also ends the attempt's row
struct Shutdown {};  // refused (FAILED_PRECONDITION) while attempts live; else the supervisor leaves

// ---- supervisor to worker ----

// How well a tree is held: kCgroup: cgroup v2; kReaper: one reaper process an attempt, which is also exact but costs a process.
enum class Containment { kUnspecified = 0, kCgroup = 1, kReaper = 2 };

struct Reply {
  uint64_t request = 0;
  int64_t code = 0;  // absl::StatusCode
  std::string message;
};

struct Metric {
  std::string name;
  double value = 0;
  bool operator==(const Metric&) const = default;
};

struct Started {
  int64_t pid = 0;          // of the user's main process
  int64_t start_ticks = 0;  // with pid, names the process for ever (base/subprocess.h)
  std::string cgroup;       // absolute folder, "" under a reaper
  bool memory_enforced = false;
  bool pids_enforced = false;
};

// The newest progress of an attempt; earlier ones that were not fetched are gone.
struct Progress {
  int64_t step = 0;
  int64_t total = 0;  // 0: not said
  std::vector<Metric> metrics;
};

// The job says that it committed a checkpoint (MANIFEST already written). `json` is the whole message, for what this struct does not name.
struct Checkpoint {
  int64_t step = 0;
  std::string path;
  std::string json;
};

// The stop signal or notice was shown to the job.
struct Stopping {
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  std::string reason;
  int64_t kill_at_boottime_ms = 0;
};

// Everything known about an end; EndOf (end_of_attempt.h) turns it into cause, initiator and detail.
struct ExitFacts {
  // How the main process ended.
  bool exited = false;  // called exit: exit_code holds
  int64_t exit_code = 0;
  int64_t signal = 0;                 // else killed by this signal
  int64_t launch_errno = 0;           // else it never ran the command
  std::string launch_error;           // "exec ./train: No such file or directory"
  bool launch_error_is_jobs = false;  // the command or folder is at fault, not the node
  bool supervisor_lost = false;       // the supervisor itself died while it ran; nothing above is known
  // What was asked of it.
  EndCause stop_cause = EndCause::kUnspecified;  // of the first Stop, Kill, Notice, limit or lease; kUnspecified: nobody stopped it
  Initiator stop_initiator = Initiator::kUnspecified;
  std::string stop_detail;
  bool stop_delivered = false;     // the job could know of it before it ended: notice file written or signal sent
  bool stop_withdrawn = false;     // it was a lease's checkpoint request, and a renewal took it back
  bool killed = false;             // SIGKILL of the tree was sent while the main process lived
  bool lease_lapsed = false;       // the lease had ended before the tree was gone
  bool out_of_memory = false;      // a process of the tree was killed for its memory limit, by the kernel or, where it cannot, by the supervisor
  int64_t forks_refused = 0;       // the tree asked for more processes than its limit, so often
  std::string disk_full;           // what was full when the job ended, in words; "" nothing. The worker looks, before it calls EndOf
  bool disk_full_is_jobs = false;  // its own quota, not the machine's disk
  // What it said.
  bool said_completed = false;
  int64_t last_step = 0;
  int64_t last_total = 0;
  bool has_progress = false;
  int64_t checkpoints = 0;  // reported on the socket; the worker adds what its scan of manifests finds before it calls EndOf
  int64_t last_checkpoint_step = 0;
  int64_t garbage_messages = 0;
  // Measured.
  int64_t started_boottime_ms = 0;
  int64_t ended_boottime_ms = 0;  // the tree was proven gone
  int64_t cpu_ms = 0;             // user + system, of the main process and the children it waited for
  int64_t memory_peak_bytes = 0;  // of the tree under a memory controller, else of the largest process
  int64_t log_bytes = 0;          // the log's end offset
  std::string log_error;          // the log could not be written: why
  int64_t leftovers_killed = 0;   // processes that outlived the main process; 0 also when their number is unknown
};

// The whole tree is proven gone. The last event of an attempt.
struct Exited {
  ExitFacts facts;
};

struct Event {
  uint64_t number = 0;  // from 1 in each life of a supervisor, growing, with gaps (replaced progress)
  AttemptRef attempt;
  int64_t at_boottime_ms = 0;
  std::variant<Started, Progress, Checkpoint, Stopping, Exited> what;
};

struct InventoryItem {
  AttemptRef attempt;
  AttemptState state = AttemptState::kUnspecified;  // STARTING, RUNNING, STOPPING or ENDED (its Exited is not acked yet)
  int64_t pid = 0;
  int64_t started_boottime_ms = 0;
  Progress progress;  // the newest
  int64_t checkpoints = 0;
  EndCause stop_cause = EndCause::kUnspecified;
  int64_t kill_at_boottime_ms = 0;
  std::string log_path;
  int64_t log_bytes = 0;
  std::string tag;
};

struct Inventory {
  uint32_t version = kProtocolVersion;
  std::string boot_id;  // new for every life of the supervisor: event numbers count within it
  int64_t pid = 0;
  std::string build;  // of the running supervisor, which may be older than the worker
  Containment containment = Containment::kUnspecified;
  bool memory_limits = false;  // a memory controller is writable; where not, the supervisor looks now and then and kills
  bool pids_limits = false;    // likewise, of the number of processes
  std::string reaper_because;  // why there are no cgroups
  int64_t lease_end_boottime_ms = 0;
  std::vector<InventoryItem> items;
  bool more = false;
};

struct ToSupervisor {
  uint64_t request = 0;  // != 0 asks for a Reply with the same number (Hello, List and Ack have none)
  std::variant<Hello, Start, Renew, Notice, Stop, Kill, List, Ack, Shutdown> what;
};

using FromSupervisor = std::variant<Inventory, Reply, Event>;

// INVALID_ARGUMENT when the frame would be larger than limits::kSupervisorFrameBytesMax.
absl::StatusOr<std::string> Encode(const ToSupervisor& frame);
absl::StatusOr<std::string> Encode(const FromSupervisor& frame);

// FAILED_PRECONDITION for another format version; INVALID_ARGUMENT for anything that is not one whole frame.
absl::StatusOr<ToSupervisor> DecodeToSupervisor(absl::string_view bytes);
absl::StatusOr<FromSupervisor> DecodeFromSupervisor(absl::string_view bytes);

// OK when the supervisor can take it: lengths, counts, printable key, absolute paths, "K=V" pairs, no NUL bytes. Names the field.
absl::Status Validate(const Start& start);

// One attempt's end, for the journal.
std::string EncodeExit(const AttemptRef& attempt, const ExitFacts& facts, int64_t at_boottime_ms);
absl::StatusOr<Event> DecodeExit(absl::string_view bytes);

}  // namespace spillway::frames
