// A node's supervisor in the simulation: what worker/supervisor promises to a worker, over processes that are state machines. The lease rule, the event
// queue and the frames are the real ones; launching, signals and journals are played.
//
// Owns the attempts of one life: their stops, their facts, their events. Its processes belong to the machine and outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sim/faults.h"
#include "sim/sim_process.h"
#include "worker/frames/frames.h"
#include "worker/supervisor/event_queue.h"
#include "worker/supervisor/lease.h"

namespace spillway::sim {

// What a life leaves on the disk for the next one.
struct JournalEntry {
  frames::AttemptRef attempt;
  bool ended = false;
  frames::ExitFacts facts;
};

class SimSupervisor {
 public:
  struct Surroundings {
    World* world = nullptr;
    MachineClock* clock = nullptr;
    bool obeys_lease = true;  // false, and those below true: planted bugs
    bool tells_before_gone = false, starts_twice = false;
  };
  // What the journal says is over, except what ended already, was lost with the life before.
  SimSupervisor(Surroundings around, std::string boot_id, const std::vector<JournalEntry>& journal);
  std::vector<JournalEntry> Journal() const;

  // A worker connects: from here on it hears every event that is not acked, oldest first. Null: it is gone.
  void Attach(std::function<void(const frames::Event&)> worker);
  frames::Inventory Inventory() const;
  const std::string& boot_id() const { return boot_id_; }

  // The commands of frames.h. `make` gives the process once the start is accepted.
  absl::Status Start(const frames::AttemptRef& attempt, std::string tag, int64_t grace_ms, int64_t total_steps,
                     const std::function<std::shared_ptr<SimProcess>()>& make);
  void Stop(const frames::Stop& stop);
  void Kill(const frames::Kill& kill);
  void Notice(const frames::Notice& notice);
  void Renew(const frames::Renew& renew);
  void Ack(uint64_t number);

  int64_t lease_end_ms() const { return lease_.end_ms(); }  // on the machine's clock; 0: none
  bool idle() const { return living_ == 0; }

 private:
  struct Order {
    EndCause cause;
    Initiator initiator;
    std::string reason, detail;
    int64_t kill_at_ms;
  };
  struct Row {
    frames::AttemptRef ref;
    std::string tag;
    int64_t grace_ms = 0, total = 0;
    std::shared_ptr<SimProcess> process;
    frames::ExitFacts facts;
    frames::Progress progress;
    bool started = false, signalled = false, lease_requested = false, ended = false;
    int64_t kill_at_ms = 0;
  };

  void StopRow(Row* row, const Order& order);
  void KillRow(Row* row, const Order& order);
  void ShowNotice(Row* row, const Order& order);
  static void Record(Row* row, const Order& order);
  void ApplyLease();
  void WatchLease();
  void OnGone(Row* row, const ProcessEnd& end);
  void Emit(const Row& row, decltype(frames::Event::what) what);
  void Tell();
  Row* Living(const std::string& key);
  Order LeaseOrder(const char* detail) const;
  void KillAt(Row* row, int64_t at_ms);
  void KillProcess(Row* row);

  const Surroundings around_;
  const std::string boot_id_;
  Life life_;
  std::map<std::string, std::unique_ptr<Row>> rows_;  // by key, until the end is acked
  std::vector<frames::InventoryItem> adopted_;
  std::map<std::string, frames::ExitFacts> adopted_facts_;
  size_t living_ = 0;
  supervisor::EventQueue events_;
  supervisor::Lease lease_;
  supervisor::LeaseStage applied_stage_ = supervisor::LeaseStage::kNone;
  int64_t notice_until_ms_ = 0;
  std::function<void(const frames::Event&)> worker_;
  uint64_t told_ = 0;
  int64_t attachment_ = 0;
};

}  // namespace spillway::sim
