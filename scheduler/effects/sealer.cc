#include "scheduler/effects/sealer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"

namespace spillway::effects {
namespace {

constexpr long kRetryMs = 1'000;

}  // namespace

absl::StatusOr<core::SealResult> SealNow(const std::string& checkpoint_root, const engine::SealOrder& order) {
  checkpoint::ScanOptions options;
  options.newest_only = true;
  options.job_uid = order.job_uid;
  ASSIGN_OR_RETURN(const checkpoint::ScanResult scan, checkpoint::ScanAttempt(JoinPath(checkpoint_root, order.checkpoint_dir), options));
  core::SealResult result;
  result.attempt = order.attempt;
  result.damaged = static_cast<int64_t>(scan.bad.size());
  for (const checkpoint::SkippedCheckpoint& bad : scan.bad) LOG(WARNING) << order.attempt.ToString() << ": not a checkpoint: " << bad.path << ": " << bad.why.message();
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

Sealer::Sealer(std::string checkpoint_root, Post post) : root_(std::move(checkpoint_root)), post_(std::move(post)), thread_([this] { Work(); }) {}

Sealer::~Sealer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void Sealer::Seal(const engine::SealOrder& order) {
  MutexLock lock(&mutex_);
  orders_[order.attempt] = order;
  changed_.Signal();
}

void Sealer::Work() {
  while (true) {
    engine::SealOrder order;
    {
      MutexLock lock(&mutex_);
      while (orders_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (stopping_) return;
      order = orders_.begin()->second;
      orders_.erase(orders_.begin());
    }
    absl::StatusOr<core::SealResult> result = SealNow(root_, order);
    if (result.ok()) {
      post_(*std::move(result));
      continue;
    }
    LOG(WARNING) << "cannot seal " << order.attempt.ToString() << " yet: " << result.status().message();
    MutexLock lock(&mutex_);
    orders_.emplace(order.attempt, order);
    if (!stopping_) changed_.WaitForMs(&mutex_, kRetryMs);
  }
}

}  // namespace spillway::effects
