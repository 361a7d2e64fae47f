// Which checkpoints of a run outside Spillway may go. Under Spillway only the scheduler orders a deletion, against its registry; a directory
// in its layout is refused here. Removal renames the step out of sight, makes that durable, looks once more whether the directory is still
// the same writer's, and only then deletes, manifest first and data second: a crash leaves a checkpoint whole or gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/crypto.h"
#include "checkpoint/io.h"
#include "checkpoint/manifest.h"

namespace spillway::checkpoint {

struct RetentionPolicy {
  int64_t keep_last = 2;  // the newest good ones; at least 2, so that one is left when the newest turns out to be damaged
  int64_t keep_best = 0;  // that many by `metric`, a key of the metadata whose value is a number
  std::string metric;
  bool maximize = false;   // the highest is the best; otherwise the lowest
  int64_t keep_every = 0;  // every step that is a multiple of it; 0: none for that reason
};

// INVALID_ARGUMENT naming the field.
absl::Status CheckPolicy(const RetentionPolicy& policy);

// A good checkpoint, as far as the choice needs it.
struct RetentionItem {
  CheckpointRef ref;
  std::optional<double> metric;  // nullopt: not given, or not a number
};

// Those that may go, oldest first. Always kept besides what the policy says: `resumed_from`, and everything of attempts after `attempt_max`.
std::vector<CheckpointRef> ChooseForRemoval(const RetentionPolicy& policy, std::vector<RetentionItem> items, const std::optional<CheckpointRef>& resumed_from,
                                            int64_t attempt_max);

struct PruneOptions {
  bool dry_run = false;  // choose, and touch nothing
  // The writer on whose behalf this happens; "": whoever ATTEMPT names when this begins.
  std::string owner_id;
  // The user's, for the metric of encrypted checkpoints. Without it keep_best is UNAUTHENTICATED where there is one: nothing is removed.
  const SecretKey* key = nullptr;
  Io* io = RealIo();
};

struct Pruned {
  struct Item {
    std::string path;
    CheckpointRef ref;
    int64_t bytes = 0;
  };
  std::vector<Item> removed;  // oldest first
  std::vector<Item> kept;     // newest first
  // Damaged ones count for nothing and are left for inspection.
  std::vector<std::string> damaged;
  int64_t bytes() const;  // of the removed
};

// FAILED_PRECONDITION: a directory of Spillway's layout. ABORTED: another writer took the directory over; nothing is removed.
absl::StatusOr<Pruned> Prune(const std::string& directory, const RetentionPolicy& policy, const PruneOptions& options = {});

// What an interrupted Prune left: whole checkpoints come back, the rest goes.
absl::Status SettlePruned(Io* io, const std::string& directory);

}  // namespace spillway::checkpoint
