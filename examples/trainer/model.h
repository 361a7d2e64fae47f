// The model's shape: a small decoder-only transformer over characters. Owns the list of parameters, in the one order that weights,
// moments, checkpoints and the weights' hash share, and their first values. Computes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spillway::trainer {

struct ModelConfig {
  int vocabulary = 0;  // from the data
  int layers = 2;
  int dim = 128;
  int heads = 4;
  int context = 64;
  int batch = 12;
  int tokens() const { return batch * context; }
};

absl::Status CheckConfig(const ModelConfig& config);

struct Parameter {
  std::string name;  // "layer.0/attention.weight"
  std::vector<int64_t> shape;
  size_t offset = 0;  // in the flat array of all weights
  size_t size = 0;
  enum class Start { kZero, kOne, kRandom } start = Start::kZero;
  float scale = 0;      // of kRandom
  bool decays = false;  // weight decay: matrices only
};

// Embeddings, then each layer, then the final norm and the head.
std::vector<Parameter> ParametersOf(const ModelConfig& config);
size_t WeightCount(const std::vector<Parameter>& parameters);

// Everything that training changes, beside the sampler: what a backend holds and a checkpoint keeps. All three have one layout.
struct TrainingState {
  std::vector<float> weights, first_moment, second_moment;
};

TrainingState InitialState(const std::vector<Parameter>& parameters, uint64_t seed);

}  // namespace spillway::trainer
