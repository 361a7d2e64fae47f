// Spillway's checkpoint library for training programs: save named tensors so that either the new checkpoint or the one before it is
// there, whatever happens, and get them back bit for bit.
//
//   auto options = WriterOptions::FromEnvironment();
//   auto restored = RestoreNewest(resume_from, targets);        // newest good one, and what had to be skipped
//   options->parent = restored->checkpoint.ref();
//   auto writer = Writer::Open(*options);
//   auto saved = writer->Save(step, tensors, {{"lr", "0.001"}}); // then tell the scheduler: run_env.h, Reporter::Checkpoint
//
// With a key (WriterOptions::key, `key` of what reads) checkpoints are encrypted, AES-256-GCM, and authenticated when they are read. Everything
// that is wrong with a key is UNAUTHENTICATED, and nothing falls back from that. Verify, ScanAttempt and ListCommitted need none.
//
// A checkpoint is a directory step-<n> with one container a process and a MANIFEST (docs/reference/checkpoint-format.md). Nothing here
// deletes a committed checkpoint unless WriterOptions::retention says so. Not thread-safe. A directory has one writer at a time (or one group of processes that save together):
// whoever opens it last with the highest attempt number; the one before is refused from then on (ownership.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "checkpoint/container.h"
#include "checkpoint/crypto.h"
#include "checkpoint/group.h"
#include "checkpoint/io.h"
#include "checkpoint/key_file.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/ownership.h"
#include "checkpoint/retention.h"
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
  int64_t attempt = 1;                  // SPILLWAY_ATTEMPT; 0: one more than any that wrote to the directory, or what its name says
  std::optional<CheckpointRef> parent;  // what this attempt resumed from
  int rank = 0;                         // of this process among world_size, which save together and see the same directory
  int world_size = 1;
  int64_t peers_wait_ms = 10 * 60'000;  // how long a process waits for the others of a joint save
  // Outside Spillway: which checkpoints to keep; after each commit the others go. nullopt: all stay. FAILED_PRECONDITION in Spillway's layout.
  std::optional<RetentionPolicy> retention;
  // The user's key: checkpoints are encrypted under a data key of this writer's own, which KEY holds wrapped. All processes of a group have it.
  std::optional<SecretKey> key;
  uint32_t chunk_bytes = kChunkBytesDefault;
  bool read_back = true;                     // verify every byte of a container before it may be committed
  Io* io = nullptr;                          // RealIo()
  Clock* clock = nullptr;                    // RealClock
  std::function<void(int64_t ms)> sleep_ms;  // between two looks at what the others wrote; default: usleep

  // From the SPILLWAY_ variables, the key too (key_source.h); FAILED_PRECONDITION when SPILLWAY_CHECKPOINT_DIR is not set. `parent` is taken from
  // SPILLWAY_RESUME_FROM: overwrite it when RestoreNewest had to fall back. rank and world_size are the launcher's to say.
  static absl::StatusOr<WriterOptions> FromEnvironment();
};

class Writer {
 public:
  // Rank 0 takes the directory over: ABORTED when a higher attempt has it. INVALID_ARGUMENT: impossible options.
  static absl::StatusOr<Writer> Open(WriterOptions options);

  // Writes these tensors as checkpoint `step`. With world_size > 1 every process calls it, with the same steps in the same order, each with
  // what it has: slices of a tensor in different processes are equal (the first is read) or do not overlap. Rank 0 verifies that all
  // containers lie there and commits; `metadata` is rank 0's. All get the same checkpoint back.
  //
  // After OK the checkpoint survives power loss. After an error every earlier checkpoint is untouched, and this one is there whole or not at
  // all (after DEADLINE_EXCEEDED it may still come). RESOURCE_EXHAUSTED: the disk is full. ALREADY_EXISTS: this step is committed already,
  // and verifies. ABORTED: another writer owns the directory, or rank 0 was started anew. DEADLINE_EXCEEDED: a process did not come.
  absl::StatusOr<CommittedCheckpoint> Save(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata = {});

  const WriterOptions& options() const { return options_; }  // with the attempt number that was found

  // How it stands, for a status line: an error stays until the same thing has worked again. A training goes on all the while.
  struct Standing {
    absl::Status saving;          // why the saves since the last good one failed: the latest reason
    int64_t failed_saves = 0;     // since the last good one
    absl::Status pruning;         // why the last pruning failed; the checkpoint before it is committed all the same
    int64_t committed_step = -1;  // -1: none by this writer
  };
  const Standing& standing() const { return standing_; }

 private:
  explicit Writer(WriterOptions options);
  absl::StatusOr<CommittedCheckpoint> Lead(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata);
  absl::StatusOr<CommittedCheckpoint> Coordinate(const Group::Call& call, const std::vector<TensorView>& tensors, const Metadata& metadata);
  absl::StatusOr<CommittedCheckpoint> TakePart(int64_t step, const std::vector<TensorView>& tensors);
  absl::StatusOr<ManifestFile> WriteOwnContainer(const std::string& stage, int64_t step, const std::vector<TensorView>& tensors);
  absl::Status TakeDataKey(const Group::Call& call, const std::string& stage);
  absl::Status CheckNotTakenOver(const Group::Call& call);
  const SecretKey* data_key() const { return data_key_ ? &*data_key_ : nullptr; }
  absl::StatusOr<std::vector<ManifestFile>> Gather(const Group::Call& call, ManifestFile own);
  absl::Status CheckContainers(const std::string& stage, int64_t step, const std::vector<ManifestFile>& files);
  absl::StatusOr<CommittedCheckpoint> AwaitCommit(const Group::Call& call, const ManifestFile& own, int64_t deadline_ms);
  std::string StageOf(const Group::Call& call) const;
  absl::StatusOr<CommittedCheckpoint> Publish(const std::string& stage, const Manifest& manifest);
  absl::Status MoveIntoPlace(const std::string& stage, const std::string& target);
  absl::Status Pause(int64_t deadline_ms, int64_t* pause_ms, absl::string_view waiting_for);
  void WriteLatestHint(int64_t step);

  WriterOptions options_;
  std::optional<Ownership> ownership_;  // rank 0's
  Group group_;
  int64_t saves_ = 0;  // rank 0's
  // Rank 0's from the beginning, with the file that tells the others; another rank's is what it last found.
  std::optional<SecretKey> data_key_;
  KeyFile key_file_;
  Standing standing_;
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
// than `job_uid` (when that is given). With the user's key an encrypted one is authenticated too, and a plain one UNAUTHENTICATED.
absl::StatusOr<CommittedCheckpoint> Verify(const std::string& path, VerifyLevel level, const std::string& job_uid = "", Io* io = RealIo(),
                                           const SecretKey* key = nullptr);

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // of the whole, however many processes saved parts of it
};

// One checkpoint, opened: the manifest and the headers of all containers are read and checked.
class Reader {
 public:
  // DATA_LOSS: damaged. NOT_FOUND: not there. UNAUTHENTICATED: encrypted, and there is no key or another one; or plain, and there is one.
  static absl::StatusOr<Reader> Open(const std::string& path, Io* io = RealIo(), const SecretKey* key = nullptr);
  // Without a key, to look at it: an encrypted one shows names and shapes, no metadata, and Read refuses.
  static absl::StatusOr<Reader> OpenLocked(const std::string& path, Io* io = RealIo());

  const Manifest& manifest() const { return manifest_; }
  const std::string& manifest_sha256() const { return manifest_sha256_; }
  std::vector<StoredTensor> Tensors() const;  // by name
  // Fills the target from whichever containers hold its parts, checking each chunk that is read. On an error its content is unspecified.
  // FAILED_PRECONDITION: the tensor is missing, has another dtype or shape, or its slices leave a hole. UNAUTHENTICATED: opened locked.
  absl::Status Read(const TensorTarget& target) const { return Read(std::vector<TensorTarget>{target}); }
  // The same for many, which go on side by side.
  absl::Status Read(const std::vector<TensorTarget>& targets) const;

 private:
  // Where the parts of a tensor lie, by container and place in its header.
  struct Source {
    size_t container = 0, entry = 0;
  };
  // What of a target is in the containers: a part that is all of it, or several that are copied out of.
  struct Plan {
    std::vector<Source> parts;
    bool whole = false;
    Slice wanted;
  };
  absl::StatusOr<Plan> PlanOf(const TensorTarget& target) const;
  static absl::StatusOr<Reader> OpenWith(const std::string& path, Io* io, const SecretKey* key, bool locked);
  const TensorEntry& EntryOf(const Source& source) const { return containers_[source.container].header().tensors[source.entry]; }

  Manifest manifest_;
  std::string manifest_sha256_;
  std::vector<ContainerReader> containers_;
  std::map<std::string, std::vector<Source>> sources_;
};

// Fills every target, from whichever containers hold its parts, checking each chunk that is read. On an error the targets' content is
// unspecified. FAILED_PRECONDITION: a tensor is missing, or has another dtype or shape.
absl::StatusOr<Manifest> Restore(const std::string& path, const std::vector<TensorTarget>& targets, Io* io = RealIo(), const SecretKey* key = nullptr);

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
// there is damaged. FAILED_PRECONDITION: a good checkpoint does not fit the targets or job_uid. UNAUTHENTICATED: the key (Reader::Open).
// Any other code: the disk may recover.
absl::StatusOr<Restored> RestoreNewest(const std::string& resume_from, const std::vector<TensorTarget>& targets, const std::string& job_uid = "",
                                       Io* io = RealIo(), const SecretKey* key = nullptr);

struct Opened {
  CommittedCheckpoint checkpoint;
  Reader reader;
  std::vector<SkippedCheckpoint> skipped;
};

// The same for a program that learns from the checkpoint what there is to restore: every byte is verified before it is handed out, so
// everything is read twice. The same errors, but for targets.
absl::StatusOr<Opened> OpenNewest(const std::string& resume_from, const std::string& job_uid = "", Io* io = RealIo(), const SecretKey* key = nullptr);

// The same without a key and with all headers checked: to look at it.
absl::StatusOr<Opened> OpenNewestLocked(const std::string& resume_from, const std::string& job_uid = "", Io* io = RealIo());

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
