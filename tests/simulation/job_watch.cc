// Promise 1 and the meaning of an end: what was answered OK is durable at that moment, once, whatever was repeated; a task that counts as done did all its
// steps, each once; one that counts as failed or cancelled has a cause that truly was. Nothing of a job begins before what it waits for has come, while
// it is paused, beyond its limit, or after it was cancelled. And nothing stands still while nothing goes wrong.
#include <algorithm>
#include <map>
#include <set>

#include "sim/job_plan.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

constexpr int64_t kStillMsMax = 60 * 60'000;

class JobWatch final : public Watch {
 public:
  using Watch::Watch;

  void SubmitAnswered(const std::string& request_id, const std::vector<JobId>& jobs) override {
    ++answered_;
    const auto known = by_request_.find(request_id);
    if (known == by_request_.end()) return Broken("request ", request_id, " was answered OK and is not durable");
    if (known->second != jobs) Broken("request ", request_id, " was answered with other jobs than it made");
  }

  void CancelAnswered(JobId job, const std::vector<core::TaskRange>& tasks) override {
    const auto known = jobs_.find(job);
    if (known == jobs_.end()) return Broken("the cancelling of job ", job, ", which does not exist, was answered OK");
    if (known->second.cancelled) return;
    if (tasks.empty()) return Broken("the cancelling of job ", job, " was answered OK and is not durable");
    for (const core::TaskRange& range : tasks) {
      for (TaskIndex index = range.first; index < range.end; ++index) {
        if (known->second.cancelled_tasks.count(index) == 0 && known->second.over.count(index) == 0)
          return Broken("the cancelling of task ", TaskId{job, index}.ToString(), " was answered OK and is not durable");
      }
    }
    world()->Reach("some tasks of a job were cancelled");
  }

  void TurnDurable(const store::Batch& batch) override {
    for (const auto& [digest, bytes] : batch.specs) specs_[digest] = bytes;
    std::map<std::string, std::vector<JobId>> of_this_turn;
    std::vector<std::pair<JobId, bool>> settled;
    for (const core::Event& event : batch.events) {
      if (const auto* gone = std::get_if<core::NodeGone>(&event)) gone_.insert(gone->node);
    }
    for (const core::Event& event : batch.events) {
      if (const auto* submitted = std::get_if<core::JobSubmitted>(&event)) {
        Job& job = jobs_[submitted->job.id];
        job.row = submitted->job;
        job.needs = submitted->job.needs;
        const auto plan = JobPlan::FromSpec(specs_[submitted->job.spec_digest]);
        if (!plan.ok()) return Broken("job ", submitted->job.id, " was stored without its spec");
        job.plan = *plan;
        // However often a request is repeated, its jobs are made once.
        if (!uids_.insert(submitted->job.uid).second) return Broken("job ", submitted->job.uid, " was accepted twice");
        of_this_turn[submitted->job.request_id].push_back(submitted->job.id);
      } else if (const auto* registered = std::get_if<core::NodeRegistered>(&event)) {
        nodes_[registered->node.id] = {registered->node.id, registered->node.name, registered->node.boot_id};
      } else if (const auto* offered = std::get_if<core::AttemptOffered>(&event)) {
        CheckMayBegin(offered->task);
        std::vector<Machine>& machines = offered_to_[{offered->task.job, offered->task.index, offered->attempt.number}];
        for (const core::Member& member : offered->attempt.members) machines.push_back(nodes_[member.node]);
      } else if (const auto* cancel = std::get_if<core::JobCancelRequested>(&event)) {
        jobs_[cancel->job].cancelled = true;
      } else if (const auto* some = std::get_if<core::TasksCancelRequested>(&event)) {
        for (const core::TaskRange& range : some->tasks) {
          for (TaskIndex index = range.first; index < range.end; ++index) jobs_[some->job].cancelled_tasks.insert(index);
        }
      } else if (const auto* updated = std::get_if<core::JobUpdated>(&event)) {
        jobs_[updated->job].row.parallel = updated->parallel;
      } else if (const auto* paused = std::get_if<core::JobPaused>(&event)) {
        jobs_[paused->job].row.paused = true;
        world()->Reach("a job was paused");
      } else if (const auto* resumed = std::get_if<core::JobResumed>(&event)) {
        jobs_[resumed->job].row.paused = false;
      } else if (const auto* released = std::get_if<core::JobReleased>(&event)) {
        settled.emplace_back(released->job, true);
        jobs_[released->job].released = true;
      } else if (const auto* failed = std::get_if<core::JobFailed>(&event)) {
        settled.emplace_back(failed->job, false);
      } else if (const auto* ended = std::get_if<core::AttemptEnded>(&event)) {
        CheckEnd(*ended);
      }
    }
    for (auto& [request, jobs] : of_this_turn) {
      if (!by_request_.emplace(request, jobs).second) return Broken("request ", request, " made jobs twice");
    }
    for (const core::Job& row : batch.jobs) jobs_[row.id].row = row;
    for (const auto& [job, released] : settled) CheckSettled(job, released);
  }

  void ProcessBegan(const ProcessFact& process) override { alive_.insert(process.attempt); }
  void ProcessEnded(const ProcessFact& process) override {
    alive_.erase(alive_.find(process.attempt));
    processes_[process.attempt].push_back(process);
  }

  void SupervisorBegan(const std::string& node, const std::string& boot_id) override { lives_[node] = boot_id; }

  // A task that nobody works on moves on, or ends; only a queued one may wait as long as others have the machines.
  void Calm(int64_t calm_ms, const Simulation& simulation) override {
    const int64_t now_ms = world()->now_ms();
    std::map<TaskId, Stand> stands;
    const core::State& state = simulation.host().engine()->state();
    const bool withheld = std::any_of(state.nodes.begin(), state.nodes.end(), [](const auto& node) { return node.second.cordoned; });
    for (const auto& [id, live] : state.jobs) {
      // Who needs all machines waits for the one that an operator keeps back, too.
      const bool needs_withheld = withheld && core::ShapeOf(state, live.job).nodes > 1;
      for (const auto& [index, task] : live.tasks) {
        Stand stand{now_ms, task.attempts, task.attempt ? task.attempt->state : AttemptState::kUnspecified, task.seal_owed};
        const auto before = stands_.find(task.id);
        const bool works = task.attempt && alive_.count({task.id.job, task.id.index, task.attempt->number}) > 0;
        const bool waits_for_others =
            (task.state == TaskState::kQueued && task.seal_owed == 0 && (!alive_.empty() || needs_withheld)) || task.hold == HoldReason::kPaused;
        if (before != stands_.end() && !works && !waits_for_others && before->second.Same(stand)) stand.since_ms = before->second.since_ms;
        const int64_t still_ms = std::min(calm_ms, now_ms - stand.since_ms);
        if (still_ms > kStillMsMax) return Stands(simulation, task, still_ms);
        stands.emplace(task.id, stand);
      }
    }
    stands_ = std::move(stands);
  }

  void AtEnd(const Simulation& simulation) override {
    for (const auto& [id, job] : jobs_) {
      const core::TaskCounts& counts = job.row.counts;
      if (job.row.ended_ms == 0) return Broken("job ", id, " never ended");
      if (counts.succeeded + counts.failed + counts.cancelled != job.row.task_count) return Broken("job ", id, " has lost count of its tasks");
      if (counts.cancelled > static_cast<int64_t>(job.cancelled_tasks.size()) && !job.cancelled)
        return Broken("job ", id, " has cancelled tasks and nobody cancelled them");
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
    std::set<TaskIndex> cancelled_tasks;  // by themselves
    std::set<TaskIndex> active, over;
    int64_t succeeded = 0;
    std::vector<core::Need> needs;  // as submitted
    bool released = false;
  };

  // A machine as the scheduler knew it, or as it is: its name and the life of its supervisor.
  struct Machine {
    NodeId node = 0;
    std::string name, boot_id;
  };

  void Stands(const Simulation& simulation, const core::Task& task, int64_t still_ms) {
    const engine::Engine& engine = *simulation.host().engine();
    std::string why;
    for (const core::Why& one : core::Explain(engine.state(), engine.soft(), engine.options().policy, task.id, engine.state().meta.now_ms))
      absl::StrAppend(&why, " (", one.message, ")");
    Broken("task ", task.id.ToString(), " stands still for ", still_ms / 60'000, " minutes though nothing goes wrong:", why);
  }

  // Where a task stood when it was last seen to move.
  struct Stand {
    int64_t since_ms;
    AttemptNumber attempts;
    AttemptState state;
    AttemptNumber seal_owed;
    bool Same(const Stand& other) const { return attempts == other.attempts && state == other.state && seal_owed == other.seal_owed; }
  };

  void CheckMayBegin(TaskId task) {
    const JobId id = task.job;
    Job& job = jobs_[id];
    job.active.insert(task.index);
    if (job.row.parallel > 0 && static_cast<int64_t>(job.active.size()) > job.row.parallel)
      return Broken(job.active.size(), " tasks of job ", id, " are active at once, and ", job.row.parallel, " may be");
    if (job.row.parallel > 0 && static_cast<int64_t>(job.active.size()) == job.row.parallel) world()->Reach("an array was at its limit");
    if (job.cancelled_tasks.count(task.index) > 0) return Broken("task ", task.ToString(), " was offered though it was cancelled");
    if (job.row.paused) return Broken("a task of job ", id, " was offered while the job is paused");
    if (!job.needs.empty() && !job.released) Broken("a task of job ", id, " was offered though it waits for job ", job.needs.front().job);
  }

  // By the rows of those it waited for.
  void CheckSettled(JobId id, bool released) {
    bool failed = false;
    for (const core::Need& need : jobs_[id].needs) {
      const core::Job& row = jobs_[need.job].row;
      const bool good = row.counts.failed == 0 && row.counts.cancelled == 0;
      if (released && row.ended_ms == 0) return Broken("job ", id, " was released though job ", need.job, " lives");
      if (released && !need.any && !good) return Broken("job ", id, " was released though job ", need.job, " did not succeed");
      failed = failed || (!need.any && row.ended_ms != 0 && !good);
    }
    if (!released && !failed) return Broken("job ", id, " was ended for what it needs, and nothing of that has failed");
    world()->Reach(released ? "a job was released by what it waited for" : "a job ended because of what it needs");
  }

  void CheckEnd(const core::AttemptEnded& ended) {
    Job& job = jobs_[ended.attempt.job];
    const std::vector<ProcessFact>& processes = processes_[ended.attempt];
    const std::string id = ended.attempt.ToString();
    job.active.erase(ended.attempt.index);
    if (ended.next == TaskState::kSucceeded || ended.next == TaskState::kFailed || ended.next == TaskState::kCancelled) job.over.insert(ended.attempt.index);
    const bool cancelled = job.cancelled || job.cancelled_tasks.count(ended.attempt.index) > 0;
    if (ended.next == TaskState::kHeld && !job.row.paused) return Broken(id, " ended and its task is held though nobody paused the job");
    if (ended.cause == EndCause::kCompleted) {
      if (processes.size() != offered_to_[ended.attempt].size()) return Broken(id, " counts as completed and not all of it ran");
      for (const ProcessFact& process : processes) {
        if (!process.completed) return Broken(id, " counts as completed and did not do its steps");
        if (process.work != WorkAfter(FirstWork(job.row.uid), 0, job.plan.total_steps)) return Broken(id, " completed with a step lost or done twice");
      }
      if (processes.size() > 1) world()->Reach("a gang completed");
      if (ended.next != TaskState::kSucceeded && !cancelled) return Broken(id, " completed and its task goes on");
      ++job.succeeded;
    } else if (ended.next == TaskState::kSucceeded) {
      return Broken(id, " ended with ", std::string(Name(ended.cause)), " and its task counts as done");
    }
    const auto failed = [](const ProcessFact& process) { return process.exited && process.exit_code != 0; };
    if (ended.cause == EndCause::kUserError && std::none_of(processes.begin(), processes.end(), failed)) {
      return Broken(id, " counts as the user's error and did not exit with one");
    }
    if (ended.cause == EndCause::kNodeLost && ended.initiator == Initiator::kNode) {
      const std::vector<Machine>& machines = offered_to_[ended.attempt];
      const auto lives_on = [this](const Machine& machine) { return gone_.count(machine.node) == 0 && lives_[machine.name] == machine.boot_id; };
      if (std::all_of(machines.begin(), machines.end(), lives_on))
        return Broken(id, " was lost by ", machines.at(0).name, ", whose supervisor lives on: ", ended.detail);
      world()->Reach("an attempt was lost with its supervisor, by the node's own word");
    }
    if (ended.next == TaskState::kFailed) {
      const core::RetryPolicy& retry = job.row.retry;
      const bool earned = (retry.user_error >= 0 && ended.user_errors > retry.user_error) || (retry.node_fault >= 0 && ended.node_faults > retry.node_fault) ||
                          (retry.preempted >= 0 && ended.preempted > retry.preempted);
      if (!earned) return Broken(id, " failed its task for good with ", std::string(Name(ended.cause)), ", which it may survive");
    }
    if (ended.next == TaskState::kCancelled && !cancelled) return Broken(id, " cancels a task that nobody cancelled: ", ended.detail);
  }

  std::map<std::string, std::vector<JobId>> by_request_;
  std::map<std::string, std::string> specs_;
  std::set<std::string> uids_;
  std::map<JobId, Job> jobs_;
  std::map<AttemptId, std::vector<ProcessFact>> processes_;  // of all members
  std::multiset<AttemptId> alive_;
  std::map<NodeId, Machine> nodes_;
  std::set<NodeId> gone_;
  std::map<AttemptId, std::vector<Machine>> offered_to_;
  std::map<std::string, std::string> lives_;  // of each machine's supervisor, the latest
  std::map<TaskId, Stand> stands_;
  int64_t answered_ = 0;
};

}  // namespace

std::unique_ptr<Watch> MakeJobWatch(World** world) { return std::make_unique<JobWatch>(world); }

}  // namespace spillway::sim
