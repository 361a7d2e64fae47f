// A seeded random generator whose sequence is the same on every machine and compiler (xoshiro256** seeded by splitmix64).
// The standard library's distributions are not used: their results differ between implementations.
#pragma once

#include <cstdint>

namespace spillway {

class Rng {
 public:
  explicit Rng(uint64_t seed);
  uint64_t Next();
  // Uniform in [0, bound); 0 when bound is 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [low, high], both ends included. Requires low <= high.
  int64_t Between(int64_t low, int64_t high);
  // Uniform in [0, 1) with 53 bits.
  double Unit();
  bool Chance(double probability) { return Unit() < probability; }
  // A generator for one concern, independent of how many numbers others draw: it follows from this one's seed and `label` alone.
  Rng Fork(uint64_t label) const;

 private:
  uint64_t seed_;
  uint64_t s_[4];
};

// Random bytes from the kernel, for tokens and UUIDs; aborts if the kernel refuses.
void FillRandom(void* out, unsigned long n);

}  // namespace spillway
