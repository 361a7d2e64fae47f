#include "scheduler/rpc/worker_sessions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/text.h"
#include "scheduler/rpc/call.h"
#include "scheduler/rpc/translate_session.h"

namespace spillway::rpc {

// One stream. Reads are taken one by one on gRPC's threads; writes are what has gathered in the outbox since the last one.
//
// Its end: `ending_` is set once (by whoever is first: a goodbye, a broken rule, the worker's leaving) and from then on nothing is added. Finish is called
// once, when no write is under way and nothing waits. Whoever found the stream in the map may hold it longer than gRPC does: then it does nothing any more.
class SessionStream final : public grpc::ServerBidiReactor<v1::WorkerFrame, v1::SchedulerFrame> {
 public:
  SessionStream(WorkerSessions* owner, int64_t session, grpc::CallbackServerContext* context, SessionOutbox::Options outbox)
      : owner_(owner), session_(session), context_(context), outbox_(std::move(outbox)) {}

  void Begin() { StartRead(&in_); }

  // `add` puts something into the outbox.
  template <typename Add>
  void Send(Add add) {
    MutexLock lock(&mutex_);
    if (ending_) return;
    if (const absl::Status status = add(&outbox_); !status.ok()) return GiveUp(status);
    WriteIfIdle();
    FinishIfIdle();
  }

  void Goodbye(absl::string_view code, absl::string_view message, bool come_back) {
    MutexLock lock(&mutex_);
    if (ending_) return;
    v1::Goodbye goodbye;
    goodbye.set_code(std::string(code));
    goodbye.set_message(std::string(message));
    goodbye.set_come_back(come_back);
    outbox_.SayGoodbye(std::move(goodbye));
    ending_ = true;
    final_ = grpc::Status::OK;
    WriteIfIdle();
    FinishIfIdle();
  }

  // Ends the stream with a status, without a goodbye; what still waits is not sent.
  void End(const absl::Status& status) {
    MutexLock lock(&mutex_);
    silent_ = true;
    if (!ending_) final_ = ToGrpc(status);
    ending_ = true;
    FinishIfIdle();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    if (const absl::Status status = Take(in_); !status.ok()) {
      LOG(WARNING) << "session " << session_ << (node_.empty() ? "" : absl::StrCat(" of ", node_)) << " ends: " << status.message();
      return End(status);
    }
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) ending_ = silent_ = true;
    WriteIfIdle();
    FinishIfIdle();
  }
  void OnCancel() override { End(absl::CancelledError("the worker went away")); }
  void OnDone() override {
    const std::shared_ptr<SessionStream> last = owner_->Remove(session_);
    owner_->engine_->Closed(session_);
  }

  absl::Status Take(const v1::WorkerFrame& frame);

  // The worker does not read: no goodbye would reach it, and the write under way may never end by itself.
  void GiveUp(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    LOG(WARNING) << "session " << session_ << " is cancelled: " << status.message();
    ending_ = silent_ = true;
    final_ = ToGrpc(status);
    context_->TryCancel();
    FinishIfIdle();
  }
  void WriteIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || silent_ || outbox_.Empty()) return;
    absl::StatusOr<v1::SchedulerFrame> frame = outbox_.NextFrame();
    if (!frame.ok()) return GiveUp(frame.status());
    out_ = *std::move(frame);
    writing_ = true;
    StartWrite(&out_);
  }
  void FinishIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!ending_ || writing_ || finished_ || (!silent_ && !outbox_.Empty())) return;
    finished_ = true;
    Finish(final_);
  }

  WorkerSessions* const owner_;
  const int64_t session_;
  grpc::CallbackServerContext* const context_;
  bool greeted_ = false;  // only the reading thread
  std::string node_;      // only the reading thread
  v1::WorkerFrame in_;

  Mutex mutex_;
  SessionOutbox outbox_ ABSL_GUARDED_BY(mutex_);
  v1::SchedulerFrame out_ ABSL_GUARDED_BY(mutex_);  // being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is added any more
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;  // and what waits is not written
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
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
    node_ = hello->name;
    if (absl::Status status = engine->Hello(session_, *std::move(hello)); !status.ok()) return status;
  }
  if (absl::Status status = CheckProgress(frame); !status.ok()) return status;
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
  SessionOutbox::Options outbox;
  outbox.spec_of = [this](const std::string& digest) { return options_.specs->Get(digest); };
  outbox.secrets_of = [this](const std::vector<std::string>& names) { return options_.secrets->Values(names); };
  outbox.store_url = options_.store_url;
  outbox.orders_max = options_.outbox_orders_max;
  std::shared_ptr<SessionStream> stream;
  {
    MutexLock lock(&mutex_);
    const int64_t session = next_session_++;
    stream = std::make_shared<SessionStream>(this, session, context, std::move(outbox));
    streams_[session] = stream;
  }
  if (absl::Status status = Authenticate(*context, *options_.guard); !status.ok()) {
    stream->End(status);
  } else {
    stream->Begin();
  }
  return stream.get();  // the map holds it until OnDone
}

std::shared_ptr<SessionStream> WorkerSessions::Find(int64_t session) {
  MutexLock lock(&mutex_);
  const auto it = streams_.find(session);
  return it == streams_.end() ? nullptr : it->second;
}

std::shared_ptr<SessionStream> WorkerSessions::Remove(int64_t session) {
  MutexLock lock(&mutex_);
  auto node = streams_.extract(session);
  return node.empty() ? nullptr : std::move(node.mapped());
}

void WorkerSessions::Welcome(int64_t session, const engine::WelcomeOrder& welcome) {
  if (const auto stream = Find(session)) stream->Send([&](SessionOutbox* outbox) { return outbox->Welcome(welcome); });
}

void WorkerSessions::Refuse(int64_t session, const absl::Status& why) {
  LOG(WARNING) << "session " << session << " refused: " << why.message();
  if (const auto stream = Find(session)) stream->End(why);
}

void WorkerSessions::Offer(int64_t session, const engine::OfferOrder& offer) {
  if (const auto stream = Find(session)) stream->Send([&](SessionOutbox* outbox) { return outbox->Offer(offer); });
}

void WorkerSessions::Stop(int64_t session, const engine::StopOrder& stop) {
  if (const auto stream = Find(session)) stream->Send([&](SessionOutbox* outbox) { return outbox->Stop(stop); });
}

void WorkerSessions::Forget(int64_t session, const engine::ForgetOrder& forget) {
  if (const auto stream = Find(session)) stream->Send([&](SessionOutbox* outbox) { return outbox->Forget(forget.attempt); });
}

void WorkerSessions::AckReports(int64_t session, int64_t seq) {
  const auto ack = [&](SessionOutbox* outbox) {
    outbox->AckReports(seq);
    return absl::OkStatus();
  };
  if (const auto stream = Find(session)) stream->Send(ack);
}

void WorkerSessions::AckRenewal(int64_t session, int64_t renewal) {
  const auto ack = [&](SessionOutbox* outbox) {
    outbox->AckRenewal(renewal);
    return absl::OkStatus();
  };
  if (const auto stream = Find(session)) stream->Send(ack);
}

void WorkerSessions::Close(int64_t session, absl::string_view code, absl::string_view message, bool come_back) {
  if (const auto stream = Find(session)) stream->Goodbye(code, message, come_back);
}

void WorkerSessions::CloseAll(absl::string_view code, absl::string_view message) {
  std::vector<std::shared_ptr<SessionStream>> streams;
  {
    MutexLock lock(&mutex_);
    for (const auto& [session, stream] : streams_) streams.push_back(stream);
  }
  for (const auto& stream : streams) stream->Goodbye(code, message, true);
}

}  // namespace spillway::rpc
