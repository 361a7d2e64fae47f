// Workers without machines: each a session on a connection of its own, as real ones have, all in one process.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "spillway/v1/worker_service.grpc.pb.h"
#include "tests/bench/load.h"

namespace spillway::bench {
namespace {

constexpr int kReportsPerFrame = 3'000;
constexpr int kWelcomeTimeoutMs = 120'000;

// What all sessions of the process have reached together.
struct Score {
  Mutex mutex;
  CondVar changed;
  int64_t welcome ABSL_GUARDED_BY(mutex) = 0, gone ABSL_GUARDED_BY(mutex) = 0;
  int64_t started ABSL_GUARDED_BY(mutex) = 0;  // acknowledged
  double first_offer ABSL_GUARDED_BY(mutex) = 0, last_ack ABSL_GUARDED_BY(mutex) = 0;
  std::vector<TaskId> finished ABSL_GUARDED_BY(mutex);  // whose end is acknowledged
  std::vector<double> renewal_ms ABSL_GUARDED_BY(mutex);
  std::string why ABSL_GUARDED_BY(mutex);
};

class PlayedWorker final : public grpc::ClientBidiReactor<v1::WorkerFrame, v1::SchedulerFrame> {
 public:
  PlayedWorker(const Server& server, const std::string& authorization, const std::string& name, const Workers& workers, bool ends, Score* score)
      : ends_(ends), score_(score) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(limits::kGrpcMessageBytesMax);
    arguments.SetMaxSendMessageSize(limits::kGrpcMessageBytesMax);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else all share one connection
    stub_ = v1::WorkerService::NewStub(grpc::CreateCustomChannel(server.address, grpc::InsecureChannelCredentials(), arguments));
    if (!authorization.empty()) context_.AddMetadata("authorization", authorization);
    v1::Hello* hello = waiting_.mutable_hello();
    hello->set_protocol("spillway/1");
    hello->set_node_name(name);
    hello->set_provider("static");
    hello->set_boot_id(absl::StrCat("boot-", name));
    hello->set_market(v1::RESERVED);
    hello->mutable_resources()->set_cpu_milli(workers.slots * 1'000);
    hello->mutable_resources()->set_memory_bytes(64LL << 30);
    hello->set_worker_version("played");
  }

  void Begin() {
    stub_->async()->Session(&context_, this);
    AddHold();  // writes are started from outside of reactions
    StartRead(&in_);
    {
      MutexLock lock(&mutex_);
      WriteIfIdle();
    }
    StartCall();
  }
  void Renew() {
    MutexLock lock(&mutex_);
    if (ended_) return;
    waiting_.set_renewal(++renewal_);
    renewed_ = MonotonicSeconds();
    WriteIfIdle();
  }
  void Leave() { context_.TryCancel(); }
  void Join() {
    MutexLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
  }

 private:
  struct Reported {
    int64_t seq;
    TaskId task;
    bool end;
  };

  void OnReadDone(bool ok) override {
    MutexLock lock(&mutex_);
    if (!ok) {
      ended_ = true;
      return RemoveHold();
    }
    const double now = MonotonicSeconds();
    if (in_.has_welcome()) {
      reported_ = in_.welcome().report_ack();
      for (const auto& offer : in_.welcome().offers()) Take(offer.attempt());
    }
    for (const auto& offer : in_.offers()) Take(offer.attempt());
    {
      MutexLock all(&score_->mutex);
      if (in_.has_welcome()) ++score_->welcome;
      if (in_.has_goodbye()) score_->why = absl::StrCat(in_.goodbye().code(), ": ", in_.goodbye().message());
      if (score_->first_offer == 0 && in_.offers_size() + in_.welcome().offers_size() > 0) score_->first_offer = now;
      if (in_.renewal_ack() == renewal_ && renewal_ > 0) score_->renewal_ms.push_back((now - renewed_) * 1e3);
      for (; !unacknowledged_.empty() && unacknowledged_.front().seq <= in_.report_ack(); unacknowledged_.pop_front()) {
        score_->last_ack = now;
        if (unacknowledged_.front().end) {
          score_->finished.push_back(unacknowledged_.front().task);
        } else {
          ++score_->started;
        }
      }
      score_->changed.SignalAll();
    }
    WriteIfIdle();
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (ok) WriteIfIdle();
  }
  void OnDone(const grpc::Status& status) override {
    {
      MutexLock all(&score_->mutex);
      ++score_->gone;
      if (score_->why.empty()) score_->why = status.error_message();
      score_->changed.SignalAll();
    }
    MutexLock lock(&mutex_);
    done_ = true;
    changed_.SignalAll();
  }

  void Take(const v1::AttemptKey& attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto report = [&] {
      v1::Report* out = &reports_.emplace_back();
      out->set_seq(++reported_);
      *out->mutable_attempt() = attempt;
      return out;
    };
    report()->mutable_accepted();
    report()->mutable_started();
    if (ends_) {
      v1::Ended* ended = report()->mutable_ended();
      ended->set_cause(v1::COMPLETED);
      ended->set_initiator(v1::BY_JOB);
    }
    unacknowledged_.push_back({reported_, {attempt.job_id(), attempt.task_index()}, ends_});
  }
  void WriteIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || ended_) return;
    out_.Clear();
    out_.Swap(&waiting_);
    for (int i = 0; i < kReportsPerFrame && !reports_.empty(); ++i, reports_.pop_front()) *out_.add_reports() = std::move(reports_.front());
    if (!out_.has_hello() && out_.renewal() == 0 && out_.reports_size() == 0) return;
    writing_ = true;
    StartWrite(&out_);
  }

  const bool ends_;
  Score* const score_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  v1::SchedulerFrame in_;
  Mutex mutex_;
  CondVar changed_;
  v1::WorkerFrame out_ ABSL_GUARDED_BY(mutex_), waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::Report> reports_ ABSL_GUARDED_BY(mutex_);
  std::deque<Reported> unacknowledged_ ABSL_GUARDED_BY(mutex_);  // the last report of each attempt
  int64_t reported_ ABSL_GUARDED_BY(mutex_) = 0, renewal_ ABSL_GUARDED_BY(mutex_) = 0;
  double renewed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false, ended_ ABSL_GUARDED_BY(mutex_) = false, done_ ABSL_GUARDED_BY(mutex_) = false;
};

// All workers of a role. They leave when this ends.
class Fleet {
 public:
  ~Fleet() {
    for (auto& worker : workers_) worker->Leave();
    for (auto& worker : workers_) worker->Join();
  }
  absl::Status Open(const Server& server, const Workers& workers, bool ends) {
    std::string authorization;
    if (!server.token_file.empty()) {
      ASSIGN_OR_RETURN(const std::string token, ReadFile(server.token_file, 4'096));
      authorization = absl::StrCat("Bearer ", absl::StripAsciiWhitespace(token));
    }
    for (int64_t i = 0; i < workers.count; ++i) {
      workers_.push_back(std::make_unique<PlayedWorker>(server, authorization, absl::StrCat(workers.name, "-", i), workers, ends, &score));
      workers_.back()->Begin();
    }
    MutexLock lock(&score.mutex);
    while (score.welcome < workers.count) {
      if (score.gone > 0) return absl::UnavailableError(absl::StrCat("a session ended before its welcome: ", score.why));
      if (!score.changed.WaitForMs(&score.mutex, kWelcomeTimeoutMs)) return absl::DeadlineExceededError("not every session was welcome");
    }
    return absl::OkStatus();
  }
  // Renewals spread evenly over the period, until `over` says so.
  absl::Status RenewUntil(int64_t every_ms, const std::function<bool()>& over) {
    const double began = MonotonicSeconds();
    const double apart = static_cast<double>(every_ms) / 1e3 / static_cast<double>(workers_.size());
    int64_t renewals = 0;
    while (!over()) {
      {
        MutexLock lock(&score.mutex);
        if (score.gone > 0) return absl::UnavailableError(absl::StrCat("a session ended: ", score.why));
      }
      for (; static_cast<double>(renewals) * apart < MonotonicSeconds() - began; ++renewals) workers_[static_cast<size_t>(renewals) % workers_.size()]->Renew();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return absl::OkStatus();
  }

  Score score;

 private:
  std::vector<std::unique_ptr<PlayedWorker>> workers_;
};

void SayReady() { std::cout << nlohmann::json{{"ready", true}} << std::endl; }

}  // namespace

Measured RenewSessions(const Server& server, const Workers& workers, double seconds) {
  Fleet fleet;
  RETURN_IF_ERROR(fleet.Open(server, workers, true));
  SayReady();
  const double began = MonotonicSeconds();
  RETURN_IF_ERROR(fleet.RenewUntil(workers.renew_ms, [&] { return MonotonicSeconds() - began > seconds; }));
  const double took = MonotonicSeconds() - began;
  MutexLock lock(&fleet.score.mutex);
  return nlohmann::json{{"sessions", workers.count},
                        {"renewals", fleet.score.renewal_ms.size()},
                        {"per_second", static_cast<double>(fleet.score.renewal_ms.size()) / took},
                        {"renewal_ms", Quantiles(fleet.score.renewal_ms)}};
}

Measured RunNothing(const Server& server, const Workers& workers, int64_t tasks, const std::string& finished) {
  Fleet fleet;
  RETURN_IF_ERROR(fleet.Open(server, workers, true));
  SayReady();
  const absl::Status ended = fleet.RenewUntil(workers.renew_ms, [&] {
    MutexLock lock(&fleet.score.mutex);
    return static_cast<int64_t>(fleet.score.finished.size()) >= tasks;
  });
  MutexLock lock(&fleet.score.mutex);
  if (!finished.empty()) {
    std::ofstream out(finished);
    for (const TaskId& task : fleet.score.finished) out << task.ToString() << "\n";
    if (!out.flush()) return absl::InternalError(absl::StrCat(finished, ": cannot be written"));
  }
  const double took = fleet.score.last_ack - fleet.score.first_offer;
  const auto done = static_cast<double>(fleet.score.finished.size());
  return nlohmann::json{{"ended", fleet.score.finished.size()}, {"seconds", took}, {"per_second", took > 0 ? done / took : 0}, {"scheduler_gone", !ended.ok()}};
}

Measured HoldForever(const Server& server, const Workers& workers, int64_t jobs) {
  Fleet fleet;
  RETURN_IF_ERROR(fleet.Open(server, workers, false));
  SayReady();
  bool said = false, over = false;
  Mutex mutex;
  std::thread input([&] {
    while (getchar() != EOF) {
    }
    MutexLock lock(&mutex);
    over = true;
  });
  const absl::Status ended = fleet.RenewUntil(workers.renew_ms, [&] {
    MutexLock lock(&fleet.score.mutex);
    if (!said && fleet.score.started >= jobs) std::cout << nlohmann::json{{"held", jobs}} << std::endl, said = true;
    MutexLock inner(&mutex);
    return over;
  });
  input.join();
  RETURN_IF_ERROR(ended);
  return nlohmann::json{{"jobs", jobs}};
}

}  // namespace spillway::bench
