// The engine on a thread of its own, and the store on another: turns and commits overlap, a few batches at most in flight. The one place where the daemon's
// clock meets the engine. Every method is thread-safe and returns without waiting, except Query and Stop.
//
// A commit that fails in any way but a full disk ends the process (exit code 70): its durability is unknown, and there is no undo.
// Lateness: when input waited, or a deadline passed, for longer than a renewal, the engine restarts all leases before it judges anybody silent.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "scheduler/engine/engine.h"
#include "scheduler/store/store.h"

namespace spillway::engine {

inline constexpr int kExitStoreFailed = 70;

class EngineThread {
 public:
  // `committed` is told each durable turn's number, on the engine's thread; may be empty.
  EngineThread(Options options, Clock* clock, std::unique_ptr<store::Store> store, SessionSink* sessions, EffectSink* effects,
               std::function<void(int64_t seq)> committed = {});
  ~EngineThread();

  // Loads the store and starts both threads.
  absl::Status Start();
  // Takes what has arrived, commits it, lets its replies go, joins. Idempotent.
  void Stop();

  absl::Status Post(core::Command command, Engine::Done done);
  absl::Status Hello(int64_t session, core::NodeHello hello);
  void Heard(int64_t session, int64_t renewal);
  absl::Status Reports(int64_t session, std::vector<core::Report> reports);
  void Progressed(int64_t session, AttemptId attempt, core::Progress progress);
  void Noticed(int64_t session, int64_t in_ms, std::string source, bool advisory);
  void Closed(int64_t session);

  // Runs `read(engine, now_ms)` between two turns and returns what it returns. Never from the engine's own thread, never after Stop.
  template <typename Read>
  auto Query(Read read) -> std::invoke_result_t<Read, const Engine&, int64_t> {
    std::promise<std::invoke_result_t<Read, const Engine&, int64_t>> answer;
    auto future = answer.get_future();
    Send([&](Engine& engine) { answer.set_value(read(engine, clock_->NowUtcMs())); });
    return future.get();
  }

 private:
  using Input = std::function<void(Engine&)>;

  void Send(Input input);
  absl::Status SendBounded(Input input);
  void RunEngine();
  void RunStore();
  // Waits for input, a finished commit, or the engine's deadline. False: time to stop.
  bool WaitForWork(std::deque<Input>* inputs, std::vector<std::pair<int64_t, absl::Status>>* commits);

  const Options options_;
  Clock* const clock_;
  const std::unique_ptr<store::Store> store_;
  const std::function<void(int64_t)> committed_;
  Engine engine_;   // only the engine's thread, after Start

  Mutex mutex_;
  CondVar engine_wakes_, store_wakes_;
  std::deque<Input> inputs_ ABSL_GUARDED_BY(mutex_);
  int64_t oldest_input_steady_ms_ ABSL_GUARDED_BY(mutex_) = 0;    // when inputs_ was last empty and something came
  std::deque<store::Batch> batches_ ABSL_GUARDED_BY(mutex_);      // to commit; the front is under way
  std::vector<std::pair<int64_t, absl::Status>> commits_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool store_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool late_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread engine_thread_, store_thread_;
};

}  // namespace spillway::engine
