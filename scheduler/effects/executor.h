// The engine's effects, handed to those who carry them out: the sealer, and a runner for each provider. Wiring only.
// The engine owes effects from its first turn on, before its providers can be made: orders for a provider that is not there yet wait for it. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "scheduler/effects/provider_runner.h"
#include "scheduler/effects/sealer.h"

namespace spillway::effects {

class Executor final : public engine::EffectSink {
 public:
  // Before the engine starts.
  void SetSealer(std::unique_ptr<Sealer> sealer) { sealer_ = std::move(sealer); }
  void AddProvider(const std::string& name, std::unique_ptr<ProviderRunner> runner);
  // No further provider comes: what is owed to one that left the configuration is named in the log, and waits until it is back.
  void AllAdded();

  void Seal(const engine::SealOrder& order) override;
  void Create(const engine::CreateOrder& order) override;
  void Terminate(const engine::TerminateOrder& order) override;
  void AskAbout(const std::string& provider) override;

  // Joins every thread. Orders that still come are dropped: the state owes them again after the next start. The engine must be stopped first,
  // or what the executors find out meanwhile goes nowhere. Idempotent.
  void Stop();

 private:
  using Act = std::function<void(ProviderRunner*)>;
  void For(const std::string& provider, Act act);

  std::unique_ptr<Sealer> sealer_;
  Mutex mutex_;
  bool all_added_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::unique_ptr<ProviderRunner>> runners_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<Act>> waiting_ ABSL_GUARDED_BY(mutex_);  // for a provider that is still to come
};

}  // namespace spillway::effects
