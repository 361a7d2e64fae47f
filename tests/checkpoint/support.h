// Shared by the checkpoint tests: a folder that goes away, tensors with recognisable content, an attempt in the layout.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/rng.h"
#include "base/status_matchers.h"
#include "checkpoint/checkpoint.h"

namespace spillway::checkpoint {

inline constexpr char kCluster[] = "0b1f6e0c-7a54-4d0e-9a51-5d2f6c3a9e10";

class TemporaryFolder {
 public:
  TemporaryFolder() {
    // In memory where possible: thousands of syncs, and what a sync means is modelled by FaultIo, not tried on this disk.
    std::string name = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) + "spillway-checkpoint-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { RemoveTree(path_).IgnoreError(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A small training state: three tensors, one of several chunks (at 4 KiB), one empty, filled from a seed.
struct SampleState {
  std::vector<float> weights = std::vector<float>(3 * 1500);
  std::vector<uint64_t> rng = std::vector<uint64_t>(4);
  std::vector<uint8_t> nothing;

  static SampleState Of(uint64_t seed) {
    SampleState state;
    Rng rng(seed);
    for (float& w : state.weights) w = static_cast<float>(rng.Unit());
    for (uint64_t& r : state.rng) r = rng.Next();
    return state;
  }
  std::vector<TensorView> Views() const {
    return {{"model/weights", DType::kF32, {3, 1500}, weights.data(), static_cast<int64_t>(weights.size() * 4)},
            {"state/rng", DType::kU64, {4}, rng.data(), 32},
            {"state/nothing", DType::kU8, {0}, nothing.data(), 0}};
  }
  std::vector<TensorTarget> Targets() {
    return {{"model/weights", DType::kF32, {3, 1500}, weights.data(), static_cast<int64_t>(weights.size() * 4)},
            {"state/rng", DType::kU64, {4}, rng.data(), 32},
            {"state/nothing", DType::kU8, {0}, nothing.data(), 0}};
  }
  // Bit for bit.
  bool operator==(const SampleState& other) const { return std::memcmp(weights.data(), other.weights.data(), weights.size() * 4) == 0 && rng == other.rng; }
};

inline WriterOptions OptionsFor(const std::string& directory, int64_t attempt = 1, Io* io = RealIo()) {
  WriterOptions options;
  options.directory = directory;
  options.job_uid = "job-uid-1";
  options.attempt = attempt;
  options.chunk_bytes = 4096;
  options.io = io;
  return options;
}

// A user's key that is the same in every test.
inline SecretKey KeyOf(char fill) { return SecretKey::Of(std::string(SecretKey::kBytes, fill)); }

// Saves Of(attempt * 1000 + step) as a checkpoint and returns it.
inline CommittedCheckpoint MustSave(const std::string& directory, int64_t step, int64_t attempt = 1, std::optional<CheckpointRef> parent = {},
                                    const std::optional<SecretKey>& key = {}, const Metadata& metadata = {}) {
  WriterOptions options = OptionsFor(directory, attempt);
  options.parent = parent;
  options.key = key;
  auto writer = Writer::Open(options);
  EXPECT_OK(writer);
  auto saved = writer->Save(step, SampleState::Of(static_cast<uint64_t>(attempt * 1000 + step)).Views(), metadata);
  EXPECT_OK(saved);
  return *saved;
}

// Stages that lie in a directory.
inline int Drafts(const std::string& directory) {
  auto names = ListDirectory(directory);
  if (!names.ok()) return 0;
  return static_cast<int>(std::count_if(names->begin(), names->end(), [](const std::string& name) { return name.rfind(".stage-", 0) == 0; }));
}

inline SampleState StateOf(int64_t step, int64_t attempt = 1) { return SampleState::Of(static_cast<uint64_t>(attempt * 1000 + step)); }

}  // namespace spillway::checkpoint
