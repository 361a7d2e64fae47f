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
      } else if (const auto* accepted = std::get_if<core::AttemptAccepted>(&event)) {
        Attempt& attempt = attempts_.at(accepted->attempt);
        attempt.accepted = true;
        if (attempt.nodes.size() > 1) world()->Reach("a gang came together");
      } else if (const auto* member = std::get_if<core::MemberEnded>(&event)) {
        MemberEnded(*member);
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
    if (!begun_.insert({id, process.node->name()}).second) return Broken(id.ToString(), " began a second time, on ", process.node->name());
    const auto attempt = attempts_.find(id);
    if (attempt == attempts_.end()) return Broken(id.ToString(), " began on ", process.node->name(), " without a durable offer");
    if (attempt->second.ended && !Excused(id.job, process.node)) return Broken(id.ToString(), " began on ", process.node->name(), " after its end was durable");
    if (attempt->second.nodes.size() > 1) {
      if (!attempt->second.accepted) return Broken(id.ToString(), " began on ", process.node->name(), " before every member had accepted");
      if (attempt->second.over.count(process.node->name()) > 0 && !Excused(id.job, process.node))
        return Broken(id.ToString(), " began on ", process.node->name(), " after the end of its member there was durable");
    }
    if (attempt->second.nodes.count(process.node->name()) == 0) return Broken(id.ToString(), " began on ", process.node->name(), ", where it was not offered");
    for (const auto& [where, alive] : alive_) {
      const AttemptId& other = where.first;
      if (other == id) continue;  // another member
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
    alive_[{id, process.node->name()}] = process;
  }

  void ProcessEnded(const ProcessFact& process) override { alive_.erase({process.attempt, process.node->name()}); }

  void AtEnd(const Simulation& simulation) override {
    for (const auto& [where, process] : alive_) return Broken(where.first.ToString(), " still lives on ", where.second);
    for (const auto& [id, attempt] : attempts_) {
      if (!attempt.ended) return Broken(id.ToString(), " never ended");
    }
  }

 private:
  struct Attempt {
    bool ended = false, accepted = false;
    std::set<std::string> nodes, over;  // of its members, and of those that have ended
  };

  bool Excused(JobId job, const SimNode* node) const { return impatient_.count(job) > 0 || node->ever_frozen() || node->disowned(); }

  void Offered(TaskId task, const core::Attempt& attempt) {
    const AttemptId id{task.job, task.index, attempt.number};
    if (!attempts_.emplace(id, Attempt()).second) return Broken(id.ToString(), " was offered twice");
    for (const core::Member& member : attempt.members) attempts_[id].nodes.insert(names_[member.node]);
    if (attempts_[id].nodes.size() != attempt.members.size()) return Broken(id.ToString(), " has two members on one node");
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
    for (const std::string& node : attempt->second.nodes) MustBeOver(id, node, absl::StrCat(Name(ended.cause), ": ", ended.detail));
  }

  void MemberEnded(const core::MemberEnded& ended) {
    const auto attempt = attempts_.find(ended.attempt);
    if (attempt == attempts_.end() || attempt->second.ended || !attempt->second.over.insert(names_[ended.node]).second)
      return Broken("a member of ", ended.attempt.ToString(), " ended twice, or was never offered");
    world()->Reach(ended.cause == EndCause::kCompleted ? "a member completed before another" : "a member ended and took the others along");
    MustBeOver(ended.attempt, names_[ended.node], absl::StrCat(Name(ended.cause), ": ", ended.detail));
  }

  void MustBeOver(const AttemptId& id, const std::string& node, const std::string& why) {
    const auto alive = alive_.find({id, node});
    if (alive == alive_.end()) return;
    if (!Excused(id.job, alive->second.node)) {
      Broken("the end of ", id.ToString(), " (", why, ") is durable and it lives on ", node, ", whose lease ends ",
             SinceStart(alive->second.node->LeaseEndTrueMs()));
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
  using Where = std::pair<AttemptId, std::string>;  // and the node's name
  std::set<Where> begun_;
  std::map<Where, ProcessFact> alive_;
};

}  // namespace

std::unique_ptr<Watch> MakeAuthorityWatch(World** world) { return std::make_unique<AuthorityWatch>(world); }

}  // namespace spillway::sim
