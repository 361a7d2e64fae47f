#include "scheduler/engine/engine_thread.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace spillway::engine {
namespace {

constexpr size_t kBatchesInFlightMax = 3;
constexpr long kFullDiskRetryMs = 1'000;
constexpr int64_t kSleepMsMax = 60'000;

}  // namespace

EngineThread::EngineThread(Options options, Clock* clock, std::unique_ptr<store::Store> store, SessionSink* sessions, EffectSink* effects,
                           std::function<void(int64_t)> committed)
    : options_(options), clock_(clock), store_(std::move(store)), committed_(std::move(committed)), engine_(options, sessions, effects) {}

EngineThread::~EngineThread() { Stop(); }

absl::Status EngineThread::Start() {
  ASSIGN_OR_RETURN(store::Loaded loaded, store_->Load());
  LOG(INFO) << "state of turn " << loaded.last_seq << ": " << loaded.state.jobs.size() << " living jobs, " << loaded.state.nodes.size() << " nodes";
  engine_.Start(std::move(loaded), clock_->NowUtcMs());
  store_thread_ = std::thread([this] { RunStore(); });
  engine_thread_ = std::thread([this] { RunEngine(); });
  return absl::OkStatus();
}

void EngineThread::Stop() {
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    engine_wakes_.SignalAll();
  }
  if (engine_thread_.joinable()) engine_thread_.join();
  {
    MutexLock lock(&mutex_);
    store_stopping_ = true;
    store_wakes_.SignalAll();
  }
  if (store_thread_.joinable()) store_thread_.join();
}

void EngineThread::Send(Input input) {
  MutexLock lock(&mutex_);
  if (inputs_.empty()) oldest_input_steady_ms_ = clock_->NowSteadyMs();
  inputs_.push_back(std::move(input));
  engine_wakes_.Signal();
}

absl::Status EngineThread::SendBounded(Input input) {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the scheduler is stopping");
  if (inputs_.size() >= limits::kMailboxMax) return absl::ResourceExhaustedError("the scheduler's mailbox is full; try again in a second");
  if (inputs_.empty()) oldest_input_steady_ms_ = clock_->NowSteadyMs();
  inputs_.push_back(std::move(input));
  engine_wakes_.Signal();
  return absl::OkStatus();
}

absl::Status EngineThread::Post(core::Command command, Engine::Done done) {
  return SendBounded([command = std::move(command), done = std::move(done)](Engine& engine) mutable {
    if (const absl::Status status = engine.Post(std::move(command), done); !status.ok() && done) done(status);
  });
}
absl::Status EngineThread::Hello(int64_t session, core::NodeHello hello) {
  return SendBounded([session, hello = std::move(hello)](Engine& engine) mutable { (void)engine.Hello(session, std::move(hello)); });
}
absl::Status EngineThread::Reports(int64_t session, std::vector<core::Report> reports) {
  return SendBounded([session, reports = std::move(reports)](Engine& engine) mutable { (void)engine.Reports(session, std::move(reports)); });
}
void EngineThread::Heard(int64_t session, int64_t renewal) {
  Send([=](Engine& engine) { engine.Heard(session, renewal); });
}
void EngineThread::Closed(int64_t session) {
  Send([=](Engine& engine) { engine.Closed(session); });
}
void EngineThread::Progressed(int64_t session, AttemptId attempt, core::Progress progress) {
  (void)SendBounded([=, progress = std::move(progress)](Engine& engine) mutable { engine.Progressed(session, attempt, std::move(progress)); });
}
void EngineThread::Noticed(int64_t session, int64_t in_ms, std::string source, bool advisory) {
  Send([=, source = std::move(source)](Engine& engine) mutable { engine.Noticed(session, in_ms, std::move(source), advisory); });
}

bool EngineThread::WaitForWork(std::deque<Input>* inputs, std::vector<std::pair<int64_t, absl::Status>>* commits) {
  const int64_t deadline_ms = engine_.NextDeadlineMs();
  const int64_t slept_from_ms = clock_->NowSteadyMs();
  int64_t wait_ms = engine_.HasInput() ? 0 : std::clamp<int64_t>(deadline_ms == INT64_MAX ? kSleepMsMax : deadline_ms - clock_->NowUtcMs(), 0, kSleepMsMax);
  MutexLock lock(&mutex_);
  while (true) {
    const bool room = batches_.size() < kBatchesInFlightMax;   // else only a finished commit is work
    const int64_t now_ms = clock_->NowSteadyMs();
    const int64_t left_ms = slept_from_ms + wait_ms - now_ms;
    if (!commits_.empty() || (room && (!inputs_.empty() || left_ms <= 0))) {
      const int64_t late_ms = std::max(inputs_.empty() ? 0 : now_ms - oldest_input_steady_ms_, -left_ms);
      late_ = late_ms > options_.policy.renew_every_ms;
      break;
    }
    if (stopping_ && inputs_.empty() && batches_.empty()) return false;
    if (stopping_ && room && batches_.empty()) break;
    if (room) {
      engine_wakes_.WaitForMs(&mutex_, static_cast<long>(std::max<int64_t>(left_ms, 1)));
    } else {
      engine_wakes_.Wait(&mutex_);
    }
  }
  commits->swap(commits_);
  if (batches_.size() < kBatchesInFlightMax) inputs->swap(inputs_);
  return true;
}

void EngineThread::RunEngine() {
  std::deque<Input> inputs;
  std::vector<std::pair<int64_t, absl::Status>> commits;
  while (WaitForWork(&inputs, &commits)) {
    for (const auto& [seq, status] : commits) {
      if (!status.ok()) {
        engine_.CommitRefused(seq, status);
        continue;
      }
      engine_.Committed(seq);
      if (committed_) committed_(seq);
    }
    commits.clear();
    bool late;
    {
      MutexLock lock(&mutex_);
      late = std::exchange(late_, false);
    }
    if (late) {
      LOG(WARNING) << "the engine was late by more than a renewal: all leases start anew";
      engine_.RestartLeases(clock_->NowUtcMs());
    }
    for (Input& input : inputs) input(engine_);
    inputs.clear();
    std::optional<store::Batch> batch = engine_.Step(clock_->NowUtcMs());
    if (!batch) continue;
    MutexLock lock(&mutex_);
    batches_.push_back(*std::move(batch));
    store_wakes_.Signal();
  }
}

void EngineThread::RunStore() {
  while (true) {
    const store::Batch* batch = nullptr;
    {
      MutexLock lock(&mutex_);
      while (batches_.empty() && !store_stopping_) store_wakes_.Wait(&mutex_);
      if (batches_.empty()) return;
      batch = &batches_.front();   // a deque's front stays in place while others are appended
    }
    const absl::Status status = store_->Commit(*batch);
    if (!status.ok() && !absl::IsResourceExhausted(status)) {
      LOG(ERROR) << "turn " << batch->seq << " could not be committed, so its durability is unknown; the process ends, the next start reads what is there: " << status.message();
      _exit(kExitStoreFailed);
    }
    MutexLock lock(&mutex_);
    commits_.emplace_back(batch->seq, status);
    if (status.ok()) batches_.pop_front();
    engine_wakes_.Signal();
    if (status.ok()) continue;
    if (store_stopping_) return;
    store_wakes_.WaitForMs(&mutex_, kFullDiskRetryMs);
  }
}

}  // namespace spillway::engine
