#include "scheduler/effects/sealer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"

namespace spillway::effects {
namespace {

constexpr int kThreads = 2;
constexpr int64_t kSayEvery = 60;

}  // namespace

absl::StatusOr<core::SealResult> SealNow(const std::string& checkpoint_root, const engine::SealOrder& order) {
  checkpoint::ScanOptions options;
  options.newest_only = true;
  options.job_uid = order.job_uid;
  ASSIGN_OR_RETURN(const checkpoint::ScanResult scan, checkpoint::ScanAttempt(JoinPath(checkpoint_root, order.checkpoint_dir), options));
  core::SealResult result;
  result.attempt = order.attempt;
  result.damaged = static_cast<int64_t>(scan.bad.size());
  for (const checkpoint::SkippedCheckpoint& bad : scan.bad)
    LOG(WARNING) << order.attempt.ToString() << ": not a checkpoint: " << bad.path << ": " << bad.why.message();
  if (!scan.committed.empty()) {
    const checkpoint::CommittedCheckpoint& newest = scan.committed.front();
    core::CheckpointRef ref;
    ref.attempt = order.attempt.number;
    ref.step = newest.step;
    ref.path = JoinPath(order.checkpoint_dir, checkpoint::StepName(newest.step));
    ref.manifest_sha256 = newest.manifest_sha256;
    ref.bytes = newest.bytes;
    ref.sealed = true;
    result.newest = std::move(ref);
  }
  return result;
}

Sealer::Sealer(std::string checkpoint_root, Post post, int64_t retry_ms) : root_(std::move(checkpoint_root)), post_(std::move(post)), retry_ms_(retry_ms) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
}

void Sealer::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Sealer::Seal(const engine::SealOrder& order) {
  MutexLock lock(&mutex_);
  if (later_.count(order.attempt) > 0) return;
  due_[order.attempt].order = order;
  changed_.Signal();
}

void Sealer::Work() {
  while (true) {
    Owed owed;
    {
      MutexLock lock(&mutex_);
      while (due_.empty() && !stopping_) {
        if (later_.empty()) {
          changed_.Wait(&mutex_);
        } else if (!changed_.WaitForMs(&mutex_, static_cast<long>(retry_ms_)) && due_.empty()) {
          due_.swap(later_);
        }
      }
      if (stopping_) return;
      owed = std::move(due_.begin()->second);
      due_.erase(due_.begin());
    }
    absl::StatusOr<core::SealResult> result = SealNow(root_, owed.order);
    if (result.ok()) {
      post_(*std::move(result));
    } else {
      Failed(std::move(owed), result.status());
    }
  }
}

void Sealer::Failed(Owed owed, const absl::Status& why) {
  // Said at once, then once a minute or so: its task waits for it.
  if (owed.failures++ % kSayEvery == 0) LOG(WARNING) << "cannot seal " << owed.order.attempt.ToString() << " yet, trying again: " << why.message();
  MutexLock lock(&mutex_);
  const AttemptId attempt = owed.order.attempt;
  later_.emplace(attempt, std::move(owed));
  changed_.Signal();
}

}  // namespace spillway::effects
