#include "worker/scheduler_link.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/grpc_log.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "spillway/v1/worker_service.grpc.pb.h"
#include "worker/session_wire.h"

namespace spillway::worker {
namespace {

std::string Words(const grpc::Status& status) {
  if (status.ok()) return "the scheduler closed the stream";
  const char* code = status.error_code() == grpc::StatusCode::UNAUTHENTICATED       ? "UNAUTHENTICATED"
                     : status.error_code() == grpc::StatusCode::PERMISSION_DENIED   ? "PERMISSION_DENIED"
                     : status.error_code() == grpc::StatusCode::UNAVAILABLE         ? "UNAVAILABLE"
                     : status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ? "FAILED_PRECONDITION"
                     : status.error_code() == grpc::StatusCode::ALREADY_EXISTS      ? "ALREADY_EXISTS"
                                                                                    : nullptr;
  return absl::StrCat(code == nullptr ? absl::StrCat("status ", static_cast<int>(status.error_code())) : code, ": ", Printable(status.error_message(), 300));
}

grpc::ChannelArguments Arguments() {
  LogGrpcAsDebug();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kGrpcMessageBytesMax));
  arguments.SetMaxSendMessageSize(static_cast<int>(limits::kGrpcMessageBytesMax));
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits::kGrpcMetadataBytesMax));
  // A machine that vanished without a word is noticed in 40 s. Renewals and their acks pass every 10 s, so pings stay far below what a server takes amiss.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  // The session's own back-off decides when to connect; the channel's must not sit on top of it.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);  // gRPC takes this as the time limit of one attempt to connect
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else channels to one address share their connection
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace

// One call. Keeps itself alive until gRPC is done with it.
class SchedulerLink::Stream : public grpc::ClientBidiReactor<v1::WorkerFrame, v1::SchedulerFrame> {
 public:
  Stream(int64_t session, const Callbacks* callbacks, std::unique_ptr<v1::WorkerService::Stub> stub)
      : session_(session), callbacks_(callbacks), stub_(std::move(stub)) {}

  void Start(const std::string& token, std::shared_ptr<Stream> self) {
    {
      MutexLock lock(&mutex_);
      self_ = std::move(self);
    }
    if (!token.empty()) context_.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    stub_->async()->Session(&context_, this);
    StartRead(&incoming_);
    AddHold();  // reads are started from outside of reactions
    StartCall();
  }

  void Send(const WorkerFrame& frame) {
    v1::WorkerFrame message = ToProto(frame);
    MutexLock lock(&mutex_);
    if (closed_ || read_failed_) return;  // without the hold nothing may be started from here
    if (outbox_.size() >= limits::kSessionOutboxFramesMax) {
      why_ = "the scheduler does not read";
      context_.TryCancel();
      return;
    }
    outbox_.push_back(std::move(message));
    if (!writing_) WriteNext();
  }

  void ReadNext() {
    MutexLock lock(&mutex_);
    if (reading_ || read_failed_) return;
    reading_ = true;
    StartRead(&incoming_);
  }

  // No callback comes after this returned, except one that runs already.
  void Cancel() {
    MutexLock lock(&mutex_);
    closed_ = true;
    context_.TryCancel();
    if (reading_ || read_failed_) return;
    read_failed_ = true;  // no read is under way that would end and release it
    RemoveHold();
  }

  bool WaitDone(int64_t timeout_ms) {
    MutexLock lock(&mutex_);
    for (int64_t left = timeout_ms; !done_ && left > 0; left -= 50) changed_.WaitForMs(&mutex_, 50);
    return done_;
  }
  void WaitWritten(int64_t timeout_ms) {
    MutexLock lock(&mutex_);
    for (int64_t left = timeout_ms; writing_ && !done_ && left > 0; left -= 20) changed_.WaitForMs(&mutex_, 20);
  }

  int64_t session() const { return session_; }

  void OnReadDone(bool ok) override {
    bool tell = false;
    SchedulerFrame frame;
    if (ok) frame = FromProto(incoming_);
    {
      MutexLock lock(&mutex_);
      reading_ = false;
      if (!ok) {
        read_failed_ = true;
        RemoveHold();
      }
      tell = ok && !closed_;
    }
    if (tell) callbacks_->frame(session_, std::move(frame));
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      outbox_.clear();
    } else {
      outbox_.pop_front();
      if (!outbox_.empty()) WriteNext();
    }
    changed_.SignalAll();
  }

  void OnDone(const grpc::Status& status) override {
    bool tell = false;
    std::string why;
    {
      MutexLock lock(&mutex_);
      tell = !closed_;
      closed_ = true;
      why = why_.empty() ? Words(status) : why_;
    }
    if (tell) callbacks_->closed(session_, std::move(why));
    std::shared_ptr<Stream> self;
    {
      MutexLock lock(&mutex_);
      done_ = true;
      changed_.SignalAll();
      self = std::move(self_);
    }
  }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    StartWrite(&outbox_.front());  // a deque's elements stay where they are
  }

  const int64_t session_;
  const Callbacks* const callbacks_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  v1::SchedulerFrame incoming_;

  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Stream> self_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::WorkerFrame> outbox_ ABSL_GUARDED_BY(mutex_);
  std::string why_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;  // Start began the first
  bool read_failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is told any more
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

SchedulerLink::SchedulerLink(LinkOptions options, Callbacks callbacks) : options_(std::move(options)), callbacks_(std::move(callbacks)) {}

SchedulerLink::~SchedulerLink() {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mutex_);
    stream = std::move(stream_);
  }
  if (stream == nullptr) return;
  stream->Cancel();
  stream->WaitDone(5'000);
}

void SchedulerLink::Connect(int64_t session) {
  std::string token;
  if (!options_.token_file.empty()) {
    const auto text = ReadFile(options_.token_file, 4096);
    if (text.ok()) {
      token = std::string(absl::StripAsciiWhitespace(*text));
    } else {
      LOG(WARNING) << "cannot read the token: " << text.status().message();
    }
  }
  // A connection of its own for each session: one that the other end has forgotten, and that nobody told us of, would swallow the next session too.
  auto stream = std::make_shared<Stream>(
      session, &callbacks_, v1::WorkerService::NewStub(grpc::CreateCustomChannel(options_.server, grpc::InsecureChannelCredentials(), Arguments())));
  std::shared_ptr<Stream> before;
  {
    MutexLock lock(&mutex_);
    before = std::exchange(stream_, stream);
  }
  if (before != nullptr) {
    before->Cancel();
    before->WaitDone(5'000);
  }
  stream->Start(token, stream);
}

void SchedulerLink::Send(int64_t session, const WorkerFrame& frame) {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr && stream->session() == session) stream->Send(frame);
}

void SchedulerLink::Consumed(int64_t session) {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr && stream->session() == session) stream->ReadNext();
}

void SchedulerLink::Disconnect(int64_t session) {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr && stream->session() == session) stream->Cancel();
}

void SchedulerLink::Flush(int64_t timeout_ms) {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->WaitWritten(timeout_ms);
}

}  // namespace spillway::worker
