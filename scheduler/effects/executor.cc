#include "scheduler/effects/executor.h"

#include <utility>

#include "base/log.h"

namespace spillway::effects {
namespace {

void SayMissing(const std::string& provider) {
  LOG(ERROR) << "provider " << provider << " is not configured any more, yet it has nodes; put it back to have them ended";
}

}  // namespace

void Executor::AddProvider(const std::string& name, std::unique_ptr<ProviderRunner> runner) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  if (const auto waiting = waiting_.find(name); waiting != waiting_.end()) {
    for (const Act& act : waiting->second) act(runner.get());
    waiting_.erase(waiting);
  }
  runners_[name] = std::move(runner);
}

void Executor::AllAdded() {
  MutexLock lock(&mutex_);
  all_added_ = true;
  for (const auto& [provider, acts] : waiting_) SayMissing(provider);
  waiting_.clear();
}

void Executor::For(const std::string& provider, Act act) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  if (const auto it = runners_.find(provider); it != runners_.end()) return act(it->second.get());
  if (all_added_) return SayMissing(provider);
  waiting_[provider].push_back(std::move(act));
}

void Executor::Seal(const engine::SealOrder& order) { sealer_->Seal(order); }
void Executor::Create(const engine::CreateOrder& order) {
  For(order.node.provider, [order](ProviderRunner* runner) { runner->Create(order); });
}
void Executor::Terminate(const engine::TerminateOrder& order) {
  For(order.provider, [order](ProviderRunner* runner) { runner->Terminate(order); });
}
void Executor::AskAbout(const std::string& provider) {
  For(provider, [](ProviderRunner* runner) { runner->ListSoon(); });
}

void Executor::Stop() {
  std::map<std::string, std::unique_ptr<ProviderRunner>> runners;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    runners.swap(runners_);
    waiting_.clear();
  }
  runners.clear();
  if (sealer_ != nullptr) sealer_->Stop();
}

}  // namespace spillway::effects
