#include "sim/checkpoint_store.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "sim/observer.h"
#include "sim/spot_model.h"

namespace spillway::sim {

void CheckpointStore::Publish(Manifest manifest) {
  manifest.published_ms = world_->now_ms();
  manifest.sha256 = HexOf(Sha256Of(absl::StrCat(manifest.path, " ", manifest.step, " ", manifest.work)));
  world_->Trace("published ", manifest.path);
  const auto [at, is_new] = manifests_.emplace(manifest.path, std::move(manifest));
  if (!is_new) return;
  published_.push_back(at->first);
  observer_->Published(at->second);
}

void CheckpointStore::Damage(const std::string& path) {
  const auto found = manifests_.find(path);
  if (found == manifests_.end() || found->second.damaged) return;
  found->second.damaged = true;
  world_->Reach("a checkpoint was damaged");
  world_->Trace("damaged ", path);
  observer_->Damaged(found->second);
}

std::string CheckpointStore::Any(Rng* rng) const {
  if (published_.empty()) return "";
  const size_t among = rng->Chance(0.8) ? std::min<size_t>(published_.size(), 8) : published_.size();
  return published_[published_.size() - 1 - rng->Below(among)];
}

const Manifest* CheckpointStore::Find(const std::string& path) const {
  const auto found = manifests_.find(path);
  return found == manifests_.end() ? nullptr : &found->second;
}

std::vector<const Manifest*> CheckpointStore::List(const std::string& dir) const {
  std::vector<const Manifest*> found;
  const std::string prefix = dir + "/";
  for (auto it = manifests_.lower_bound(prefix); it != manifests_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) found.push_back(&it->second);
  return found;
}

const Manifest* CheckpointStore::Resume(const std::string& path) const {
  const Manifest* at = Find(path);
  while (at != nullptr && at->damaged) at = Find(at->parent);
  return at;
}

std::string CheckpointPath(const std::string& dir, int64_t step) { return absl::StrCat(dir, "/step-", absl::StrFormat("%012d", step)); }

uint64_t FirstWork(const std::string& job_uid) { return SpotSeed(0, job_uid); }

uint64_t WorkAfter(uint64_t work, int64_t from_step, int64_t to_step) {
  for (int64_t step = from_step + 1; step <= to_step; ++step) work = (work ^ static_cast<uint64_t>(step)) * 0x9e3779b97f4a7c15u + 0x7f4a7c15u;
  return work;
}

}  // namespace spillway::sim
