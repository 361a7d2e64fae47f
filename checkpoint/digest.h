// XXH3 digests of chunks, in the byte order that is stored (canonical, most significant byte first). Against accident, not malice:
// what must be unforgeable carries a SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway::checkpoint {

using ChunkDigest = std::array<uint8_t, 16>;

ChunkDigest Xxh3Of(const void* data, size_t bytes);  // XXH3-128, seed 0
uint64_t Xxh3Short(const void* data, size_t bytes);  // XXH3-64, seed 0

}  // namespace spillway::checkpoint
