// Saving: stage beside the target, sync, read back, MANIFEST last, one rename. The order of these calls is the promise; the crash tests
// stop the process, the disk and the power at every one of them.
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/key_source.h"
#include "checkpoint/run_env.h"

namespace spillway::checkpoint {
namespace {

constexpr int64_t kPauseMsMin = 1;
constexpr int64_t kPauseMsMax = 50;
constexpr size_t kNamedRanksMax = 8;

Clock* SharedRealClock() {
  static RealClock* const clock = new RealClock;
  return clock;
}

// The attempt that a writer without a number is: the directory's name says it, or it is the one after all that have written there.
absl::StatusOr<int64_t> NextAttempt(Io* io, const std::string& directory) {
  if (auto named = ParseAttemptName(NameOf(directory)); named.ok()) return *named;
  int64_t newest = 0;
  const auto owner = ReadOwner(io, directory);
  if (owner.ok()) newest = owner->attempt;
  if (!owner.ok() && !absl::IsNotFound(owner.status()) && !absl::IsDataLoss(owner.status())) return owner.status();
  ASSIGN_OR_RETURN(const std::vector<StepEntry> steps, ListCommitted(directory, io));
  for (const StepEntry& entry : steps) {
    const auto manifest = ReadManifest(entry.path, nullptr, io);
    if (manifest.ok()) newest = std::max(newest, manifest->attempt);
  }
  return newest + 1;
}

}  // namespace

absl::StatusOr<WriterOptions> WriterOptions::FromEnvironment() {
  ASSIGN_OR_RETURN(const RunEnv env, RunEnv::FromEnvironment());
  if (env.checkpoint_dir.empty()) return absl::FailedPreconditionError("SPILLWAY_CHECKPOINT_DIR is not set: not running under Spillway");
  WriterOptions options;
  options.directory = env.checkpoint_dir;
  options.job_uid = env.job_uid;
  options.attempt = env.attempt;
  ASSIGN_OR_RETURN(options.key, KeyFromEnvironment());
  auto resumed = ParseStepDirectory(env.resume_from);
  if (resumed.ok()) options.parent = CheckpointRef{resumed->attempt.attempt.number, resumed->step};
  return options;
}

Writer::Writer(WriterOptions options)
    : options_(std::move(options)), group_(options_.io, options_.directory, options_.attempt, options_.rank, options_.world_size) {}

absl::StatusOr<Writer> Writer::Open(WriterOptions options) {
  if (options.io == nullptr) options.io = RealIo();
  if (options.clock == nullptr) options.clock = SharedRealClock();
  if (!options.sleep_ms) options.sleep_ms = [](int64_t ms) { ::usleep(static_cast<useconds_t>(ms * 1000)); };
  if (options.directory.empty()) return absl::InvalidArgumentError("a checkpoint writer needs a directory");
  if (options.world_size < 1 || options.world_size > kWorldSizeMax || options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank, " of ", options.world_size, "; want 0 <= rank < world size <= ", kWorldSizeMax));
  }
  if (options.attempt < 0) return absl::InvalidArgumentError(absl::StrCat("attempt ", options.attempt, "; want 1 or more, or 0 for the next one"));
  options.directory = AbsolutePath(options.directory);
  const auto named = ParseAttemptName(NameOf(options.directory));
  if (named.ok() && options.attempt != 0 && *named != options.attempt) {
    return absl::InvalidArgumentError(absl::StrCat(options.directory, " is the directory of attempt ", *named, ", not of ", options.attempt));
  }
  if (options.retention) {
    RETURN_IF_ERROR(CheckPolicy(*options.retention));
    if (ParseAttemptDirectory(options.directory).ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(options.directory, " is an attempt's of Spillway: only the scheduler orders deletions there; leave retention out"));
    }
  }
  RETURN_IF_ERROR(MakeDirectoriesDurably(options.io, options.directory));
  // An earlier process may have made these and been stopped before it could sync them: in the layout, up to the root.
  std::string made = options.directory;
  for (int levels = ParseAttemptDirectory(made).ok() ? 4 : 1; levels > 0; --levels) {
    made = ParentOf(made);
    RETURN_IF_ERROR(options.io->SyncDirectory(made));
  }
  if (options.attempt == 0) {
    // Processes that save together must mean the same attempt, and each would count for itself.
    if (options.world_size > 1 && !named.ok()) return absl::InvalidArgumentError("several processes that save together need an attempt number from 1");
    ASSIGN_OR_RETURN(options.attempt, NextAttempt(options.io, options.directory));
  }
  Writer writer(std::move(options));
  if (writer.options_.rank == 0) {
    const WriterOptions& own = writer.options_;
    ASSIGN_OR_RETURN(writer.ownership_, Ownership::TakeOver(own.io, own.directory, own.attempt, own.parent));
    if (own.key) {
      ASSIGN_OR_RETURN(writer.data_key_, SecretKey::Random());
      ASSIGN_OR_RETURN(writer.key_file_, WrapKey(*writer.data_key_, *own.key));
    }
  }
  return writer;
}

std::string Writer::StageOf(const Group::Call& call) const { return StagePathOf(options_.directory, call.step, call.owner_id, call.save); }

absl::StatusOr<CommittedCheckpoint> Writer::Save(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata) {
  if (step < 0 || step > kStepMax) return absl::InvalidArgumentError(absl::StrCat("step ", step, "; want 0 to ", kStepMax));
  absl::StatusOr<CommittedCheckpoint> result = options_.rank == 0 ? Lead(step, tensors, metadata) : TakePart(step, tensors);
  if (!result.ok()) {
    standing_.saving = result.status();
    ++standing_.failed_saves;
    return result;
  }
  standing_.saving = absl::OkStatus();
  standing_.failed_saves = 0;
  standing_.committed_step = step;
  if (options_.rank == 0 && options_.retention) {
    standing_.pruning =
        Prune(options_.directory, *options_.retention, {.owner_id = ownership_->owner().id, .key = options_.key ? &*options_.key : nullptr, .io = options_.io})
            .status();
  }
  return result;
}

absl::StatusOr<CommittedCheckpoint> Writer::Lead(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata) {
  const Group::Call call{ownership_->owner().id, ++saves_, step};
  absl::StatusOr<CommittedCheckpoint> result = Coordinate(call, tensors, metadata);
  if (absl::IsNotFound(result.status())) {  // a new owner moves foreign stages out of the way
    if (const absl::Status own = ownership_->Confirm(); !own.ok()) result = own;
  }
  if (!result.ok()) {
    // Tell the others first, then give the space back at once. If that fails too, the next writer clears it; the first error is the one to tell.
    if (options_.world_size > 1) group_.GiveUp(call, result.status());
    options_.io->RemoveTree(StageOf(call)).IgnoreError();
  }
  return result;
}

absl::StatusOr<CommittedCheckpoint> Writer::Coordinate(const Group::Call& call, const std::vector<TensorView>& tensors, const Metadata& metadata) {
  // The stage first and then the look at ATTEMPT: ownership.h.
  const std::string stage = StageOf(call);
  absl::Status made = options_.io->MakeDirectory(stage);
  if (absl::IsNotFound(made)) {  // somebody has removed the directory; the training need not end for that
    RETURN_IF_ERROR(MakeDirectoriesDurably(options_.io, options_.directory));
    made = options_.io->MakeDirectory(stage);
  }
  RETURN_IF_ERROR(made);
  RETURN_IF_ERROR(ownership_->Confirm());
  if (data_key_) RETURN_IF_ERROR(WriteKeyFile(options_.io, stage, key_file_));  // before the others look for it
  if (options_.world_size > 1) RETURN_IF_ERROR(group_.Announce(call, {}));
  Manifest manifest;
  ASSIGN_OR_RETURN(ManifestFile own, WriteOwnContainer(stage, call.step, tensors));
  ASSIGN_OR_RETURN(manifest.files, Gather(call, std::move(own)));
  manifest.job_uid = options_.job_uid;
  manifest.attempt = options_.attempt;
  manifest.step = call.step;
  manifest.parent = options_.parent;
  manifest.world_size = options_.world_size;
  manifest.created = FormatUtcMs(options_.clock->NowUtcMs());
  manifest.metadata = metadata;
  if (data_key_) RETURN_IF_ERROR(SealMetadata(&manifest, *data_key_));
  return Publish(stage, manifest);
}

absl::StatusOr<ManifestFile> Writer::WriteOwnContainer(const std::string& stage, int64_t step, const std::vector<TensorView>& tensors) {
  Io* io = options_.io;
  ManifestFile file{.name = RankFileName(options_.rank)};
  const std::string path = JoinPath(stage, file.name);
  ASSIGN_OR_RETURN(const ContainerFile written,
                   WriteContainer(io, path, options_.rank, options_.world_size, step, tensors, options_.chunk_bytes, data_key(), options_.read_back));
  file.bytes = written.bytes;
  file.header_sha256 = written.header_sha256;
  if (options_.read_back) RETURN_IF_ERROR(ContainerReader::Open(io, path, &written, data_key()).status());  // the header; the chunks were
  return file;
}

// One look failed to find what it waits for: a longer pause each time, and an end.
absl::Status Writer::Pause(int64_t deadline_ms, int64_t* pause_ms, absl::string_view waiting_for) {
  if (options_.clock->NowSteadyMs() >= deadline_ms) {
    return absl::DeadlineExceededError(absl::StrCat("waited ", FormatDurationMs(options_.peers_wait_ms), " for ", waiting_for));
  }
  options_.sleep_ms(*pause_ms);
  *pause_ms = std::min(kPauseMsMax, *pause_ms * 2);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ManifestFile>> Writer::Gather(const Group::Call& call, ManifestFile own) {
  const std::string stage = StageOf(call);
  std::vector<ManifestFile> files(static_cast<size_t>(options_.world_size));
  files[0] = std::move(own);
  std::vector<int> missing(files.size() - 1);
  std::iota(missing.begin(), missing.end(), 1);
  const int64_t deadline_ms = options_.clock->NowSteadyMs() + options_.peers_wait_ms;
  for (int64_t pause_ms = kPauseMsMin; !missing.empty();) {
    std::vector<int> still;
    for (int rank : missing) {
      auto part = Group::ReadPart(options_.io, stage, rank);
      if (absl::IsNotFound(part.status())) {
        still.push_back(rank);
        continue;
      }
      if (!part.ok()) return part.status();
      ASSIGN_OR_RETURN(files[static_cast<size_t>(rank)], std::move(part->written));
    }
    missing = std::move(still);
    if (missing.empty()) break;
    RETURN_IF_ERROR(ownership_->Confirm());
    RETURN_IF_ERROR(group_.Announce(call, missing));
    const std::vector<int> named(missing.begin(), missing.begin() + static_cast<int64_t>(std::min(missing.size(), kNamedRanksMax)));
    RETURN_IF_ERROR(Pause(deadline_ms, &pause_ms,
                          absl::StrCat(missing.size(), " of ", options_.world_size, " processes: rank ", absl::StrJoin(named, ", "),
                                       missing.size() > named.size() ? ", ..." : "")));
  }
  return files;
}

// Each process has read back its own container; what is checked here is that they lie where this process looks and are of this step.
absl::Status Writer::CheckContainers(const std::string& stage, int64_t step, const std::vector<ManifestFile>& files) {
  for (size_t rank = 0; rank < files.size(); ++rank) {
    const ContainerFile expected{files[rank].bytes, files[rank].header_sha256};
    const std::string path = JoinPath(stage, files[rank].name);
    ASSIGN_OR_RETURN(const ContainerReader reader, ContainerReader::Open(options_.io, path, &expected, data_key()));
    const ContainerHeader& header = reader.header();
    if (header.encryption.has_value() != data_key_.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(path, header.encryption ? " is encrypted, and rank 0 has no key" : " is not encrypted"));
    }
    if (header.step != step || header.rank != static_cast<int>(rank) || header.world_size != options_.world_size) {
      return absl::FailedPreconditionError(absl::StrCat(path, " is of step ", header.step, ", rank ", header.rank, " of ", header.world_size));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CommittedCheckpoint> Writer::TakePart(int64_t step, const std::vector<TensorView>& tensors) {
  const int64_t deadline_ms = options_.clock->NowSteadyMs() + options_.peers_wait_ms;
  std::optional<Group::Call> call;
  for (int64_t pause_ms = kPauseMsMin;;) {
    ASSIGN_OR_RETURN(call, group_.Look(step));
    if (call) break;
    RETURN_IF_ERROR(Pause(deadline_ms, &pause_ms, absl::StrCat("rank 0 to save step ", step)));
  }
  const std::string stage = StageOf(*call);
  absl::StatusOr<CommittedCheckpoint> result = [&]() -> absl::StatusOr<CommittedCheckpoint> {
    if (const auto given_up = group_.GivenUp(*call)) return *given_up;  // late: the stage must not be made again
    RETURN_IF_ERROR(options_.io->MakeDirectory(stage));
    auto own = [&]() -> absl::StatusOr<ManifestFile> {
      RETURN_IF_ERROR(TakeDataKey(*call, stage));
      return WriteOwnContainer(stage, step, tensors);
    }();
    if (own.ok()) {
      if (const absl::Status synced = options_.io->SyncDirectory(stage); !synced.ok()) own = synced;
    }
    const absl::Status told = Group::WritePart(options_.io, stage, options_.rank, own);
    if (!own.ok()) return own.status();
    RETURN_IF_ERROR(told);
    return AwaitCommit(*call, *own, deadline_ms);
  }();
  // Rank 0 is through with this save, so what is left of it, or was made again by coming late, is this process's own litter.
  if (!result.ok() && group_.GivenUp(*call)) options_.io->RemoveTree(stage).IgnoreError();
  return result;
}

absl::Status Writer::TakeDataKey(const Group::Call& call, const std::string& stage) {
  data_key_.reset();
  const auto file = ReadKeyFile(options_.io, stage);
  if (absl::IsNotFound(file.status())) {
    if (!options_.key) return absl::OkStatus();
    // Or the whole stage is gone, and this is none of the key's business.
    if (const auto given_up = group_.GivenUp(call)) return *given_up;
    RETURN_IF_ERROR(CheckNotTakenOver(call));
    return absl::UnauthenticatedError("this process has a checkpoint key and rank 0 has none: all or none of a group have one");
  }
  if (!file.ok()) return file.status();
  if (!options_.key) return absl::UnauthenticatedError("rank 0 has a checkpoint key and this process has none: all or none of a group have one");
  ASSIGN_OR_RETURN(data_key_, UnwrapKey(*file, *options_.key));
  return absl::OkStatus();
}

absl::Status Writer::CheckNotTakenOver(const Group::Call& call) {
  const auto owner = ReadOwner(options_.io, options_.directory);
  if (!owner.ok() || owner->id == call.owner_id) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(options_.directory, " was taken over by attempt ", owner->attempt, " while step ", call.step, " was being saved"));
}

absl::StatusOr<CommittedCheckpoint> Writer::AwaitCommit(const Group::Call& call, const ManifestFile& own, int64_t deadline_ms) {
  Io* io = options_.io;
  const std::string target = StepDirectory(options_.directory, call.step);
  for (int64_t pause_ms = kPauseMsMin;;) {
    // The word of failure is read before the step: a save that was given up is not committed afterwards.
    const std::optional<absl::Status> given_up = group_.GivenUp(call);
    CommittedCheckpoint committed{.path = target};
    const auto manifest = ReadManifest(target, &committed.manifest_sha256, io);
    if (manifest.ok() && manifest->world_size == options_.world_size && manifest->files[static_cast<size_t>(options_.rank)] == own) {
      RETURN_IF_ERROR(io->SyncDirectory(options_.directory));  // rank 0 may not have come to it yet
      committed.attempt = manifest->attempt;
      committed.step = manifest->step;
      committed.bytes = manifest->Bytes();
      return committed;
    }
    if (given_up) return *given_up;
    if (!manifest.ok() && !absl::IsNotFound(manifest.status()) && !absl::IsDataLoss(manifest.status())) return manifest.status();
    RETURN_IF_ERROR(CheckNotTakenOver(call));
    RETURN_IF_ERROR(Pause(deadline_ms, &pause_ms, "rank 0 to commit"));
  }
}

absl::StatusOr<CommittedCheckpoint> Writer::Publish(const std::string& stage, const Manifest& manifest) {
  Io* io = options_.io;
  ASSIGN_OR_RETURN(const EncodedManifest encoded, EncodeManifest(manifest));
  if (options_.world_size > 1) {
    RETURN_IF_ERROR(CheckContainers(stage, manifest.step, manifest.files));
    RETURN_IF_ERROR(io->RemoveTree(JoinPath(stage, kPartsName)));
  }
  const std::string temporary = JoinPath(stage, absl::StrCat(kManifestName, ".tmp"));
  {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file, io->Create(temporary));
    RETURN_IF_ERROR(file->WriteAt(encoded.text.data(), encoded.text.size(), 0));
    RETURN_IF_ERROR(file->Sync());
  }
  RETURN_IF_ERROR(io->RenameNoReplace(temporary, JoinPath(stage, kManifestName)));
  RETURN_IF_ERROR(io->SyncDirectory(stage));

  RETURN_IF_ERROR(ownership_->Confirm());
  const std::string target = StepDirectory(options_.directory, manifest.step);
  RETURN_IF_ERROR(MoveIntoPlace(stage, target));
  RETURN_IF_ERROR(io->SyncDirectory(options_.directory));
  WriteLatestHint(manifest.step);
  return CommittedCheckpoint{target, manifest.attempt, manifest.step, encoded.sha256, manifest.Bytes()};
}

absl::Status Writer::MoveIntoPlace(const std::string& stage, const std::string& target) {
  Io* io = options_.io;
  const absl::Status moved = io->RenameNoReplace(stage, target);
  if (!absl::IsAlreadyExists(moved)) return moved;
  // The step is there already. A good one stays; a damaged one is put aside, never deleted.
  const absl::Status there = Verify(target, VerifyLevel::kFull, "", io).status();
  if (there.ok()) return absl::AlreadyExistsError(absl::StrCat(target, " is committed already"));
  if (!absl::IsDataLoss(there) && !absl::IsNotFound(there)) return there;
  for (int k = 1; k <= 100; ++k) {
    const std::string aside = JoinPath(ParentOf(target), absl::StrCat(kDamagedPrefix, NameOf(target), ".", k));
    const absl::Status put_aside = io->RenameNoReplace(target, aside);
    if (absl::IsAlreadyExists(put_aside)) continue;
    RETURN_IF_ERROR(put_aside);
    return io->RenameNoReplace(stage, target);
  }
  return absl::ResourceExhaustedError(absl::StrCat("100 damaged copies of ", target, " lie beside it"));
}

// Only for people and scripts, so a failure costs nothing and is nobody's error.
void Writer::WriteLatestHint(int64_t step) {
  const std::string path = JoinPath(options_.directory, kLatestName);
  auto file = options_.io->Create(path + ".tmp");
  if (!file.ok()) return;
  const std::string text = StepName(step) + "\n";
  if (!(*file)->WriteAt(text.data(), text.size(), 0).ok()) return;
  options_.io->RenameReplace(path + ".tmp", path).IgnoreError();
}

}  // namespace spillway::checkpoint
