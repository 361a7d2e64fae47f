#include "examples/trainer/cpu_backend.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace spillway::trainer {
namespace {

constexpr float kNormEpsilon = 1e-5f;
constexpr float kWeightDecay = 0.01f;
constexpr double kGradientNormMax = 1.0;

// A sum in sixteen fixed lanes: as fast as the machine can, and the same bits on each.
template <typename Term>
inline float LaneSum(int n, Term term) {
  float lanes[16] = {};
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int j = 0; j < 16; ++j) lanes[j] += term(i + j);
  }
  for (int j = 0; i < n; ++i, ++j) lanes[j] += term(i);
  for (int width = 8; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

void Transpose(int rows, int columns, const float* from, ptrdiff_t from_row, float* to) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) to[static_cast<ptrdiff_t>(j) * rows + i] = from[i * from_row + j];
  }
}

}  // namespace

CpuBackend::CpuBackend(const ModelConfig& config, const Kernels& kernels) : config_(config), kernels_(kernels), parameters_(ParametersOf(config)) {
  const size_t count = WeightCount(parameters_);
  state_.weights.resize(count);
  state_.first_moment.resize(count);
  state_.second_moment.resize(count);
  gradient_.resize(count);
  weights_ = PointersInto(&state_.weights);
  gradients_ = PointersInto(&gradient_);

  const size_t rows = static_cast<size_t>(config.tokens()), dim = static_cast<size_t>(config.dim), vocabulary = static_cast<size_t>(config.vocabulary);
  const size_t context = static_cast<size_t>(config.context);
  auto size_norm = [&](Norm* norm) {
    norm->normal.resize(rows * dim);
    norm->inverse.resize(rows);
    norm->out.resize(rows * dim);
  };
  embedded_.resize(rows * dim);
  layers_.resize(static_cast<size_t>(config.layers));
  for (LayerMemory& layer : layers_) {
    size_norm(&layer.norm1);
    size_norm(&layer.norm2);
    layer.qkv.resize(rows * 3 * dim);
    layer.probabilities.resize(static_cast<size_t>(config.batch * config.heads) * context * context);
    for (std::vector<float>* v : {&layer.heads, &layer.middle, &layer.out}) v->resize(rows * dim);
    layer.expanded.resize(rows * 4 * dim);
    layer.activated.resize(rows * 4 * dim);
  }
  size_norm(&norm_);
  logits_.resize(rows * vocabulary);
  d_stream_.resize(rows * dim);
  d_normed_.resize(rows * dim);
  d_wide_.resize(rows * 4 * dim);
  d_wide2_.resize(rows * 4 * dim);
  transposed_.resize(std::max({4 * dim * dim, dim * vocabulary, context * dim}));
  square_.resize(context * context);
}

std::string CpuBackend::Describe() const { return absl::StrCat("cpu (", kernels_.name, ")"); }

CpuBackend::Pointers CpuBackend::PointersInto(std::vector<float>* flat) const {
  size_t next = 0;  // the order of ParametersOf
  auto take = [&] { return flat->data() + parameters_[next++].offset; };
  Pointers p;
  p.token = take();
  p.position = take();
  for (int l = 0; l < config_.layers; ++l) {
    LayerPointers& layer = p.layers.emplace_back();
    for (float** field :
         {&layer.norm1_gain, &layer.norm1_bias, &layer.attention_weight, &layer.attention_bias, &layer.projection_weight, &layer.projection_bias,
          &layer.norm2_gain, &layer.norm2_bias, &layer.expand_weight, &layer.expand_bias, &layer.contract_weight, &layer.contract_bias}) {
      *field = take();
    }
  }
  p.norm_gain = take();
  p.norm_bias = take();
  p.head = take();
  return p;
}

absl::Status CpuBackend::Load(const TrainingState& state) {
  for (const std::vector<float>* v : {&state.weights, &state.first_moment, &state.second_moment}) {
    if (v->size() != gradient_.size()) return absl::InvalidArgumentError(absl::StrCat("a state of ", v->size(), " weights for a model of ", gradient_.size()));
  }
  // Copied in place: the pointers into the arrays stay.
  std::copy(state.weights.begin(), state.weights.end(), state_.weights.begin());
  std::copy(state.first_moment.begin(), state.first_moment.end(), state_.first_moment.begin());
  std::copy(state.second_moment.begin(), state.second_moment.end(), state_.second_moment.begin());
  return absl::OkStatus();
}

absl::Status CpuBackend::Store(TrainingState* state) {
  *state = state_;
  return absl::OkStatus();
}

absl::StatusOr<double> CpuBackend::TrainStep(const Batch& batch, int64_t step, float lr) {
  const size_t tokens = static_cast<size_t>(config_.tokens());
  if (batch.inputs.size() != tokens || batch.targets.size() != tokens) return absl::InvalidArgumentError("a batch of another size");
  const double loss = Forward(batch);
  if (!std::isfinite(loss)) return absl::OutOfRangeError(absl::StrCat("the loss is not finite at step ", step, ": a smaller --lr may help"));
  Backward(batch);
  Update(step, lr);
  return loss;
}

double CpuBackend::LossAndGradient(const Batch& batch, std::vector<float>* gradient) {
  const double loss = Forward(batch);
  Backward(batch);
  *gradient = gradient_;
  return loss;
}

double CpuBackend::Forward(const Batch& batch) {
  const int rows = config_.tokens(), dim = config_.dim, vocabulary = config_.vocabulary;
  for (int t = 0; t < rows; ++t) {
    const float* token = weights_.token + static_cast<ptrdiff_t>(batch.inputs[static_cast<size_t>(t)]) * dim;
    const float* position = weights_.position + static_cast<ptrdiff_t>(t % config_.context) * dim;
    float* x = embedded_.data() + static_cast<ptrdiff_t>(t) * dim;
    for (int i = 0; i < dim; ++i) x[i] = token[i] + position[i];
  }
  const float* x = embedded_.data();
  for (size_t l = 0; l < layers_.size(); ++l) {
    LayerMemory& m = layers_[l];
    const LayerPointers& w = weights_.layers[l];
    NormForward(x, w.norm1_gain, w.norm1_bias, &m.norm1);
    LinearForward(m.norm1.out.data(), dim, w.attention_weight, w.attention_bias, nullptr, 3 * dim, m.qkv.data());
    AttentionForward(&m);
    LinearForward(m.heads.data(), dim, w.projection_weight, w.projection_bias, x, dim, m.middle.data());
    NormForward(m.middle.data(), w.norm2_gain, w.norm2_bias, &m.norm2);
    LinearForward(m.norm2.out.data(), dim, w.expand_weight, w.expand_bias, nullptr, 4 * dim, m.expanded.data());
    kernels_.gelu(m.expanded.size(), m.expanded.data(), m.activated.data());
    LinearForward(m.activated.data(), 4 * dim, w.contract_weight, w.contract_bias, m.middle.data(), dim, m.out.data());
    x = m.out.data();
  }
  NormForward(x, weights_.norm_gain, weights_.norm_bias, &norm_);
  LinearForward(norm_.out.data(), dim, weights_.head, nullptr, nullptr, vocabulary, logits_.data());

  // Softmax and cross-entropy; the logits become their own gradient.
  double loss = 0;
  for (int t = 0; t < rows; ++t) {
    float* row = logits_.data() + static_cast<ptrdiff_t>(t) * vocabulary;
    const int target = batch.targets[static_cast<size_t>(t)];
    const float highest = *std::max_element(row, row + vocabulary);
    const float target_logit = row[target];
    kernels_.exp_minus(static_cast<size_t>(vocabulary), row, highest, row);
    const float sum = LaneSum(vocabulary, [&](int i) { return row[i]; });
    loss += std::log(static_cast<double>(sum)) + highest - target_logit;
    const float scale = 1.0f / sum;
    for (int i = 0; i < vocabulary; ++i) row[i] *= scale;
    row[target] -= 1.0f;
  }
  return loss / rows;
}

void CpuBackend::Backward(const Batch& batch) {
  const int rows = config_.tokens(), dim = config_.dim;
  std::fill(gradient_.begin(), gradient_.end(), 0.0f);
  const float per_token = 1.0f / static_cast<float>(rows);
  for (float& d : logits_) d *= per_token;
  LinearBackward(norm_.out.data(), dim, weights_.head, config_.vocabulary, logits_.data(), gradients_.head, nullptr, d_normed_.data());
  std::fill(d_stream_.begin(), d_stream_.end(), 0.0f);
  NormBackward(norm_, weights_.norm_gain, d_normed_.data(), gradients_.norm_gain, gradients_.norm_bias, d_stream_.data());

  for (size_t l = layers_.size(); l-- > 0;) {
    const LayerMemory& m = layers_[l];
    const LayerPointers& w = weights_.layers[l];
    const LayerPointers& d = gradients_.layers[l];
    LinearBackward(m.activated.data(), 4 * dim, w.contract_weight, dim, d_stream_.data(), d.contract_weight, d.contract_bias, d_wide_.data());
    kernels_.gelu_backward(m.expanded.size(), m.expanded.data(), d_wide_.data(), d_wide2_.data());
    LinearBackward(m.norm2.out.data(), dim, w.expand_weight, 4 * dim, d_wide2_.data(), d.expand_weight, d.expand_bias, d_normed_.data());
    NormBackward(m.norm2, w.norm2_gain, d_normed_.data(), d.norm2_gain, d.norm2_bias, d_stream_.data());
    LinearBackward(m.heads.data(), dim, w.projection_weight, dim, d_stream_.data(), d.projection_weight, d.projection_bias, d_normed_.data());
    AttentionBackward(m, d_normed_.data(), d_wide_.data());
    LinearBackward(m.norm1.out.data(), dim, w.attention_weight, 3 * dim, d_wide_.data(), d.attention_weight, d.attention_bias, d_normed_.data());
    NormBackward(m.norm1, w.norm1_gain, d_normed_.data(), d.norm1_gain, d.norm1_bias, d_stream_.data());
  }
  for (int t = 0; t < rows; ++t) {
    const float* dx = d_stream_.data() + static_cast<ptrdiff_t>(t) * dim;
    float* token = gradients_.token + static_cast<ptrdiff_t>(batch.inputs[static_cast<size_t>(t)]) * dim;
    float* position = gradients_.position + static_cast<ptrdiff_t>(t % config_.context) * dim;
    for (int i = 0; i < dim; ++i) {
      token[i] += dx[i];
      position[i] += dx[i];
    }
  }
}

void CpuBackend::Update(int64_t step, float lr) {
  AdamW adam;
  // Powers by repeated squaring: multiplications only, so the same bits everywhere.
  auto power = [](double base, int64_t n) {
    double result = 1;
    for (; n > 0; n >>= 1, base *= base) result *= (n & 1) ? base : 1.0;
    return result;
  };
  adam.lr = lr;
  adam.correction1 = static_cast<float>(1.0 / (1.0 - power(adam.beta1, step)));
  adam.correction2 = static_cast<float>(1.0 / (1.0 - power(adam.beta2, step)));
  double squares = 0;
  for (const Parameter& p : parameters_) {
    const float* g = gradient_.data() + p.offset;
    squares += LaneSum(static_cast<int>(p.size), [&](int i) { return g[i] * g[i]; });
  }
  const double norm = std::sqrt(squares);
  if (norm > kGradientNormMax) adam.gradient_scale = static_cast<float>(kGradientNormMax / norm);
  for (const Parameter& p : parameters_) {
    adam.decay = p.decays ? kWeightDecay : 0.0f;
    kernels_.adamw(p.size, adam, gradient_.data() + p.offset, state_.weights.data() + p.offset, state_.first_moment.data() + p.offset,
                   state_.second_moment.data() + p.offset);
  }
}

void CpuBackend::NormForward(const float* x, const float* gain, const float* bias, Norm* norm) const {
  const int dim = config_.dim;
  for (int t = 0; t < config_.tokens(); ++t, x += dim) {
    const float mean = LaneSum(dim, [&](int i) { return x[i]; }) / static_cast<float>(dim);
    const float variance = LaneSum(dim, [&](int i) { return (x[i] - mean) * (x[i] - mean); }) / static_cast<float>(dim);
    const float inverse = 1.0f / std::sqrt(variance + kNormEpsilon);
    norm->inverse[static_cast<size_t>(t)] = inverse;
    float* normal = norm->normal.data() + static_cast<ptrdiff_t>(t) * dim;
    float* out = norm->out.data() + static_cast<ptrdiff_t>(t) * dim;
    for (int i = 0; i < dim; ++i) {
      normal[i] = (x[i] - mean) * inverse;
      out[i] = normal[i] * gain[i] + bias[i];
    }
  }
}

void CpuBackend::NormBackward(const Norm& norm, const float* gain, const float* dy, float* d_gain, float* d_bias, float* dx_added) {
  const int dim = config_.dim;
  for (int t = 0; t < config_.tokens(); ++t, dy += dim, dx_added += dim) {
    const float* normal = norm.normal.data() + static_cast<ptrdiff_t>(t) * dim;
    const float mean = LaneSum(dim, [&](int i) { return dy[i] * gain[i]; }) / static_cast<float>(dim);
    const float along = LaneSum(dim, [&](int i) { return dy[i] * gain[i] * normal[i]; }) / static_cast<float>(dim);
    const float inverse = norm.inverse[static_cast<size_t>(t)];
    for (int i = 0; i < dim; ++i) {
      d_gain[i] += dy[i] * normal[i];
      d_bias[i] += dy[i];
      dx_added[i] += inverse * (dy[i] * gain[i] - mean - normal[i] * along);
    }
  }
}

void CpuBackend::LinearForward(const float* x, int in, const float* weight, const float* bias, const float* residual, int out, float* y) const {
  const int rows = config_.tokens();
  if (bias != nullptr) {
    for (int t = 0; t < rows; ++t) {
      float* row = y + static_cast<ptrdiff_t>(t) * out;
      const float* rest = residual == nullptr ? nullptr : residual + static_cast<ptrdiff_t>(t) * out;
      for (int i = 0; i < out; ++i) row[i] = bias[i] + (rest == nullptr ? 0.0f : rest[i]);
    }
  }
  kernels_.gemm(rows, out, in, x, in, 1, weight, out, y, out, bias != nullptr);
}

void CpuBackend::LinearBackward(const float* x, int in, const float* weight, int out, const float* dy, float* d_weight, float* d_bias, float* dx) {
  const int rows = config_.tokens();
  kernels_.gemm(in, out, rows, x, 1, in, dy, out, d_weight, out, true);
  if (d_bias != nullptr) {
    for (int t = 0; t < rows; ++t) {
      const float* row = dy + static_cast<ptrdiff_t>(t) * out;
      for (int i = 0; i < out; ++i) d_bias[i] += row[i];
    }
  }
  Transpose(in, out, weight, out, transposed_.data());
  kernels_.gemm(rows, in, out, dy, out, 1, transposed_.data(), in, dx, in, false);
}

void CpuBackend::AttentionForward(LayerMemory* memory) {
  const int context = config_.context, dim = config_.dim, width = dim / config_.heads;
  const ptrdiff_t row = 3 * static_cast<ptrdiff_t>(dim);
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  for (int b = 0; b < config_.batch; ++b) {
    for (int h = 0; h < config_.heads; ++h) {
      const float* q = memory->qkv.data() + b * context * row + h * width;
      const float* k = q + dim;
      const float* v = k + dim;
      float* p = memory->probabilities.data() + static_cast<ptrdiff_t>(b * config_.heads + h) * context * context;
      Transpose(context, width, k, row, transposed_.data());
      kernels_.gemm(context, context, width, q, row, 1, transposed_.data(), context, p, context, false);
      for (int i = 0; i < context; ++i) {
        float* scores = p + static_cast<ptrdiff_t>(i) * context;
        const int visible = i + 1;  // nothing sees what comes after it
        for (int j = 0; j < visible; ++j) scores[j] *= scale;
        const float highest = *std::max_element(scores, scores + visible);
        kernels_.exp_minus(static_cast<size_t>(visible), scores, highest, scores);
        const float inverse = 1.0f / LaneSum(visible, [&](int j) { return scores[j]; });
        for (int j = 0; j < visible; ++j) scores[j] *= inverse;
        std::fill(scores + visible, scores + context, 0.0f);
      }
      float* out = memory->heads.data() + static_cast<ptrdiff_t>(b) * context * dim + h * width;
      kernels_.gemm(context, width, context, p, context, 1, v, row, out, dim, false);
    }
  }
}

void CpuBackend::AttentionBackward(const LayerMemory& memory, const float* d_heads, float* d_qkv) {
  const int context = config_.context, dim = config_.dim, width = dim / config_.heads;
  const ptrdiff_t row = 3 * static_cast<ptrdiff_t>(dim);
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  for (int b = 0; b < config_.batch; ++b) {
    for (int h = 0; h < config_.heads; ++h) {
      const ptrdiff_t at = b * context * row + h * width;
      const float* q = memory.qkv.data() + at;
      const float* k = q + dim;
      const float* v = k + dim;
      const float* p = memory.probabilities.data() + static_cast<ptrdiff_t>(b * config_.heads + h) * context * context;
      const float* d_out = d_heads + static_cast<ptrdiff_t>(b) * context * dim + h * width;
      float* d_q = d_qkv + at;
      float* d_k = d_q + dim;
      float* d_v = d_k + dim;
      float* d_scores = square_.data();
      kernels_.gemm(context, width, context, p, 1, context, d_out, dim, d_v, row, false);
      Transpose(context, width, v, row, transposed_.data());
      kernels_.gemm(context, context, width, d_out, dim, 1, transposed_.data(), context, d_scores, context, false);
      for (int i = 0; i < context; ++i) {
        const float* probability = p + static_cast<ptrdiff_t>(i) * context;
        float* d = d_scores + static_cast<ptrdiff_t>(i) * context;
        const float mean = LaneSum(i + 1, [&](int j) { return d[j] * probability[j]; });
        for (int j = 0; j < context; ++j) d[j] = probability[j] * (d[j] - mean) * scale;  // zero where nothing is seen
      }
      kernels_.gemm(context, width, context, d_scores, context, 1, k, row, d_q, row, false);
      kernels_.gemm(context, width, context, d_scores, 1, context, q, row, d_k, row, false);
    }
  }
}

}  // namespace spillway::trainer
