// The playground at work: the cloud, its ledger and its machines under one lock, and one thread that keeps time, starts what has booted,
// kills what is taken and buries what has ended. Nobody is told anything before the ledger has it; a ledger that cannot be written ends the
// process, and the next one carries on from what is there.
//
// Stopping the host stops nobody's machine: they run on and are adopted by the next host in the same home.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "playground/cloud.h"
#include "playground/ledger.h"
#include "playground/machine_runner.h"

namespace spillway::playground {

class Host {
 public:
  struct Options {
    std::string home;
    CloudConfig config;
    std::string boot_id;  // of the machine the playground runs on
  };

  // Replays the ledger, adopts the machines still alive and ends those that are not. FAILED_PRECONDITION when another playground uses the home,
  // or when seed or scale differ from those the ledger was opened with.
  static absl::StatusOr<std::unique_ptr<Host>> Open(Options options, Clock* clock, MachineRunner* runner);
  ~Host();

  // `metadata_url` says where an instance finds its metadata service.
  void Start(std::function<std::string(const std::string& id)> metadata_url);
  void Stop();
  // Ends every instance and waits, at most timeout_ms, until the last is gone.
  absl::Status TerminateAll(int64_t timeout_ms);

  // UNAVAILABLE when throttled; otherwise as Cloud.
  absl::StatusOr<Instance> Create(const CreateRequest& request);
  // Returns when the machine is gone, or after wait_ms with whatever is true then.
  absl::StatusOr<Instance> Terminate(const std::string& id, int64_t wait_ms);
  absl::StatusOr<Instance> OrderReclaim(const std::string& id, std::optional<int64_t> notice_ms);
  absl::Status KeepAlive(const std::string& id);
  absl::StatusOr<std::string> Console(const std::string& id, size_t bytes) const { return runner_->ConsoleTail(id, bytes); }

  // A consistent look: `read(cloud, now_ms, utc_at_zero_ms)` under the lock; it must not call back.
  template <typename Read>
  auto With(Read read) {
    MutexLock lock(&mutex_);
    return read(static_cast<const Cloud&>(cloud_), NowMs(), UtcAtZeroMs());
  }

 private:
  Host(Options options, Clock* clock, MachineRunner* runner, Cloud cloud, Ledger ledger, int lock_fd, int wake_fd);

  absl::Status Anchor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Recover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NowMs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wall time at the cloud's moment 0, steady to a few milliseconds so that times told twice are equal.
  int64_t UtcAtZeroMs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Commit(const std::vector<Event>& events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeRequestToken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MarkerOf(const Instance& instance) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Instance* FindOrNull(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cloud_.FindById(id); }

  void Loop();
  void Wake();
  bool Settle(const Owed& owed);  // true when the state changed
  bool StartMachine(int64_t instance);
  bool KillMachine(int64_t instance);
  bool Bury(int64_t instance);
  void WaitForNews();
  void OnMachineEnded(int64_t instance);
  void NoteAlive();

  const Options options_;
  Clock* const clock_;
  MachineRunner* const runner_;
  const int lock_fd_;
  const int wake_fd_;

  Mutex mutex_;
  CondVar changed_;
  Cloud cloud_ ABSL_GUARDED_BY(mutex_);
  Ledger ledger_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<int64_t> utc_at_zero_ms_ ABSL_GUARDED_BY(mutex_);
  int64_t request_tokens_milli_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t request_tokens_at_ms_ ABSL_GUARDED_BY(mutex_) = 0;

  // The loop thread's alone (and Open's, before it starts).
  std::function<std::string(const std::string&)> metadata_url_;
  std::map<int64_t, int> watched_;           // instance -> pidfd
  std::map<int64_t, int64_t> kill_sent_ms_;  // steady
  int64_t alive_noted_ms_ = 0;
  int64_t consoles_cut_ms_ = 0;
  std::thread thread_;
};

// Identifies this boot of this machine.
std::string BootId();

}  // namespace spillway::playground
