// The text: which characters there are, and which windows of it make the next batch. The sampler's place is a handful of integers, so that
// a resumed run sees exactly the batches an unbroken one would have seen.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/trainer/backend.h"
#include "examples/trainer/model.h"

namespace spillway::trainer {

struct Dataset {
  std::vector<uint8_t> tokens;      // indices into vocabulary
  std::vector<uint8_t> vocabulary;  // the bytes that occur, sorted
  std::string sha256;               // hex, of the file
};

// INVALID_ARGUMENT when the file has fewer than two different bytes, or less than one window of `context` + 1.
absl::StatusOr<Dataset> LoadDataset(const std::string& path, int context);
absl::StatusOr<Dataset> MakeDataset(absl::string_view text, int context);

// Walks the windows of the text in a shuffled order, an epoch at a time; each epoch draws a new order and a new starting phase.
class Sampler {
 public:
  static constexpr size_t kStateWords = 7;
  using State = std::array<uint64_t, kStateWords>;

  Sampler(const Dataset* data, int context, uint64_t seed);
  void Next(int batch, Batch* out);

  State state() const { return {seed_, draws_, epoch_, phase_, cursor_, stride_, start_}; }
  // INVALID_ARGUMENT when the state cannot belong to this text.
  absl::Status set_state(const State& state);
  uint64_t epoch() const { return epoch_; }

 private:
  uint64_t Draw(uint64_t bound);
  uint64_t Windows(uint64_t phase) const { return (data_->tokens.size() - 1 - phase) / context_; }
  void StartEpoch();

  const Dataset* const data_;
  const uint64_t context_;
  uint64_t seed_;
  uint64_t draws_ = 0;  // random numbers taken so far: with the seed, the generator's whole state
  uint64_t epoch_ = 0;
  uint64_t phase_ = 0;   // windows start here, one after the other
  uint64_t cursor_ = 0;  // windows taken in this epoch; the i-th is number (start + i * stride) mod Windows()
  uint64_t stride_ = 1;  // has no factor in common with Windows()
  uint64_t start_ = 0;
};

}  // namespace spillway::trainer
