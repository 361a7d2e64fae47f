// A file system for SQLite that lives in memory and fails as told: power loss that forgets what was not synced, a crash at the k-th call, a full disk.
// Registered with SQLite under `name` for the life of the object. One thread uses it at a time (SetFull may come from another); one connection a file (locks are not kept).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"

struct sqlite3_vfs;

namespace spillway::testing {

class FaultVfs {
 public:
  enum class Fault {
    kNone,
    kCrash,     // the call is half done, and every call after it fails: the process is dead
    kFull,      // SQLITE_FULL from one write (a sync is let through)
    kReadOnly,  // EROFS from one write (a sync is let through)
    kIoError,   // SQLITE_IOERR_* from one call
  };

  explicit FaultVfs(std::string name, uint64_t seed = 1);
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  const std::string& name() const { return name_; }

  // The k-th (from 1) call from now on that changes a file (write, truncate, sync, delete) meets `fault`.
  void FailAt(int64_t k, Fault fault);
  // That one and every later one.
  void FailFrom(int64_t k, Fault fault);
  bool tripped() const { return tripped_; }
  // Every write that makes a file longer is refused with SQLITE_FULL while set.
  void SetFull(bool full) { full_ = full; }
  // There is no room for the log's index to grow (SQLITE_IOERR_SHMSIZE, ENOSPC) while set.
  void SetIndexFull(bool full) { index_full_ = full; }
  int64_t calls() const { return calls_; }
  int64_t syncs() const { return syncs_; }

  // The machine loses power and comes back: what was synced is there; what was not is gone or, with `torn`, partly there.
  // Every connection must be closed before.
  void PowerLoss(bool torn);

  // For damage by hand.
  std::string Contents(const std::string& path) const;
  void SetContents(const std::string& path, std::string bytes);

  struct File;
  struct Impl;  // the C side, in the .cc

 private:
  friend struct Impl;
  // What the next changing call meets; counts it.
  Fault NextFault();
  File* FileNamed(const std::string& path);

  std::string name_;
  Rng rng_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  std::map<std::string, std::unique_ptr<File>> files_;
  int64_t calls_ = 0, syncs_ = 0;
  int64_t fail_at_ = 0;
  Fault fault_ = Fault::kNone;
  bool stays_ = false;
  bool tripped_ = false;
  bool dead_ = false;
  std::atomic<bool> full_ = false;
  bool index_full_ = false;
  int last_error_ = 0;  // errno, as SQLite asks for it
};

}  // namespace spillway::testing
