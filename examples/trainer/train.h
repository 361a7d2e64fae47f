// The training loop: resume, step, report, save, stop when told to. Owns the order of these things and what the user reads; the arithmetic
// is the backend's, the files are the checkpoint library's.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_env.h"
#include "examples/trainer/backend.h"
#include "examples/trainer/data.h"
#include "examples/trainer/options.h"
#include "examples/trainer/run_state.h"

namespace spillway::trainer {

// 0: all steps done. 85: stopped, with a new checkpoint. 143: stopped before there was anything new to save.
inline constexpr int kExitStopped = 143;

class Run {
 public:
  // `stop_signal` answers the number of the stop signal received so far, 0 for none.
  static absl::StatusOr<Run> Prepare(const Options& options, const checkpoint::RunEnv& env, std::function<int()> stop_signal, Clock* clock, std::ostream* out);
  // The exit code, or why the run failed.
  absl::StatusOr<int> ToTheEnd();

  const RunState& state() const { return state_; }

 private:
  Run() = default;
  absl::Status Resume();
  absl::Status OneStep();
  void Tell(double loss);
  absl::Status Save();
  std::optional<std::string> WhyStop() const;
  absl::StatusOr<int> Stop(const std::string& why);
  absl::StatusOr<int> Finish();
  void Pause() const;
  void Print(const std::string& line) const;
  float LearningRate(int64_t step) const;

  Options options_;
  checkpoint::RunEnv env_;
  std::function<int()> stop_signal_;
  Clock* clock_ = nullptr;
  std::ostream* out_ = nullptr;

  std::unique_ptr<Dataset> data_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<checkpoint::Reporter> reporter_;
  std::optional<checkpoint::Writer> writer_;  // absent when there is nowhere to save

  RunState state_;          // current only right after Resume and Save; in between the backend and the sampler have it
  int64_t step_ = 0;        // steps done
  int64_t saved_step_ = 0;  // of the newest checkpoint, of this attempt or resumed from
  bool saved_here_ = false;
  Batch batch_;
  int64_t started_ms_ = 0, reported_ms_ = 0;
  int64_t first_step_ = 0;
};

}  // namespace spillway::trainer
