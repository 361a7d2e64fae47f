// Carries out what the state owes one provider: instances to create and to end, its price list, its listing. Owns one thread; all calls to the provider are
// made there, one after the other, with back-off. Every order may come twice; the client token makes that the same as once.
//
// Creation that fails for want of capacity, or as a wrong request, is reported; anything else is tried again until it works or the order turns into a
// termination. A termination is repeated until a listing begun after it no longer shows the instance alive.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "scheduler/core/command.h"
#include "scheduler/engine/orders.h"
#include "scheduler/provider/provider.h"

namespace spillway::effects {

struct RunnerOptions {
  int64_t list_every_ms = 1'000;
  int64_t offers_every_ms = 5'000;
  int64_t backoff_ms_min = 200;
  int64_t backoff_ms_max = 30'000;
};

class ProviderRunner {
 public:
  using Post = std::function<void(core::Command)>;
  // `turn_ms`: the time of the engine's newest turn. What a listing proves is told by comparing with times of turns, and after a clock was set back these run
  // ahead of UTC for hours.
  ProviderRunner(std::unique_ptr<provider::Provider> provider, Clock* clock, std::function<int64_t()> turn_ms, Post post, RunnerOptions options = {});
  ~ProviderRunner();

  void Create(const engine::CreateOrder& order);
  void Terminate(const engine::TerminateOrder& order);
  void ListSoon();

 private:
  template <typename Order>
  struct Owed {
    Order order;
    int64_t next_try_ms = 0;  // steady clock
    int64_t backoff_ms = 0;
  };

  void Work();
  // Each does at most one call to the provider; true when it did something.
  bool CreateOne();
  bool TerminateOne();
  void RefreshOffers();
  void RefreshListing();
  int64_t NextDueMs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NextBackoff(int64_t backoff_ms) const;

  const std::unique_ptr<provider::Provider> provider_;
  Clock* const clock_;
  const std::function<int64_t()> turn_ms_;
  const Post post_;
  const RunnerOptions options_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<NodeId, Owed<engine::CreateOrder>> creates_ ABSL_GUARDED_BY(mutex_);
  std::map<NodeId, Owed<engine::TerminateOrder>> terminates_ ABSL_GUARDED_BY(mutex_);
  int64_t list_due_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t offers_due_ms_ ABSL_GUARDED_BY(mutex_) = 0;

  bool out_of_reach_ = false;             // only the working thread: said once, not every second
  std::vector<core::Offer> last_offers_;  // only the working thread
  bool offers_posted_ = false;
  std::thread thread_;
};

}  // namespace spillway::effects
