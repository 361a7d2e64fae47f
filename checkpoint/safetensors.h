// safetensors, the format that model hubs exchange: u64 length of the header (little-endian), a JSON header, the tensors' bytes without gaps.
// It has no checksum and no commit, so it is for handing weights over, not for training to go on from. Owns that format, both ways, and its
// index of several files; a header is refused unless the reference reader would take it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/checkpoint.h"

namespace spillway::checkpoint {

inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;  // the reference reader's limit

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // by place
  Metadata metadata;                      // "__metadata__"
};

// The name that safetensors has for it: "F32"; "" when it has none (c128).
absl::string_view SafetensorsDType(DType dtype);

// The file's beginning: length and JSON, padded with spaces to a multiple of 8. Places are taken from the entries.
std::string EncodeSafetensorsHeader(const SafetensorsHeader& header);
// `json` without the length. DATA_LOSS: not a header for `data_bytes` bytes of tensors: unknown or repeated keys, gaps, overlaps, sizes that
// do not fit the shapes. Reads no more memory than a few times the header's size, whatever it says.
absl::StatusOr<SafetensorsHeader> DecodeSafetensorsHeader(absl::string_view json, int64_t data_bytes);

struct ExportedFile {
  std::string path;
  int64_t bytes = 0;
  int64_t tensors = 0;
};

// Writes all tensors of a checkpoint, whole, in files of the checkpoint's metadata. shard_bytes 0: one file `target`. Otherwise `target` is a
// directory, made when absent, of model-<i>-of-<n>.safetensors with at most that many bytes of tensors each (one tensor at least) and
// model.safetensors.index.json. Each file appears whole or not at all. Memory: the largest tensor.
// ALREADY_EXISTS: a file is there. UNIMPLEMENTED: a dtype that safetensors does not have.
absl::StatusOr<std::vector<ExportedFile>> ExportSafetensors(const std::string& checkpoint, const std::string& target, int64_t shard_bytes = 0,
                                                            Io* io = RealIo(), const SecretKey* key = nullptr);

// Everything that a file, an index (*.index.json) or a directory with one holds, to be saved by a Writer.
struct LoadedSafetensors {
  std::vector<TensorView> tensors;  // of `bytes`
  std::vector<std::string> bytes;
  Metadata metadata;
};

// DATA_LOSS: not safetensors. NOT_FOUND: a file is not there.
absl::StatusOr<LoadedSafetensors> LoadSafetensors(const std::string& source, Io* io = RealIo());

}  // namespace spillway::checkpoint
