#include "scheduler/effects/executor.h"

#include "base/log.h"

namespace spillway::effects {
namespace {

// A provider that left the configuration while nodes of it live: what is owed to it waits until it is back.
void SayMissing(const std::string& provider) { LOG(ERROR) << "provider " << provider << " is not configured any more, yet it has nodes; put it back to have them ended"; }

}  // namespace

void Executor::Create(const engine::CreateOrder& order) {
  const auto it = runners_.find(order.node.provider);
  it == runners_.end() ? SayMissing(order.node.provider) : it->second->Create(order);
}

void Executor::Terminate(const engine::TerminateOrder& order) {
  const auto it = runners_.find(order.provider);
  it == runners_.end() ? SayMissing(order.provider) : it->second->Terminate(order);
}

void Executor::AskAbout(const std::string& provider) {
  if (const auto it = runners_.find(provider); it != runners_.end()) it->second->ListSoon();
}

void Executor::Stop() {
  runners_.clear();
  sealer_.reset();
}

}  // namespace spillway::effects
