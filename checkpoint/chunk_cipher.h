// The chunks of one encrypted container: each under its number in the file, with a mark on the last, bound to the container's own header.
// So a chunk that was altered, moved, left out at the end or taken from another file does not open, and this says which it was.
// Owns nonces and associated data; knows neither tensors nor files.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/crypto.h"

namespace spillway::checkpoint {

// What an encrypted container's header says in the clear.
struct EncryptionBlock {
  Salt salt{};
  Commitment commitment{};
  bool operator==(const EncryptionBlock&) const = default;
};

// What the key of a container is bound to, besides the key itself.
struct ContainerIdentity {
  int rank = 0;
  int world_size = 1;
  int64_t step = 0;
  uint32_t chunk_bytes = 0;
};

// One thread at a time.
class ChunkCipher {
 public:
  // A fresh salt, for a container that is to be written.
  static absl::StatusOr<EncryptionBlock> NewBlock(const SecretKey& data_key);
  // DATA_LOSS when the block is of another data key. `chunks`: of the whole file.
  static absl::StatusOr<ChunkCipher> Of(const SecretKey& data_key, const EncryptionBlock& block, const ContainerIdentity& identity, int64_t chunks);

  ChunkCipher ForAnotherThread() const { return {gcm_.ForAnotherThread(), associated_, chunks_}; }

  void Seal(int64_t chunk, const void* plain, size_t bytes, void* out, Tag* tag) const;
  // `out` may be `in`. False: it is not this chunk of this container, and nothing is left in `out`.
  [[nodiscard]] bool Open(int64_t chunk, const Tag& tag, const void* in, size_t bytes, void* out) const;
  // Why it did not open, in words that complete "the chunk ...".
  std::string WhyNot(int64_t chunk, const Tag& tag, absl::string_view ciphertext) const;

 private:
  ChunkCipher(Gcm gcm, std::string associated, int64_t chunks) : gcm_(std::move(gcm)), associated_(std::move(associated)), chunks_(chunks) {}

  Gcm gcm_;
  std::string associated_;
  int64_t chunks_;
};

}  // namespace spillway::checkpoint
