// xoshiro256** (Blackman and Vigna) and the kernel's random bytes.
#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>

#include "base/log.h"

namespace spillway {
namespace {

uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t RotateLeft(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

}  // namespace

Rng::Rng(uint64_t seed) : seed_(seed) {
  uint64_t state = seed;
  for (uint64_t& word : s_) word = SplitMix64(&state);
}

uint64_t Rng::Next() {
  const uint64_t result = RotateLeft(s_[1] * 5, 7) * 9;
  const uint64_t t = s_[1] << 17;
  s_[2] ^= s_[0];
  s_[3] ^= s_[1];
  s_[1] ^= s_[2];
  s_[0] ^= s_[3];
  s_[2] ^= t;
  s_[3] = RotateLeft(s_[3], 45);
  return result;
}

uint64_t Rng::Below(uint64_t bound) {
  if (bound == 0) return 0;
  // Numbers under 2^64 mod bound are drawn again, so that every residue is equally likely.
  const uint64_t threshold = (0 - bound) % bound;
  uint64_t x = Next();
  while (x < threshold) x = Next();
  return x % bound;
}

int64_t Rng::Between(int64_t low, int64_t high) {
  CHECK(low <= high) << low << " " << high;
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t offset = span == UINT64_MAX ? Next() : Below(span + 1);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

double Rng::Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

Rng Rng::Fork(uint64_t label) const {
  uint64_t seed_state = seed_;
  uint64_t label_state = SplitMix64(&seed_state) ^ label;
  return Rng(SplitMix64(&label_state));
}

void FillRandom(void* out, unsigned long n) {
  auto* at = static_cast<unsigned char*>(out);
  while (n > 0) {
    const ssize_t got = getrandom(at, n, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got > 0) << "getrandom: errno " << errno;
    at += got;
    n -= static_cast<unsigned long>(got);
  }
}

}  // namespace spillway
