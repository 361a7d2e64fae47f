#include "checkpoint/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace spillway::checkpoint {

ChunkDigest Xxh3Of(const void* data, size_t bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
  ChunkDigest digest;
  static_assert(sizeof(canonical.digest) == sizeof(digest));
  std::memcpy(digest.data(), canonical.digest, digest.size());
  return digest;
}

uint64_t Xxh3Short(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace spillway::checkpoint
