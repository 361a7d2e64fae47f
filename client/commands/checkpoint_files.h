// What `spillway checkpoints` does with checkpoints on a disk that this machine sees, without a scheduler: show, verify, export, import, prune,
// diff, rewrap. Owns their words; the checkpoint library does the work. The key of encrypted ones is what the environment names
// (checkpoint/key_source.h); list, show and verify do without one what can be done without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/verb.h"

namespace spillway::client {

struct CheckpointFileOptions {
  std::optional<int64_t> step;  // import
  std::string shard_size;       // export: "5GB"
  std::string new_key_file;     // rewrap
  bool keep_old = false;        // rewrap
  int64_t keep_last = 2, keep_best = 0, keep_every = 0;
  std::string metric;
  bool maximize = false;
  bool dry_run = false;
};

// Each gives the program's exit code. Paths are of a step directory, or of a directory of steps for its newest.
int ListCheckpointDirectory(Context& context, const std::string& directory);
int ShowCheckpoint(Context& context, const std::string& path);
int VerifyCheckpoints(Context& context, const std::vector<std::string>& paths);
int ExportCheckpoint(Context& context, const std::string& path, const std::string& target, const CheckpointFileOptions& options);
int ImportCheckpoint(Context& context, const std::string& source, const std::string& directory, const CheckpointFileOptions& options);
int PruneCheckpoints(Context& context, const std::string& directory, const CheckpointFileOptions& options);
int DiffCheckpoints(Context& context, const std::string& a, const std::string& b);
// Every encrypted checkpoint there: its data key for another user key.
int RewrapCheckpoints(Context& context, const std::vector<std::string>& paths, const CheckpointFileOptions& options);

}  // namespace spillway::client
