// What a checkpoint stores: named tensors, whole or a slice of a larger one. Owns types and shape arithmetic; touches no memory or disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway::checkpoint {

// The numbers are the on-disk codes: never reused, never changed.
enum class DType : uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF64 = 4,
  kI8 = 5,
  kU8 = 6,
  kI16 = 7,
  kU16 = 8,
  kI32 = 9,
  kU32 = 10,
  kI64 = 11,
  kU64 = 12,
  kBool = 13,
  kF8E4M3 = 14,
  kF8E5M2 = 15,
  kC64 = 16,
  kC128 = 17,
};

absl::string_view DTypeName(DType dtype);  // "f32"; "" for a code that is none
int64_t DTypeBytes(DType dtype);           // 0 for a code that is none

inline constexpr int kDimsMax = 16;

// A box inside a tensor of `global` shape. A whole tensor has offset 0 everywhere and extent == global. A scalar has no dimensions.
struct Slice {
  std::vector<int64_t> global, offset, extent;
  bool operator==(const Slice&) const = default;
  bool whole() const { return extent == global; }
};

// A tensor in memory, dense and row-major. Without `slice` it is whole and `shape` its shape; with it, `shape` is the slice's extent.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  int64_t bytes = 0;
  std::optional<Slice> slice = std::nullopt;
};

// The same as somewhere to put a tensor.
struct TensorTarget {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  void* data = nullptr;
  int64_t bytes = 0;
  std::optional<Slice> slice = std::nullopt;
};

std::string ShapeText(const std::vector<int64_t>& shape);  // "[3, 4]"

// Elements of a shape; nullopt when negative or beyond 2^62.
std::optional<int64_t> ElementsOf(const std::vector<int64_t>& shape);

// The slice a view stands for, checked: name, dtype, dimensions, bounds, and `bytes` equal to what the shape says.
absl::Status CheckTensor(absl::string_view name, DType dtype, const std::vector<int64_t>& shape, const std::optional<Slice>& slice, int64_t bytes, Slice* out);
// The slice lies inside its global shape.
absl::Status CheckSlice(absl::string_view name, const Slice& slice);

// Copies the part that both boxes share, out of `from` (holding `from_slice`) into `to` (holding `to_slice`), and returns how many
// elements that were. Both slices have the same global shape and are checked.
int64_t CopyOverlap(const Slice& from_slice, const void* from, const Slice& to_slice, void* to, int64_t element_bytes);
int64_t OverlapElements(const Slice& a, const Slice& b);

}  // namespace spillway::checkpoint
