// The engine with its two threads: one runs turns, one commits them, in order, while the next turn is made. What arrives during a commit becomes one batch.
//
// Owns the threads and the queues between them. The engine, the store and the clock are touched by these threads alone.
// Every public call may come from any thread and never waits for a turn or a disk, except Query (for one turn at most) and Stop.
// Sinks, Done callbacks and queries run on the engine's thread: they must not block.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/turn_clock.h"

namespace spillway::engine {

struct ThreadOptions {
  Options engine;
  int64_t disk_retry_ms = 500;  // how long a refused commit waits before it is tried again
  // Called on the store thread after each durable commit, in order, before its replies go out: for watchers.
  std::function<void(const store::Batch&)> on_commit;
  // Called when durability is unknown: after it nothing may be believed. The default logs and ends the process with exit code 70.
  std::function<void(const absl::Status&)> on_fatal;
};

class EngineThread {
 public:
  EngineThread(ThreadOptions options, store::Store* store, Clock* clock, SessionSink* sessions, EffectSink* effects);
  ~EngineThread();  // stops

  // Loads the store and starts both threads. DATA_LOSS when the store does not hold together.
  absl::Status Start();
  // Takes nothing new, finishes and commits what was taken, joins. A full disk is not waited for: what it holds back is dropped, unanswered and undone.
  void Stop();

  // As in engine.h. RESOURCE_EXHAUSTED: full mailbox or disk (`done` is not called). UNAVAILABLE: stopping.
  absl::Status Post(core::Command command, Engine::Done done);
  absl::Status Hello(int64_t session, core::NodeHello hello);
  absl::Status Reports(int64_t session, std::vector<core::Report> reports);  // not OK: close the session, the worker comes back with them
  void Heard(int64_t session, int64_t renewal);
  void Progressed(int64_t session, AttemptId attempt, core::Progress progress);
  void Noticed(int64_t session, int64_t in_ms, std::string source, bool advisory);
  void Closed(int64_t session);

  // Runs `read` on the engine's thread between two turns. What it sees may be ahead of the newest commit. UNAVAILABLE when stopping.
  using Read = std::function<void(const core::State&, const core::Soft&, int64_t now_ms)>;
  absl::Status Query(const Read& read);  // waits; never call it on the engine's thread
  absl::Status QueryLater(Read read);    // returns at once
  core::Policy policy() const { return options_.engine.policy; }

  int64_t committed_seq() const;  // newest durable turn
  Counters counters() const;      // as of the last turn
  int64_t now_ms() const;         // time of the last turn

 private:
  using Input = std::function<void(Engine*)>;
  struct Commit {  // what the store thread tells the engine's
    int64_t seq;   // 0: only about the disk
    absl::Status status;
    bool disk_low;
  };

  void RunEngine();
  void RunStore();
  absl::Status Enqueue(Input input, bool may_refuse, size_t bytes = 0);
  bool CommitDurably(const store::Batch& batch);  // false: the thread ends
  void Fatal(const absl::Status& status);

  ThreadOptions options_;
  store::Store* const store_;
  Clock* const clock_;
  Engine engine_;                        // engine thread only, once started
  std::optional<TurnClock> turn_clock_;  // engine thread only, once started

  mutable Mutex mutex_;
  CondVar engine_wakes_, store_wakes_;
  std::vector<Input> inbox_ ABSL_GUARDED_BY(mutex_);
  size_t inbox_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the specs in it
  std::vector<Commit> commits_ ABSL_GUARDED_BY(mutex_);
  std::deque<store::Batch> batches_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;      // nothing new is taken
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;          // after on_fatal: no turn, no reply, nothing
  bool engine_done_ ABSL_GUARDED_BY(mutex_) = false;   // no further batch will come
  bool refuses_jobs_ ABSL_GUARDED_BY(mutex_) = false;  // the disk is full or low
  std::string refuses_why_ ABSL_GUARDED_BY(mutex_);
  int64_t committed_seq_ ABSL_GUARDED_BY(mutex_) = 0;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  int64_t now_ms_ ABSL_GUARDED_BY(mutex_) = 0;

  std::thread engine_thread_, store_thread_;
};

}  // namespace spillway::engine
