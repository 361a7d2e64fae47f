// Who may write to a checkpoint directory: the file ATTEMPT names one writer, and the last one that was opened with the highest attempt
// number is the one. A writer that was overtaken commits nothing more and removes nothing; it needs no lock that a stopped process could
// hold, and no clock. The order of calls is the proof:
//
//   a writer that takes over   writes ATTEMPT, then moves every stage that is not its own out of the way
//   a writer that commits      makes its stage, reads ATTEMPT, ..., renames its stage to the step
//
// A stage made before the move is gone when it is to be renamed; one made after it finds the new ATTEMPT. docs/reference/checkpoint-format.md
// gives the bytes. Owns ATTEMPT and the names of drafts; never touches a committed checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/io.h"
#include "checkpoint/manifest.h"

namespace spillway::checkpoint {

struct Owner {
  int64_t attempt = 1;
  std::string id;                       // a UUID of this opening of a writer
  std::optional<CheckpointRef> parent;  // what it resumed from: retention keeps it
};

// NOT_FOUND: nobody has written here. DATA_LOSS: the file is damaged, and the next writer replaces it.
absl::StatusOr<Owner> ReadOwner(Io* io, const std::string& directory);

class Ownership {
 public:
  // Takes the directory over. ABORTED when a higher attempt owns it.
  static absl::StatusOr<Ownership> TakeOver(Io* io, const std::string& directory, int64_t attempt, const std::optional<CheckpointRef>& parent);

  // ABORTED when another writer has taken over: this one must stop. Takes the directory back from a lower attempt that came late.
  absl::Status Confirm();

  const Owner& owner() const { return owner_; }

 private:
  Ownership(Io* io, std::string directory, Owner owner) : io_(io), directory_(std::move(directory)), owner_(std::move(owner)) {}
  absl::Status Claim();
  absl::Status ClearDrafts();

  Io* io_;
  std::string directory_;
  Owner owner_;
};

// The directory in which save number `save` of a writer collects `step`.
std::string StagePathOf(const std::string& directory, int64_t step, const std::string& owner_id, int64_t save);

// Removes the directory of an attempt that has ended when it holds nothing but what writers leave beside checkpoints: ATTEMPT, drafts, LATEST.
// With a step, a damaged one, or anything else in it everything stays. An absent directory is OK.
absl::Status RemoveUnlessUsed(Io* io, const std::string& directory);

}  // namespace spillway::checkpoint
