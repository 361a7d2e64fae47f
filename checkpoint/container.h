// One process's part of a checkpoint: a file of 4 KiB-aligned segments behind a header that names them and holds a digest of every
// chunk; under a data key the segments hold ciphertext (version 2), and whoever has no key can still check every digest.
// docs/reference/checkpoint-format.md gives the bytes. Owns that format; knows nothing of manifests, commits or directories.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/chunk_cipher.h"
#include "checkpoint/digest.h"
#include "checkpoint/io.h"
#include "checkpoint/lanes.h"
#include "checkpoint/tensor.h"

namespace spillway::checkpoint {

inline constexpr int64_t kAlignment = 4096;
inline constexpr uint32_t kContainerVersion = 1;           // plain
inline constexpr uint32_t kContainerVersionEncrypted = 2;  // with an encryption block and a tag a chunk
inline constexpr uint32_t kChunkBytesDefault = 1 << 20;
inline constexpr uint32_t kChunkBytesMax = 64 << 20;
inline constexpr int64_t kHeaderBytesMax = 256ll << 20;

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  Slice slice;
  int64_t byte_offset = 0;  // in the file; a multiple of kAlignment
  int64_t byte_length = 0;
  int64_t first_chunk = 0;          // counted over the file
  std::vector<ChunkDigest> chunks;  // of chunk_bytes each, the last one shorter; of the ciphertext where there is one
  std::vector<Tag> tags;            // one a chunk when encrypted, else none
};

struct ContainerHeader {
  int rank = 0;
  int world_size = 1;
  int64_t step = 0;
  uint32_t chunk_bytes = kChunkBytesDefault;
  std::vector<TensorEntry> tensors;
  int64_t data_offset = 0;  // the header region is [0, data_offset)
  int64_t file_bytes = 0;
  std::optional<EncryptionBlock> encryption;

  int64_t ChunkCount() const;
  size_t EntryOfChunk(int64_t chunk) const;               // place in `tensors`; 0 <= chunk < ChunkCount()
  const TensorEntry* Find(absl::string_view name) const;  // nullptr when absent
};

// Header for these tensors, with places and room for digests and, with a block, tags: all zero. Refuses bad or repeated tensors.
absl::StatusOr<ContainerHeader> LayOut(int rank, int world_size, int64_t step, const std::vector<TensorView>& tensors,
                                       uint32_t chunk_bytes = kChunkBytesDefault, const std::optional<EncryptionBlock>& encryption = {});
// The header region: exactly data_offset bytes.
std::string EncodeHeaderRegion(const ContainerHeader& header);
// DATA_LOSS for anything but the bytes EncodeHeaderRegion would give for some valid header of a file of `file_bytes`.
absl::StatusOr<ContainerHeader> DecodeHeaderRegion(absl::string_view region, int64_t file_bytes);

struct ContainerFile {
  int64_t bytes = 0;
  std::string header_sha256;  // hex, over the header region; through the chunk digests it speaks for the whole file
};

// Writes and fdatasyncs, encrypted when there is a data key. With `read_back` every chunk is read again once it is written, past the page cache
// where the file system can: DATA_LOSS when it is not what was written. On an error the file may exist in part.
absl::StatusOr<ContainerFile> WriteContainer(Io* io, const std::string& path, int rank, int world_size, int64_t step, const std::vector<TensorView>& tensors,
                                             uint32_t chunk_bytes = kChunkBytesDefault, const SecretKey* data_key = nullptr, bool read_back = false);

class ContainerReader {
 public:
  // Reads and checks the header. DATA_LOSS when it is damaged, or not encrypted under the data key that is given; `expected`, when given, must match.
  static absl::StatusOr<ContainerReader> Open(Io* io, const std::string& path, const ContainerFile* expected = nullptr, const SecretKey* data_key = nullptr);

  const ContainerHeader& header() const { return header_; }
  // What Open found: with `expected` given, the same.
  const ContainerFile& identity() const { return identity_; }
  // Reads one tensor's bytes into `out` (entry.byte_length bytes), checking every chunk. UNAUTHENTICATED: encrypted, and opened without a key.
  absl::Status ReadTensor(const TensorEntry& entry, void* out) const { return ReadTensors({{&entry, out}}); }
  struct Wanted {
    const TensorEntry* entry = nullptr;  // of header()
    void* out = nullptr;
  };
  // The same for many at a time: straight to where they belong, where they are aligned as the disk needs it.
  absl::Status ReadTensors(const std::vector<Wanted>& wanted) const;
  // Checks every byte of the file: all chunks and the zero padding between segments. With a key every chunk is authenticated too; without
  // one the digests still tell every accident.
  absl::Status VerifyAll() const;

 private:
  ContainerReader() = default;
  // Of one chunk as it was read: the digest, and with a cipher what it stands for, in `out`, which may be `data`.
  absl::Status CheckChunk(const ChunkCipher* cipher, const TensorEntry& entry, size_t chunk, char* data, size_t bytes, char* out) const;
  std::vector<ChunkCipher> CiphersFor(const Lanes& lanes) const;  // none without a key

  std::string path_;
  std::unique_ptr<File> file_;
  ContainerHeader header_;
  ContainerFile identity_;
  std::optional<ChunkCipher> cipher_;
  int64_t alignment_ = 1;  // of memory that the disk can read into
};

}  // namespace spillway::checkpoint
