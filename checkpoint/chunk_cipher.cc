#include "checkpoint/chunk_cipher.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace spillway::checkpoint {
namespace {

constexpr char kPurpose[] = "spillway container v1";
constexpr int64_t kPlacesTriedMax = 4096;  // a second or two for chunks of 1 MiB, and only for a chunk that has been meddled with

template <typename T>
void Put(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

// Little-endian, as in the header: rank, world size, step, chunk size, salt, commitment. Not the number of tensors: where some were cut off,
// the chunks before them still open and show it.
std::string AssociatedOf(const ContainerIdentity& identity, const EncryptionBlock& block) {
  std::string associated;
  Put<uint32_t>(&associated, static_cast<uint32_t>(identity.rank));
  Put<uint32_t>(&associated, static_cast<uint32_t>(identity.world_size));
  Put<int64_t>(&associated, identity.step);
  Put<uint32_t>(&associated, identity.chunk_bytes);
  absl::StrAppend(&associated, ViewOf(block.salt), ViewOf(block.commitment));
  return associated;
}

}  // namespace

absl::StatusOr<EncryptionBlock> ChunkCipher::NewBlock(const SecretKey& data_key) {
  EncryptionBlock block;
  ASSIGN_OR_RETURN(block.salt, RandomSalt());
  block.commitment = Derive(data_key, block.salt, kPurpose).commitment;
  return block;
}

absl::StatusOr<ChunkCipher> ChunkCipher::Of(const SecretKey& data_key, const EncryptionBlock& block, const ContainerIdentity& identity, int64_t chunks) {
  const DerivedKey derived = Derive(data_key, block.salt, kPurpose);
  if (derived.commitment != block.commitment) return absl::DataLossError("it is encrypted under another data key: wrong key, or a container of another run");
  return ChunkCipher(Gcm(derived.key), AssociatedOf(identity, block), chunks);
}

void ChunkCipher::Seal(int64_t chunk, const void* plain, size_t bytes, void* out, Tag* tag) const {
  gcm_.Seal(NonceOf(static_cast<uint64_t>(chunk), chunk == chunks_ - 1), associated_, plain, bytes, out, tag);
}

bool ChunkCipher::Open(int64_t chunk, const Tag& tag, const void* in, size_t bytes, void* out) const {
  return gcm_.Open(NonceOf(static_cast<uint64_t>(chunk), chunk == chunks_ - 1), associated_, in, bytes, out, tag);
}

std::string ChunkCipher::WhyNot(int64_t chunk, const Tag& tag, absl::string_view ciphertext) const {
  std::string scratch(ciphertext.size(), '\0');
  auto opens = [&](int64_t as, bool last) {
    const bool opened = gcm_.Open(NonceOf(static_cast<uint64_t>(as), last), associated_, ciphertext.data(), ciphertext.size(), scratch.data(), tag);
    if (opened) Wipe(scratch.data(), scratch.size());
    return opened;
  };
  const bool last = chunk == chunks_ - 1;
  if (opens(chunk, !last))
    return last ? "is not the last that was written: the container was cut short" : "was the last of its container: something was put behind it";
  // The neighbours first, then further out.
  for (int64_t away = 1; away <= std::min(chunks_, kPlacesTriedMax / 2); ++away) {
    for (int64_t as : {chunk - away, chunk + away}) {
      if (as < 0) continue;
      if (opens(as, false) || opens(as, true)) return absl::StrCat("is chunk ", as, " of its container: chunks were reordered");
    }
  }
  return "was altered, or is of another container";
}

}  // namespace spillway::checkpoint
