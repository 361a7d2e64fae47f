// The place where jobs publish checkpoints: manifests by path, each whole or damaged, and lines that may be cut.
//
// Work is a number that every step changes, so that a resumed job which skipped or repeated a step ends with another number than one that ran through.
// Owns what was published and who can reach it. Never decides which checkpoint counts: the scheduler's registry does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "sim/world.h"

namespace spillway::sim {

struct Manifest {
  AttemptId attempt;
  int64_t step = 0;
  uint64_t work = 0;         // after `step` steps
  std::string path, parent;  // relative to the checkpoint root; parent: what its attempt resumed from or saved before
  std::string job_uid, sha256;
  int64_t bytes = 0;
  int64_t published_ms = 0;
  bool damaged = false;
};

class Observer;

class CheckpointStore {
 public:
  CheckpointStore(World* world, Observer* observer) : world_(world), observer_(observer) {}

  void Publish(Manifest manifest);  // the commit point; an equal path is written once
  void Damage(const std::string& path);
  const Manifest* Find(const std::string& path) const;
  // What lies in an attempt's directory, by step.
  std::vector<const Manifest*> List(const std::string& dir) const;
  // What a job finds that is told to resume from `path`: the manifest, or the newest whole one behind it; nullptr: nothing, start anew.
  const Manifest* Resume(const std::string& path) const;
  // The path of one of the newest, mostly; "" while there is none.
  std::string Any(Rng* rng) const;

  // The store answers nobody until then.
  void CutUntil(int64_t true_ms) { cut_until_ms_ = true_ms; }
  bool Answers() const { return world_->now_ms() >= cut_until_ms_; }

 private:
  World* const world_;
  Observer* const observer_;
  std::map<std::string, Manifest> manifests_;
  std::vector<std::string> published_;  // in the order of time
  int64_t cut_until_ms_ = 0;
};

std::string CheckpointPath(const std::string& dir, int64_t step);
uint64_t FirstWork(const std::string& job_uid);
uint64_t WorkAfter(uint64_t work, int64_t from_step, int64_t to_step);

}  // namespace spillway::sim
