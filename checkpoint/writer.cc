// Saving: stage beside the target, sync, read back, MANIFEST last, one rename. The order of these calls is the promise; the crash tests
// stop the process, the disk and the power at every one of them.
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_env.h"

namespace spillway::checkpoint {
namespace {

std::string StagePath(const std::string& directory, int64_t step) { return JoinPath(directory, absl::StrCat(kStagePrefix, StepName(step))); }

Clock* SharedRealClock() {
  static RealClock* const clock = new RealClock;
  return clock;
}

}  // namespace

absl::StatusOr<WriterOptions> WriterOptions::FromEnvironment() {
  ASSIGN_OR_RETURN(const RunEnv env, RunEnv::FromEnvironment());
  if (env.checkpoint_dir.empty()) return absl::FailedPreconditionError("SPILLWAY_CHECKPOINT_DIR is not set: not running under Spillway");
  WriterOptions options;
  options.directory = env.checkpoint_dir;
  options.job_uid = env.job_uid;
  options.attempt = env.attempt;
  auto resumed = ParseStepDirectory(env.resume_from);
  if (resumed.ok()) options.parent = CheckpointRef{resumed->attempt.attempt.number, resumed->step};
  return options;
}

absl::StatusOr<Writer> Writer::Open(WriterOptions options) {
  if (options.io == nullptr) options.io = RealIo();
  if (options.clock == nullptr) options.clock = SharedRealClock();
  if (options.directory.empty()) return absl::InvalidArgumentError("a checkpoint writer needs a directory");
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank, " of ", options.world_size));
  }
  options.directory = AbsolutePath(options.directory);
  RETURN_IF_ERROR(MakeDirectoriesDurably(options.io, options.directory));
  // An earlier process may have made these and been stopped before it could sync them: in the layout, up to the root.
  std::string made = options.directory;
  for (int levels = ParseAttemptDirectory(made).ok() ? 4 : 1; levels > 0; --levels) {
    made = ParentOf(made);
    RETURN_IF_ERROR(options.io->SyncDirectory(made));
  }
  return Writer(std::move(options));
}

absl::StatusOr<CommittedCheckpoint> Writer::Save(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata) {
  if (options_.world_size != 1) return absl::FailedPreconditionError("Save is for one process; of several, each calls Stage and rank 0 Commit");
  absl::StatusOr<CommittedCheckpoint> result = [&]() -> absl::StatusOr<CommittedCheckpoint> {
    ASSIGN_OR_RETURN(ManifestFile file, Stage(step, tensors));
    return Commit(step, {std::move(file)}, metadata);
  }();
  // Give the space back at once. If that fails too, the next save of this step clears it; the first error is the one to tell.
  if (!result.ok()) Abandon(step).IgnoreError();
  return result;
}

absl::StatusOr<ManifestFile> Writer::Stage(int64_t step, const std::vector<TensorView>& tensors) {
  Io* io = options_.io;
  const std::string stage = StagePath(options_.directory, step);
  if (options_.world_size == 1) RETURN_IF_ERROR(io->RemoveTree(stage));  // what a crash left
  RETURN_IF_ERROR(io->MakeDirectory(stage));
  ManifestFile file{.name = RankFileName(options_.rank)};
  const std::string path = JoinPath(stage, file.name);
  ASSIGN_OR_RETURN(const ContainerFile written, WriteContainer(io, path, options_.rank, options_.world_size, step, tensors, options_.chunk_bytes));
  file.bytes = written.bytes;
  file.header_sha256 = written.header_sha256;
  if (options_.read_back) {
    ASSIGN_OR_RETURN(const ContainerReader reader, ContainerReader::Open(io, path, &written));
    RETURN_IF_ERROR(reader.VerifyAll());
  }
  return file;
}

absl::StatusOr<CommittedCheckpoint> Writer::Commit(int64_t step, const std::vector<ManifestFile>& files, const Metadata& metadata) {
  if (options_.rank != 0) return absl::FailedPreconditionError("only rank 0 commits");
  Manifest manifest;
  manifest.job_uid = options_.job_uid;
  manifest.attempt = options_.attempt;
  manifest.step = step;
  manifest.parent = options_.parent;
  manifest.world_size = options_.world_size;
  manifest.files = files;
  manifest.created = FormatUtcMs(options_.clock->NowUtcMs());
  manifest.metadata = metadata;
  ASSIGN_OR_RETURN(const EncodedManifest encoded, EncodeManifest(manifest));
  // Each process has read back its own container; what is checked here is that they lie where this process looks and are of this step.
  if (options_.world_size > 1) {
    for (size_t rank = 0; rank < files.size(); ++rank) {
      const ContainerFile expected{files[rank].bytes, files[rank].header_sha256};
      const std::string path = JoinPath(StagePath(options_.directory, step), files[rank].name);
      ASSIGN_OR_RETURN(const ContainerReader reader, ContainerReader::Open(options_.io, path, &expected));
      if (reader.header().step != step || reader.header().rank != static_cast<int>(rank)) {
        return absl::FailedPreconditionError(absl::StrCat(path, " is of step ", reader.header().step, ", rank ", reader.header().rank));
      }
    }
  }
  return Publish(manifest, encoded);
}

absl::Status Writer::Abandon(int64_t step) { return options_.io->RemoveTree(StagePath(options_.directory, step)); }

absl::StatusOr<CommittedCheckpoint> Writer::Publish(const Manifest& manifest, const EncodedManifest& encoded) {
  Io* io = options_.io;
  const std::string stage = StagePath(options_.directory, manifest.step);
  const std::string temporary = JoinPath(stage, absl::StrCat(kManifestName, ".tmp"));
  {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file, io->Create(temporary));
    RETURN_IF_ERROR(file->WriteAt(encoded.text.data(), encoded.text.size(), 0));
    RETURN_IF_ERROR(file->Sync());
  }
  RETURN_IF_ERROR(io->RenameNoReplace(temporary, JoinPath(stage, kManifestName)));
  RETURN_IF_ERROR(io->SyncDirectory(stage));

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
