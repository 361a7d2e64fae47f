#include "worker/disk_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"

namespace spillway::worker {
namespace {

constexpr int64_t kLookEveryMs = 500;
constexpr int64_t kPauseFactor = 20;  // looking costs at most a twentieth of a thread

}  // namespace

DiskWatch::~DiskWatch() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void DiskWatch::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void DiskWatch::Add(const AttemptId& attempt, std::string folder) {
  MutexLock lock(&mutex_);
  watched_.try_emplace(attempt, Watched{std::move(folder), false, false});
  changed_.Signal();
}

void DiskWatch::Remove(const AttemptId& attempt) {
  MutexLock lock(&mutex_);
  watched_.erase(attempt);
}

std::string DiskWatch::WhatIsFull(const AttemptId& attempt, const std::string& folder, const std::string& checkpoint_folder, bool* own) {
  *own = LookAt(attempt, folder, false);
  {
    MutexLock lock(&mutex_);
    const auto it = watched_.find(attempt);
    *own = *own || (it != watched_.end() && it->second.was_full);
  }
  if (*own) {
    const auto use = LookAtDisk(folder);
    return use.ok() ? absl::StrCat("its disk of ", FormatBytes(use->limit_bytes), " (resources.disk) is full") : "its disk is full";
  }
  if (FileSystemFull(folder)) return "the disk of this machine is full";
  if (!checkpoint_folder.empty() && FileSystemFull(checkpoint_folder)) return "the disk of the store is full";
  return "";
}

bool DiskWatch::LookAt(const AttemptId& attempt, const std::string& folder, bool may_say) {
  const auto use = LookAtDisk(folder);
  if (!use.ok() || !use->full) return false;
  bool say = false;
  {
    MutexLock lock(&mutex_);
    const auto it = watched_.find(attempt);
    if (it == watched_.end()) return true;
    it->second.was_full = true;
    say = may_say && !use->mounted && !std::exchange(it->second.said, true);
  }
  if (say)
    over_(attempt, absl::StrCat("its folder holds ", FormatBytes(use->used_bytes), ", more than its ", FormatBytes(use->limit_bytes), " (resources.disk)"));
  return true;
}

int64_t DiskWatch::LookAtAll() {
  std::vector<std::pair<AttemptId, std::string>> all;
  {
    MutexLock lock(&mutex_);
    for (const auto& [attempt, watched] : watched_) all.emplace_back(attempt, watched.folder);
  }
  RealClock clock;
  const int64_t begin_ms = clock.NowSteadyMs();
  for (const auto& [attempt, folder] : all) LookAt(attempt, folder, true);
  return std::max(kLookEveryMs, kPauseFactor * (clock.NowSteadyMs() - begin_ms));
}

void DiskWatch::Loop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (watched_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (stopping_) return;
    }
    const int64_t pause_ms = LookAtAll();
    MutexLock lock(&mutex_);
    const int64_t until_ms = RealClock().NowSteadyMs() + pause_ms;
    for (int64_t left = pause_ms; !stopping_ && left > 0; left = until_ms - RealClock().NowSteadyMs()) changed_.WaitForMs(&mutex_, static_cast<long>(left));
    if (stopping_) return;
  }
}

}  // namespace spillway::worker
