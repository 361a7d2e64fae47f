#include "examples/trainer/model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/rng.h"

namespace spillway::trainer {
namespace {

constexpr int kLayersMax = 64;
constexpr int kDimMax = 4096;
constexpr int kContextMax = 4096;
constexpr int kBatchMax = 1024;
constexpr int64_t kWeightsMax = 1'000'000'000;

// Close to a normal distribution by the sum of twelve uniform ones: additions only, so the same bits everywhere.
float NearlyNormal(Rng* rng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng->Unit();
  return static_cast<float>(sum);
}

}  // namespace

absl::Status CheckConfig(const ModelConfig& c) {
  auto in_range = [](const char* flag, int64_t value, int64_t high) {
    if (value >= 1 && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", value, ": want 1 to ", high));
  };
  for (const absl::Status& status : {in_range("--layers", c.layers, kLayersMax), in_range("--dim", c.dim, kDimMax), in_range("--heads", c.heads, c.dim),
                                     in_range("--context", c.context, kContextMax), in_range("--batch", c.batch, kBatchMax)}) {
    if (!status.ok()) return status;
  }
  if (c.dim % c.heads != 0) return absl::InvalidArgumentError(absl::StrCat("--dim ", c.dim, " is not a multiple of --heads ", c.heads));
  const int64_t weights = static_cast<int64_t>(c.layers) * 12 * c.dim * c.dim + 2ll * c.vocabulary * c.dim + static_cast<int64_t>(c.context) * c.dim;
  if (weights > kWeightsMax) return absl::InvalidArgumentError(absl::StrCat(weights, " weights: at most ", kWeightsMax, " fit this trainer"));
  return absl::OkStatus();
}

std::vector<Parameter> ParametersOf(const ModelConfig& c) {
  std::vector<Parameter> parameters;
  size_t offset = 0;
  auto add = [&](std::string name, std::vector<int64_t> shape, Parameter::Start start, float scale = 0) {
    size_t size = 1;
    for (int64_t extent : shape) size *= static_cast<size_t>(extent);
    const bool matrix = shape.size() > 1;
    parameters.push_back({std::move(name), std::move(shape), offset, size, start, scale, matrix});
    offset += size;
  };
  using Start = Parameter::Start;
  const int64_t dim = c.dim;
  const float deep = 0.02f / std::sqrt(2.0f * static_cast<float>(c.layers));  // what adds to the residual starts smaller in deep models
  add("embedding.token", {c.vocabulary, dim}, Start::kRandom, 0.02f);
  add("embedding.position", {c.context, dim}, Start::kRandom, 0.02f);
  for (int l = 0; l < c.layers; ++l) {
    const std::string layer = absl::StrCat("layer.", l, "/");
    add(layer + "norm1.gain", {dim}, Start::kOne);
    add(layer + "norm1.bias", {dim}, Start::kZero);
    add(layer + "attention.weight", {dim, 3 * dim}, Start::kRandom, 0.02f);
    add(layer + "attention.bias", {3 * dim}, Start::kZero);
    add(layer + "projection.weight", {dim, dim}, Start::kRandom, deep);
    add(layer + "projection.bias", {dim}, Start::kZero);
    add(layer + "norm2.gain", {dim}, Start::kOne);
    add(layer + "norm2.bias", {dim}, Start::kZero);
    add(layer + "expand.weight", {dim, 4 * dim}, Start::kRandom, 0.02f);
    add(layer + "expand.bias", {4 * dim}, Start::kZero);
    add(layer + "contract.weight", {4 * dim, dim}, Start::kRandom, deep);
    add(layer + "contract.bias", {dim}, Start::kZero);
  }
  add("norm.gain", {dim}, Start::kOne);
  add("norm.bias", {dim}, Start::kZero);
  add("head.weight", {dim, c.vocabulary}, Start::kRandom, 0.02f);
  return parameters;
}

size_t WeightCount(const std::vector<Parameter>& parameters) { return parameters.empty() ? 0 : parameters.back().offset + parameters.back().size; }

TrainingState InitialState(const std::vector<Parameter>& parameters, uint64_t seed) {
  TrainingState state;
  const size_t count = WeightCount(parameters);
  state.weights.resize(count);
  state.first_moment.resize(count);
  state.second_moment.resize(count);
  Rng rng = Rng(seed).Fork(1);
  for (const Parameter& p : parameters) {
    for (size_t i = p.offset; i < p.offset + p.size; ++i) {
      state.weights[i] = p.start == Parameter::Start::kRandom ? p.scale * NearlyNormal(&rng) : p.start == Parameter::Start::kOne ? 1.0f : 0.0f;
    }
  }
  return state;
}

}  // namespace spillway::trainer
