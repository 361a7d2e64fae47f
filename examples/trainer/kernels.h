// The arithmetic that takes the time, for one thread, in several instruction sets. Every variant gives the same bits: each result element
// is summed in one fixed order and nothing is contracted into fused operations. So the same program gives the same weights on any
// x86-64 machine, and a task may move between them.
#pragma once

#include <cstddef>
#include <vector>

namespace spillway::trainer {

struct AdamW {
  float lr = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, decay = 0;
  float correction1 = 1, correction2 = 1;  // 1 / (1 - beta^t)
  float gradient_scale = 1;                // clipping
};

struct Kernels {
  const char* name;
  // C = A B, or C += A B, for A of m x k, B of k x n. A's element (i, p) is a[i * a_row + p * a_col]; rows of B and C are dense.
  void (*gemm)(int m, int n, int k, const float* a, ptrdiff_t a_row, ptrdiff_t a_col, const float* b, ptrdiff_t b_row, float* c, ptrdiff_t c_row,
               bool accumulate);
  void (*gelu)(size_t n, const float* x, float* y);  // the tanh form
  void (*gelu_backward)(size_t n, const float* x, const float* dy, float* dx);
  void (*exp_minus)(size_t n, const float* x, float shift, float* y);  // y = exp(x - shift)
  void (*adamw)(size_t n, const AdamW& step, const float* gradient, float* weight, float* m, float* v);
};

// Those this machine can run, the plainest first and the fastest last.
const std::vector<const Kernels*>& UsableKernels();
inline const Kernels& BestKernels() { return *UsableKernels().back(); }

}  // namespace spillway::trainer
