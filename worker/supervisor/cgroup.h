// One cgroup v2 folder an attempt, from a pool that is used again, and where a memory or pids controller can be had (v2, else v1) its limits.
// Owns the folders spillway-HOMEID under the supervisor's own cgroup or the mount's root; of others it only removes those whose supervisor is dead and
// that are empty. Where no cgroup2 mount is writable,
// Open says so and the reaper (reaper.h) holds the trees instead.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway::supervisor {

struct Limits {
  int64_t memory_bytes = 0;  // 0: none
  int64_t pids_max = 0;
  int64_t cpu_milli = 0;  // a weight, not a limit: what is free may be used
};

// The folders of one running attempt.
class Cgroup {
 public:
  ~Cgroup();
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  const std::string& path() const { return path_; }
  int folder_fd() const { return folder_fd_; }
  bool clone_into() const { return clone_into_; }  // CLONE_INTO_CGROUP works; else the child joins by cgroup.procs
  // cgroup.procs files of v1 controllers, opened: the child writes "0" into each before it becomes the program.
  const std::vector<int>& join_fds() const { return join_fds_; }
  bool memory_enforced() const { return memory_enforced_; }
  bool pids_enforced() const { return pids_enforced_; }

  bool Populated() const;  // any process that is not a zombie, in it or below
  std::vector<int64_t> Processes() const;
  void Kill();  // SIGKILL to all in it and below; ask Populated again afterwards
  int64_t OutOfMemoryKills() const;
  int64_t ForksRefused() const;     // for the limit of processes
  int64_t MemoryPeakBytes() const;  // 0: unknown

 private:
  friend class CgroupPool;
  Cgroup() = default;
  std::string path_;
  int folder_fd_ = -1;
  int events_fd_ = -1;
  int kill_fd_ = -1;  // -1: the kernel has no cgroup.kill
  std::vector<int> join_fds_;
  std::string memory_v1_, pids_v1_, cpu_v1_;  // "": none
  bool memory_v2_ = false;
  bool memory_enforced_ = false, pids_enforced_ = false;
  int64_t oom_kills_before_ = 0;
  int64_t forks_refused_before_ = 0;
  bool clone_into_ = false;
  bool killed_ = false;  // by cgroup.kill
};

class CgroupPool {
 public:
  // UNAVAILABLE when no cgroup2 mount is writable, with what was tried.
  static absl::StatusOr<std::unique_ptr<CgroupPool>> Open(const std::string& home_id);
  ~CgroupPool();  // removes the folders that are empty

  absl::StatusOr<std::unique_ptr<Cgroup>> Take(const Limits& limits);
  // `cgroup` is not populated any more. One that was killed is not used again: Linux 6.14 and later kill whatever is cloned into it at birth
  // (they compare its count of kills with that of the parent's cgroup).
  void GiveBack(std::unique_ptr<Cgroup> cgroup);
  bool can_limit_memory() const { return memory_v2_ || !memory_v1_.empty(); }
  bool can_limit_pids() const { return pids_v2_ || !pids_v1_.empty(); }

  // SIGKILL to everything in any of our folders; true when nothing lives there any more. For recovery.
  bool KillAll();

 private:
  CgroupPool() = default;
  void Apply(const Limits& limits, Cgroup& cgroup);
  absl::Status LockFolder();
  absl::Status ProbeCloneInto();
  std::string parent_;                        // .../spillway-HOMEID
  int lock_fd_ = -1;                          // held as long as this supervisor lives
  std::string memory_v1_, pids_v1_, cpu_v1_;  // likewise, "" when not to be had
  bool memory_v2_ = false, pids_v2_ = false, cpu_v2_ = false;
  bool clone_into_ = false;
  std::vector<std::unique_ptr<Cgroup>> idle_;
  int64_t next_ = 1;
};

}  // namespace spillway::supervisor
