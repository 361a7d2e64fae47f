// The one owner of the truth: takes commands, runs turns, hands out durable batches, and lets replies and effects go after their commit.
//
// Owns State, Soft and the mailbox of one turn. Owns no thread, no clock, no I/O: whoever drives it (EngineThread in the daemon, the simulation in tests)
// stamps the time and carries out the commits. Not thread-safe.
//
//   Post / Hear / ... -> Step(now) -> batch -> (driver: store.Commit) -> Committed(seq) -> replies, orders
//
// Turns may overlap with commits: several batches can be in flight, committed in order. Replies and orders of turn n wait for Committed(n).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/core.h"
#include "scheduler/engine/orders.h"
#include "scheduler/store/store.h"

namespace spillway::engine {

struct Options {
  core::Policy policy;
  int64_t snapshot_every = 1000;         // batches
  int64_t check_invariants_every = 1024; // turns; 1 in tests
};

class Engine {
 public:
  using Done = std::function<void(absl::StatusOr<core::Reply>)>;

  Engine(Options options, SessionSink* sessions, EffectSink* effects);

  // Takes the state a store loaded, restarts all leases, owes every effect again.
  void Start(store::Loaded loaded, int64_t now_ms);

  // RESOURCE_EXHAUSTED when the mailbox is full (limits::kMailboxMax); `done` is then not called. Otherwise it is called exactly once, after the commit.
  absl::Status Post(core::Command command, Done done);

  // --- soft input from sessions ---
  // A session's first frame. The answer is Welcome or Refuse on the sink. A newer session of a node replaces the older one.
  absl::Status Hello(int64_t session, core::NodeHello hello);
  void Heard(int64_t session, int64_t renewal);            // renewal 0: something else arrived
  void Reports(int64_t session, std::vector<core::Report> reports);   // acked after the commit
  void Progressed(int64_t session, AttemptId attempt, core::Progress progress);
  void Noticed(int64_t session, int64_t in_ms, std::string source, bool advisory);
  void Closed(int64_t session);

  // One turn over everything waiting (bounded). nullopt when there is nothing to write. `now_ms` is made monotonic inside.
  std::optional<store::Batch> Step(int64_t now_ms);
  // The batch is durable: its replies and orders go out.
  void Committed(int64_t seq);
  // Disk full: nothing was written. New work is refused with RESOURCE_EXHAUSTED until a later commit of the same batch succeeds; renewals go on.
  void CommitRefused(int64_t seq, const absl::Status& why);

  // When Step should run next even if nothing arrives; INT64_MAX never.
  int64_t NextDeadlineMs() const;
  bool HasInput() const;

  const core::State& state() const;
  const core::Soft& soft() const;
  const Options& options() const;
};

}  // namespace spillway::engine
