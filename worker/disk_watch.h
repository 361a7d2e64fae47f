// Looks at the disks of the attempts that have a quota (disk_quota.h): remembers which were full, and says so once where only we hold the bound.
// Owns one thread, because looking may wait for a disk. Decides nothing about attempts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "base/ids.h"
#include "base/mutex.h"
#include "worker/disk_quota.h"

namespace spillway::worker {

class DiskWatch {
 public:
  // `over`, from the thread: this attempt's folder holds more than it may, and nothing but us keeps it from going on.
  using Over = std::function<void(const AttemptId& attempt, std::string detail)>;
  explicit DiskWatch(Over over) : over_(std::move(over)) {}
  ~DiskWatch();

  void Start();
  // An attempt without a quota costs nothing.
  void Add(const AttemptId& attempt, std::string folder);
  void Remove(const AttemptId& attempt);

  // In words, what is full for an attempt that just ended; "" nothing. `own`: its quota, not this machine's or the store's disk. Looks once more.
  std::string WhatIsFull(const AttemptId& attempt, const std::string& folder, const std::string& checkpoint_folder, bool* own);

  // One look at all of them; the milliseconds until the next, longer where looking takes long.
  int64_t LookAtAll();

 private:
  struct Watched {
    std::string folder;
    bool was_full = false;
    bool said = false;
  };
  // True when it was found full.
  bool LookAt(const AttemptId& attempt, const std::string& folder, bool may_say);
  void Loop();

  const Over over_;
  Mutex mutex_;
  CondVar changed_;
  std::map<AttemptId, Watched> watched_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::worker
