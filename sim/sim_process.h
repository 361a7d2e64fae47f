// One attempt's process tree on a machine, as a state machine: launch, load, step, save, step, ..., gone. Does what its JobPlan says.
//
// Owns its life and its work. Tells the observer when it truly begins and ends, and its supervisor what a supervisor can see.
// Never begins again: the object is one life.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/checkpoint_store.h"
#include "sim/job_plan.h"
#include "sim/machine_clock.h"
#include "sim/observer.h"

namespace spillway::sim {

struct ProcessSetup {
  AttemptId attempt;
  JobPlan plan;
  std::string job_uid, checkpoint_dir, resume_path;
  std::vector<int> devices;
  double late_write = 0;
  int64_t rank = 0, members = 1;  // of several members the first one saves for all, and the last one is where the plan fails
};

// How it ended, as its supervisor sees it.
struct ProcessEnd {
  bool exited = false;  // else a signal
  int64_t exit_code = 0, signal = 0;
  bool said_completed = false;
};

// What it tells its supervisor; empty ones are not asked.
struct ProcessWatch {
  std::function<void()> started;
  std::function<void(int64_t step)> progressed;
  std::function<void(int64_t step, const std::string& path)> saved;
  std::function<void(const ProcessEnd& end)> gone;
};

class SimProcess {
 public:
  SimProcess(World* world, MachineClock* clock, CheckpointStore* store, Observer* observer, const SimNode* node, uint64_t luck, ProcessSetup setup);

  void Begin(ProcessWatch watch);
  void Leave() { watch_ = {}; }  // its supervisor died; it goes on
  void Term();
  void Kill();      // gone in a moment, or in a few when it hangs in the kernel
  void PowerOff();  // gone now, and nobody is told but the observer
  bool alive() const { return alive_; }
  const AttemptId& attempt() const { return setup_.attempt; }

 private:
  void Then(int64_t ms, void (SimProcess::*next)());
  void Exec();
  void Load();
  void Step();
  void Milestone();
  void Save();
  void Saved();
  void ExitUnsaved();
  void ExitNow(int64_t code);
  void Gone(const ProcessEnd& end);
  int64_t NextMilestone() const;
  void AdvanceTo(int64_t step);
  Manifest ManifestNow() const;

  World* const world_;
  MachineClock* const clock_;
  CheckpointStore* const store_;
  Observer* const observer_;
  ProcessSetup setup_;
  ProcessWatch watch_;
  Rng rng_;
  Life life_;
  int64_t plan_ = 0;  // only the newest plan happens
  ProcessFact fact_;
  bool alive_ = false, stepping_ = false, saving_ = false, killed_ = false, term_ = false;
  int64_t exit_after_save_ = -1;  // code
  int64_t first_step_ = 0, step_ = 0, next_step_ = 0, since_ms_ = 0;
  uint64_t work_ = 0;
  std::string parent_;
  bool said_completed_ = false;
};

}  // namespace spillway::sim
