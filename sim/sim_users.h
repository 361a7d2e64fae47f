// Users: submit jobs and arrays, some with deadlines, ask again when no answer came (with the same request id), cancel whole jobs and some of their tasks,
// preempt, pause and resume, change priorities and limits; an operator drains and cordons and takes it back.
// Their requests and the answers may be lost, and the scheduler may be down. Owns what was asked and not answered yet; checks no answer.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/faults.h"
#include "sim/hooks.h"
#include "sim/observer.h"
#include "sim/scheduler_host.h"

namespace spillway::sim {

class SimUsers {
 public:
  struct Surroundings {
    World* world = nullptr;
    SchedulerHost* host = nullptr;
    Observer* observer = nullptr;
    const Faults* faults = nullptr;
    const Hooks* hooks = nullptr;
  };
  explicit SimUsers(Surroundings around);

  // Makes up a job and submits it until somebody says yes or no. In haste: short steps and saves, as a storm needs them; else long ones.
  void SubmitOne(bool haste);
  // Of a random living thing, once, answered or not.
  void CancelOne();
  void PreemptOne();
  void DrainOne(int64_t back_in_ms);
  void PauseOne(int64_t resume_in_ms);
  void UpdateOne();
  // Until it has ended.
  void CancelForSure(JobId job);
  // Jobs that never end by themselves are given up, now and when they turn up later.
  void GiveUpEndless();
  void UncordonAll();
  void ResumeAll();
  size_t unanswered() const { return unanswered_; }
  int64_t made() const { return made_; }
  size_t under_way();  // jobs submitted and not known to have ended
  const std::set<JobId>& jobs() const { return jobs_; }

 private:
  void Try(core::Submit submit, int64_t tries);
  core::NewJob MakeUp(bool haste);
  JobId AnyLiving();  // 0: none that we know of
  const core::State* State() const { return around_.host->up() ? &around_.host->engine()->state() : nullptr; }

  const Surroundings around_;
  Rng rng_, gangs_;
  int64_t made_ = 0;
  size_t unanswered_ = 0, living_ = 0;
  bool gives_up_endless_ = false;
  std::set<JobId> jobs_, endless_, cancelling_;
};

}  // namespace spillway::sim
