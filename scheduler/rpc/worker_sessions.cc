#include "scheduler/rpc/worker_sessions.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "scheduler/rpc/call.h"
#include "scheduler/rpc/translate_session.h"
#include "scheduler/rpc/translate_view.h"

namespace spillway::rpc {

// One stream. Reads are taken one by one on gRPC's threads; writes are what has gathered in `pending_` since the last one.
class SessionStream final : public grpc::ServerBidiReactor<v1::WorkerFrame, v1::SchedulerFrame> {
 public:
  SessionStream(WorkerSessions* owner, int64_t session) : owner_(owner), session_(session) {}

  void Begin() { StartRead(&in_); }
  void RefuseStranger(const absl::Status& status) { End(status); }

  // Adds to the frame that is written next. `orders` counts against the bound.
  template <typename Fill>
  void Push(size_t orders, Fill fill) {
    MutexLock lock(&mutex_);
    if (ending_) return;
    waiting_orders_ += orders;
    if (waiting_orders_ > limits::kSessionOutboxFramesMax) {
      SayGoodbye("OVERFLOW", "this session does not read what it is sent", true);
      return;
    }
    fill(&pending_);
    has_pending_ = true;
    WriteIfIdle();
  }

  void Goodbye(absl::string_view code, absl::string_view message, bool come_back) {
    MutexLock lock(&mutex_);
    if (!ending_) SayGoodbye(code, message, come_back);
  }

  // Ends the stream with an error, without a goodbye frame.
  void End(const absl::Status& status) {
    MutexLock lock(&mutex_);
    if (ending_) return;
    ending_ = true;
    final_ = ToGrpc(status);
    has_pending_ = false;
    FinishIfIdle();
  }

  // True the first time a spec is needed in this session.
  bool NeedsSpec(const std::string& digest) { return sent_specs_.insert(digest).second; }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    if (const absl::Status status = Take(in_); !status.ok()) return End(status);
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      ending_ = true;
      has_pending_ = false;
    }
    WriteIfIdle();
    FinishIfIdle();
  }
  void OnCancel() override { End(absl::CancelledError("the worker went away")); }
  void OnDone() override {
    owner_->Remove(session_);
    if (owner_->engine_ != nullptr) owner_->engine_->Closed(session_);
    delete this;
  }

  absl::Status Take(const v1::WorkerFrame& frame);

  void SayGoodbye(absl::string_view code, absl::string_view message, bool come_back) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::Goodbye* goodbye = pending_.mutable_goodbye();
    goodbye->set_code(std::string(code));
    goodbye->set_message(std::string(message));
    goodbye->set_come_back(come_back);
    has_pending_ = true;
    ending_ = true;
    final_ = grpc::Status::OK;
    WriteIfIdle();
    FinishIfIdle();
  }
  void WriteIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || !has_pending_ || finished_) return;
    out_.Clear();
    out_.Swap(&pending_);
    has_pending_ = false;
    waiting_orders_ = 0;
    writing_ = true;
    StartWrite(&out_);
  }
  void FinishIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!ending_ || writing_ || has_pending_ || finished_) return;
    finished_ = true;
    Finish(final_);
  }

  WorkerSessions* const owner_;
  const int64_t session_;
  bool greeted_ = false;             // only the reading thread
  std::set<std::string> sent_specs_; // only the engine's thread
  v1::WorkerFrame in_;

  Mutex mutex_;
  v1::SchedulerFrame out_ ABSL_GUARDED_BY(mutex_);      // being written
  v1::SchedulerFrame pending_ ABSL_GUARDED_BY(mutex_);  // gathers meanwhile
  bool has_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  size_t waiting_orders_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status final_ ABSL_GUARDED_BY(mutex_) = grpc::Status::OK;
};

absl::Status SessionStream::Take(const v1::WorkerFrame& frame) {
  engine::EngineThread* const engine = owner_->engine_;
  if (frame.has_hello() == greeted_) {
    return absl::FailedPreconditionError(greeted_ ? "a second hello in one session" : "the first frame of a session must be its hello");
  }
  if (frame.has_hello()) {
    absl::StatusOr<core::NodeHello> hello = HelloOf(frame.hello());
    if (!hello.ok()) return hello.status();
    greeted_ = true;
    if (absl::Status status = engine->Hello(session_, *std::move(hello)); !status.ok()) return status;
  }
  engine->Heard(session_, frame.renewal());
  for (const v1::ProgressReport& progress : frame.progress()) {
    engine->Progressed(session_, AttemptOf(progress.attempt()), ProgressOf(progress, owner_->options_.clock->NowUtcMs()));
  }
  if (frame.reports_size() > 0) {
    absl::StatusOr<std::vector<core::Report>> reports = ReportsOf(frame);
    if (!reports.ok()) return reports.status();
    if (absl::Status status = engine->Reports(session_, *std::move(reports)); !status.ok()) return status;
  }
  if (frame.has_notice()) engine->Noticed(session_, frame.notice().in_ms(), Printable(frame.notice().source()), frame.notice().advisory());
  return absl::OkStatus();
}

grpc::ServerBidiReactor<v1::WorkerFrame, v1::SchedulerFrame>* WorkerSessions::Session(grpc::CallbackServerContext* context) {
  SessionStream* stream;
  {
    MutexLock lock(&mutex_);
    stream = new SessionStream(this, next_session_);
    streams_[next_session_++] = stream;
  }
  if (absl::Status status = Authenticate(*context, *options_.guard); !status.ok()) {
    stream->RefuseStranger(status);
  } else {
    stream->Begin();
  }
  return stream;
}

template <typename Act>
void WorkerSessions::With(int64_t session, Act act) {
  MutexLock lock(&mutex_);
  if (const auto it = streams_.find(session); it != streams_.end()) act(it->second);
}

void WorkerSessions::Remove(int64_t session) {
  MutexLock lock(&mutex_);
  streams_.erase(session);
}

void WorkerSessions::Welcome(int64_t session, const engine::WelcomeOrder& welcome) {
  v1::Welcome frame = WelcomeFrame(welcome, options_.store_url);
  With(session, [&](SessionStream* stream) {
    for (const engine::OfferOrder& offer : welcome.offers) {
      if (!stream->NeedsSpec(offer.spec_digest)) continue;
      absl::StatusOr<std::string> spec = options_.specs->Get(offer.spec_digest);
      if (!spec.ok()) return stream->End(spec.status());
      v1::SpecData* data = frame.add_specs();
      data->set_digest(offer.spec_digest);
      data->set_spec(*std::move(spec));
    }
    stream->Push(1, [&](v1::SchedulerFrame* out) { *out->mutable_welcome() = std::move(frame); });
  });
}

void WorkerSessions::Refuse(int64_t session, const absl::Status& why) {
  LOG(WARNING) << "session " << session << " refused: " << why.message();
  With(session, [&](SessionStream* stream) { stream->End(why); });
}

void WorkerSessions::Offer(int64_t session, const engine::OfferOrder& offer) {
  With(session, [&](SessionStream* stream) {
    std::string spec_bytes;
    const bool needs_spec = stream->NeedsSpec(offer.spec_digest);
    if (needs_spec) {
      absl::StatusOr<std::string> spec = options_.specs->Get(offer.spec_digest);
      if (!spec.ok()) return stream->End(spec.status());
      spec_bytes = *std::move(spec);
    }
    stream->Push(1, [&](v1::SchedulerFrame* out) {
      if (needs_spec) {
        v1::SpecData* data = out->add_specs();
        data->set_digest(offer.spec_digest);
        data->set_spec(std::move(spec_bytes));
      }
      *out->add_offers() = OfferFrame(offer);
    });
  });
}

void WorkerSessions::Stop(int64_t session, const engine::StopOrder& stop) {
  With(session, [&](SessionStream* stream) { stream->Push(1, [&](v1::SchedulerFrame* out) { *out->add_stops() = StopFrame(stop); }); });
}

void WorkerSessions::Forget(int64_t session, const engine::ForgetOrder& forget) {
  With(session, [&](SessionStream* stream) { stream->Push(1, [&](v1::SchedulerFrame* out) { *out->add_forget() = KeyOf(forget.attempt); }); });
}

void WorkerSessions::AckReports(int64_t session, int64_t seq) {
  With(session, [&](SessionStream* stream) { stream->Push(0, [&](v1::SchedulerFrame* out) { out->set_report_ack(seq); }); });
}

void WorkerSessions::AckRenewal(int64_t session, int64_t renewal) {
  With(session, [&](SessionStream* stream) { stream->Push(0, [&](v1::SchedulerFrame* out) { out->set_renewal_ack(renewal); }); });
}

void WorkerSessions::Close(int64_t session, absl::string_view code, absl::string_view message, bool come_back) {
  With(session, [&](SessionStream* stream) { stream->Goodbye(code, message, come_back); });
}

void WorkerSessions::CloseAll(absl::string_view code, absl::string_view message) {
  MutexLock lock(&mutex_);
  for (auto& [session, stream] : streams_) stream->Goodbye(code, message, true);
}

}  // namespace spillway::rpc
