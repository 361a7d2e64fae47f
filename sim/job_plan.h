// What a simulated job does with its life: how many steps, how long each, when it saves, how it answers a stop signal, where it fails.
// It travels as the bytes of the job's spec, so that what runs on a node is what the user submitted, or the simulation notices.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::sim {

struct JobPlan {
  enum class OnTerm {
    kSave = 0,        // saves, then exits 0 without a word of completion
    kSaveAndAsk = 1,  // saves, then exits 85
    kDie = 2,         // by the signal
    kIgnore = 3,      // until it is killed
  };
  int64_t total_steps = 100;  // 0: never ends by itself
  int64_t step_ms = 1'000;
  int64_t save_every = 10;  // steps; 0: never
  int64_t save_ms = 500;
  OnTerm on_term = OnTerm::kSave;
  bool reports_checkpoints = true;  // on its socket; else only a look into the store finds them
  int64_t fail_at_step = 0;         // exits 1 there, 0: nowhere,
  int64_t fail_attempts = 0;        // in attempts up to this one
  int64_t ask_at_step = 0;          // exits 85 when it first passes this step in an attempt; 0: never

  std::string ToSpec() const;
  static absl::StatusOr<JobPlan> FromSpec(absl::string_view spec);
};

}  // namespace spillway::sim
