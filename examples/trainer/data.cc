#include "examples/trainer/data.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace spillway::trainer {
namespace {

constexpr size_t kDataBytesMax = size_t{1} << 30;

}  // namespace

absl::StatusOr<Dataset> LoadDataset(const std::string& path, int context) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kDataBytesMax));
  auto data = MakeDataset(text, context);
  if (!data.ok()) return absl::Status(data.status().code(), absl::StrCat(path, ": ", data.status().message()));
  return data;
}

absl::StatusOr<Dataset> MakeDataset(absl::string_view text, int context) {
  if (text.size() < static_cast<size_t>(context) + 1) {
    return absl::InvalidArgumentError(absl::StrCat(text.size(), " bytes of text; --context ", context, " needs at least ", context + 1));
  }
  Dataset data;
  int number[256] = {};
  for (unsigned char c : text) number[c] = 1;
  for (int c = 0; c < 256; ++c) {
    if (number[c] == 0) continue;
    number[c] = static_cast<int>(data.vocabulary.size());
    data.vocabulary.push_back(static_cast<uint8_t>(c));
  }
  if (data.vocabulary.size() < 2) return absl::InvalidArgumentError("the text repeats a single character: there is nothing to learn");
  data.tokens.reserve(text.size());
  for (unsigned char c : text) data.tokens.push_back(static_cast<uint8_t>(number[c]));
  data.sha256 = HexOf(Sha256Of(text));
  return data;
}

Sampler::Sampler(const Dataset* data, int context, uint64_t seed) : data_(data), context_(static_cast<uint64_t>(context)), seed_(seed) { StartEpoch(); }

uint64_t Sampler::Draw(uint64_t bound) { return Rng(seed_).Fork(2 + ++draws_).Below(bound); }

void Sampler::StartEpoch() {
  // At least one window is left behind any phase.
  phase_ = Draw(std::min<uint64_t>(context_, data_->tokens.size() - context_));
  const uint64_t windows = Windows(phase_);
  cursor_ = 0;
  start_ = Draw(windows);
  stride_ = windows < 3 ? 1 : 1 + Draw(windows - 1);
  while (std::gcd(stride_, windows) != 1) --stride_;
}

void Sampler::Next(int batch, Batch* out) {
  out->inputs.clear();
  out->targets.clear();
  for (int b = 0; b < batch; ++b) {
    if (cursor_ == Windows(phase_)) {
      ++epoch_;
      StartEpoch();
    }
    const uint64_t window = (start_ + cursor_++ * stride_) % Windows(phase_);
    const uint8_t* at = data_->tokens.data() + phase_ + window * context_;
    out->inputs.insert(out->inputs.end(), at, at + context_);
    out->targets.insert(out->targets.end(), at + 1, at + context_ + 1);
  }
}

absl::Status Sampler::set_state(const State& state) {
  const auto [seed, draws, epoch, phase, cursor, stride, start] = state;
  const bool possible = phase < std::min<uint64_t>(context_, data_->tokens.size() - context_) && cursor <= Windows(phase) && start < Windows(phase) &&
                        stride >= 1 && stride <= Windows(phase) && std::gcd(stride, Windows(phase)) == 1;
  if (!possible) return absl::InvalidArgumentError("the sampler's state does not belong to this text");
  seed_ = seed;
  draws_ = draws;
  epoch_ = epoch;
  phase_ = phase;
  cursor_ = cursor;
  stride_ = stride;
  start_ = start;
  return absl::OkStatus();
}

}  // namespace spillway::trainer
