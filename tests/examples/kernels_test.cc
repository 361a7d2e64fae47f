#include "examples/trainer/kernels.h"

#include <cmath>
#include <cstring>

#include "tests/examples/support.h"

namespace spillway::trainer {
namespace {

std::vector<float> RandomFloats(Rng* rng, size_t n, double scale = 1) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>((rng->Unit() * 2 - 1) * scale);
  return values;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Kernels, GemmIsTheDefinitionWithTheSameBitsInEveryInstructionSet) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const int m = static_cast<int>(rng.Between(1, 40)), n = static_cast<int>(rng.Between(1, 90)), k = static_cast<int>(rng.Between(1, 50));
    const bool accumulate = rng.Chance(0.5), transposed = rng.Chance(0.5);
    const int b_row = n + static_cast<int>(rng.Below(5)), c_row = n + static_cast<int>(rng.Below(5));
    const std::vector<float> a = RandomFloats(&rng, static_cast<size_t>(m * k)), b = RandomFloats(&rng, static_cast<size_t>(k * b_row));
    const std::vector<float> before = RandomFloats(&rng, static_cast<size_t>(m * c_row));
    const ptrdiff_t a_row = transposed ? 1 : k, a_col = transposed ? m : 1;
    std::vector<float> first;
    for (const Kernels* kernels : UsableKernels()) {
      std::vector<float> c = before;
      kernels->gemm(m, n, k, a.data(), a_row, a_col, b.data(), b_row, c.data(), c_row, accumulate);
      if (first.empty()) first = c;
      ASSERT_TRUE(SameBits(c, first)) << kernels->name;
    }
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < c_row; ++j) {
        const size_t at = static_cast<size_t>(i * c_row + j);
        if (j >= n) {
          ASSERT_EQ(first[at], before[at]) << "beyond the matrix";
          continue;
        }
        double sum = accumulate ? before[at] : 0.0;
        for (int p = 0; p < k; ++p) sum += static_cast<double>(a[static_cast<size_t>(i * a_row + p * a_col)]) * b[static_cast<size_t>(p * b_row + j)];
        ASSERT_NEAR(first[at], sum, 1e-4);
      }
    }
  }
}

TEST(Kernels, ElementwiseOnesAreRightWithTheSameBitsInEveryInstructionSet) {
  Rng rng(2);
  const size_t n = 1003;
  const std::vector<float> x = RandomFloats(&rng, n, 8), dy = RandomFloats(&rng, n);
  std::vector<float> y0, dx0, e0, w0;
  for (const Kernels* kernels : UsableKernels()) {
    std::vector<float> y(n), dx(n), e(n), w = x, m = dy, v(n, 0.25f);
    kernels->gelu(n, x.data(), y.data());
    kernels->gelu_backward(n, x.data(), dy.data(), dx.data());
    kernels->exp_minus(n, x.data(), 1.5f, e.data());
    AdamW step;
    step.lr = 0.1f;
    step.decay = 0.01f;
    kernels->adamw(n, step, dy.data(), w.data(), m.data(), v.data());
    if (y0.empty()) y0 = y, dx0 = dx, e0 = e, w0 = w;
    EXPECT_TRUE(SameBits(y, y0) && SameBits(dx, dx0) && SameBits(e, e0) && SameBits(w, w0)) << kernels->name;
  }
  auto gelu = [](double z) { return 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z))); };
  for (size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(y0[i], gelu(x[i]), 2e-6);
    EXPECT_NEAR(dx0[i], dy[i] * (gelu(x[i] + 1e-5) - gelu(x[i] - 1e-5)) / 2e-5, 1e-5);
    EXPECT_NEAR(e0[i] / std::exp(static_cast<double>(x[i] - 1.5f)), 1.0, 5e-7);
    const double moment = 0.9 * dy[i] + 0.1 * dy[i], second = 0.95 * 0.25 + 0.05 * dy[i] * dy[i];
    EXPECT_NEAR(w0[i], x[i] - 0.1 * (moment / (std::sqrt(second) + 1e-8) + 0.01 * x[i]), 1e-5);
  }
}

TEST(Kernels, ExpStaysFiniteAtTheEdges) {
  const float x[4] = {-1e30f, -100.0f, 0.0f, 1000.0f};
  float y[4];
  BestKernels().exp_minus(4, x, 0, y);
  EXPECT_LT(y[0], 1e-37f);
  EXPECT_GE(y[0], 0.0f);
  EXPECT_EQ(y[2], 1.0f);
  EXPECT_TRUE(std::isfinite(y[3]));
}

}  // namespace
}  // namespace spillway::trainer
