// The command line of spillway-train.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/trainer/model.h"

namespace spillway::trainer {

struct Options {
  std::string data;
  int64_t steps = 400;
  int64_t checkpoint_every = 50;  // 0: only when stopped and at the end
  uint64_t seed = 1;
  double lr = 0.004;
  ModelConfig model;
  std::string backend = "auto";
  std::string out;  // the final weights go here too
  std::string name = "train";
  std::string checkpoint_dir;  // outside Spillway only
  int64_t step_delay_ms = 0;
  int64_t log_every = 10;
  std::string hash;  // print the weights' hash of this checkpoint and do nothing else
  bool help = false;
};

std::string Usage();
// INVALID_ARGUMENT naming the flag, the value, and the nearest valid flag.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

}  // namespace spillway::trainer
