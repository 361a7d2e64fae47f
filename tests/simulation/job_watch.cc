// Promise 1 and the meaning of an end: what was answered OK is durable at that moment, once, whatever was repeated; a task that counts as done did all its
// steps, each once; one that counts as failed or cancelled has a cause that truly was.
#include <map>
#include <set>

#include "sim/job_plan.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

class JobWatch final : public Watch {
 public:
  using Watch::Watch;

  void SubmitAnswered(const std::string& request_id, const std::vector<JobId>& jobs) override {
    ++answered_;
    const auto known = by_request_.find(request_id);
    if (known == by_request_.end()) return Broken("request ", request_id, " was answered OK and is not durable");
    if (known->second != jobs) Broken("request ", request_id, " was answered with other jobs than it made");
  }

  void CancelAnswered(JobId job) override {
    const auto known = jobs_.find(job);
    if (known == jobs_.end()) return Broken("the cancelling of job ", job, ", which does not exist, was answered OK");
    if (!known->second.cancelled) Broken("the cancelling of job ", job, " was answered OK and is not durable");
  }

  void TurnDurable(const store::Batch& batch) override {
    for (const auto& [digest, bytes] : batch.specs) specs_[digest] = bytes;
    std::map<std::string, std::vector<JobId>> of_this_turn;
    for (const core::Event& event : batch.events) {
      if (const auto* submitted = std::get_if<core::JobSubmitted>(&event)) {
        Job& job = jobs_[submitted->job.id];
        job.row = submitted->job;
        const auto plan = JobPlan::FromSpec(specs_[submitted->job.spec_digest]);
        if (!plan.ok()) return Broken("job ", submitted->job.id, " was stored without its spec");
        job.plan = *plan;
        // However often a request is repeated, its jobs are made once.
        if (!uids_.insert(submitted->job.uid).second) return Broken("job ", submitted->job.uid, " was accepted twice");
        of_this_turn[submitted->job.request_id].push_back(submitted->job.id);
      } else if (const auto* cancel = std::get_if<core::JobCancelRequested>(&event)) {
        jobs_[cancel->job].cancelled = true;
      } else if (const auto* ended = std::get_if<core::AttemptEnded>(&event)) {
        CheckEnd(*ended);
      }
    }
    for (auto& [request, jobs] : of_this_turn) {
      if (!by_request_.emplace(request, jobs).second) return Broken("request ", request, " made jobs twice");
    }
    for (const core::Job& row : batch.jobs) jobs_[row.id].row = row;
  }

  void ProcessEnded(const ProcessFact& process) override { processes_[process.attempt] = process; }

  void AtEnd(const Simulation& simulation) override {
    for (const auto& [id, job] : jobs_) {
      const core::TaskCounts& counts = job.row.counts;
      if (job.row.ended_ms == 0) return Broken("job ", id, " never ended");
      if (counts.succeeded + counts.failed + counts.cancelled != job.row.task_count) return Broken("job ", id, " has lost count of its tasks");
      if (counts.cancelled > 0 && !job.cancelled) return Broken("job ", id, " has cancelled tasks and nobody cancelled it");
      if (counts.succeeded != job.succeeded)
        return Broken("job ", id, " counts ", counts.succeeded, " successes, and ", job.succeeded, " tasks came to their end");
      if (counts.succeeded > 0) world()->Reach("a job succeeded");
      if (counts.failed > 0) world()->Reach("a job failed");
      if (counts.cancelled > 0) world()->Reach("a job was cancelled");
    }
    if (answered_ == 0) Broken("no submission was ever answered");
  }

 private:
  struct Job {
    core::Job row;
    JobPlan plan;
    bool cancelled = false;
    int64_t succeeded = 0;
  };

  void CheckEnd(const core::AttemptEnded& ended) {
    Job& job = jobs_[ended.attempt.job];
    const auto process = processes_.find(ended.attempt);
    const std::string id = ended.attempt.ToString();
    if (ended.cause == EndCause::kCompleted) {
      if (process == processes_.end() || !process->second.completed) return Broken(id, " counts as completed and did not do its steps");
      if (process->second.work != WorkAfter(FirstWork(job.row.uid), 0, job.plan.total_steps)) return Broken(id, " completed with a step lost or done twice");
      if (ended.next != TaskState::kSucceeded && !job.cancelled) return Broken(id, " completed and its task goes on");
      ++job.succeeded;
    } else if (ended.next == TaskState::kSucceeded) {
      return Broken(id, " ended with ", std::string(Name(ended.cause)), " and its task counts as done");
    }
    if (ended.cause == EndCause::kUserError && (process == processes_.end() || !process->second.exited || process->second.exit_code == 0)) {
      return Broken(id, " counts as the user's error and did not exit with one");
    }
    if (ended.next == TaskState::kFailed) {
      const core::RetryPolicy& retry = job.row.retry;
      const bool earned = (retry.user_error >= 0 && ended.user_errors > retry.user_error) || (retry.node_fault >= 0 && ended.node_faults > retry.node_fault) ||
                          (retry.preempted >= 0 && ended.preempted > retry.preempted);
      if (!earned) return Broken(id, " failed its task for good with ", std::string(Name(ended.cause)), ", which it may survive");
    }
    if (ended.next == TaskState::kCancelled && !job.cancelled) return Broken(id, " cancels a task that nobody cancelled: ", ended.detail);
  }

  std::map<std::string, std::vector<JobId>> by_request_;
  std::map<std::string, std::string> specs_;
  std::set<std::string> uids_;
  std::map<JobId, Job> jobs_;
  std::map<AttemptId, ProcessFact> processes_;
  int64_t answered_ = 0;
};

}  // namespace

std::unique_ptr<Watch> MakeJobWatch(World** world) { return std::make_unique<JobWatch>(world); }

}  // namespace spillway::sim
