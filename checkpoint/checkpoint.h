// Spillway's checkpoint library for training programs: save named tensors so that either the new checkpoint or the one before it is
// there, whatever happens, and get them back bit for bit.
//
//   auto options = WriterOptions::FromEnvironment();
//   auto restored = RestoreNewest(resume_from, targets);        // newest good one, and what had to be skipped
//   options->parent = restored->checkpoint.ref();
//   auto writer = Writer::Open(*options);
//   auto saved = writer->Save(step, tensors, {{"lr", "0.001"}}); // then tell the scheduler: run_env.h, Reporter::Checkpoint
//
// A checkpoint is a directory step-<n> with one container a process and a MANIFEST (docs/reference/checkpoint-format.md). Nothing here
// deletes a committed checkpoint. Not thread-safe; one writer an attempt directory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "checkpoint/container.h"
#include "checkpoint/io.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor.h"

namespace spillway::checkpoint {

struct CommittedCheckpoint {
  std::string path;  // the step directory
  int64_t attempt = 0;
  int64_t step = 0;
  std::string manifest_sha256;  // hex: the digest MANIFEST carries over itself
  int64_t bytes = 0;            // of all containers
  CheckpointRef ref() const { return {attempt, step}; }
};

// ---- Writing ----

struct WriterOptions {
  std::string directory;                // of the attempt: SPILLWAY_CHECKPOINT_DIR; made when absent
  std::string job_uid;                  // SPILLWAY_JOB_UID
  int64_t attempt = 1;                  // SPILLWAY_ATTEMPT
  std::optional<CheckpointRef> parent;  // what this attempt resumed from
  int rank = 0;                         // of this process among world_size
  int world_size = 1;
  uint32_t chunk_bytes = kChunkBytesDefault;
  bool read_back = true;   // verify every byte of a container before it may be committed
  Io* io = nullptr;        // RealIo()
  Clock* clock = nullptr;  // RealClock

  // From the SPILLWAY_ variables; FAILED_PRECONDITION when SPILLWAY_CHECKPOINT_DIR is not set. `parent` is taken from
  // SPILLWAY_RESUME_FROM: overwrite it when RestoreNewest had to fall back.
  static absl::StatusOr<WriterOptions> FromEnvironment();
};

class Writer {
 public:
  static absl::StatusOr<Writer> Open(WriterOptions options);

  // One process: everything below in one call. After OK the checkpoint survives power loss. After an error every earlier checkpoint is
  // untouched. RESOURCE_EXHAUSTED: the disk is full. ALREADY_EXISTS: this step is committed already, and verifies.
  absl::StatusOr<CommittedCheckpoint> Save(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata = {});

  // Several processes: each calls Stage, the launcher gathers the results to rank 0 in order, and rank 0 calls Commit.
  absl::StatusOr<ManifestFile> Stage(int64_t step, const std::vector<TensorView>& tensors);
  absl::StatusOr<CommittedCheckpoint> Commit(int64_t step, const std::vector<ManifestFile>& files, const Metadata& metadata = {});
  // Removes what Stage left for a step that will not be committed.
  absl::Status Abandon(int64_t step);

  const WriterOptions& options() const { return options_; }

 private:
  explicit Writer(WriterOptions options) : options_(std::move(options)) {}
  absl::StatusOr<CommittedCheckpoint> Publish(const Manifest& manifest, const EncodedManifest& encoded);
  absl::Status MoveIntoPlace(const std::string& stage, const std::string& target);
  void WriteLatestHint(int64_t step);

  WriterOptions options_;
};

// ---- Reading ----

enum class VerifyLevel {
  kManifest,  // MANIFEST is whole and belongs where it lies
  kHeaders,   // and every container is there, has its size and its header
  kFull,      // and every byte of every container is what was written
};

struct StepEntry {
  std::string path;
  int64_t step = 0;
};

// The step directories of an attempt, newest first, by name only: Verify tells whether they are good. An absent directory is empty.
absl::StatusOr<std::vector<StepEntry>> ListCommitted(const std::string& attempt_directory, Io* io = RealIo());

absl::StatusOr<Manifest> ReadManifest(const std::string& path, std::string* sha256 = nullptr, Io* io = RealIo());

// The checkpoint's identity when it is good to this level. DATA_LOSS: damaged. NOT_FOUND: not there. FAILED_PRECONDITION: of another job
// than `job_uid` (when that is given).
absl::StatusOr<CommittedCheckpoint> Verify(const std::string& path, VerifyLevel level, const std::string& job_uid = "", Io* io = RealIo());

// Fills every target, from whichever containers hold its parts, checking each chunk that is read. On an error the targets' content is
// unspecified. FAILED_PRECONDITION: a tensor is missing, or has another dtype or shape.
absl::StatusOr<Manifest> Restore(const std::string& path, const std::vector<TensorTarget>& targets, Io* io = RealIo());

struct SkippedCheckpoint {
  std::string path;
  absl::Status why;
};

struct Restored {
  CommittedCheckpoint checkpoint;
  Manifest manifest;
  std::vector<SkippedCheckpoint> skipped;  // newer ones that could not be used, newest first; empty when all went well
};

// Restores `resume_from` (a step directory, or an attempt directory for its newest), and where that fails the earlier steps of the same
// attempt, then the attempt's parent and the steps before it, and so on. NOT_FOUND: there is nothing to restore. DATA_LOSS: everything
// there is damaged. FAILED_PRECONDITION: a good checkpoint does not fit the targets or job_uid. Any other code: the disk may recover.
absl::StatusOr<Restored> RestoreNewest(const std::string& resume_from, const std::vector<TensorTarget>& targets, const std::string& job_uid = "",
                                       Io* io = RealIo());

struct ScanOptions {
  VerifyLevel level = VerifyLevel::kFull;
  bool newest_only = false;  // stop at the first good one: sealing
  std::string job_uid;       // when given, checkpoints of another job are bad
  Io* io = RealIo();
};

struct ScanResult {
  std::vector<CommittedCheckpoint> committed;  // good ones, newest first
  std::vector<SkippedCheckpoint> bad;          // newest first
};

// What an attempt has committed: for the worker, to report what its job did not, and for the scheduler, to seal. Never deletes or moves.
absl::StatusOr<ScanResult> ScanAttempt(const std::string& attempt_directory, const ScanOptions& options = {});

}  // namespace spillway::checkpoint
