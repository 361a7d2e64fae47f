// The one owner of the truth: takes commands, runs turns, hands out durable batches, and lets replies and effects go after their commit.
//
// Owns State, Soft and the mailbox of one turn. Owns no thread, no clock, no I/O: whoever drives it (EngineThread in the daemon, the simulation in tests)
// stamps the time and carries out the commits. Not thread-safe.
//
//   Post / Hear / ... -> Step(now) -> batch -> (driver: store.Commit) -> Committed(seq) -> replies, orders
//
// Turns may overlap with commits: several batches can be in flight, committed in order. Replies and orders of turn n wait for Committed(n); those of a
// turn without a batch wait for the batches it may rest on. Only renewals are acknowledged at once: they rest on the session's Welcome alone.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/core.h"
#include "scheduler/engine/orders.h"
#include "scheduler/store/store.h"

namespace spillway::engine {

struct Options {
  core::Policy policy;
  int64_t snapshot_every = 1000;          // batches
  int64_t check_invariants_every = 1024;  // turns; 1 in tests
  int64_t rederive_effects_every = 1024;  // turns: everything owed is handed out again, to make sure
  size_t in_flight_max = 2;               // batches waiting for their commit; what arrives meanwhile becomes one batch
  bool check_decisions = false;           // a decision that Admit refuses crashes instead of being counted: for tests
};

// For metrics; since the start of the process.
struct Counters {
  int64_t turns = 0, events = 0, batches = 0;
  int64_t decisions_refused = 0;  // proposals of Decide that Admit did not take
  int64_t leases_restarted = 0;   // start and stalls
  int64_t commits_refused = 0;    // disk full
};

class Engine {
 public:
  using Done = std::function<void(absl::StatusOr<core::Reply>)>;

  Engine(Options options, SessionSink* sessions, EffectSink* effects);

  // Takes the state a store loaded, restarts all leases, owes every effect again.
  void Start(store::Loaded loaded, int64_t now_ms);

  // RESOURCE_EXHAUSTED when the mailbox is full (limits::kMailboxMax), or for new jobs when the disk is; `done` is then not called. Otherwise it is
  // called exactly once, after the commit.
  absl::Status Post(core::Command command, Done done);

  // --- soft input from sessions ---
  // A session's first frame. The answer is Welcome or Refuse on the sink. A newer session of a node replaces the older one.
  absl::Status Hello(int64_t session, core::NodeHello hello);
  void Heard(int64_t session, int64_t renewal);  // renewal 0: something else arrived
  // Acked after the commit. When the mailbox is full the session is closed: the worker keeps what was not acked and comes back with it.
  void Reports(int64_t session, std::vector<core::Report> reports);
  void Progressed(int64_t session, AttemptId attempt, core::Progress progress);
  void Noticed(int64_t session, int64_t in_ms, std::string source, bool advisory);
  void Closed(int64_t session);

  // One turn over everything waiting (bounded). nullopt when there is nothing to write. `now_ms` is made monotonic inside.
  // While in_flight_max batches wait for their commit it takes renewals only.
  std::optional<store::Batch> Step(int64_t now_ms);
  // The batch is durable: its replies and orders go out.
  void Committed(int64_t seq);
  // Disk full: nothing was written. New work is refused with RESOURCE_EXHAUSTED until a later commit of the same batch succeeds; renewals go on.
  void CommitRefused(int64_t seq, const absl::Status& why);
  // Commits succeed, yet only because the reserve for reports was given up: new work stays refused while set.
  void SetDiskLow(bool low);

  // When Step should run next even if nothing arrives; INT64_MAX never.
  int64_t NextDeadlineMs() const;
  bool HasInput() const;
  // Batches handed out and not yet committed.
  size_t in_flight() const { return in_flight_.size(); }

  const core::State& state() const { return state_; }
  const core::Soft& soft() const { return soft_; }
  const Options& options() const { return options_; }
  const Counters& counters() const { return counters_; }
  int64_t last_seq() const { return last_seq_; }
  int64_t now_ms() const { return now_ms_; }  // of the newest turn

 private:
  using Delivery = std::function<void()>;
  struct Input {
    int64_t session = 0;  // 0: a command
    core::Command command;
    Done done;
  };
  struct Session {
    NodeId node = 0;  // 0 until its hello is admitted
    std::string boot_id;
    std::set<AttemptId> inventory;         // of the hello, until the Welcome is made
    bool welcomed = false;                 // the Welcome went out
    int64_t renewal = 0;                   // newest, to be acked once welcomed
    std::map<AttemptId, bool> offered;     // sent in the present session, and whether as the word to start
    std::map<AttemptId, int64_t> stopped;  // sent in the present session, with this grace
  };
  struct InFlight {
    int64_t seq = 0;
    std::vector<Delivery> deliveries;
  };
  struct Turn {
    std::vector<core::Event> events;
    std::vector<std::pair<std::string, std::string>> specs;
    core::Changes changes;
    std::vector<int64_t> hellos;  // sessions to be welcomed
    struct Fenced {
      int64_t session;
      NodeId node;
      AttemptId attempt;
    };
    std::vector<Fenced> fenced;  // attempts given up although their node did not say they are over
    std::vector<Delivery> deliveries;
  };

  // engine.cc: the turn
  void TakeTime(int64_t now_ms);
  void DoubtTime(int64_t ms);
  int64_t DoubtfulMsBefore(int64_t asked_ms) const;
  void TakeInput(Turn* turn);
  // `said_by`: the node whose word the command is; 0 nobody's.
  absl::StatusOr<core::Reply> Apply(const core::Command& command, Turn* turn, NodeId said_by = 0);
  void DecideAndApply(Turn* turn);
  std::optional<store::Batch> Finish(Turn* turn);
  absl::Status Refusal(const core::Command& command) const;

  // sessions.cc: who speaks for which node
  void TakeHello(Input* input, Turn* turn);
  void TakeReports(Input* input, Turn* turn);
  void TakeNotice(Input* input, Turn* turn);
  void TakeRenewals();
  void WelcomeNew(Turn* turn);
  void CloseGone(Turn* turn);
  void DropSession(int64_t session);
  bool CloseWhenFull(int64_t session);
  // `on`: of that member alone; 0: of all.
  void ForgetAttempt(AttemptId attempt, NodeId on, NodeId said_by, Turn* turn);
  void StopFenced(Turn* turn);
  bool SessionAlive(const core::NodeHello& hello, int64_t but) const;
  void AskAboutSilent();
  Session* LiveSessionOf(NodeId node, int64_t* number);

  // handout.cc: what the state owes, as orders
  void HandOut(Turn* turn);
  void HandOutOffer(const core::OfferAttempt& effect, Turn* turn);
  void HandOutStop(const core::StopOnNode& effect, Turn* turn);
  void Answered(const core::Command& command);

  Options options_;
  SessionSink* const sessions_sink_;
  EffectSink* const effects_sink_;

  core::State state_;
  core::Soft soft_;
  int64_t last_seq_ = 0;
  int64_t now_ms_ = 0;
  int64_t last_step_ms_ = 0;
  // When time went on by more than the engine saw pass, and by how much: the clock was set, the engine stood still, or there was none. The newest ones.
  std::deque<std::pair<int64_t, int64_t>> doubtful_ms_;

  std::deque<Input> mailbox_;
  std::map<int64_t, Session> sessions_;
  std::map<int64_t, int64_t> heard_;  // session -> newest renewal since the last step
  std::deque<InFlight> in_flight_;

  // Handed out and not answered yet: not handed out again before the next re-derivation.
  std::set<AttemptId> seals_asked_;
  std::set<NodeId> creates_asked_, terminates_asked_;
  bool rederive_ = true;

  bool decide_due_ = true;     // something happened that Decide has not seen
  bool decide_again_ = false;  // the last Decide changed something: it may have more to say
  int64_t decided_ms_ = 0;
  int64_t core_deadline_ms_ = 0;
  int64_t silence_checked_ms_ = 0;
  std::map<std::string, int64_t> asked_about_ms_;  // provider -> when

  absl::Status disk_full_;  // OK: it is not
  bool disk_low_ = false;
  Counters counters_;
};

}  // namespace spillway::engine
