// What a worker decides, without doing any of it: inputs and the time go in, orders to its surroundings come out, in the order in which they
// must be carried out. The real worker (node_agent.h) and the simulation drive the same class.
//
// Owns: the session's state, which attempts this node knows, the numbering of reports, the lease. Does no I/O, reads no clock, has no thread.
//
// Promises, whatever is lost, repeated or reordered around it:
//   * An attempt is started at most once in the life of its supervisor, and never on devices that another still holds; a stale offer is answered FENCED.
//   * Every end the supervisor tells of is reported at least once, after every checkpoint of that attempt, with the same number and content
//     each time (numbers: report_book.h).
//   * A supervisor event is acked only when what follows from it was saved, so that a worker killed at any moment loses nothing.
//   * A notice is applied to the attempts at once, with or without a scheduler.
//
// One Inventory must come first (from the supervisor); nothing is connected before.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/rng.h"
#include "worker/frames/frames.h"
#include "worker/lease_keeper.h"
#include "worker/report_book.h"
#include "worker/session_frames.h"

namespace spillway::worker {

// clang-format off: one line a message reads best
// ---- inputs ----

struct Connected {
  int64_t session = 0;
};  // the stream of Connect{session} takes frames
struct Disconnected {
  int64_t session = 0;
  std::string why;
};
struct FrameReceived {
  int64_t session = 0;
  SchedulerFrame frame;
};
// frames::Inventory: after every (re)connection to the supervisor, its parts joined. frames::Event: as they come.
struct StartRefused {
  AttemptId attempt;
  EndCause cause = EndCause::kLaunchFailed;
  Initiator initiator = Initiator::kNode;
  std::string detail;
};  // staging or the supervisor said no; nothing runs
// Answers CheckCheckpoint. `ok` false: not a checkpoint of this attempt; `why` goes to the log and nothing is reported.
struct CheckpointChecked {
  AttemptId attempt;
  uint64_t event = 0;
  bool ok = false;
  CheckpointFound checkpoint;
  std::string why;
};
// Answers ScanCheckpoints: every committed checkpoint in the attempt's directory, in any order. `error`: the store did not answer.
struct ScanResult {
  AttemptId attempt;
  std::vector<CheckpointFound> committed;
  std::string error;
  std::string disk_full;           // what is full at the end of the attempt, in words; "" nothing
  bool disk_full_is_jobs = false;  // its own quota
};
// The attempt's folder holds more than its quota, where nothing but the worker keeps it from going on.
struct DiskOver {
  AttemptId attempt;
  std::string detail;
};
// Answers ReserveRendezvous: "HOST:PORT" that the other members can reach; "" when there is none.
struct RendezvousReserved {
  AttemptId attempt;
  std::string rendezvous;
};
struct LocalNotice {
  int64_t in_ms = 0;
  std::string source;
  bool advisory = false;
};
// The worker was asked to leave and to take its jobs along: a notice of our own, then Exit when all is reported.
struct DrainAndExit {
  int64_t grace_ms = 0;
};
struct Tick {};

using Input = std::variant<Connected, Disconnected, FrameReceived, frames::Inventory, frames::Event, StartRefused, CheckpointChecked, ScanResult, DiskOver,
                           RendezvousReserved, LocalNotice, DrainAndExit, Tick>;

// ---- outputs ----

struct Connect {
  int64_t session = 0;
};  // answer with Connected or Disconnected
struct Disconnect {
  int64_t session = 0;
  std::string why;
};  // needs no answer; later inputs of that session are ignored
struct SendFrame {
  int64_t session = 0;
  WorkerFrame frame;
};
// Stage the attempt and send START with `key` and EncodeTag(offer) as its tag. Answered by the supervisor's events, or StartRefused.
struct StartAttempt {
  std::string key;
  Offer offer;
  std::shared_ptr<const std::string> spec;
};
// A port of this node for the members of a gang to meet at. Answered by RendezvousReserved.
struct ReserveRendezvous {
  AttemptId attempt;
};
struct StopAttempt {
  frames::Stop stop;
};
struct KillAttempt {
  frames::Kill kill;
};
struct NoticeAttempts {
  frames::Notice notice;
};
struct RenewLease {
  frames::Renew renew;
};
struct AckEvents {
  uint64_t number = 0;
};
// Answered by CheckpointChecked and ScanResult, those of one attempt in the order of the questions.
struct CheckCheckpoint {
  AttemptId attempt;
  uint64_t event = 0;
  std::string checkpoint_dir, job_uid;
  frames::Checkpoint said;
};
struct ScanCheckpoints {
  AttemptId attempt;
  std::string checkpoint_dir, job_uid;
};
// Save before the next output is carried out; what was saved is given to the constructor of the next life (SavedReports).
// `anew`: these reports replace everything saved before, and `acked` with it, in one step: all or nothing.
struct SaveReports {
  std::string boot_id;
  bool anew = false;
  int64_t acked = 0;
  std::vector<Report> reports;
};
struct SaveReportAck {
  int64_t seq = 0;
};  // in the life that was saved last
struct SaveNode {
  std::string cluster_uuid;
  NodeId node_id = 0;
  std::string store_url;
  int64_t incarnation = 0;
};  // newly learned: keep over restarts
// Its end is durable at the scheduler: delete the attempt's directory here, and its checkpoint directory if that is empty.
struct CleanUp {
  AttemptId attempt;
  std::string checkpoint_dir;
};
struct LogLine {
  bool warning = false;
  std::string text;
};
struct Exit {
  int code = 0;
  bool shutdown_supervisor = false;
  std::string why;
};  // the last output ever

using Output = std::variant<Connect, Disconnect, SendFrame, StartAttempt, ReserveRendezvous, StopAttempt, KillAttempt, NoticeAttempts, RenewLease, AckEvents,
                            CheckCheckpoint, ScanCheckpoints, SaveReports, SaveReportAck, SaveNode, CleanUp, LogLine, Exit>;
// clang-format on

struct SessionConfig {
  Hello node;               // boot_id, isolation and inventory are filled in from the supervisor's inventory
  std::string disk_limits;  // how attempts' disks are bounded here, for people
  int64_t incarnation = 0;  // the highest of the scheduler that has welcomed this node
  uint64_t seed = 1;        // spreads reconnects of many nodes
  int64_t connect_backoff_min_ms = 250;
  int64_t connect_backoff_max_ms = 5'000;
  int64_t welcome_timeout_ms = 20'000;  // from Connect
  int64_t silence_timeout_ms = 30'000;  // no acknowledged renewal for this long (at least three renewals): connect anew
  int64_t progress_every_ms = 500;      // per attempt, newest only
  int64_t node_lease_ms = 0;            // an instance somebody pays for ends itself after so long without a scheduler; 0: never
  size_t attempts_max = 4'096;          // living ones; more are refused
  size_t specs_bytes_max = 64 << 20;    // kept specs; the oldest unused go first
};

// The tag a START carries, which a supervisor gives back to the next worker. Bad bytes give an Offer with only what could be read.
std::string EncodeTag(const Offer& offer);
Offer DecodeTag(absl::string_view tag);

class SessionLogic {
 public:
  SessionLogic(SessionConfig config, SavedReports saved);

  // Everything that follows from one input at `now_ms` (steady, never decreasing). After Exit was put out, returns nothing any more.
  std::vector<Output> Handle(const Input& input, int64_t now_ms);
  // Handle(Tick) is due then; LeaseKeeper::kNever when nothing is waited for.
  int64_t NextWakeMs() const;

  // For status lines and tests.
  bool in_session() const { return phase_ == Phase::kWelcomed; }
  size_t living_attempts() const { return living_; }
  const LeaseKeeper& lease() const { return lease_; }
  const ReportBook& reports() const { return book_; }

  // Staging takes long, and meanwhile the attempt may have been given up: whoever stages asks again before the START goes out.
  bool MayStart(const AttemptId& attempt) const {
    const auto known = known_.find(attempt);
    return known != known_.end() && known->second.step == Step::kStarting;
  }
  // Set when it was told to end meanwhile: to be handled instead of sending the START.
  std::optional<StartRefused> InsteadOfStart(const AttemptId& attempt) const;

 private:
  enum class Phase { kNoSupervisor, kWaiting, kConnecting, kHelloSent, kWelcomed };
  // kHeld: waits for an older attempt of its task, or one that holds its devices, to be gone, for a lease, or for the other members. kScanning: its tree is
  // gone, its checkpoints are being listed.
  enum class Step { kHeld, kStarting, kRunning, kScanning, kEnded };

  struct Known {
    Offer offer;
    std::string key;
    std::shared_ptr<const std::string> spec;
    Step step = Step::kStarting;
    bool stopping = false;
    std::optional<frames::Kill> kill;  // said again when the supervisor comes back
    std::optional<frames::Stop> stop;
    frames::ExitFacts facts;  // from kScanning on
    uint64_t exit_event = 0;
    std::set<int64_t> steps;  // of checkpoints queued for reporting in this life of the worker
    frames::Progress progress;
    int64_t progress_sent_ms = 0;
    EndFacts end;  // kEnded
    bool end_durable = false;
    bool reserves = false;   // accepted once its rendezvous is reserved
    std::string rendezvous;  // which was reserved here
  };

  // session_logic.cc: the session.
  void On(const Connected& in);
  void On(const Disconnected& in);
  void On(const FrameReceived& in);
  void On(const LocalNotice& in);
  void On(const DrainAndExit& in);
  void On(const Tick& in);
  void OnWelcome(const Welcome& welcome);
  void OnGoodbye(const Goodbye& goodbye);
  void OnDurable(const std::vector<Report>& reports);
  void EndSession(absl::string_view why, int64_t wait_ms);
  void WaitToConnect(int64_t wait_ms);
  void SendHello();
  void SendReports(const std::vector<Report>& reports);
  void SendNotice();
  void SendProgress();
  void NumberAndSend();
  void AckFinishedEvents();
  void LeaseMoved();
  void WatchLease();
  void LeaveForGood(std::string why, EndCause cause, absl::string_view detail);
  void LeaveIfDone();
  void KeepSpec(const SpecData& spec);
  int64_t SilenceLimitMs() const;

  // session_attempts.cc: the attempts.
  void On(const frames::Inventory& in);
  void On(const frames::Event& in);
  void On(const StartRefused& in);
  void On(const CheckpointChecked& in);
  void On(const ScanResult& in);
  void On(const RendezvousReserved& in);
  void On(const DiskOver& in);
  std::string Isolation(const frames::Inventory& inventory) const;
  void OnOffer(const Offer& offer, bool in_welcome);
  void OnStop(const Stop& stop);
  void OnForget(const AttemptId& attempt);
  void StopWhatIsNotWanted(const Welcome& welcome);
  void Adopt(const frames::InventoryItem& item);
  void Reconcile(Known& known, bool in_inventory, bool same_boot);
  void OnExited(Known& known, const frames::Exited& exited, uint64_t event);
  void OnExitedAgain(Known& known, uint64_t event);
  void StartIfPossible(Known& known);
  void StartHeld();
  void StopKnown(Known& known, frames::Stop stop);
  void KillKnown(Known& known, EndCause cause, Initiator initiator, absl::string_view detail);
  void End(Known& known, EndFacts end, uint64_t event);
  void EndUnstarted(const AttemptId& attempt, EndCause cause, Initiator initiator, absl::string_view detail);
  void AnswerByState(const Known& known);
  void Accept(const Known& known);
  void Queue(Report report, uint64_t event);
  Known* Find(const AttemptId& attempt);
  bool OlderLives(const AttemptId& attempt) const;
  bool DevicesTaken(const Known& known) const;
  bool Lives(const Known& known) const { return known.step != Step::kEnded; }
  void RememberNewest(const AttemptId& attempt);
  AttemptNumber NewestOf(const TaskId& task) const;
  std::string KeyOf(const AttemptId& attempt) const;
  bool OurKey(absl::string_view key);

  void Put(Output output) { out_.push_back(std::move(output)); }
  void Info(std::string text) { Put(LogLine{false, std::move(text)}); }
  void Warn(std::string text) { Put(LogLine{true, std::move(text)}); }

  SessionConfig config_;
  Rng rng_;
  int64_t now_ms_ = 0;
  std::vector<Output> out_;
  bool done_ = false;  // Exit was put out

  Phase phase_ = Phase::kNoSupervisor;
  int64_t session_ = 0;
  int64_t connect_at_ms_ = LeaseKeeper::kNever;
  int64_t backoff_ms_ = 0;
  int64_t session_since_ms_ = 0;  // Connect was put out
  int64_t quiet_until_ms_ = 0;    // failures to connect are not worth a line until then
  int64_t alive_ms_ = 0;          // last sign of life of the scheduler in the present session
  int64_t last_session_ms_ = -1;  // last sign of life in any session, or the first input
  int64_t reports_sent_ms_ = 0;   // reports last went out or were acked
  LeaseKeeper lease_;
  LeasePhase lease_phase_ = LeasePhase::kNone;  // last logged
  ReportBook book_;

  std::map<AttemptId, Known> known_;
  size_t living_ = 0;
  std::deque<AttemptId> ended_durable_;     // oldest first: what may be forgotten to stay bounded
  std::map<TaskId, AttemptNumber> newest_;  // newest attempt that was ever known here; bounded, oldest task out first
  std::deque<TaskId> newest_order_;
  std::set<AttemptId> progress_pending_;

  std::map<std::string, std::shared_ptr<const std::string>> specs_;
  std::deque<std::string> specs_order_;
  size_t specs_bytes_ = 0;

  uint64_t highest_event_ = 0, acked_event_ = 0;
  std::set<uint64_t> open_events_;  // what follows from these is not saved yet

  struct NoticeState {
    int64_t deadline_ms = 0;
    std::string source;
    Initiator initiator = Initiator::kProvider;
    bool sent = false;
  };
  std::optional<NoticeState> notice_;
  std::set<std::string> advised_;  // sources whose advice was taken; advice has no deadline and is passed on once
  std::deque<NodeNotice> advice_;  // waits for a session
  bool leaving_ = false;           // DrainAndExit, or Goodbye{come_back: false}
  bool banned_ = false;            // the latter: nobody takes our reports any more
  int64_t leave_by_ms_ = LeaseKeeper::kNever;
  std::string leave_why_;
};

}  // namespace spillway::worker
