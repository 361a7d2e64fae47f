// The cloud's truth: which instances there are, what happens to them next, what they cost. Pure: no clock, no I/O, no threads.
//
// Commands check and return the events that would carry them out; the caller makes those durable in the ledger and then calls Apply, the only
// place where state changes. Replaying a ledger therefore gives the same cloud. What is owed to the outside (start this machine, kill that
// one) is derived from the state by Owed(), so it is derived anew after a crash.
//
// Times are milliseconds of REAL time since the ledger was opened ("cloud milliseconds" only inside the market, see config.h).
//
//   booting ──> running ──> stopping ──> ended       stopping: its end and bill are fixed, the machine is not yet proven dead
//      └───────────────────────┘
//
// Billing runs from creation to the moment the end was decided (boot included); a boot failure is the cloud's fault and costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "playground/config.h"

namespace spillway::playground {

enum class InstanceState { kBooting, kRunning, kStopping, kEnded };
enum class EndReason { kNone, kUser, kReclaimed, kReclaimedWithoutNotice, kCrashed, kBootFailed, kLeaseExpired };

absl::string_view NameOf(InstanceState state);
absl::string_view NameOf(EndReason reason);
std::optional<EndReason> EndReasonOf(absl::string_view name);

// What is to run on the machine. `argv` empty means the sibling spillway-worker with its usual flags (worker_command.h).
struct WorkerSpec {
  std::string server;      // where the worker finds its scheduler
  std::string token_file;  // what it joins with
  std::string node_name;
  std::string provider = "playground";  // what the scheduler's configuration calls this cloud
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  bool operator==(const WorkerSpec&) const = default;
};

struct CreateRequest {
  std::string client_token;
  std::string offer;
  std::string name;
  std::map<std::string, std::string> tags;
  WorkerSpec worker;
  int64_t self_terminate_after_ms = 0;  // 0: never. Otherwise the machine ends itself this long after its last keepalive
  bool operator==(const CreateRequest&) const = default;
};

// The offer's terms at creation: a bill never changes because the configuration did.
struct Terms {
  bool spot = false;
  std::string instance_type, zone, region;
  GpuShape gpus;
  int64_t cpus = 0, memory_bytes = 0, disk_bytes = 0;
  pricing::BillingRule billing;
  bool operator==(const Terms&) const = default;
};

// Events. `instance` is its number, from 1.
struct Opened {  // first in a ledger, and again after every reboot of the machine: it anchors the time line
  std::string cloud_id;
  std::string boot_id;
  int64_t steady_ms = 0;  // CLOCK_BOOTTIME at the moment 0 of this boot's time line (may be negative)
  int64_t utc_ms = 0;     // wall clock at the moment 0
  uint64_t seed = 0;
  int64_t scale = 1;
};
struct Created {
  int64_t instance = 0;
  CreateRequest request;
  Terms terms;
  int64_t ordinal = 0;  // the how-many-th of its offer, from 0
  int64_t boot_until_ms = 0;
  int64_t announce_at_ms = -1;  // -1: never
  int64_t gone_at_ms = -1;      // -1: never
  bool boot_fails = false;
};
struct Started {
  int64_t instance = 0;
  int64_t pid = 0;
  int64_t start_ticks = 0;
};
struct ReclaimOrdered {
  int64_t instance = 0;
  int64_t announce_at_ms = -1;
  int64_t gone_at_ms = 0;
};
struct Announced {
  int64_t instance = 0;
};
struct Ending {
  int64_t instance = 0;
  EndReason reason = EndReason::kNone;
  std::string detail;
  int64_t billed_ms = 0;
  int64_t charge_micros = 0;
};
struct Gone {
  int64_t instance = 0;
};

struct Event {
  int64_t at_ms = 0;
  std::variant<Opened, Created, Started, ReclaimOrdered, Announced, Ending, Gone> what;
};

struct Instance {
  int64_t number = 0;
  std::string id;  // "i-000017"
  CreateRequest request;
  Terms terms;
  InstanceState state = InstanceState::kBooting;
  int64_t ordinal = 0;
  bool boot_fails = false;
  int64_t created_ms = 0;
  int64_t boot_until_ms = 0;
  int64_t started_ms = -1;
  int64_t announce_at_ms = -1;
  int64_t announced_ms = -1;
  int64_t gone_at_ms = -1;
  int64_t ended_ms = -1;  // when its end was decided and billing stopped
  EndReason end_reason = EndReason::kNone;
  std::string end_detail;
  int64_t pid = 0;  // 0: no process (not started, or proven dead)
  int64_t start_ticks = 0;
  int64_t billed_ms = 0;  // final, once stopping
  int64_t charge_micros = 0;
  int64_t kept_alive_ms = 0;  // volatile: the last keepalive; counts anew after a restart
};

// What the state owes the outside. Doing one twice must be harmless.
struct Owed {
  enum class Kind { kStart, kKill, kBury };  // bury: no process is left, delete what it left behind
  Kind kind;
  int64_t instance;
};

struct Totals {
  int64_t created = 0;
  int64_t alive = 0;            // booting or running: billing goes on
  int64_t final_micros = 0;     // of instances whose end is decided
  int64_t accruing_micros = 0;  // of those alive, up to now
};

class Cloud {
 public:
  explicit Cloud(CloudConfig config) : config_(std::move(config)) {}

  // Commands. Statuses: INVALID_ARGUMENT; NOT_FOUND; RESOURCE_EXHAUSTED (no capacity); ALREADY_EXISTS (client token used for something else);
  // FAILED_PRECONDITION (the instance has ended).
  struct CreateOutcome {
    int64_t instance = 0;
    std::vector<Event> events;  // empty when the token is known: the same instance as before
  };
  absl::StatusOr<CreateOutcome> Create(const CreateRequest& request, int64_t now_ms) const;
  absl::StatusOr<std::vector<Event>> Terminate(int64_t instance, int64_t now_ms) const;  // no events when it has ended already
  // The market wants it back: gone after notice_ms, announced now; without notice when 0. Never later than what was already fixed.
  absl::StatusOr<std::vector<Event>> OrderReclaim(int64_t instance, int64_t notice_ms, int64_t now_ms) const;
  absl::Status KeepAlive(int64_t instance, int64_t now_ms);  // volatile

  // What became of the processes. Unknown or ended instances give no events.
  std::vector<Event> ProcessStarted(int64_t instance, int64_t pid, int64_t start_ticks, int64_t now_ms) const;
  std::vector<Event> StartFailed(int64_t instance, absl::string_view error, int64_t now_ms) const;
  // `died_ms`: when; earlier than now where that is known.
  std::vector<Event> ProcessGone(int64_t instance, int64_t died_ms, absl::string_view detail, int64_t now_ms) const;
  std::vector<Event> Buried(int64_t instance, int64_t now_ms) const;

  // What time alone brings about by now: announcements, reclaims, boot failures, expired leases.
  std::vector<Event> Due(int64_t now_ms) const;
  std::vector<Owed> WhatIsOwed(int64_t now_ms) const;
  // The next moment at which Due or WhatIsOwed may have something new; nullopt: never.
  std::optional<int64_t> NextDeadlineMs(int64_t now_ms) const;

  // INVALID_ARGUMENT when the event cannot follow the present state: a damaged ledger, or a broken caller.
  absl::Status Admissible(const Event& event) const;
  void Apply(const Event& event);  // requires Admissible
  // After a replay: leases of living instances count from now, so that an outage of the cloud ends nobody.
  void RestartLeases(int64_t now_ms);

  const CloudConfig& config() const { return config_; }
  const std::optional<Opened>& opened() const { return opened_; }
  int64_t last_event_ms() const { return last_event_ms_; }
  const Instance* Find(int64_t instance) const;
  const Instance* FindById(absl::string_view id) const;
  const std::map<int64_t, Instance>& instances() const { return instances_; }
  int64_t AliveOf(absl::string_view offer) const;  // counts against capacity: not ended
  bool OpenFor(const Offer& offer, int64_t now_ms) const { return offer.market.AvailableAt(now_ms * config_.scale); }
  Totals TotalsAt(int64_t now_ms) const;

 private:
  Event EndingOf(const Instance& instance, EndReason reason, absl::string_view detail, int64_t end_ms, int64_t now_ms) const;
  void Forget();

  CloudConfig config_;
  std::optional<Opened> opened_;
  int64_t last_event_ms_ = 0;
  int64_t next_number_ = 1;
  std::map<int64_t, Instance> instances_;  // newest kInstancesKept ended ones, and all others
  std::set<int64_t> unended_;              // keys of instances_ not ended: all periodic work walks only these
  std::map<std::string, int64_t> by_token_;
  std::map<std::string, int64_t> ordinals_;  // instances ever created, by offer
  std::map<std::string, int64_t> alive_of_;
  int64_t final_micros_ = 0;
};

inline constexpr size_t kInstancesKept = 20'000;

std::string InstanceIdOf(int64_t number);

}  // namespace spillway::playground
