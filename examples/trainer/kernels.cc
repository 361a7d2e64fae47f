#include "examples/trainer/kernels.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

// Bodies are written once and inlined into one wrapper an instruction set.
#define INLINE inline __attribute__((always_inline))

namespace spillway::trainer {
namespace {

template <int W>
struct VectorOf {
  typedef float type __attribute__((vector_size(W * sizeof(float))));
};

// R rows of C by N vectors of W columns, kept in registers over the whole of k.
template <int W, int R, int N>
INLINE void Tile(int k, const float* a, ptrdiff_t a_row, ptrdiff_t a_col, const float* b, ptrdiff_t b_row, float* c, ptrdiff_t c_row, bool accumulate) {
  using V = typename VectorOf<W>::type;
  V sum[R][N] = {};
  if (accumulate) {
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < N; ++j) std::memcpy(&sum[r][j], c + r * c_row + j * W, sizeof(V));
    }
  }
  for (int p = 0; p < k; ++p) {
    V row[N];
    for (int j = 0; j < N; ++j) std::memcpy(&row[j], b + p * b_row + j * W, sizeof(V));
    for (int r = 0; r < R; ++r) {
      const float factor = a[r * a_row + p * a_col];
      for (int j = 0; j < N; ++j) sum[r][j] += factor * row[j];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < N; ++j) std::memcpy(c + r * c_row + j * W, &sum[r][j], sizeof(V));
  }
}

// All rows of a panel of N * W columns.
template <int W, int R, int N>
INLINE void Panel(int m, int k, const float* a, ptrdiff_t a_row, ptrdiff_t a_col, const float* b, ptrdiff_t b_row, float* c, ptrdiff_t c_row, bool accumulate) {
  int i = 0;
  for (; i + R <= m; i += R) Tile<W, R, N>(k, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row, accumulate);
  for (; i < m; ++i) Tile<W, 1, N>(k, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row, accumulate);
}

template <int W, int R>
INLINE void GemmBody(int m, int n, int k, const float* a, ptrdiff_t a_row, ptrdiff_t a_col, const float* b, ptrdiff_t b_row, float* c, ptrdiff_t c_row,
                     bool accumulate) {
  int j = 0;
  for (; j + 2 * W <= n; j += 2 * W) Panel<W, R, 2>(m, k, a, a_row, a_col, b + j, b_row, c + j, c_row, accumulate);
  for (; j + W <= n; j += W) Panel<W, R, 1>(m, k, a, a_row, a_col, b + j, b_row, c + j, c_row, accumulate);
  for (; j + 4 <= n; j += 4) Panel<4, R, 1>(m, k, a, a_row, a_col, b + j, b_row, c + j, c_row, accumulate);
  for (; j < n; ++j) Panel<1, R, 1>(m, k, a, a_row, a_col, b + j, b_row, c + j, c_row, accumulate);
}

// exp by 2^n times a polynomial; within 2 units of the last place, the same everywhere. Clamped to the range of normal floats.
INLINE float Exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float rounded = x * 1.44269504f + kRound;
  const float n = rounded - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(rounded) - std::bit_cast<int32_t>(kRound);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}

INLINE float Tanh(float x) { return 1.0f - 2.0f / (Exp(2.0f * x) + 1.0f); }

constexpr float kGeluScale = 0.7978845608f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;

INLINE void GeluBody(size_t n, const float* x, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = 0.5f * x[i] * (1.0f + Tanh(kGeluScale * (x[i] + kGeluCube * x[i] * x[i] * x[i])));
}

INLINE void GeluBackwardBody(size_t n, const float* x, const float* dy, float* dx) {
  for (size_t i = 0; i < n; ++i) {
    const float t = Tanh(kGeluScale * (x[i] + kGeluCube * x[i] * x[i] * x[i]));
    const float inner = kGeluScale * (1.0f + 3.0f * kGeluCube * x[i] * x[i]);
    dx[i] = dy[i] * (0.5f * (1.0f + t) + 0.5f * x[i] * (1.0f - t * t) * inner);
  }
}

INLINE void ExpMinusBody(size_t n, const float* x, float shift, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = Exp(x[i] - shift);
}

INLINE void AdamWBody(size_t n, const AdamW& s, const float* __restrict gradient, float* __restrict weight, float* __restrict m, float* __restrict v) {
  for (size_t i = 0; i < n; ++i) {
    const float g = gradient[i] * s.gradient_scale;
    m[i] = s.beta1 * m[i] + (1.0f - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1.0f - s.beta2) * (g * g);
    const float update = (m[i] * s.correction1) / (std::sqrt(v[i] * s.correction2) + s.epsilon);
    weight[i] -= s.lr * (update + s.decay * weight[i]);
  }
}

#define DEFINE_KERNELS(Name, text, attributes, W, R)                                                                                           \
  attributes void Gemm##Name(int m, int n, int k, const float* a, ptrdiff_t a_row, ptrdiff_t a_col, const float* b, ptrdiff_t b_row, float* c, \
                             ptrdiff_t c_row, bool accumulate) {                                                                               \
    GemmBody<W, R>(m, n, k, a, a_row, a_col, b, b_row, c, c_row, accumulate);                                                                  \
  }                                                                                                                                            \
  attributes void Gelu##Name(size_t n, const float* x, float* y) { GeluBody(n, x, y); }                                                        \
  attributes void GeluBackward##Name(size_t n, const float* x, const float* dy, float* dx) { GeluBackwardBody(n, x, dy, dx); }                 \
  attributes void ExpMinus##Name(size_t n, const float* x, float shift, float* y) { ExpMinusBody(n, x, shift, y); }                            \
  attributes void AdamW##Name(size_t n, const AdamW& s, const float* g, float* w, float* m, float* v) { AdamWBody(n, s, g, w, m, v); }         \
  constexpr Kernels k##Name = {text, Gemm##Name, Gelu##Name, GeluBackward##Name, ExpMinus##Name, AdamW##Name};

DEFINE_KERNELS(Plain, "plain", , 4, 4)
#if defined(__x86_64__)
DEFINE_KERNELS(Avx2, "avx2", __attribute__((target("avx2"))), 8, 4)
DEFINE_KERNELS(Avx512, "avx512", __attribute__((target("avx512f"))), 16, 8)
#endif

}  // namespace

const std::vector<const Kernels*>& UsableKernels() {
  static const std::vector<const Kernels*>* const usable = [] {
    auto* kernels = new std::vector<const Kernels*>{&kPlain};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) kernels->push_back(&kAvx2);
    if (__builtin_cpu_supports("avx512f")) kernels->push_back(&kAvx512);
#endif
    return kernels;
  }();
  return *usable;
}

}  // namespace spillway::trainer
