// Carries out what the state owes the store and the clouds, by the rules of scheduler/effects: one call to a provider at a time, what fails for other
// reasons than capacity is tried again with back-off, a termination is repeated until a listing begun after it no longer shows the instance alive.
// Lives and dies with the scheduler's process.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "scheduler/engine/orders.h"
#include "sim/scheduler_host.h"
#include "sim/sim_cloud.h"

namespace spillway::sim {

struct EffectsSetup {
  World* world = nullptr;
  SchedulerHost* host = nullptr;
  CheckpointStore* store = nullptr;
  Observer* observer = nullptr;
  const Faults* faults = nullptr;
  const Hooks* hooks = nullptr;
};

// One provider's orders.
class CloudRunner {
 public:
  CloudRunner(EffectsSetup setup, SimCloud* cloud);
  void Create(const engine::CreateOrder& order);
  void Terminate(const engine::TerminateOrder& order);
  void ListSoon();

 private:
  template <typename Order>
  struct Owed {
    Order order;
    int64_t next_try_ms = 0, backoff_ms = 0;
  };
  void Wake(int64_t at_ms);
  void Work();
  void Done();  // of the call that was under way
  void CreateOne(NodeId node);
  void TerminateOne(NodeId node);
  void ListOffers();
  void ListInstances();
  void Distort(core::InstanceListing* listing) const;

  const EffectsSetup setup_;
  SimCloud* const cloud_;
  Life life_;
  bool busy_ = false;
  std::map<NodeId, Owed<engine::CreateOrder>> creates_;
  std::map<NodeId, Owed<engine::TerminateOrder>> terminates_;
  int64_t list_due_ms_ = 0, offers_due_ms_ = 0, wake_at_ms_;
};

class SimEffects final : public engine::EffectSink {
 public:
  explicit SimEffects(EffectsSetup setup);
  void AddCloud(SimCloud* cloud);

  void Seal(const engine::SealOrder& order) override;
  void Create(const engine::CreateOrder& order) override;
  void Terminate(const engine::TerminateOrder& order) override;
  void AskAbout(const std::string& provider) override;

 private:
  void SealNow(const engine::SealOrder& order);

  const EffectsSetup setup_;
  Life life_;
  Rng rng_;
  std::map<std::string, std::unique_ptr<CloudRunner>> runners_;
};

}  // namespace spillway::sim
