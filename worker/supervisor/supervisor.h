// The attempts of one node and the authority they run under: takes commands, children's ends and time; fills the event queue.
// Goes on alone when the worker is gone, until the lease ends. Never talks to a socket itself: server.h does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "worker/frames/frames.h"
#include "worker/supervisor/attempt.h"
#include "worker/supervisor/lease.h"

namespace spillway::supervisor {

struct SupervisorParts {
  EventLoop* loop;
  EventQueue* events;
  Journal* journal;
  CgroupPool* cgroups;  // nullptr: under reapers
  Clock* clock;
  std::string home_id;
  std::string run_prefix;
  std::string secrets_root;
  std::string reaper_because;  // why there are no cgroups
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorParts parts);

  // What the life before left, all of it dead by now: its ends, known or NODE_LOST, are events again.
  void Adopt(const JournalContent& journal);

  // Any command but Hello and List.
  absl::Status Handle(frames::ToSupervisor command);
  // All attempts, running or ended and not acknowledged; parts of a bounded size, at least one.
  std::vector<frames::Inventory> Inventories() const;

  void ReapChildren();
  void OnTime();
  int64_t NextDueMs() const;
  // The machine or an operator asks this process to leave (SIGTERM): every attempt is stopped within its grace; the second time it is killed.
  void AskToLeave();

  size_t living() const { return living_; }
  bool leaving() const { return leaving_; }  // asked to, or told to by Shutdown

 private:
  absl::Status Start(frames::Start start);
  absl::Status Stop(const frames::Stop& stop);
  absl::Status Kill(const frames::Kill& kill);
  absl::Status Notice(const frames::Notice& notice);
  void Renew(const frames::Renew& renew);
  void ApplyLease(int64_t now);
  void LookAtUse(int64_t now);
  void Changed(Attempt* attempt);
  std::set<pid_t> Strays() const;
  std::vector<Attempt*> Living() const;
  absl::StatusOr<Attempt*> Find(const std::string& key) const;

  AttemptContext context_;
  const std::string boot_id_;
  std::map<std::string, std::unique_ptr<Attempt>> attempts_;
  std::map<std::string, frames::InventoryItem> adopted_;  // ended in an earlier life, not acknowledged
  std::unordered_map<pid_t, Attempt*> by_pid_;
  std::set<std::pair<int64_t, Attempt*>> timers_;
  size_t living_ = 0;
  int64_t next_sequence_ = 1;
  Lease lease_;
  LeaseStage applied_stage_ = LeaseStage::kNone;  // no lease-bound attempt starts after kHeld, so once a stage is enough
  int64_t notice_until_ms_ = 0;                   // no new attempt before this: the node is to be taken then
  bool leaving_ = false;
  int64_t look_at_use_ms_ = 0;  // 0: no attempt is watched
  const std::string reaper_because_;
};

}  // namespace spillway::supervisor
