// One machine: its clock, its processes, its supervisor, its worker. The worker's decisions are the real SessionLogic (with its LeaseKeeper and report
// numbers); everything it asks for is played here: the stream, the supervisor's socket, staging, the store, the files that outlive it.
//
// Owns the machine's disk (saved reports, identity, journal) and who of its inhabitants lives. Never decides what an attempt deserves.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "sim/checkpoint_store.h"
#include "sim/faults.h"
#include "sim/machine_clock.h"
#include "sim/network.h"
#include "sim/observer.h"
#include "sim/sim_process.h"
#include "sim/sim_supervisor.h"
#include "worker/session_logic.h"

namespace spillway::sim {

struct NodeSetup {
  std::string name, provider, instance_id, zone, region;
  Market market = Market::kUnspecified;
  core::Capacity capacity;
  int64_t rate_ppm = 0;
  int64_t zero_ms = 1'000;
};

// Test-only: how a planted bug makes the worker's surroundings wrong.
struct NodeBugs {
  bool lease_from_receipt = false;  // the lease is counted from when its acknowledgement came
  bool lease_not_obeyed = false;    // the supervisor lets attempts run on
  bool told_before_gone = false;    // the supervisor says that an attempt has ended when it was killed, not when it is gone
  bool starts_twice = false;        // the supervisor starts what it knows already
  bool starts_given_up = false;     // what was given up while it was staged is started all the same
  bool reports_not_saved = false;   // the worker's numbered reports do not outlive it
  bool events_acked_early = false;  // the supervisor's events are acked when they come, not when what follows from them is saved
};

class SimNode final : public NodeEnd {
 public:
  struct Surroundings {
    World* world = nullptr;
    Network* network = nullptr;
    CheckpointStore* store = nullptr;
    Observer* observer = nullptr;
    const Faults* faults = nullptr;
    const NodeBugs* bugs = nullptr;
    std::function<void(SimNode*)> left;  // the worker exited for good: what happens to the machine is its owner's affair
  };
  SimNode(Surroundings around, NodeSetup setup);

  const std::string& name() const { return setup_.name; }
  const NodeSetup& setup() const { return setup_; }
  bool powered() const { return powered_; }
  bool frozen() const { return clock_.frozen(); }
  bool ever_frozen() const { return ever_frozen_; }
  // Its provider said that it has ended, and it had not.
  bool disowned() const { return disowned_; }
  void Disown() { disowned_ = true; }
  bool in_session() const { return worker_ != nullptr && worker_->logic->in_session(); }
  int64_t living_processes() const;
  // True time at which the lease that its supervisor holds is over; 0: it holds none.
  int64_t LeaseEndTrueMs() const;

  void PowerOn();
  void PowerOff();                 // everything on it is gone at once
  void LoseDisk() { disk_ = {}; }  // only while it is off
  void WorkerDies(int64_t back_in_ms);
  void WorkerComesBack(int64_t in_ms);  // after it left for good
  void PauseWorker(int64_t ms);         // its process does not run, everything around it does
  void SupervisorDies(int64_t back_in_ms);
  void Freeze(int64_t ms);
  void Notice(int64_t in_ms, const std::string& source, bool advisory);  // its metadata says so

  // NodeEnd
  void StreamFrame(StreamId stream, const worker::SchedulerFrame& frame) override;
  void StreamBroken(StreamId stream, const std::string& why) override;

 private:
  struct Disk {
    worker::SavedReports reports;
    std::string cluster_uuid;
    NodeId node_id = 0;
    std::vector<JournalEntry> journal;
  };
  struct Worker {
    std::unique_ptr<worker::SessionLogic> logic;
    Life life;
    int64_t session = 0;
    StreamId stream = 0;
    bool frame_seen = false;
    int64_t tick_at_ms = 0;
    // Attempts being staged, with the commands that must follow their START.
    std::map<std::string, std::vector<std::variant<frames::Stop, frames::Kill>>> staging;
    bool paused = false;
    std::deque<World::Task> when_awake;
  };

  void StartSupervisor();
  void StartWorker();
  void Meet();  // worker and supervisor find each other
  void Hand(const worker::Input& input);
  void ArmTick();
  void Later(int64_t ms, worker::Input input);  // to this life of the worker
  std::shared_ptr<SimProcess> MakeProcess(const worker::Offer& offer, const JobPlan& plan);
  worker::CheckpointFound FoundOf(const Manifest& manifest) const;

  void CarryOut(worker::Connect& out);
  void CarryOut(worker::Disconnect& out);
  void CarryOut(worker::SendFrame& out);
  void CarryOut(worker::StartAttempt& out);
  void CarryOut(worker::ReserveRendezvous& out);
  void CarryOut(worker::StopAttempt& out);
  void CarryOut(worker::KillAttempt& out);
  void CarryOut(worker::NoticeAttempts& out);
  void CarryOut(worker::RenewLease& out);
  void CarryOut(worker::AckEvents& out);
  void CarryOut(worker::CheckCheckpoint& out);
  void CarryOut(worker::ScanCheckpoints& out);
  void CarryOut(worker::SaveReports& out);
  void CarryOut(worker::SaveReportAck& out);
  void CarryOut(worker::SaveNode& out);
  void CarryOut(worker::CleanUp& out) {}
  void CarryOut(worker::LogLine& out);
  void CarryOut(worker::Exit& out);
  void OnStaged(const worker::Offer& offer, const std::string& key, const std::string& spec);

  const Surroundings around_;
  const NodeSetup setup_;
  MachineClock clock_;
  Rng rng_;
  Disk disk_;
  bool powered_ = false, ever_frozen_ = false, disowned_ = false;
  int64_t boots_ = 0;
  Life life_;  // of the machine, from power on to power off
  std::unique_ptr<SimSupervisor> supervisor_;
  std::unique_ptr<Worker> worker_;
  std::vector<std::shared_ptr<SimProcess>> processes_;
};

}  // namespace spillway::sim
