#include "checkpoint/ownership.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "checkpoint/layout.h"
#include "checkpoint/retention.h"
#include "checkpoint/sealed_json.h"

namespace spillway::checkpoint {
namespace {

// Of two writers that take over at the same moment one may clear the other's temporary file away.
constexpr int kTries = 3;

std::string AttemptPath(const std::string& directory) { return JoinPath(directory, kAttemptFileName); }

}  // namespace

absl::StatusOr<Owner> ReadOwner(Io* io, const std::string& directory) {
  const std::string path = AttemptPath(directory);
  ASSIGN_OR_RETURN(const Json json, ReadSealed(io, path));
  Fields fields(json, path);
  fields.Text("sha256");
  Owner owner;
  owner.attempt = fields.Integer("attempt", 1, INT64_MAX);
  owner.id = fields.Text("owner");
  const Json* parent = fields.Get("parent");
  RETURN_IF_ERROR(fields.Finish());
  if (!parent->is_null()) {
    Fields ref(*parent, path, "parent");
    owner.parent = CheckpointRef{ref.Integer("attempt", 1, INT64_MAX), ref.Integer("step", 0, kStepMax)};
    RETURN_IF_ERROR(ref.Finish());
  }
  return owner;
}

std::string StagePathOf(const std::string& directory, int64_t step, const std::string& owner_id, int64_t save) {
  return JoinPath(directory, absl::StrCat(kStagePrefix, StepName(step), ".", owner_id, ".", save));
}

absl::StatusOr<Ownership> Ownership::TakeOver(Io* io, const std::string& directory, int64_t attempt, const std::optional<CheckpointRef>& parent) {
  const auto found = ReadOwner(io, directory);
  if (!found.ok() && !absl::IsNotFound(found.status()) && !absl::IsDataLoss(found.status())) return found.status();
  if (found.ok() && found->attempt > attempt) {
    return absl::AbortedError(absl::StrCat(directory, " belongs to attempt ", found->attempt, "; this is attempt ", attempt, " and writes nothing more"));
  }
  Ownership ownership(io, directory, {attempt, NewUuid(), parent});
  RETURN_IF_ERROR(ownership.Claim());
  return ownership;
}

absl::Status Ownership::Confirm() {
  const auto found = ReadOwner(io_, directory_);
  if (found.ok() && found->id == owner_.id) return absl::OkStatus();
  if (found.ok() && found->attempt >= owner_.attempt) {
    return absl::AbortedError(absl::StrCat(directory_, " was taken over by ", found->attempt > owner_.attempt ? "" : "another writer of ", "attempt ",
                                           found->attempt, "; this is attempt ", owner_.attempt, " and writes nothing more"));
  }
  if (!found.ok() && !absl::IsNotFound(found.status()) && !absl::IsDataLoss(found.status())) return found.status();
  return Claim();
}

absl::Status Ownership::Claim() {
  const std::string temporary = JoinPath(directory_, absl::StrCat(kAttemptDraftPrefix, owner_.id));
  Json json = {{"attempt", owner_.attempt}, {"owner", owner_.id}, {"parent", Json(nullptr)}};
  if (owner_.parent) json["parent"] = {{"attempt", owner_.parent->attempt}, {"step", owner_.parent->step}};
  absl::Status written;
  for (int i = 0; i < kTries; ++i) {
    written = WriteSealed(io_, AttemptPath(directory_), temporary, json, /*durable=*/true);
    if (!absl::IsNotFound(written)) break;
  }
  RETURN_IF_ERROR(written);
  return ClearDrafts();
}

absl::Status Ownership::ClearDrafts() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, io_->List(directory_));
  const std::string own = absl::StrCat(".", owner_.id, ".");
  for (const std::string& name : names) {
    const std::string path = JoinPath(directory_, name);
    if (absl::StartsWith(name, kStagePrefix) && !absl::StrContains(name, own)) {
      // In one move: half a stage must not be renamed to a step by a writer that does not know yet.
      const std::string dead = JoinPath(directory_, absl::StrCat(kDeadPrefix, NewUuid()));
      const absl::Status moved = io_->RenameNoReplace(path, dead);
      if (absl::IsNotFound(moved)) continue;  // committed or cleared meanwhile
      RETURN_IF_ERROR(moved);
      io_->RemoveTree(dead).IgnoreError();  // only space; the next writer tries again
    } else if (absl::StartsWith(name, kDeadPrefix) || absl::StartsWith(name, kAttemptDraftPrefix)) {
      io_->RemoveTree(path).IgnoreError();
    }
  }
  return SettlePruned(io_, directory_);
}

absl::Status RemoveUnlessUsed(Io* io, const std::string& directory) {
  const auto names = io->List(directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const bool draft = name == kAttemptFileName || name == kGroupName || name == kLatestName || absl::StartsWith(name, kStagePrefix) ||
                       absl::StartsWith(name, kDeadPrefix) || absl::StartsWith(name, kAttemptDraftPrefix);
    if (!draft) return absl::OkStatus();
  }
  return io->RemoveTree(directory);
}

}  // namespace spillway::checkpoint
