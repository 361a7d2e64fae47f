// The engine's effects, handed to those who carry them out: the sealer, and a runner for each provider. Wiring only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "scheduler/effects/provider_runner.h"
#include "scheduler/effects/sealer.h"

namespace spillway::effects {

class Executor final : public engine::EffectSink {
 public:
  // Both before the engine starts.
  void SetSealer(std::unique_ptr<Sealer> sealer) { sealer_ = std::move(sealer); }
  void AddProvider(const std::string& name, std::unique_ptr<ProviderRunner> runner) { runners_[name] = std::move(runner); }

  void Seal(const engine::SealOrder& order) override { sealer_->Seal(order); }
  void Create(const engine::CreateOrder& order) override;
  void Terminate(const engine::TerminateOrder& order) override;
  void AskAbout(const std::string& provider) override;

  // Joins every thread; nothing is posted afterwards.
  void Stop();

 private:
  std::unique_ptr<Sealer> sealer_;
  std::map<std::string, std::unique_ptr<ProviderRunner>> runners_;
};

}  // namespace spillway::effects
