// The transformer on one CPU thread, forward and backward written out by hand. Allocates everything once; afterwards a step touches no heap.
#pragma once

#include <string>
#include <vector>

#include "examples/trainer/backend.h"
#include "examples/trainer/kernels.h"

namespace spillway::trainer {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const ModelConfig& config, const Kernels& kernels);

  std::string Describe() const override;
  absl::Status Load(const TrainingState& state) override;
  absl::Status Store(TrainingState* state) override;
  absl::StatusOr<double> TrainStep(const Batch& batch, int64_t step, float lr) override;

  // The mean loss of a batch, and with it the gradient of every weight. For tests.
  double Loss(const Batch& batch) { return Forward(batch); }
  double LossAndGradient(const Batch& batch, std::vector<float>* gradient);

 private:
  // One layer's parameters, as pointers into weights or gradient.
  struct LayerPointers {
    float *norm1_gain, *norm1_bias, *attention_weight, *attention_bias, *projection_weight, *projection_bias;
    float *norm2_gain, *norm2_bias, *expand_weight, *expand_bias, *contract_weight, *contract_bias;
  };
  struct Pointers {
    float *token, *position, *norm_gain, *norm_bias, *head;
    std::vector<LayerPointers> layers;
  };
  struct Norm {
    std::vector<float> normal;   // (x - mean) / deviation
    std::vector<float> inverse;  // 1 / deviation, a row
    std::vector<float> out;
  };
  struct LayerMemory {
    Norm norm1, norm2;
    std::vector<float> qkv, probabilities, heads, middle, expanded, activated, out;  // middle, out: the residual stream after each half
  };

  Pointers PointersInto(std::vector<float>* flat) const;
  double Forward(const Batch& batch);
  void Backward(const Batch& batch);
  void Update(int64_t step, float lr);

  void NormForward(const float* x, const float* gain, const float* bias, Norm* norm) const;
  void NormBackward(const Norm& norm, const float* gain, const float* dy, float* d_gain, float* d_bias, float* dx_added);
  // y = x W (+ bias (+ residual)); then the gradients of W, bias and x from that of y.
  void LinearForward(const float* x, int in, const float* weight, const float* bias, const float* residual, int out, float* y) const;
  void LinearBackward(const float* x, int in, const float* weight, int out, const float* dy, float* d_weight, float* d_bias, float* dx);
  void AttentionForward(LayerMemory* memory);
  void AttentionBackward(const LayerMemory& memory, const float* d_heads, float* d_qkv);

  const ModelConfig config_;
  const Kernels& kernels_;
  const std::vector<Parameter> parameters_;
  TrainingState state_;
  std::vector<float> gradient_;
  Pointers weights_, gradients_;

  std::vector<float> embedded_;
  std::vector<LayerMemory> layers_;
  Norm norm_;
  std::vector<float> logits_;  // after Forward: probability minus target, the gradient of the summed loss
  // Scratch of the backward pass and of attention.
  std::vector<float> d_stream_, d_normed_, d_wide_, d_wide2_, transposed_, square_;
};

}  // namespace spillway::trainer
