// The real file system with a fault at the k-th call: an error, the end of the process, or a power cut after which everything that was
// not synced may be gone. Tracks what a sync has made safe, so that a forgotten one shows as a lost checkpoint.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/rng.h"
#include "checkpoint/io.h"

namespace spillway::checkpoint {

inline constexpr int64_t kCallsMax = 1000;  // what makes more calls to the file system than this has gone wrong

class FaultIo final : public Io {
 public:
  enum class Fault {
    kNone,
    kErrorOnce,   // this call fails, later ones work
    kErrorStays,  // this call and all later ones that would take space fail: a full disk
    kReadOnly,    // this call and all later ones that would change anything fail: remounted read-only
    kAllFail,     // this call and every later one fail: a broken disk
    kExit,        // the process ends here, after half of a write
    kHook,        // something else happens before this call: set_hook
    kPowerCut,    // this and every later call fail; then LosePower() takes away what was not synced
  };

  FaultIo(Fault fault, int64_t at, absl::Status error = absl::ResourceExhaustedError("no space left")) : fault_(fault), at_(at), error_(std::move(error)) {}
  FaultIo() : FaultIo(Fault::kNone, 0) {}

  int64_t calls() const { return calls_; }
  bool struck() const { return at_ > 0 && calls_ >= at_; }
  // Undoes a random part of what no sync has made safe. Later calls work again.
  void LosePower(Rng* rng, const std::string& graveyard);
  // Keeps removed trees here, so that an unsynced removal can be undone. Required for kPowerCut.
  void set_graveyard(std::string path) { graveyard_ = std::move(path); }
  // What happens at the call, for kHook.
  void set_hook(std::function<void()> hook) { hook_ = std::move(hook); }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> CreateAlone(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status RenameNoReplace(const std::string& from, const std::string& to) override;
  absl::Status RenameReplace(const std::string& from, const std::string& to) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<bool> Exists(const std::string& path) override;

 private:
  friend class FaultFile;
  enum class Kind { kReads, kTakesSpace, kOther };
  // A change to a directory that no SyncDirectory has made safe: a file or directory appeared, or something was renamed.
  struct Pending {
    std::string directory;
    std::string from;  // "" for something that appeared
    std::string to;
  };
  absl::Status Before(Kind kind, const std::function<void()>& half = {});
  absl::Status BeforeCreate(const std::string& path);
  void Rename(const std::string& from, const std::string& to);  // in what is tracked

  const Fault fault_;
  const int64_t at_;
  const absl::Status error_;
  Mutex mutex_;  // of Before: files are read and written by several threads
  int64_t calls_ = 0;
  bool power_is_back_ = false;
  std::string graveyard_;
  std::function<void()> hook_;
  int64_t graves_ = 0;
  std::vector<Pending> pending_;
  std::map<std::string, std::string> safe_content_;  // of files with unsynced bytes: what they would fall back to
};

}  // namespace spillway::checkpoint
