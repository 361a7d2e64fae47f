#include "scheduler/engine/engine_thread.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace spillway::engine {

EngineThread::EngineThread(ThreadOptions options, store::Store* store, Clock* clock, SessionSink* sessions, EffectSink* effects)
    : options_(std::move(options)), store_(store), clock_(clock), engine_(options_.engine, sessions, effects) {}

EngineThread::~EngineThread() { Stop(); }

absl::Status EngineThread::Start() {
  ASSIGN_OR_RETURN(store::Loaded loaded, store_->Load());
  turn_clock_.emplace(clock_, loaded.state.meta.now_ms);
  {
    MutexLock lock(&mutex_);
    committed_seq_ = loaded.last_seq;
    now_ms_ = turn_clock_->NowMs();
  }
  engine_.Start(std::move(loaded), turn_clock_->NowMs());
  store_thread_ = std::thread([this] { RunStore(); });
  engine_thread_ = std::thread([this] { RunEngine(); });
  return absl::OkStatus();
}

void EngineThread::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    engine_wakes_.SignalAll();
  }
  if (engine_thread_.joinable()) engine_thread_.join();
  if (store_thread_.joinable()) store_thread_.join();
}

// --- any thread ---

namespace {

// Specs waiting for their turn; what one turn can take on.
constexpr size_t kInboxBytesMax = 256u << 20;

size_t SpecBytes(const core::Command& command) {
  const auto* submit = std::get_if<core::Submit>(&command);
  if (submit == nullptr) return 0;
  size_t bytes = 0;
  for (const core::NewJob& job : submit->jobs) bytes += job.spec_bytes.size();
  return bytes;
}

}  // namespace

absl::Status EngineThread::Enqueue(Input input, bool may_refuse, size_t bytes) {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the scheduler is stopping");
  // Twice as many where refusing would lose something that nobody sends again (a session's end, a notice): they are few.
  if (inbox_.size() >= limits::kMailboxMax * (may_refuse ? 1 : 2)) return absl::ResourceExhaustedError("the scheduler's mailbox is full");
  if (bytes > 0 && inbox_bytes_ + bytes > kInboxBytesMax) return absl::ResourceExhaustedError("too many specs wait for the scheduler");
  inbox_bytes_ += bytes;
  inbox_.push_back(std::move(input));
  if (inbox_.size() == 1) engine_wakes_.Signal();
  return absl::OkStatus();
}

absl::Status EngineThread::Post(core::Command command, Engine::Done done) {
  if (std::holds_alternative<core::Submit>(command)) {
    MutexLock lock(&mutex_);
    if (refuses_jobs_) return absl::ResourceExhaustedError(refuses_why_);
  }
  const size_t bytes = SpecBytes(command);
  return Enqueue(
      [command = std::move(command), done = std::move(done)](Engine* engine) mutable {
        const absl::Status posted = engine->Post(std::move(command), done);
        if (!posted.ok() && done) done(posted);
      },
      true, bytes);
}

absl::Status EngineThread::Hello(int64_t session, core::NodeHello hello) {
  return Enqueue(
      [session, hello = std::move(hello)](Engine* engine) mutable {
        // Full only between here and the engine: the worker, unanswered, comes back.
        if (const absl::Status taken = engine->Hello(session, std::move(hello)); !taken.ok()) LOG(WARNING) << "a hello was not taken: " << taken.ToString();
      },
      true);
}

absl::Status EngineThread::Reports(int64_t session, std::vector<core::Report> reports) {
  return Enqueue([session, reports = std::move(reports)](Engine* engine) mutable { engine->Reports(session, std::move(reports)); }, true);
}

void EngineThread::Heard(int64_t session, int64_t renewal) {
  // A renewal that finds the mailbox full is not acked; the worker sends the next.
  Enqueue([session, renewal](Engine* engine) { engine->Heard(session, renewal); }, true).IgnoreError();
}

void EngineThread::Progressed(int64_t session, AttemptId attempt, core::Progress progress) {
  // Progress is soft: a newer one follows.
  Enqueue([session, attempt, progress = std::move(progress)](Engine* engine) mutable { engine->Progressed(session, attempt, std::move(progress)); }, true)
      .IgnoreError();
}

void EngineThread::Noticed(int64_t session, int64_t in_ms, std::string source, bool advisory) {
  const absl::Status taken = Enqueue(
      [session, in_ms, source = std::move(source), advisory](Engine* engine) mutable { engine->Noticed(session, in_ms, std::move(source), advisory); }, false);
  if (!taken.ok()) LOG(WARNING) << "a notice was not taken (the worker acts on it by itself): " << taken.ToString();
}

void EngineThread::Closed(int64_t session) {
  const absl::Status taken = Enqueue([session](Engine* engine) { engine->Closed(session); }, false);
  if (!taken.ok() && !absl::IsUnavailable(taken))
    LOG(WARNING) << "the end of session " << session << " was not taken (its silence will tell): " << taken.ToString();
}

absl::Status EngineThread::QueryLater(Read read) {
  return Enqueue([this, read = std::move(read)](Engine* engine) { read(engine->state(), engine->soft(), turn_clock_->NowMs()); }, true);
}

absl::Status EngineThread::Query(const Read& read) {
  struct Waiter {
    Mutex mutex;
    CondVar changed;
    bool ran = false, over = false;
    void End(bool has_run) {
      MutexLock lock(&mutex);
      ran = ran || has_run;
      over = true;
      changed.SignalAll();
    }
  };
  const auto waiter = std::make_shared<Waiter>();
  // Dropped unrun, it ends the wait too.
  std::shared_ptr<void> dropped(nullptr, [waiter](void*) { waiter->End(false); });
  RETURN_IF_ERROR(QueryLater([&read, waiter, dropped = std::move(dropped)](const core::State& state, const core::Soft& soft, int64_t now_ms) {
    read(state, soft, now_ms);
    waiter->End(true);
  }));
  MutexLock lock(&waiter->mutex);
  while (!waiter->over) waiter->changed.Wait(&waiter->mutex);
  return waiter->ran ? absl::OkStatus() : absl::UnavailableError("the scheduler is stopping");
}

int64_t EngineThread::committed_seq() const {
  MutexLock lock(&mutex_);
  return committed_seq_;
}

Counters EngineThread::counters() const {
  MutexLock lock(&mutex_);
  return counters_;
}

int64_t EngineThread::now_ms() const {
  MutexLock lock(&mutex_);
  return now_ms_;
}

// --- the engine's thread ---

void EngineThread::RunEngine() {
  bool disk_full = false, disk_low = false;
  std::string why;
  while (true) {
    std::vector<Input> inbox;
    std::vector<Commit> commits;
    bool stopping;
    {
      MutexLock lock(&mutex_);
      while (inbox_.empty() && commits_.empty() && !stopping_) {
        const int64_t deadline_ms = engine_.NextDeadlineMs();
        if (deadline_ms == INT64_MAX) {
          engine_wakes_.Wait(&mutex_);
          continue;
        }
        const int64_t wait_ms = deadline_ms - turn_clock_->NowMs();
        if (wait_ms <= 0) break;
        // A minute at most: the clock may be set forward meanwhile.
        engine_wakes_.WaitForMs(&mutex_, std::min<int64_t>(wait_ms, 60'000));
      }
      inbox.swap(inbox_);
      inbox_bytes_ = 0;
      commits.swap(commits_);
      stopping = stopping_;
      if (dead_) return;
    }
    for (const Commit& commit : commits) {
      disk_low = commit.disk_low;
      engine_.SetDiskLow(disk_low);
      if (commit.seq == 0) continue;
      disk_full = !commit.status.ok();
      if (commit.status.ok()) {
        engine_.Committed(commit.seq);
      } else {
        why = std::string(commit.status.message());
        engine_.CommitRefused(commit.seq, commit.status);
      }
    }
    for (Input& input : inbox) input(&engine_);
    std::optional<store::Batch> batch = engine_.Step(turn_clock_->NowMs());

    MutexLock lock(&mutex_);
    if (batch.has_value()) {
      batches_.push_back(*std::move(batch));
      store_wakes_.Signal();
    }
    counters_ = engine_.counters();
    now_ms_ = std::max(now_ms_, turn_clock_->NowMs());
    refuses_jobs_ = disk_full || disk_low;
    refuses_why_ = disk_full ? absl::StrCat("the scheduler cannot write to its disk, new jobs are refused: ", why)
                             : "the scheduler's disk is nearly full, new jobs are refused until there is room";
    // The end: everything taken has had its turn and is committed, or a full disk keeps it from that.
    if (stopping && inbox_.empty() && commits_.empty() && (disk_full || (engine_.in_flight() == 0 && !engine_.HasInput()))) {
      engine_done_ = true;
      store_wakes_.Signal();
      return;
    }
    if (stopping && commits_.empty() && engine_.in_flight() > 0 && !engine_.HasInput() && inbox_.empty()) engine_wakes_.WaitForMs(&mutex_, 100);
  }
}

// --- the store's thread ---

void EngineThread::RunStore() {
  int64_t since_maintained = 0;
  while (true) {
    std::optional<store::Batch> batch;
    bool more = false;
    {
      MutexLock lock(&mutex_);
      // Idle for a second is a good time for housekeeping too.
      while (batches_.empty() && !engine_done_ && store_wakes_.WaitForMs(&mutex_, 1'000)) {
      }
      if (batches_.empty() && engine_done_) return;
      if (!batches_.empty()) {
        batch = std::move(batches_.front());
        batches_.pop_front();
        more = !batches_.empty();
      }
    }
    if (batch.has_value() && !CommitDurably(*batch)) return;
    // Not while a commit waits, yet not never under load.
    if (more && ++since_maintained < 256) continue;
    since_maintained = 0;
    const bool was_low = store_->DiskLow();
    const absl::Status kept = store_->Maintain();
    if (!kept.ok() && !absl::IsResourceExhausted(kept)) return Fatal(kept);
    if (store_->DiskLow() != was_low) {
      MutexLock lock(&mutex_);
      commits_.push_back({0, absl::OkStatus(), !was_low});
      engine_wakes_.Signal();
    }
  }
}

bool EngineThread::CommitDurably(const store::Batch& batch) {
  for (int tries = 0;; ++tries) {
    const absl::Status status = store_->Commit(batch);
    if (!status.ok() && !absl::IsResourceExhausted(status)) {
      Fatal(status);
      return false;
    }
    if (status.ok() && options_.on_commit) options_.on_commit(batch);
    MutexLock lock(&mutex_);
    if (status.ok()) committed_seq_ = batch.seq;
    commits_.push_back({batch.seq, status, store_->DiskLow()});
    engine_wakes_.Signal();
    if (status.ok()) return true;
    if (tries == 0) LOG(WARNING) << "the disk cannot be written, turn " << batch.seq << " waits: " << status.ToString();
    if (engine_done_) return false;
    store_wakes_.WaitForMs(&mutex_, options_.disk_retry_ms);
    if (engine_done_) return false;
  }
}

void EngineThread::Fatal(const absl::Status& status) {
  if (options_.on_fatal) {
    options_.on_fatal(status);
    MutexLock lock(&mutex_);
    dead_ = stopping_ = true;
    inbox_.clear();
    engine_wakes_.Signal();
    return;
  }
  // Whether the turn is durable is unknown: going on might answer with what is lost, trying again might write over what is there. The next start reads the truth.
  LOG(ERROR) << "the scheduler cannot make its state durable and ends: " << status.ToString();
  _exit(70);
}

}  // namespace spillway::engine
