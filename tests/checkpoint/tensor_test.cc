#include "checkpoint/tensor.h"

#include <numeric>

#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

// Copies element by element, by coordinates: slow and obviously right.
int64_t CopyByCoordinates(const Slice& from, const std::vector<int32_t>& source, const Slice& to, std::vector<int32_t>* target) {
  const int64_t total = *ElementsOf(to.global);
  int64_t copied = 0;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, in_from = 0, in_to = 0, from_stride = 1, to_stride = 1;
    bool inside = true;
    for (size_t d = to.global.size(); d-- > 0;) {
      const int64_t at = rest % to.global[d];
      rest /= to.global[d];
      const int64_t f = at - from.offset[d], t = at - to.offset[d];
      inside = inside && f >= 0 && f < from.extent[d] && t >= 0 && t < to.extent[d];
      in_from += f * from_stride;
      in_to += t * to_stride;
      from_stride *= from.extent[d];
      to_stride *= to.extent[d];
    }
    if (!inside) continue;
    (*target)[static_cast<size_t>(in_to)] = source[static_cast<size_t>(in_from)];
    ++copied;
  }
  return copied;
}

Slice RandomSlice(Rng* rng, const std::vector<int64_t>& global) {
  Slice slice{global, {}, {}};
  for (int64_t n : global) {
    const int64_t offset = rng->Between(0, n);
    slice.offset.push_back(offset);
    slice.extent.push_back(rng->Between(0, n - offset));
  }
  return slice;
}

TEST(CopyOverlap, AgreesWithTheDefinition) {
  Rng rng(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int64_t> global(rng.Below(4));
    for (int64_t& n : global) n = rng.Between(1, 6);
    const Slice from = RandomSlice(&rng, global), to = RandomSlice(&rng, global);
    std::vector<int32_t> source(static_cast<size_t>(*ElementsOf(from.extent)));
    std::iota(source.begin(), source.end(), 1);
    std::vector<int32_t> expected(static_cast<size_t>(*ElementsOf(to.extent)), -1), actual = expected;
    const int64_t count = CopyByCoordinates(from, source, to, &expected);
    ASSERT_EQ(OverlapElements(from, to), count);
    ASSERT_EQ(CopyOverlap(from, source.data(), to, actual.data(), 4), count);
    ASSERT_EQ(actual, expected);
  }
}

TEST(Shapes, CountWithoutOverflow) {
  EXPECT_EQ(ElementsOf({}), 1);
  EXPECT_EQ(ElementsOf({3, 0, 5}), 0);
  EXPECT_EQ(ElementsOf({-1}), std::nullopt);
  EXPECT_EQ(ElementsOf({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
}

TEST(DTypes, HaveNamesAndSizes) {
  EXPECT_EQ(DTypeName(DType::kBF16), "bf16");
  EXPECT_EQ(DTypeBytes(DType::kC128), 16);
  EXPECT_EQ(DTypeBytes(static_cast<DType>(0)), 0);
}

}  // namespace
}  // namespace spillway::checkpoint
