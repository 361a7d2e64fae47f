// What a watcher of one promise is, and all of them as one observer. A watcher keeps its own books from the durable record and from what truly happened;
// it shares no code with the scheduler beyond the vocabulary of events, so that both cannot be wrong in the same way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace spillway::sim {

class Watch : public Observer {
 public:
  explicit Watch(World** world) : world_(world) {}
  // The world has come to rest.
  virtual void AtEnd(const Simulation& simulation) {}

 protected:
  template <typename... Parts>
  void Broken(const Parts&... parts) {
    (*world_)->Fail(absl::StrCat(parts...));
  }
  World* world() const { return *world_; }

 private:
  World** const world_;  // set once the world exists
};

// Every watcher there is.
class Watches final : public Observer {
 public:
  Watches();
  void SetWorld(World* world) { world_ = world; }
  void AtEnd(const Simulation& simulation) {
    for (const auto& watch : watches_) {
      if (world_->failure().empty()) watch->AtEnd(simulation);
    }
  }

  void SubmitAnswered(const std::string& request_id, const std::vector<JobId>& jobs) override { All(&Observer::SubmitAnswered, request_id, jobs); }
  void CancelAnswered(JobId job, const std::vector<core::TaskRange>& tasks) override { All(&Observer::CancelAnswered, job, tasks); }
  void TurnMade(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms) override {
    All(&Observer::TurnMade, state, soft, policy, now_ms);
  }
  void TurnDurable(const store::Batch& batch) override { All(&Observer::TurnDurable, batch); }
  void Restarted(const core::State& state) override { All(&Observer::Restarted, state); }
  void SealListed(AttemptId attempt) override { All(&Observer::SealListed, attempt); }
  void ProcessBegan(const ProcessFact& process) override { All(&Observer::ProcessBegan, process); }
  void ProcessEnded(const ProcessFact& process) override { All(&Observer::ProcessEnded, process); }
  void SupervisorBegan(const std::string& node, const std::string& boot_id) override { All(&Observer::SupervisorBegan, node, boot_id); }
  void Published(const Manifest& manifest) override { All(&Observer::Published, manifest); }
  void Damaged(const Manifest& manifest) override { All(&Observer::Damaged, manifest); }
  void InstanceMade(const Instance& instance) override { All(&Observer::InstanceMade, instance); }
  void InstanceEnded(const Instance& instance) override { All(&Observer::InstanceEnded, instance); }
  void Calm(int64_t calm_ms, const Simulation& simulation) override { All(&Observer::Calm, calm_ms, simulation); }

 private:
  template <typename Method, typename... Args>
  void All(Method method, const Args&... args) {
    for (const auto& watch : watches_) (watch.get()->*method)(args...);
  }
  World* world_ = nullptr;
  std::vector<std::unique_ptr<Watch>> watches_;
};

std::unique_ptr<Watch> MakeJobWatch(World** world);
std::unique_ptr<Watch> MakeAuthorityWatch(World** world);
std::unique_ptr<Watch> MakeCheckpointWatch(World** world);
std::unique_ptr<Watch> MakeMoneyWatch(World** world);
std::unique_ptr<Watch> MakeStateWatch(World** world);
std::unique_ptr<Watch> MakeProbeWatch(World** world);

// One seed from its beginning to its end under every watch.
SimResult RunWatched(SimOptions options);

}  // namespace spillway::sim
