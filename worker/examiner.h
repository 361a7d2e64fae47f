// Looks at checkpoints in the store for the worker: is what a job calls a checkpoint one of its own, and what has an attempt committed?
// May be slow, as stores are: not for the worker's loop. Never writes, moves or deletes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/session_logic.h"

namespace spillway::worker {

// The checkpoint that `said_path` names, if it is committed in the attempt's own directory `checkpoint_dir` under `root` and belongs to `job_uid`.
// A hostile job names what it likes, or puts links: the path must be a step directory directly in the attempt's directory, on disk too.
absl::StatusOr<CheckpointFound> ExamineCheckpoint(const std::string& root, const std::string& checkpoint_dir, const std::string& job_uid,
                                                  const std::string& said_path);
// Every committed checkpoint of the attempt; headers are verified, the bytes behind them are the scheduler's seal's to verify.
absl::StatusOr<std::vector<CheckpointFound>> ScanCheckpointDir(const std::string& root, const std::string& checkpoint_dir, const std::string& job_uid);

// The same as answers for the logic. `root`: the checkpoint root of the store.
CheckpointChecked Answer(const std::string& root, const CheckCheckpoint& question);
ScanResult Answer(const std::string& root, const ScanCheckpoints& question);

}  // namespace spillway::worker
