// That what an executor found out is not lost to a full mailbox, and that a stopping engine lets its executors go.
#include "scheduler/effects/answers.h"

#include <atomic>
#include <thread>

#include "base/limits.h"
#include "base/status_matchers.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/effects/posted.h"

namespace spillway::effects {
namespace {

class NoSink final : public engine::SessionSink, public engine::EffectSink {
 public:
  void Welcome(int64_t, const engine::WelcomeOrder&) override {}
  void Refuse(int64_t, const absl::Status&) override {}
  void Offer(int64_t, const engine::OfferOrder&) override {}
  void Stop(int64_t, const engine::StopOrder&) override {}
  void Forget(int64_t, const engine::ForgetOrder&) override {}
  void AckReports(int64_t, int64_t) override {}
  void AckRenewal(int64_t, int64_t) override {}
  void Close(int64_t, absl::string_view, absl::string_view, bool) override {}
  void Seal(const engine::SealOrder&) override {}
  void Create(const engine::CreateOrder&) override {}
  void Terminate(const engine::TerminateOrder&) override {}
  void AskAbout(const std::string&) override {}
};

TEST(Answers, WaitForAFullMailboxAndGiveUpWhenTheEngineStops) {
  store::SqliteOptions on;
  on.path = ":memory:";
  ASSERT_OK_AND_ASSIGN(auto store, store::SqliteStore::Open(on));
  RealClock clock;
  NoSink sink;
  engine::EngineThread engine({}, store.get(), &clock, &sink, &sink);
  const Post post = AnswersTo(&engine);
  // Not started yet, it takes and does nothing.
  core::SealResult seal;
  seal.attempt = {1, 0, 1};
  while (engine.Post(seal, {}).ok()) {
  }
  std::atomic<bool> through = false;
  std::thread executor([&] {
    core::ProviderInfo cloud;
    cloud.name = "cloud";
    cloud.can_create = true;
    post(core::Configure{"cluster", {cloud}, {}});
    through = true;
  });
  EXPECT_FALSE(through);
  ASSERT_OK(engine.Start());
  executor.join();
  std::string cluster;
  ASSERT_TRUE(Eventually([&] {
    EXPECT_OK(engine.Query([&](const core::State& state, const core::Soft&, int64_t) { cluster = state.meta.cluster_uuid; }));
    return !cluster.empty();
  }));
  EXPECT_EQ(cluster, "cluster");
  engine.Stop();
  post(seal);  // returns
}

}  // namespace
}  // namespace spillway::effects
