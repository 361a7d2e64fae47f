// Who watches the world: told what truly happened, by the parts to which it happened. Everything here is fact, not anybody's belief.
// The default hears nothing. A watcher reports a broken promise with World::Fail; it never changes anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "scheduler/core/core.h"
#include "scheduler/store/store.h"
#include "sim/checkpoint_store.h"

namespace spillway::sim {

class SimNode;
class Simulation;
struct Instance;

struct ProcessFact {
  AttemptId attempt;
  const SimNode* node = nullptr;
  std::vector<int> devices;
  std::string resume_path;  // what it was told
  int64_t began_ms = 0;
  bool completed = false;  // it did all its steps
  uint64_t work = 0;
  bool exited = false;  // by itself, with
  int64_t exit_code = 0;
};

class Observer {
 public:
  virtual ~Observer() = default;

  // Users.
  virtual void SubmitAnswered(const std::string& request_id, const std::vector<JobId>& jobs) {}
  virtual void CancelAnswered(JobId job, const std::vector<core::TaskRange>& tasks) {}  // no tasks: the whole job

  // The scheduler. Every durable turn once, in order, also those that a crash left behind without anybody having been told.
  virtual void TurnMade(const core::State& state, const core::Soft& soft, const core::Policy& policy, int64_t now_ms) {}
  virtual void TurnDurable(const store::Batch& batch) {}
  virtual void Restarted(const core::State& state) {}  // loaded from the store, before the first turn
  virtual void SealListed(AttemptId attempt) {}

  // Nodes.
  virtual void ProcessBegan(const ProcessFact& process) {}
  virtual void ProcessEnded(const ProcessFact& process) {}
  virtual void SupervisorBegan(const std::string& node, const std::string& boot_id) {}
  // Checkpoints.
  virtual void Published(const Manifest& manifest) {}
  virtual void Damaged(const Manifest& manifest) {}
  // The cloud.
  virtual void InstanceMade(const Instance& instance) {}
  virtual void InstanceEnded(const Instance& instance) {}
  // Every minute after the storm.
  virtual void Calm(int64_t calm_ms, const Simulation& simulation) {}
};

}  // namespace spillway::sim
