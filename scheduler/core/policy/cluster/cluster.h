// Many tasks, reserved machines that are paid for already, and offers to spill to: the words that every policy of this folder shares. A policy answers what
// starts now, where, and what makes way for it, from the queue, what runs, free capacity, predicted durations, deadlines and prices. The simulator asks it;
// the scheduler's Decide can, with the same objects of the core.
//
// A policy is a pure function of the View: no clock, no randomness, no memory of its own. It is idempotent: once its decision is carried out, the same
// question at the same time is answered with nothing. The order in which a View lists tasks, nodes and offers means nothing.
// Times and durations are milliseconds, money is micros, amounts of work are device-milliseconds.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/core/fit/room.h"
#include "scheduler/core/model.h"

namespace spillway::core::cluster {

// What changing machines costs, as observed.
struct Overheads {
  int64_t boot_ms = 0;     // until a machine that is asked for works
  int64_t restore_ms = 0;  // at the start of an attempt that resumes
  int64_t lost_ms = 0;     // the most work that a machine taken without notice loses
};

struct QueuedWork {
  TaskId id;
  std::string owner;
  const Shape* shape = nullptr;
  int64_t arrived_ms = 0;   // when the task came
  int64_t queued_ms = 0;    // since when it waits this time
  int64_t left_ms = 0;      // predicted work left; above 0
  int64_t deadline_ms = 0;  // 0: none
  int64_t attained = 0;     // device-ms worked so far
  bool resumes = false;     // its next attempt restores a checkpoint
  int64_t moved_ms = 0;     // when a policy last made it change machines; 0: never
};

struct RunningWork {
  QueuedWork work;              // left_ms: from now on, without what is left of boot and restore; resumes: whether it would, if it were stopped now
  std::vector<Member> members;  // on reserved nodes; empty on a machine of an offer
  OfferKey offer;
  int64_t started_ms = 0;     // of this attempt
  int64_t works_from_ms = 0;  // boot and restore end then
  bool moving = false;        // its next machine boots while this one works on

  bool reserved() const { return !members.empty(); }
};

struct ReservedNode {
  const Node* node = nullptr;
  Room room;  // free
};

struct OpenOffer {
  const Offer* offer = nullptr;
  int64_t available = -1;                // machines that it gives now; -1: whatever is asked
  int64_t expected_micros_per_hour = 0;  // of useful work on one of them (policy/offers.h)
};

struct View {
  int64_t now_ms = 0;
  Overheads overheads;
  std::vector<QueuedWork> waiting;
  std::vector<RunningWork> running;
  std::vector<ReservedNode> reserved;
  std::vector<OpenOffer> offers;
  std::map<std::string, int64_t> reserved_used;  // device-ms that each owner had of the reserved nodes
};

// A task that waits, or one that runs: that one moves.
struct Start {
  TaskId task;
  std::vector<Member> members;  // on reserved nodes; empty: machines of `offer`, one a member
  OfferKey offer;
  bool beside = false;  // the task runs on where it is until these machines have booted
  bool operator==(const Start&) const = default;
};

struct Decision {
  std::vector<TaskId> stops;  // checkpoint and make way; it waits again, unless `starts` names it
  std::vector<Start> starts;
  int64_t wake_ms = std::numeric_limits<int64_t>::max();  // ask again then, even if nothing has happened
  bool empty() const { return stops.empty() && starts.empty(); }
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Decision Decide(const View& view) const = 0;
};

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Device-time, saturating. Devices of all members together; a task without devices counts as one.
int64_t DevicesOf(const Shape& shape);
// Work left and the restore it begins with, on a machine that stands ready.
int64_t NeedMs(const QueuedWork& work, const Overheads& overheads);
// When a running task is expected to end, boot and restore included.
int64_t ExpectedEndMs(const RunningWork& work, int64_t now_ms);
// The view once a decision about it is carried out, at the same time.
View After(const View& view, const Decision& decision);
// Arrival, then id: the order of a queue in which nothing else is said.
bool CameBefore(const QueuedWork& a, const QueuedWork& b);

}  // namespace spillway::core::cluster
