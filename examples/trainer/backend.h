// Where the arithmetic happens: the seam between the training loop and a device. A backend owns weights and moments between Load and
// Store; it knows nothing of data files, checkpoints or Spillway. The same calls give the same bits, every time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "examples/trainer/model.h"

namespace spillway::trainer {

struct Batch {
  std::vector<int32_t> inputs, targets;  // batch x context token numbers below the vocabulary's size
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string Describe() const = 0;  // "cpu (avx512)"
  virtual absl::Status Load(const TrainingState& state) = 0;
  virtual absl::Status Store(TrainingState* state) = 0;
  // One step of AdamW on one batch. `step` counts from 1. Returns the mean loss before the update.
  virtual absl::StatusOr<double> TrainStep(const Batch& batch, int64_t step, float lr) = 0;
};

// `name`: cpu; cuda (UNIMPLEMENTED in a program built without it); auto: the best there is, with one line to `say` when that is a fallback.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name, const ModelConfig& config, const std::function<void(const std::string&)>& say);

}  // namespace spillway::trainer
