#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"

namespace spillway::checkpoint {
namespace {

struct Victim {
  std::string path;
  std::string hidden;
};

std::optional<double> MetricOf(const RetentionPolicy& policy, const Manifest& manifest) {
  const auto found = manifest.metadata.find(policy.metric);
  double value = 0;
  if (found == manifest.metadata.end() || !absl::SimpleAtod(found->second, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

// The same writer as before; ABORTED otherwise.
absl::Status SameOwner(Io* io, const std::string& directory, const std::string& owner_id) {
  const auto owner = ReadOwner(io, directory);
  if (absl::IsNotFound(owner.status()) && owner_id.empty()) return absl::OkStatus();
  if (!owner.ok()) return owner.status();
  if (owner->id == owner_id) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(directory, " was taken over by attempt ", owner->attempt, "; nothing is removed"));
}

absl::Status Remove(Io* io, const std::vector<Victim>& victims, const std::string& directory, const std::string& owner_id) {
  size_t hidden = 0;
  const absl::Status ready = [&]() -> absl::Status {
    for (const Victim& victim : victims) {
      RETURN_IF_ERROR(io->RenameNoReplace(victim.path, victim.hidden));
      ++hidden;
    }
    RETURN_IF_ERROR(io->SyncDirectory(directory));
    // After this look a writer that takes over finds them gone; one that did before finds them where they were.
    return SameOwner(io, directory, owner_id);
  }();
  if (!ready.ok()) {
    for (size_t i = 0; i < hidden; ++i) io->RenameNoReplace(victims[i].hidden, victims[i].path).IgnoreError();  // or the next writer does it
    return ready;
  }
  for (const Victim& victim : victims) {
    RETURN_IF_ERROR(io->RemoveTree(JoinPath(victim.hidden, kManifestName)));
    RETURN_IF_ERROR(io->RemoveTree(victim.hidden));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPolicy(const RetentionPolicy& policy) {
  if (policy.keep_last < 2)
    return absl::InvalidArgumentError(absl::StrCat("keep_last is ", policy.keep_last, "; want 2 or more: the newest may turn out damaged"));
  if (policy.keep_best < 0) return absl::InvalidArgumentError(absl::StrCat("keep_best is ", policy.keep_best, "; want 0 or more"));
  if (policy.keep_every < 0) return absl::InvalidArgumentError(absl::StrCat("keep_every is ", policy.keep_every, "; want 0 or more steps"));
  if (policy.keep_best > 0 && policy.metric.empty()) return absl::InvalidArgumentError("keep_best needs a metric: a key of the checkpoints' metadata");
  return absl::OkStatus();
}

std::vector<CheckpointRef> ChooseForRemoval(const RetentionPolicy& policy, std::vector<RetentionItem> items, const std::optional<CheckpointRef>& resumed_from,
                                            int64_t attempt_max) {
  std::sort(items.begin(), items.end(), [](const RetentionItem& a, const RetentionItem& b) { return a.ref > b.ref; });
  std::set<CheckpointRef> kept;
  for (size_t i = 0; i < items.size() && static_cast<int64_t>(i) < policy.keep_last; ++i) kept.insert(items[i].ref);
  for (const RetentionItem& item : items) {
    if (policy.keep_every > 0 && item.ref.step % policy.keep_every == 0) kept.insert(item.ref);
    if (item.ref.attempt > attempt_max) kept.insert(item.ref);
  }
  if (resumed_from) kept.insert(*resumed_from);
  if (policy.keep_best > 0) {
    std::vector<const RetentionItem*> rated;
    for (const RetentionItem& item : items) {
      if (item.metric) rated.push_back(&item);
    }
    // Of equals the newest: `items` is in that order.
    std::stable_sort(rated.begin(), rated.end(),
                     [&](const RetentionItem* a, const RetentionItem* b) { return policy.maximize ? *a->metric > *b->metric : *a->metric < *b->metric; });
    for (size_t i = 0; i < rated.size() && static_cast<int64_t>(i) < policy.keep_best; ++i) kept.insert(rated[i]->ref);
  }
  std::vector<CheckpointRef> removed;
  for (auto it = items.rbegin(); it != items.rend(); ++it) {
    if (kept.count(it->ref) == 0) removed.push_back(it->ref);
  }
  return removed;
}

int64_t Pruned::bytes() const {
  int64_t total = 0;
  for (const Item& item : removed) total += item.bytes;
  return total;
}

absl::StatusOr<Pruned> Prune(const std::string& directory, const RetentionPolicy& policy, const PruneOptions& options) {
  Io* io = options.io;
  RETURN_IF_ERROR(CheckPolicy(policy));
  if (ParseAttemptDirectory(directory).ok()) {
    return absl::FailedPreconditionError(absl::StrCat(directory, " is an attempt's of Spillway: only the scheduler orders deletions there"));
  }
  Owner owner{.attempt = INT64_MAX};  // nobody has ever taken it: all that lies there is of one kind
  const auto found = ReadOwner(io, directory);
  if (found.ok()) owner = *found;
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  if (!options.owner_id.empty() && owner.id != options.owner_id) return SameOwner(io, directory, options.owner_id);
  if (!options.dry_run) RETURN_IF_ERROR(SettlePruned(io, directory));

  Pruned pruned;
  std::vector<RetentionItem> items;
  std::map<CheckpointRef, Pruned::Item> by_ref;
  std::optional<CheckpointRef> newest, resumed_from;
  ASSIGN_OR_RETURN(const std::vector<StepEntry> steps, ListCommitted(directory, io));
  for (const StepEntry& entry : steps) {
    const auto good = Verify(entry.path, VerifyLevel::kHeaders, "", io);
    auto manifest = good.ok() ? ReadManifest(entry.path, nullptr, io) : good.status();
    if (manifest.ok() && manifest->encryption && policy.keep_best > 0) {
      if (const absl::Status opened = Unlock(io, entry.path, options.key, &*manifest).status(); !opened.ok()) manifest = opened;
    }
    if (absl::IsDataLoss(manifest.status()) || absl::IsNotFound(manifest.status())) {
      pruned.damaged.push_back(entry.path);
      continue;
    }
    if (!manifest.ok()) return manifest.status();  // a disk that does not answer is no ground to delete anything
    items.push_back({good->ref(), MetricOf(policy, *manifest)});
    by_ref[good->ref()] = {entry.path, good->ref(), good->bytes};
    if (!newest || good->ref() > *newest) {
      newest = good->ref();
      resumed_from = manifest->parent;
    }
  }
  // The present writer has resumed from something even before it has committed anything.
  if (owner.parent) resumed_from = owner.parent;

  std::vector<Victim> victims;
  for (const CheckpointRef& ref : ChooseForRemoval(policy, items, resumed_from, owner.attempt)) {
    const Pruned::Item& item = by_ref[ref];
    victims.push_back({item.path, JoinPath(directory, absl::StrCat(kPrunedPrefix, NameOf(item.path)))});
    pruned.removed.push_back(item);
    by_ref.erase(ref);
  }
  for (auto it = by_ref.rbegin(); it != by_ref.rend(); ++it) pruned.kept.push_back(it->second);
  if (!options.dry_run && !victims.empty()) RETURN_IF_ERROR(Remove(io, victims, directory, owner.id));
  return pruned;
}

absl::Status SettlePruned(Io* io, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, io->List(directory));
  for (const std::string& name : names) {
    absl::string_view step = name;
    if (!absl::ConsumePrefix(&step, kPrunedPrefix) || !ParseStepName(step).ok()) continue;
    const std::string hidden = JoinPath(directory, name), path = JoinPath(directory, step);
    ASSIGN_OR_RETURN(const bool whole, io->Exists(JoinPath(hidden, kManifestName)));
    absl::Status settled = whole ? io->RenameNoReplace(hidden, path) : io->RemoveTree(hidden);
    if (absl::IsAlreadyExists(settled)) settled = io->RemoveTree(hidden);  // the step was saved again since
    if (!settled.ok() && !absl::IsNotFound(settled)) return settled;
  }
  return absl::OkStatus();
}

}  // namespace spillway::checkpoint
