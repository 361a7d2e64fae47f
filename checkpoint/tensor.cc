#include "checkpoint/tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::checkpoint {
namespace {

struct DTypeRow {
  DType dtype;
  absl::string_view name;
  int64_t bytes;
};

constexpr DTypeRow kDTypes[] = {
    {DType::kF32, "f32", 4}, {DType::kF16, "f16", 2},    {DType::kBF16, "bf16", 2}, {DType::kF64, "f64", 8},       {DType::kI8, "i8", 1},
    {DType::kU8, "u8", 1},   {DType::kI16, "i16", 2},    {DType::kU16, "u16", 2},   {DType::kI32, "i32", 4},       {DType::kU32, "u32", 4},
    {DType::kI64, "i64", 8}, {DType::kU64, "u64", 8},    {DType::kBool, "bool", 1}, {DType::kF8E4M3, "f8e4m3", 1}, {DType::kF8E5M2, "f8e5m2", 1},
    {DType::kC64, "c64", 8}, {DType::kC128, "c128", 16},
};

const DTypeRow* RowOf(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

absl::Status Bad(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", Printable(name), "\": ", what));
}

// The shared interval of one dimension: [low, high), empty when high <= low.
struct Interval {
  int64_t low, high;
};

Interval Shared(const Slice& a, const Slice& b, size_t d) {
  return {std::max(a.offset[d], b.offset[d]), std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d])};
}

}  // namespace

absl::string_view DTypeName(DType dtype) {
  const DTypeRow* row = RowOf(dtype);
  return row == nullptr ? "" : row->name;
}

int64_t DTypeBytes(DType dtype) {
  const DTypeRow* row = RowOf(dtype);
  return row == nullptr ? 0 : row->bytes;
}

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::optional<int64_t> ElementsOf(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements) || elements > (int64_t{1} << 62)) return std::nullopt;
  }
  return elements;
}

absl::Status CheckSlice(absl::string_view name, const Slice& slice) {
  if (slice.global.size() > kDimsMax) return Bad(name, absl::StrCat(slice.global.size(), " dimensions; at most ", kDimsMax));
  if (slice.offset.size() != slice.global.size() || slice.extent.size() != slice.global.size()) {
    return Bad(name, absl::StrCat("slice offset ", ShapeText(slice.offset), " and extent ", ShapeText(slice.extent), " need as many dimensions as ",
                                  ShapeText(slice.global)));
  }
  if (!ElementsOf(slice.global)) return Bad(name, absl::StrCat("impossible shape ", ShapeText(slice.global)));
  for (size_t d = 0; d < slice.global.size(); ++d) {
    if (slice.offset[d] < 0 || slice.extent[d] < 0 || slice.extent[d] > slice.global[d] || slice.offset[d] > slice.global[d] - slice.extent[d]) {
      return Bad(name, absl::StrCat("slice offset ", ShapeText(slice.offset), " extent ", ShapeText(slice.extent), " leaves shape ", ShapeText(slice.global)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(absl::string_view name, DType dtype, const std::vector<int64_t>& shape, const std::optional<Slice>& slice, int64_t bytes, Slice* out) {
  if (name.empty()) return absl::InvalidArgumentError("a tensor without a name");
  if (name.size() > limits::kTensorNameBytesMax) return Bad(name, absl::StrCat("its name is longer than ", limits::kTensorNameBytesMax, " bytes"));
  if (DTypeBytes(dtype) == 0) return Bad(name, absl::StrCat("unknown dtype code ", static_cast<int>(dtype)));
  *out = slice ? *slice : Slice{shape, std::vector<int64_t>(shape.size(), 0), shape};
  RETURN_IF_ERROR(CheckSlice(name, *out));
  if (out->extent != shape) return Bad(name, absl::StrCat("shape ", ShapeText(shape), " is not the slice's extent ", ShapeText(out->extent)));
  int64_t expected = 0;
  if (__builtin_mul_overflow(*ElementsOf(shape), DTypeBytes(dtype), &expected) || bytes != expected) {
    return Bad(name, absl::StrCat(bytes, " bytes given, ", DTypeName(dtype), ShapeText(shape), " has ", expected));
  }
  return absl::OkStatus();
}

int64_t OverlapElements(const Slice& a, const Slice& b) {
  int64_t elements = 1;
  for (size_t d = 0; d < a.global.size(); ++d) {
    const Interval shared = Shared(a, b, d);
    if (shared.high <= shared.low) return 0;
    elements *= shared.high - shared.low;
  }
  return elements;
}

int64_t CopyOverlap(const Slice& from_slice, const void* from, const Slice& to_slice, void* to, int64_t element_bytes) {
  const int64_t elements = OverlapElements(from_slice, to_slice);
  if (elements == 0) return 0;
  const size_t dims = from_slice.global.size();
  if (dims == 0) {
    std::memcpy(to, from, static_cast<size_t>(element_bytes));
    return 1;
  }
  // Rows along the last dimension are contiguous on both sides; an odometer walks the others.
  std::vector<Interval> shared(dims);
  std::vector<int64_t> at(dims);
  for (size_t d = 0; d < dims; ++d) {
    shared[d] = Shared(from_slice, to_slice, d);
    at[d] = shared[d].low;
  }
  auto position = [&](const Slice& slice) {
    int64_t index = 0;
    for (size_t d = 0; d < dims; ++d) index = index * slice.extent[d] + (at[d] - slice.offset[d]);
    return index * element_bytes;
  };
  const int64_t row_bytes = (shared[dims - 1].high - shared[dims - 1].low) * element_bytes;
  for (;;) {
    std::memcpy(static_cast<char*>(to) + position(to_slice), static_cast<const char*>(from) + position(from_slice), static_cast<size_t>(row_bytes));
    size_t d = dims - 1;
    for (;;) {
      if (d == 0) return elements;
      --d;
      if (++at[d] < shared[d].high) break;
      at[d] = shared[d].low;
    }
  }
}

}  // namespace spillway::checkpoint
