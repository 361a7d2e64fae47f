// Promise 4: only the living attempt registers, what is registered lies whole in the store, the seal finds whatever the attempt left, and the next attempt
// resumes from the newest of it. Nothing that lands after a seal is ever resumed from.
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

class CheckpointWatch final : public Watch {
 public:
  using Watch::Watch;

  void Published(const Manifest& manifest) override {
    Attempt& attempt = attempts_[manifest.attempt];
    if (attempt.sealed) world()->Reach("a checkpoint landed after the seal");
    attempt.published[manifest.step] = {manifest.path, manifest.sha256, false};
    paths_[manifest.path] = {manifest.attempt, manifest.step};
  }
  void Damaged(const Manifest& manifest) override { attempts_[manifest.attempt].published[manifest.step].damaged = true; }
  void SealListed(AttemptId id) override {
    Attempt& attempt = attempts_[id];
    if (!listed_.insert(id).second) return;  // an earlier answer may be the one that counts
    attempt.damaged_when_listed.clear();
    for (const auto& [step, left] : attempt.published) {
      if (left.damaged) attempt.damaged_when_listed.insert(step);
    }
  }
  void Restarted(const core::State&) override { listed_.clear(); }
  void ProcessBegan(const ProcessFact& process) override { attempts_[process.attempt].began = true; }

  void TurnDurable(const store::Batch& batch) override {
    for (const core::Event& event : batch.events) {
      if (const auto* offered = std::get_if<core::AttemptOffered>(&event)) {
        Offered(offered->task, offered->attempt);
      } else if (const auto* registered = std::get_if<core::CheckpointRegistered>(&event)) {
        Registered(registered->task, registered->checkpoint);
      } else if (const auto* ended = std::get_if<core::AttemptEnded>(&event)) {
        Ended(ended->attempt);
      } else if (const auto* sealed = std::get_if<core::AttemptSealed>(&event)) {
        Sealed(*sealed);
      }
    }
  }

 private:
  struct Left {
    std::string path, sha256;
    bool damaged = false;
  };
  struct Attempt {
    bool offered = false, began = false, ended = false, sealed = false;
    std::map<int64_t, Left> published;  // by step
    std::set<int64_t> damaged_when_listed;
    std::set<int64_t> at_end;  // steps published when the end became durable: the seal may not miss them
  };

  static AttemptId Id(TaskId task, AttemptNumber number) { return {task.job, task.index, number}; }

  void CheckRow(const AttemptId& id, const core::CheckpointRef& ref, const char* who) {
    const Attempt& attempt = attempts_[id];
    const auto left = attempt.published.find(ref.step);
    if (left == attempt.published.end() || left->second.path != ref.path || left->second.sha256 != ref.manifest_sha256) {
      Broken(who, " of ", id.ToString(), " registers ", ref.path, ", which it never published so");
    }
  }

  void Offered(TaskId task, const core::Attempt& offered) {
    const AttemptId id = Id(task, offered.number);
    attempts_[id].offered = true;
    if (offered.number > 1) {
      const Attempt& before = attempts_[Id(task, offered.number - 1)];
      if (before.began && !before.sealed) return Broken(id.ToString(), " was offered before the attempt in front of it was sealed");
    }
    std::pair<AttemptNumber, int64_t> from{0, 0};
    if (!offered.resume_path.empty()) {
      const auto path = paths_.find(offered.resume_path);
      if (path == paths_.end() || path->second.first.task() != task)
        return Broken(id.ToString(), " resumes from ", offered.resume_path, ", which this task never published");
      if (registered_.count(offered.resume_path) == 0) return Broken(id.ToString(), " resumes from ", offered.resume_path, ", which was never registered");
      if (path->second.second != offered.from_step)
        return Broken(id.ToString(), " resumes from step ", offered.from_step, ", its manifest says ", path->second.second);
      from = {path->second.first.number, path->second.second};
      world()->Reach("an attempt resumed from a checkpoint");
    }
    // The newest whole thing that any attempt before had left when its end was durable.
    for (AttemptNumber number = offered.number - 1; number > 0; --number) {
      const std::optional<int64_t> step = NewestWhole(attempts_[Id(task, number)]);
      if (!step) continue;
      if (from < std::make_pair(number, *step)) {
        Broken(id.ToString(), " resumes from attempt ", from.first, " step ", from.second, "; attempt ", number, " had left step ", *step);
      }
      return;
    }
  }

  static std::optional<int64_t> NewestWhole(const Attempt& attempt) {
    for (auto step = attempt.at_end.rbegin(); step != attempt.at_end.rend(); ++step) {
      if (!attempt.published.at(*step).damaged) return *step;
    }
    return std::nullopt;
  }

  void Registered(TaskId task, const core::CheckpointRef& ref) {
    const AttemptId id = Id(task, ref.attempt);
    const Attempt& attempt = attempts_[id];
    if (!attempt.offered || attempt.ended) return Broken("a checkpoint of ", id.ToString(), " was registered though it does not live");
    CheckRow(id, ref, "the node");
    registered_.insert(ref.path);
  }

  void Ended(const AttemptId& id) {
    Attempt& attempt = attempts_[id];
    attempt.ended = true;
    for (const auto& [step, left] : attempt.published) attempt.at_end.insert(step);
  }

  void Sealed(const core::AttemptSealed& event) {
    Attempt& attempt = attempts_[event.attempt];
    if (!attempt.ended || attempt.sealed) return Broken(event.attempt.ToString(), " was sealed twice, or while it lived");
    attempt.sealed = true;
    const std::optional<int64_t> must = NewestWhole(attempt);
    if (must && (!event.newest || event.newest->step < *must)) {
      return Broken("the seal of ", event.attempt.ToString(), " missed step ", *must, " and found ", event.newest ? event.newest->step : -1);
    }
    if (!event.newest) return;
    CheckRow(event.attempt, *event.newest, "the seal");
    if (attempt.damaged_when_listed.count(event.newest->step) > 0) {
      return Broken("the seal of ", event.attempt.ToString(), " registers step ", event.newest->step, ", which is damaged");
    }
    if (registered_.insert(event.newest->path).second) world()->Reach("a seal found an unreported checkpoint");
  }

  std::map<AttemptId, Attempt> attempts_;
  std::set<AttemptId> listed_;  // by a seal of the present life of the scheduler
  std::map<std::string, std::pair<AttemptId, int64_t>> paths_;
  std::set<std::string> registered_;
};

}  // namespace

std::unique_ptr<Watch> MakeCheckpointWatch(World** world) { return std::make_unique<CheckpointWatch>(world); }

}  // namespace spillway::sim
