#include "sim/sim_process.h"

#include <algorithm>
#include <utility>

namespace spillway::sim {

SimProcess::SimProcess(World* world, MachineClock* clock, CheckpointStore* store, Observer* observer, const SimNode* node, uint64_t luck, ProcessSetup setup)
    : world_(world), clock_(clock), store_(store), observer_(observer), setup_(std::move(setup)), rng_(luck) {
  fact_.attempt = setup_.attempt;
  fact_.node = node;
  fact_.devices = setup_.devices;
  fact_.resume_path = setup_.resume_path;
}

void SimProcess::Then(int64_t ms, void (SimProcess::*next)()) {
  clock_->After(ms, life_, [this, next, plan = ++plan_] {
    if (plan == plan_) (this->*next)();
  });
}

void SimProcess::Begin(ProcessWatch watch) {
  watch_ = std::move(watch);
  alive_ = true;
  fact_.began_ms = world_->now_ms();
  observer_->ProcessBegan(fact_);
  Then(rng_.Between(1, 200), &SimProcess::Exec);
}

void SimProcess::Exec() {
  if (watch_.started) watch_.started();
  Load();
}

void SimProcess::Load() {
  if (!store_->Answers()) return Then(1'000, &SimProcess::Load);
  const Manifest* from = store_->Resume(setup_.resume_path);
  if (!setup_.resume_path.empty() && (from == nullptr || from->path != setup_.resume_path)) world_->Reach("fell back behind a damaged checkpoint");
  first_step_ = step_ = from == nullptr ? 0 : from->step;
  work_ = from == nullptr ? FirstWork(setup_.job_uid) : from->work;
  parent_ = from == nullptr ? "" : from->path;
  Then(rng_.Between(10, 3'000), &SimProcess::Step);
}

int64_t SimProcess::NextMilestone() const {
  const JobPlan& plan = setup_.plan;
  int64_t next = plan.total_steps > 0 ? plan.total_steps : step_ + 1'000'000'000;
  if (plan.save_every > 0) next = std::min(next, (step_ / plan.save_every + 1) * plan.save_every);
  const auto consider = [&](int64_t at) {
    if (at > step_) next = std::min(next, at);
  };
  if (setup_.attempt.number <= plan.fail_attempts) consider(plan.fail_at_step);
  if (plan.ask_at_step > first_step_) consider(plan.ask_at_step);
  return next;
}

void SimProcess::Step() {
  if (setup_.plan.total_steps > 0 && step_ >= setup_.plan.total_steps) {
    // Resumed from its own end: the last attempt saved and did not live to say so.
    said_completed_ = fact_.completed = true;
    return ExitNow(0);
  }
  stepping_ = true;
  since_ms_ = clock_->NowMs();
  next_step_ = NextMilestone();
  Then((next_step_ - step_) * setup_.plan.step_ms, &SimProcess::Milestone);
}

void SimProcess::AdvanceTo(int64_t step) {
  work_ = WorkAfter(work_, step_, step);
  step_ = step;
}

void SimProcess::Milestone() {
  const JobPlan& plan = setup_.plan;
  stepping_ = false;
  AdvanceTo(next_step_);
  if (watch_.progressed) watch_.progressed(step_);
  const bool last = setup_.rank == setup_.members - 1;
  if (step_ == plan.fail_at_step && setup_.attempt.number <= plan.fail_attempts && last) return ExitNow(1);
  if (step_ == plan.total_steps) said_completed_ = fact_.completed = true;
  if (step_ == plan.ask_at_step && !fact_.completed) exit_after_save_ = 85;
  if (fact_.completed) exit_after_save_ = 0;
  if (plan.save_every > 0 || exit_after_save_ == 85) return Save();
  if (exit_after_save_ >= 0) return ExitNow(exit_after_save_);
  Step();
}

void SimProcess::Save() {
  saving_ = true;
  Then(setup_.plan.save_ms, &SimProcess::Saved);
}

Manifest SimProcess::ManifestNow() const {
  Manifest manifest;
  manifest.attempt = setup_.attempt;
  manifest.step = step_;
  manifest.work = work_;
  manifest.path = CheckpointPath(setup_.checkpoint_dir, step_);
  manifest.parent = parent_;
  manifest.job_uid = setup_.job_uid;
  manifest.bytes = 1'000 + step_;
  return manifest;
}

void SimProcess::Saved() {
  if (!store_->Answers()) return Then(500, &SimProcess::Saved);  // it waits, as a job does that cannot save
  const Manifest manifest = ManifestNow();
  // They save together: nobody leaves for having saved before all of it is there.
  if (setup_.rank > 0 && exit_after_save_ == 85 && !term_ && store_->Find(manifest.path) == nullptr) return Then(500, &SimProcess::Saved);
  saving_ = false;
  if (manifest.path != parent_ && setup_.rank == 0) {
    store_->Publish(manifest);
    parent_ = manifest.path;
    if (setup_.plan.reports_checkpoints && watch_.saved) watch_.saved(step_, manifest.path);
  }
  if (exit_after_save_ >= 0) return ExitNow(exit_after_save_);
  Step();
}

void SimProcess::Term() {
  if (!alive_ || killed_ || term_) return;
  term_ = true;
  const JobPlan& plan = setup_.plan;
  if (plan.on_term == JobPlan::OnTerm::kIgnore) return;
  if (plan.on_term == JobPlan::OnTerm::kDie) {
    ++plan_;
    return Gone({false, 0, 15, said_completed_});
  }
  if (fact_.completed) return;  // on its way out
  exit_after_save_ = plan.on_term == JobPlan::OnTerm::kSaveAndAsk ? 85 : 0;
  if (saving_) return;
  if (!stepping_) return Then(10, &SimProcess::ExitUnsaved);  // nothing done yet: what it resumes from is all it has
  stepping_ = false;
  AdvanceTo(std::min(next_step_ - 1, step_ + (clock_->NowMs() - since_ms_) / std::max<int64_t>(1, plan.step_ms)));
  if (watch_.progressed) watch_.progressed(step_);
  Save();
}

void SimProcess::Kill() {
  if (!alive_ || killed_) return;
  killed_ = true;
  ++plan_;
  const int64_t ms = rng_.Chance(0.02) ? rng_.Between(200, 2'000) : rng_.Between(1, 50);
  clock_->After(ms, life_, [this] { Gone({false, 0, 9, said_completed_}); });
}

void SimProcess::PowerOff() {
  if (!alive_) return;
  Leave();
  Gone({false, 0, 9, false});
}

void SimProcess::ExitUnsaved() { ExitNow(exit_after_save_); }

void SimProcess::ExitNow(int64_t code) { Gone({true, code, 0, said_completed_}); }

void SimProcess::Gone(const ProcessEnd& end) {
  ++plan_;
  alive_ = false;
  if (saving_ && setup_.rank == 0 && rng_.Chance(setup_.late_write)) {
    // Its bytes were on their way already.
    world_->After(rng_.Between(0, 120'000), [store = store_, world = world_, manifest = ManifestNow()] {
      world->Reach("a checkpoint landed after its writer's death");
      store->Publish(manifest);
    });
  }
  fact_.work = work_;
  fact_.exited = end.exited;
  fact_.exit_code = end.exit_code;
  if (!end.exited || end.exit_code != 0) fact_.completed = false;
  observer_->ProcessEnded(fact_);
  life_.End();
  if (watch_.gone) std::exchange(watch_, {}).gone(end);
}

}  // namespace spillway::sim
