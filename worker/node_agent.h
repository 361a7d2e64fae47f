// The worker at work: one loop that hands what happens to SessionLogic and carries out what it answers. Owns the supervisor's connection, the
// scheduler's link, the report log, staging and the threads that wait for disks. Decides nothing: SessionLogic does.
//
// Everything slow happens elsewhere: staging and cleaning up on one thread, looking at checkpoints on another, gRPC on its own. What they find
// comes back through Post. The loop waits for descriptors and for SessionLogic's next time, never for a disk.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "worker/disk_watch.h"
#include "worker/machine.h"
#include "worker/node_home.h"
#include "worker/rendezvous.h"
#include "worker/report_log.h"
#include "worker/scheduler_link.h"
#include "worker/session_logic.h"
#include "worker/staging.h"
#include "worker/supervisor_client/supervisor_client.h"
#include "worker/work_thread.h"

namespace spillway::worker {

struct AgentOptions {
  SessionConfig session;  // with everything of the node but boot_id, isolation, inventory, cluster and node id
  LinkOptions link;
  supervisor::ClientOptions supervisor;
  std::vector<int> device_indices;
  std::string address;  // where other nodes reach this one; "": as the scheduler sees it
  DiskLimits disk;
  int64_t pids_max = frames::kAttemptPidsMax;  // of one attempt
  int signal_fd = -1;                          // a signalfd of SIGTERM and SIGINT; -1: none
  bool stop_jobs_on_exit = false;              // what such a signal means: detach (attempts go on under the supervisor), or drain first
  int64_t max_lifetime_ms = 0;                 // drain and exit after this; 0: never
};

class NodeAgent {
 public:
  NodeAgent(AgentOptions options, NodeHome* home);
  ~NodeAgent();

  // From any thread.
  void Post(Input input);

  // Until told to leave; the exit code. An error when this node cannot work at all (no supervisor, unreadable home).
  absl::StatusOr<int> Run();

 private:
  struct Staged {
    AttemptId attempt;
    absl::StatusOr<StartPlan> plan;
  };

  absl::Status Begin();
  absl::Status ConnectSupervisor();
  void LoseSupervisor(const absl::Status& why);
  void WaitForSomething();
  void ReadInbox();
  void ReadSupervisor();
  void ReadSignals();
  void Handle(const Input& input);
  void OnReply(const frames::Reply& reply);
  void OnStaged(Staged staged);
  void WatchDisk(const AttemptId& attempt);
  void RemoveForeignFolders(const frames::Inventory& inventory);

  void CarryOut(Connect& out);
  void CarryOut(Disconnect& out);
  void CarryOut(SendFrame& out);
  void CarryOut(StartAttempt& out);
  void CarryOut(ReserveRendezvous& out);
  void CarryOut(StopAttempt& out);
  void CarryOut(KillAttempt& out);
  void CarryOut(NoticeAttempts& out);
  void CarryOut(RenewLease& out);
  void CarryOut(AckEvents& out);
  void CarryOut(CheckCheckpoint& out);
  void CarryOut(ScanCheckpoints& out);
  void CarryOut(SaveReports& out);
  void CarryOut(SaveReportAck& out);
  void CarryOut(SaveNode& out);
  void CarryOut(CleanUp& out);
  void CarryOut(LogLine& out);
  void CarryOut(Exit& out);

  void PostStaged(Staged staged);
  void WakeUp();
  std::string CheckpointRoot() const;
  std::string CheckpointFolder(const std::string& checkpoint_dir) const;  // "" when that is no path in the store
  // Logs what a command to the supervisor came to: a lost connection is noticed, and repaired, where it is read.
  void Sent(const absl::Status& status, absl::string_view what);
  void ReportLogWritten(const absl::Status& status);
  void AckWhatIsSaved();

  const AgentOptions options_;
  NodeHome* const home_;
  RealClock clock_;
  int wake_fd_ = -1;
  NodeIdentity identity_;
  std::unique_ptr<ReportLog> reports_;
  std::unique_ptr<SessionLogic> logic_;
  supervisor::SupervisorClient supervisor_;
  int64_t supervisor_retry_at_ms_ = 0;  // > 0: not connected
  int64_t supervisor_since_ms_ = 0;     // connected
  std::string supervisor_boot_;
  uint64_t ack_waits_ = 0;  // events that the supervisor may forget once the report log is whole; 0: none
  bool folders_checked_ = false;
  std::map<uint64_t, AttemptId> starts_;  // START requests without their reply
  // Attempts that are being staged, with the commands that came meanwhile and must follow their START.
  std::map<AttemptId, std::vector<std::variant<frames::Stop, frames::Kill>>> staging_;
  std::map<AttemptId, HeldPort> held_ports_;  // where members are to meet, until the one that listens there starts
  int64_t report_log_warned_ms_ = 0;
  int64_t mend_at_ms_ = 0;  // while the report log is not whole
  bool draining_ = false;
  int64_t drain_at_ms_ = LeaseKeeper::kNever;
  std::optional<int> exit_code_;

  Mutex mutex_;
  std::deque<Input> inbox_ ABSL_GUARDED_BY(mutex_);  // bounded by what is asked: one frame, checks of unacked events, notices
  std::deque<Staged> staged_ ABSL_GUARDED_BY(mutex_);

  // Last: their threads use what stands above.
  std::unique_ptr<SchedulerLink> link_;
  std::unique_ptr<WorkThread> stager_;
  std::unique_ptr<WorkThread> examiner_;
  std::unique_ptr<DiskWatch> disk_watch_;
};

}  // namespace spillway::worker
