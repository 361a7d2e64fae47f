// The sessions of workers: one bidirectional stream a node. Frames in become calls on the engine's thread; the engine's orders become frames out, batched
// into whatever frame waits to be written (session_outbox.h). Owns the streams and their life; never decides.
//
// A session that does not read what it is sent is cancelled and may come back: its welcome tells it everything again.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "scheduler/auth/token.h"
#include "scheduler/engine/engine_thread.h"
#include "scheduler/engine/orders.h"
#include "scheduler/rpc/session_outbox.h"
#include "scheduler/rpc/spec_cache.h"
#include "scheduler/secrets/secret_store.h"
#include "spillway/v1/worker_service.grpc.pb.h"

namespace spillway::rpc {

class SessionStream;

class WorkerSessions final : public v1::WorkerService::CallbackService, public engine::SessionSink {
 public:
  struct Options {
    const auth::TokenGuard* guard = nullptr;
    SpecCache* specs = nullptr;
    const secrets::SecretStore* secrets = nullptr;
    Clock* clock = nullptr;
    std::string store_url;
    size_t outbox_orders_max = SessionOutbox::kOrdersMax;
  };
  explicit WorkerSessions(Options options) : options_(std::move(options)) {}

  // Before the first session; the engine needs this sink to be made first.
  void Attach(engine::EngineThread* engine) { engine_ = engine; }

  grpc::ServerBidiReactor<v1::WorkerFrame, v1::SchedulerFrame>* Session(grpc::CallbackServerContext* context) override;

  // engine::SessionSink, on the engine's thread.
  void Welcome(int64_t session, const engine::WelcomeOrder& welcome) override;
  void Refuse(int64_t session, const absl::Status& why) override;
  void Offer(int64_t session, const engine::OfferOrder& offer) override;
  void Stop(int64_t session, const engine::StopOrder& stop) override;
  void Forget(int64_t session, const engine::ForgetOrder& forget) override;
  void AckReports(int64_t session, int64_t seq) override;
  void AckRenewal(int64_t session, int64_t renewal) override;
  void Close(int64_t session, absl::string_view code, absl::string_view message, bool come_back) override;

  // A planned stop: every session gets a last word and ends.
  void CloseAll(absl::string_view code, absl::string_view message);

 private:
  friend class SessionStream;
  // Null when it has ended.
  std::shared_ptr<SessionStream> Find(int64_t session);
  std::shared_ptr<SessionStream> Remove(int64_t session);

  const Options options_;
  engine::EngineThread* engine_ = nullptr;
  Mutex mutex_;
  int64_t next_session_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<int64_t, std::shared_ptr<SessionStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway::rpc
