// A run as tensors: what a checkpoint of spillway-train holds, and the hash that says two runs ended with the same weights.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/checkpoint.h"
#include "examples/trainer/data.h"
#include "examples/trainer/model.h"
#include "examples/trainer/options.h"

namespace spillway::trainer {

// The whole of what the next step depends on.
struct RunState {
  TrainingState training;
  Sampler::State sampler{};
  int64_t step = 0;
};

// "model/<parameter>", "adam.m/<parameter>", "adam.v/<parameter>", "state/sampler", "state/step": in this order, parameters in theirs.
std::vector<checkpoint::TensorView> TensorsOf(const std::vector<Parameter>& parameters, const RunState& state);
std::vector<checkpoint::TensorTarget> TargetsOf(const std::vector<Parameter>& parameters, RunState* state);

// What a run must have in common with the one it resumes.
checkpoint::Metadata MetadataOf(const Options& options, const Dataset& data);
// FAILED_PRECONDITION naming the flag that differs.
absl::Status CheckSameRun(const checkpoint::Metadata& wanted, const checkpoint::Metadata& found);

// SHA-256 over the bytes of all weights, in the order of ParametersOf. Hex.
std::string WeightsHash(const TrainingState& state);
inline constexpr char kWeightsHashKey[] = "weights_sha256";

// The same from disk: a step directory or a weights file, every byte verified. DATA_LOSS also when the manifest names another hash.
absl::StatusOr<std::string> HashOnDisk(const std::string& path);

// Only the "model/" tensors, as one container file. Replaces `path` durably.
absl::Status WriteWeightsFile(const std::string& path, const std::vector<Parameter>& parameters, const RunState& state);

}  // namespace spillway::trainer
