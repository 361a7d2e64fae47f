// The scheduler's process in the simulation: the real Engine on the real store, driven as EngineThread drives it, with two differences: time is the
// world's, and the process may die at any commit (before it, torn in its middle, after it, with its replies half way) and begin again from what is on disk.
//
// Owns the process's life: inbox, turns, commits in order, restart. Never looks into what is decided.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/turn_clock.h"
#include "sim/faults.h"
#include "sim/hooks.h"
#include "sim/network.h"
#include "sim/observer.h"
#include "sim/sim_disk.h"

namespace spillway::sim {

// The scheduler machine's clock: UTC that an operator may set, and a steady reading.
class HostClock final : public Clock {
 public:
  HostClock(const World* world, int64_t rate_ppm) : world_(world), rate_ppm_(rate_ppm) {}
  int64_t NowUtcMs() override { return Reading() + set_ms_; }
  int64_t NowSteadyMs() override { return Reading() - World::kStartMs; }
  void Set(int64_t by_ms) { set_ms_ += by_ms; }

 private:
  int64_t Reading() const {
    const int64_t passed = world_->now_ms() - World::kStartMs;
    return World::kStartMs + passed + passed * rate_ppm_ / 1'000'000;
  }
  const World* const world_;
  const int64_t rate_ppm_;
  int64_t set_ms_ = 0;
};

enum class DeathAt { kNow, kBeforeCommit, kInCommit, kAfterCommit, kAfterReplies };

class SchedulerHost {
 public:
  // What is around an engine in one life of the process. Made anew at every start.
  struct Sinks {
    std::unique_ptr<engine::SessionSink> sessions;
    std::unique_ptr<engine::EffectSink> effects;
  };
  struct Surroundings {
    World* world = nullptr;
    Observer* observer = nullptr;
    const Faults* faults = nullptr;
    const Hooks* hooks = nullptr;
    SimDisk* disk = nullptr;
    HostClock* clock = nullptr;
    core::Configure configuration;
    std::function<Sinks()> make_sinks;
    std::function<void()> began, died;  // the port listens; it does not
  };
  SchedulerHost(Surroundings around, engine::Options options);

  bool up() const { return engine_ != nullptr; }
  const engine::Engine* engine() const { return engine_.get(); }
  store::SqliteStore* store() const { return store_; }
  const Life& life() const { return life_; }
  engine::SessionSink* sessions() const { return sinks_.sessions.get(); }
  HostClock* clock() const { return around_.clock; }
  // Stored specs by digest, of committed turns.
  const std::string* Spec(const std::string& digest) const;

  void Start();
  // `back_in_ms` after its death it starts again.
  void Die(DeathAt when, bool power_loss, int64_t back_in_ms);
  void CallOffDeath() { death_.reset(); }
  void Stall(int64_t ms);  // its engine thread does not run
  void EndStall();
  void SetDiskFull(bool full);

  // From the process's other threads. Nothing happens when it is down (nobody listens).
  void Enqueue(std::function<void(engine::Engine*)> input);
  void Post(core::Command command, engine::Engine::Done done);

 private:
  void PlanTurn(int64_t at_ms);
  void Turn();
  void PlanCommit(int64_t ms);
  void Commit();
  void Durable(const store::Batch& batch);
  bool DiesNow(DeathAt where);
  void DieNow();

  const Surroundings around_;
  const engine::Options options_;
  Rng rng_;
  Life life_;
  Sinks sinks_;
  std::unique_ptr<engine::Engine> engine_;
  store::SqliteStore* store_ = nullptr;
  std::optional<engine::TurnClock> turn_clock_;
  std::vector<std::function<void(engine::Engine*)>> inbox_;
  std::vector<std::pair<int64_t, absl::Status>> commits_;  // what the store thread told the engine's
  std::deque<store::Batch> batches_;                       // made, not committed for certain
  bool committing_ = false;
  int64_t turn_at_ms_ = std::numeric_limits<int64_t>::max();
  int64_t stalled_until_ms_ = 0;
  struct Death {
    DeathAt when;
    bool power_loss;
    int64_t back_in_ms;
  };
  std::optional<Death> death_;
  std::map<std::string, std::string> specs_;
  int64_t lives_ = 0;
};

}  // namespace spillway::sim
