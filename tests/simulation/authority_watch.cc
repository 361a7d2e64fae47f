// Promises 2 and 3, physically: never two living processes of one task, never two on one device, none begins without an offer that stands, none lives on
// when its end is durable. Three exceptions, where somebody's word was given that was not kept: a job that asked for less than the lease (max_silence), a
// machine that was frozen and thawed, and one that its provider did not list although it lived; there only the registry is held to promise 2
// (checkpoint_watch.cc).
#include <map>
#include <set>

#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

class AuthorityWatch final : public Watch {
 public:
  using Watch::Watch;

  void TurnDurable(const store::Batch& batch) override {
    for (const core::Node& row : batch.nodes) names_[row.id] = row.name;
    for (const core::Event& event : batch.events) {
      if (const auto* submitted = std::get_if<core::JobSubmitted>(&event)) {
        if (submitted->job.max_silence_ms > 0) impatient_.insert(submitted->job.id);
      } else if (const auto* offered = std::get_if<core::AttemptOffered>(&event)) {
        Offered(offered->task, offered->attempt);
      } else if (const auto* ended = std::get_if<core::AttemptEnded>(&event)) {
        Ended(*ended);
      } else if (const auto* gone = std::get_if<core::NodeGone>(&event)) {
        if (gone->reason.find("lease has lapsed") != std::string::npos) Lapsed(gone->node);
        if (gone->reclaimed) world()->Reach("a reclaim was the end of a node");
      } else if (const auto* release = std::get_if<core::NodeReleaseRequested>(&event)) {
        if (release->reason.find("silent") != std::string::npos) world()->Reach("a silent machine was fenced by its provider");
      }
    }
  }

  void ProcessBegan(const ProcessFact& process) override {
    const AttemptId& id = process.attempt;
    machines_[process.node->name()] = process.node;
    if (!begun_.insert(id).second) return Broken(id.ToString(), " began a second time, on ", process.node->name());
    const auto attempt = attempts_.find(id);
    if (attempt == attempts_.end()) return Broken(id.ToString(), " began on ", process.node->name(), " without a durable offer");
    if (attempt->second.ended && !Excused(id.job, process.node)) return Broken(id.ToString(), " began on ", process.node->name(), " after its end was durable");
    for (const auto& [other, alive] : alive_) {
      if (other.task() == id.task() && !Excused(id.job, alive.node) && !Excused(id.job, process.node)) {
        return Broken(id.ToString(), " began on ", process.node->name(), " while ", other.ToString(), " lives on ", alive.node->name());
      }
      if (other.task() == id.task()) world()->Reach("two attempts of a task overlapped, excused");
      if (alive.node != process.node) continue;
      for (const int device : process.devices) {
        for (const int taken : alive.devices) {
          if (device == taken)
            return Broken(id.ToString(), " began on device ", device, " of ", process.node->name(), " while ", other.ToString(), " still holds it");
        }
      }
    }
    alive_[id] = process;
  }

  void ProcessEnded(const ProcessFact& process) override { alive_.erase(process.attempt); }

  void AtEnd(const Simulation& simulation) override {
    for (const auto& [id, process] : alive_) return Broken(id.ToString(), " still lives on ", process.node->name());
    for (const auto& [id, attempt] : attempts_) {
      if (!attempt.ended) return Broken(id.ToString(), " never ended");
    }
  }

 private:
  struct Attempt {
    bool ended = false;
  };

  bool Excused(JobId job, const SimNode* node) const { return impatient_.count(job) > 0 || node->ever_frozen() || node->disowned(); }

  void Offered(TaskId task, const core::Attempt& attempt) {
    const AttemptId id{task.job, task.index, attempt.number};
    if (!attempts_.emplace(id, Attempt()).second) return Broken(id.ToString(), " was offered twice");
    AttemptNumber& newest = newest_[task];
    if (attempt.number != newest + 1) return Broken(id.ToString(), " was offered after attempt ", newest);
    if (newest > 0 && !attempts_.at({task.job, task.index, newest}).ended)
      return Broken(id.ToString(), " was offered while attempt ", newest, " had not ended");
    newest = attempt.number;
  }

  void Ended(const core::AttemptEnded& ended) {
    const AttemptId& id = ended.attempt;
    const auto attempt = attempts_.find(id);
    if (attempt == attempts_.end() || attempt->second.ended) return Broken(id.ToString(), " ended twice, or was never offered");
    attempt->second.ended = true;
    if (ended.cause == EndCause::kFenced) world()->Reach("an attempt was fenced");
    const auto alive = alive_.find(id);
    if (alive == alive_.end()) return;
    if (!Excused(id.job, alive->second.node)) {
      Broken("the end of ", id.ToString(), " (", std::string(Name(ended.cause)), ": ", ended.detail, ") is durable and it lives on ",
             alive->second.node->name(), ", whose lease ends ", SinceStart(alive->second.node->LeaseEndTrueMs()));
    }
    world()->Reach("an attempt lived on after its end, excused");
  }

  // Nobody testifies for it: its own clock must have taken its authority before ours does.
  void Lapsed(NodeId node) {
    world()->Reach("a static node was lost by its lease");
    const auto machine = machines_.find(names_[node]);
    if (machine == machines_.end() || machine->second->ever_frozen()) return;
    const int64_t end_ms = machine->second->LeaseEndTrueMs();
    if (end_ms > world()->now_ms()) Broken("node ", node, " ", names_[node], " counts as lost, and its lease runs on until ", SinceStart(end_ms));
  }

  std::set<JobId> impatient_;
  std::map<NodeId, std::string> names_;
  std::map<std::string, const SimNode*> machines_;
  std::map<AttemptId, Attempt> attempts_;
  std::map<TaskId, AttemptNumber> newest_;
  std::set<AttemptId> begun_;
  std::map<AttemptId, ProcessFact> alive_;
};

}  // namespace

std::unique_ptr<Watch> MakeAuthorityWatch(World** world) { return std::make_unique<AuthorityWatch>(world); }

}  // namespace spillway::sim
