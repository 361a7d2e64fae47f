#include "examples/trainer/train.h"

#include <time.h>

#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "checkpoint/key_source.h"

namespace spillway::trainer {
namespace {

constexpr int64_t kReportEveryMs = 100;
constexpr int64_t kPauseSliceMs = 50;

std::string WithCommas(int64_t n) {
  std::string text = absl::StrCat(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace

absl::StatusOr<Run> Run::Prepare(const Options& options, const checkpoint::RunEnv& env, std::function<int()> stop_signal, Clock* clock, std::ostream* out) {
  Run run;
  run.options_ = options;
  run.env_ = env;
  run.stop_signal_ = std::move(stop_signal);
  run.clock_ = clock;
  run.out_ = out;
  ASSIGN_OR_RETURN(Dataset data, LoadDataset(options.data, options.model.context));
  run.data_ = std::make_unique<Dataset>(std::move(data));
  run.options_.model.vocabulary = static_cast<int>(run.data_->vocabulary.size());
  RETURN_IF_ERROR(CheckConfig(run.options_.model));
  run.parameters_ = ParametersOf(run.options_.model);
  run.sampler_ = std::make_unique<Sampler>(run.data_.get(), options.model.context, options.seed);
  ASSIGN_OR_RETURN(run.backend_, MakeBackend(options.backend, run.options_.model, [&](const std::string& line) { run.Print(line); }));
  ASSIGN_OR_RETURN(checkpoint::Reporter reporter, checkpoint::Reporter::Open(env.socket));
  run.reporter_ = std::make_unique<checkpoint::Reporter>(std::move(reporter));
  run.Print(absl::StrCat("backend ", run.backend_->Describe(), ", ", WithCommas(static_cast<int64_t>(WeightCount(run.parameters_))), " parameters, ",
                         WithCommas(static_cast<int64_t>(run.data_->tokens.size())), " characters of text, ", run.data_->vocabulary.size(), " different"));
  RETURN_IF_ERROR(run.Resume());
  return run;
}

absl::Status Run::Resume() {
  checkpoint::WriterOptions writing;
  writing.directory = env_.checkpoint_dir.empty() ? options_.checkpoint_dir : env_.checkpoint_dir;
  writing.job_uid = env_.job_uid;
  writing.attempt = env_.attempt;
  ASSIGN_OR_RETURN(writing.key, checkpoint::KeyFromEnvironment());
  if (!env_.checkpoint_dir.empty() && !options_.checkpoint_dir.empty()) Print("--checkpoint-dir is not used: SPILLWAY_CHECKPOINT_DIR says where to save");

  // What this very attempt has saved is newer than what it was started from.
  std::string from = env_.resume_from;
  if (!writing.directory.empty()) {
    ASSIGN_OR_RETURN(const std::vector<checkpoint::StepEntry> own, checkpoint::ListCommitted(writing.directory));
    if (!own.empty()) from = own[0].path;
  }
  if (!from.empty()) {
    auto restored = checkpoint::RestoreNewest(from, TargetsOf(parameters_, &state_), env_.job_uid, checkpoint::RealIo(), writing.key ? &*writing.key : nullptr);
    if (restored.ok()) {
      RETURN_IF_ERROR(CheckSameRun(MetadataOf(options_, *data_), restored->manifest.metadata));
      for (const checkpoint::SkippedCheckpoint& skipped : restored->skipped) Print(absl::StrCat("skipped a checkpoint: ", skipped.why.message()));
      if (state_.step != restored->checkpoint.step) return absl::DataLossError("the checkpoint's state/step is not its step");
      RETURN_IF_ERROR(sampler_->set_state(state_.sampler));
      writing.parent = restored->checkpoint.ref();
      Print(absl::StrCat("resumed from step ", state_.step, " (", restored->checkpoint.path, ")"));
    } else if (absl::IsDataLoss(restored.status()) || absl::IsNotFound(restored.status())) {
      // Everything saved is damaged or gone. The first step is what is left to fall back to, and the user must hear it.
      Print(absl::StrCat("nothing to resume from, starting again at step 0: ", restored.status().message()));
      state_ = RunState();
    } else {
      return restored.status();
    }
  }
  if (state_.step == 0) {
    state_.training = InitialState(parameters_, options_.seed);
    state_.sampler = sampler_->state();
  }
  if (!writing.directory.empty()) {
    ASSIGN_OR_RETURN(checkpoint::Writer writer, checkpoint::Writer::Open(std::move(writing)));
    writer_.emplace(std::move(writer));
  }
  step_ = first_step_ = saved_step_ = state_.step;
  return backend_->Load(state_.training);
}

absl::StatusOr<int> Run::ToTheEnd() {
  started_ms_ = clock_->NowSteadyMs();
  while (step_ < options_.steps) {
    if (const std::optional<std::string> why = WhyStop()) return Stop(*why);
    RETURN_IF_ERROR(OneStep());
    if (step_ == options_.steps) break;
    if (writer_ && options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0) {
      // The training is worth more than one checkpoint: the next one may work again.
      const absl::Status saved = Save();
      if (!saved.ok()) Print(absl::StrCat("checkpoint of step ", step_, " failed, going on: ", saved.message()));
    }
    Pause();
  }
  return Finish();
}

absl::Status Run::OneStep() {
  sampler_->Next(options_.model.batch, &batch_);
  ASSIGN_OR_RETURN(const double loss, backend_->TrainStep(batch_, step_ + 1, LearningRate(step_)));
  ++step_;
  Tell(loss);
  return absl::OkStatus();
}

// Up over the first steps, then down in a straight line to a tenth.
float Run::LearningRate(int64_t step) const {
  const double steps = static_cast<double>(options_.steps), warm = std::min(20.0, steps / 10);
  const double at = static_cast<double>(step);
  const double factor = at < warm ? (at + 1) / (warm + 1) : 1.0 - 0.9 * (at - warm) / std::max(1.0, steps - warm);
  return static_cast<float>(options_.lr * factor);
}

void Run::Tell(double loss) {
  const int64_t now = clock_->NowSteadyMs();
  const double seconds = static_cast<double>(std::max<int64_t>(1, now - started_ms_)) / 1000;
  const double rate = static_cast<double>((step_ - first_step_) * options_.model.tokens()) / seconds;
  const bool last = step_ == options_.steps;
  if (last || now - reported_ms_ >= kReportEveryMs) {
    reporter_->Progress(step_, options_.steps, {{"loss", loss}, {"tokens_per_second", rate}});
    reported_ms_ = now;
  }
  if (last || step_ == first_step_ + 1 || step_ % options_.log_every == 0) {
    Print(absl::StrFormat("step %d/%d loss %.4f, %s tokens/s", step_, options_.steps, loss, WithCommas(static_cast<int64_t>(rate))));
  }
}

absl::Status Run::Save() {
  if (saved_step_ == step_) return absl::OkStatus();
  const int64_t began = clock_->NowSteadyMs();
  RETURN_IF_ERROR(backend_->Store(&state_.training));
  state_.sampler = sampler_->state();
  state_.step = step_;
  checkpoint::Metadata metadata = MetadataOf(options_, *data_);
  metadata[kWeightsHashKey] = WeightsHash(state_.training);
  ASSIGN_OR_RETURN(const checkpoint::CommittedCheckpoint saved, writer_->Save(step_, TensorsOf(parameters_, state_), metadata));
  saved_step_ = step_;
  saved_here_ = true;
  Print(absl::StrCat("checkpoint of step ", step_, " committed: ", FormatBytes(saved.bytes), " in ", clock_->NowSteadyMs() - began, " ms"));
  const absl::Status reported = reporter_->Checkpoint(saved.step, saved.path, saved.manifest_sha256, saved.bytes);
  // It is committed all the same: the scan at the end of the attempt finds it.
  if (!reported.ok()) Print(absl::StrCat("the checkpoint could not be reported: ", reported.message()));
  return absl::OkStatus();
}

std::optional<std::string> Run::WhyStop() const {
  if (const int signal = stop_signal_(); signal != 0) return absl::StrCat("signal ", signal);
  const std::optional<checkpoint::Notice> notice = checkpoint::NoticeWatcher(env_.notice_file).Check();
  if (notice) return absl::StrCat("notice \"", notice->reason, "\"");
  return std::nullopt;
}

absl::StatusOr<int> Run::Stop(const std::string& why) {
  Print(absl::StrCat("stopping after step ", step_, ": ", why));
  const absl::Status saved = step_ > first_step_ && writer_ ? Save() : absl::OkStatus();
  if (!saved.ok()) Print(absl::StrCat("checkpoint of step ", step_, " failed: ", saved.message()));
  if (saved_here_) return checkpoint::kExitRunMeAgain;
  RETURN_IF_ERROR(saved);
  Print("nothing new was saved");
  return kExitStopped;
}

absl::StatusOr<int> Run::Finish() {
  RETURN_IF_ERROR(backend_->Store(&state_.training));
  state_.sampler = sampler_->state();
  state_.step = step_;
  // Nothing counts as completed before its result is safe.
  if (writer_) RETURN_IF_ERROR(Save());
  if (!options_.out.empty()) {
    RETURN_IF_ERROR(WriteWeightsFile(options_.out, parameters_, state_));
    Print(absl::StrCat("final weights written to ", options_.out));
  }
  reporter_->Progress(step_, options_.steps);
  const absl::Status told = reporter_->Completed();
  if (!told.ok()) Print(absl::StrCat("the end could not be reported: ", told.message()));
  if (reporter_->progress_dropped() > 0) Print(absl::StrCat(reporter_->progress_dropped(), " progress messages were dropped"));
  *out_ << "weights sha256 " << WeightsHash(state_.training) << std::endl;
  return 0;
}

// In slices, so that a stop is not slept through.
void Run::Pause() const {
  for (int64_t left = options_.step_delay_ms; left > 0 && !WhyStop(); left -= kPauseSliceMs) {
    const int64_t ms = std::min(left, kPauseSliceMs);
    const timespec slice{ms / 1000, (ms % 1000) * 1'000'000};
    ::nanosleep(&slice, nullptr);
  }
}

void Run::Print(const std::string& line) const { *out_ << options_.name << ": " << line << std::endl; }

}  // namespace spillway::trainer
