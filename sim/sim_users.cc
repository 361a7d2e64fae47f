#include "sim/sim_users.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "sim/job_plan.h"

namespace spillway::sim {
namespace {

constexpr int64_t kAskAgainMs = 20'000;

std::string DigestOf(const std::string& bytes) {
  const Sha256Digest digest = Sha256Of(bytes);
  return std::string(digest.begin(), digest.end());
}

}  // namespace

SimUsers::SimUsers(Surroundings around) : around_(around), rng_(around.world->Luck("users")), gangs_(around.world->Luck("gangs")) {}

core::NewJob SimUsers::MakeUp(bool haste) {
  JobPlan plan;
  const bool endless = rng_.Chance(0.08);
  plan.step_ms = haste ? rng_.Between(200, 5'000) : rng_.Between(20'000, 60'000);
  plan.save_every = !rng_.Chance(0.85) ? 0 : haste ? rng_.Between(1, 60) : rng_.Between(10, 30);
  plan.save_ms = rng_.Between(10, 4'000);
  const int64_t a_step_ms = plan.step_ms + (plan.save_every > 0 ? plan.save_ms / plan.save_every : 0);
  plan.total_steps = endless ? 0 : rng_.Between(1, (haste ? 30 : 90) * 60'000 / a_step_ms);
  plan.on_term = static_cast<JobPlan::OnTerm>(rng_.Below(4));
  plan.reports_checkpoints = rng_.Chance(0.7);
  core::NewJob job;
  job.retry.node_fault = rng_.Chance(0.8) ? -1 : 5;
  if (rng_.Chance(0.15)) {
    plan.fail_at_step = rng_.Between(1, 50);
    plan.fail_attempts = rng_.Between(1, 3);
    job.retry.user_error = rng_.Between(0, 3);
  }
  if (rng_.Chance(0.1)) plan.ask_at_step = rng_.Between(1, 100);
  job.uid = absl::StrCat("job-", ++made_, "-", around_.world->seed());
  job.name = absl::StrCat("job-", made_);
  job.owner = "user";
  // A space and the number make each spec its own; the plan is what counts.
  job.spec_bytes = plan.ToSpec();
  job.spec_digest = DigestOf(job.spec_bytes);
  job.shape.cpu_milli = rng_.Between(1, 4) * 1'000;
  if (rng_.Chance(0.6)) job.shape.gpu_count = rng_.Between(1, 4);
  if (rng_.Chance(0.2)) job.shape.interruptible = false;
  if (rng_.Chance(0.15)) job.shape.markets = {Market::kSpot, Market::kOnDemand};
  // Of the cloud's machines alone there may never be more than two.
  if (gangs_.Chance(0.15)) job.shape.nodes = std::min<int64_t>(gangs_.Between(2, 3), job.shape.markets.empty() ? 3 : 2);
  job.priority = rng_.Between(1, 100);
  job.grace_ms = rng_.Between(1, 60) * 1'000;
  if (rng_.Chance(0.1)) job.max_silence_ms = 90'000;
  job.task_count = rng_.Chance(0.3) ? rng_.Between(2, 5) : 1;
  if (rng_.Chance(0.15)) {
    if (const JobId needed = AnyLiving(); needed != 0) job.needs.push_back({needed, -1, rng_.Chance(0.5), TaskState::kUnspecified});
  }
  job.paused = rng_.Chance(0.03);
  if (job.task_count > 1 && rng_.Chance(0.5)) job.parallel = rng_.Between(1, job.task_count);
  if (plan.total_steps > 0 && rng_.Chance(0.2)) {  // people are wrong about how long it takes, by as much again or half
    const int64_t takes_ms = plan.total_steps * a_step_ms;
    job.expected_ms = std::max<int64_t>(1, takes_ms * rng_.Between(50, 200) / 100);
    job.deadline_ms = around_.world->now_ms() + takes_ms * rng_.Between(50, 300) / 100 + 1;
  }
  return job;
}

JobId SimUsers::AnyLiving() {
  const core::State* state = State();
  if (state == nullptr || state->jobs.empty()) return 0;
  auto it = state->jobs.begin();
  std::advance(it, rng_.Below(state->jobs.size()));
  return it->first;
}

void SimUsers::SubmitOne(bool haste) {
  core::Submit submit;
  submit.request_id = absl::StrCat("request-", made_);
  submit.jobs.push_back(MakeUp(haste));
  if (rng_.Chance(0.1)) submit.jobs.push_back(MakeUp(haste));
  if (submit.jobs.size() == 2 && rng_.Chance(0.5)) submit.jobs[0].needs.push_back({0, 1, rng_.Chance(0.5), TaskState::kUnspecified});
  submit.request_digest = DigestOf(submit.request_id);
  ++unanswered_;
  Try(std::move(submit), 0);
}

void SimUsers::Try(core::Submit submit, int64_t tries) {
  World* const world = around_.world;
  if (tries == 1) world->Reach("a submission was repeated");
  if (tries > 0 && around_.hooks->new_request_ids) submit.request_id = absl::StrCat(submit.request_id, "-", tries);
  // Answered, or given up on and asked again.
  const auto settled = std::make_shared<bool>(false);
  world->After(kAskAgainMs, [this, settled, submit, tries] {
    if (!std::exchange(*settled, true)) Try(submit, tries + 1);
  });
  if (rng_.Chance(around_.faults->asks_in_vain)) return;
  const bool answer_lost = rng_.Chance(around_.faults->asks_in_vain);
  world->After(rng_.Between(1, 200), [this, world, settled, submit, answer_lost] {
    around_.host->Post(submit, [this, world, settled, submit, answer_lost](absl::StatusOr<core::Reply> reply) {
      world->Trace(submit.request_id, ": ",
                   reply.ok() ? absl::StrCat("accepted as job ", absl::StrJoin(reply->jobs, ", ")) : std::string(reply.status().message()),
                   answer_lost ? ", and the answer is lost" : "");
      if (answer_lost) return world->Reach("the answer to a submission was lost");
      if (*settled) return;
      if (!reply.ok()) {
        if (absl::IsResourceExhausted(reply.status())) return world->Reach("a submission was refused for want of room");
        *settled = true;
        --unanswered_;
        // Only what can never fit is refused for good, and what waits for a job that has just ended.
        if (absl::IsAborted(reply.status())) return world->Reach("a submission came after the end of what it needs");
        if (!absl::IsInvalidArgument(reply.status())) world->Fail(absl::StrCat("a submission was refused: ", reply.status().ToString()));
        return;
      }
      *settled = true;
      --unanswered_;
      for (size_t i = 0; i < reply->jobs.size(); ++i) {
        jobs_.insert(reply->jobs[i]);
        const auto plan = JobPlan::FromSpec(submit.jobs[i].spec_bytes);
        if (!plan.ok() || plan->total_steps > 0) continue;
        endless_.insert(reply->jobs[i]);
        if (gives_up_endless_) CancelForSure(reply->jobs[i]);
        world->After(rng_.Between(10, 120) * 60'000, [this, job = reply->jobs[i]] { CancelForSure(job); });
      }
      around_.observer->SubmitAnswered(submit.request_id, reply->jobs);
    });
  });
}

void SimUsers::CancelOne() {
  core::Cancel cancel;
  cancel.job = AnyLiving();
  if (cancel.job == 0) return;
  cancel.now = rng_.Chance(0.3);
  cancel.reason = "the user changed their mind";
  if (const int64_t count = State()->jobs.at(cancel.job).job.task_count; count > 1 && rng_.Chance(0.6)) {
    // One task, or two ranges that may meet: some live, some have ended, some never began.
    for (int64_t ranges = rng_.Between(1, 2); ranges > 0; --ranges) {
      const TaskIndex first = rng_.Between(0, count - 1);
      cancel.tasks.push_back({first, rng_.Chance(0.5) ? first + 1 : rng_.Between(first + 1, count)});
    }
  }
  around_.host->Post(cancel, [this, cancel](absl::StatusOr<core::Reply> reply) {
    if (reply.ok()) around_.observer->CancelAnswered(cancel.job, cancel.tasks);
  });
}

void SimUsers::PreemptOne() {
  const core::State* state = State();
  if (state == nullptr) return;
  std::vector<TaskId> running;
  for (const auto& [id, live] : state->jobs) {
    for (const auto& [index, task] : live.tasks) {
      if (task.attempt && task.attempt->state == AttemptState::kRunning) running.push_back(task.id);
    }
  }
  if (running.empty()) return;
  core::Preempt preempt;
  preempt.task = running[rng_.Below(running.size())];
  preempt.grace_ms = rng_.Chance(0.3) ? rng_.Between(100, 20'000) : 0;
  around_.host->Post(preempt, nullptr);
}

void SimUsers::DrainOne(int64_t back_in_ms) {
  const core::State* state = State();
  if (state == nullptr) return;
  std::vector<NodeId> ready;
  for (const auto& [id, node] : state->nodes) {
    if (node.state == NodeState::kReady) ready.push_back(id);
  }
  if (ready.empty()) return;
  const NodeId node = ready[rng_.Below(ready.size())];
  around_.world->Reach("a node was drained");
  if (rng_.Chance(0.5)) {
    around_.host->Post(core::DrainNode{node, rng_.Chance(0.5) ? rng_.Between(1, 60'000) : 0}, nullptr);
  } else {
    around_.host->Post(core::CordonNode{node, true}, nullptr);
  }
  around_.world->After(back_in_ms, [this, node] { around_.host->Post(core::CordonNode{node, false}, nullptr); });
}

void SimUsers::PauseOne(int64_t resume_in_ms) {
  const JobId job = AnyLiving();
  if (job == 0) return;
  around_.host->Post(core::Pause{job}, nullptr);
  around_.world->After(resume_in_ms, [this, job] { around_.host->Post(core::Resume{job}, nullptr); });
}

void SimUsers::UpdateOne() {
  const JobId job = AnyLiving();
  if (job == 0) return;
  core::Update update{job, rng_.Between(0, 100), std::nullopt};
  if (const int64_t count = State()->jobs.at(job).job.task_count; count > 1 && rng_.Chance(0.5)) update.parallel = rng_.Between(1, count);
  around_.host->Post(update, nullptr);
}

void SimUsers::ResumeAll() {
  const core::State* state = State();
  if (state == nullptr) return;
  for (const auto& [id, live] : state->jobs) {
    if (live.job.paused) around_.host->Post(core::Resume{id}, nullptr);
  }
}

void SimUsers::UncordonAll() {
  const core::State* state = State();
  if (state == nullptr) return;
  for (const auto& [id, node] : state->nodes) {
    if (node.cordoned || node.state == NodeState::kDraining) around_.host->Post(core::CordonNode{id, false}, nullptr);
  }
}

size_t SimUsers::under_way() {
  if (const core::State* state = State()) living_ = state->jobs.size();
  return living_ + unanswered_;
}

void SimUsers::CancelForSure(JobId job) {
  if (!cancelling_.insert(job).second) return;
  around_.host->Post(core::Cancel{job, false, "enough", {}}, [this, job](absl::StatusOr<core::Reply> reply) {
    if (reply.ok()) around_.observer->CancelAnswered(job, {});
  });
  around_.world->After(60'000, [this, job] {
    cancelling_.erase(job);
    const core::State* state = State();
    if (state == nullptr || state->jobs.count(job) > 0) CancelForSure(job);
  });
}

void SimUsers::GiveUpEndless() {
  gives_up_endless_ = true;
  for (const JobId job : endless_) CancelForSure(job);
}

}  // namespace spillway::sim
