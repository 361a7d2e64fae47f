// One attempt on this node, from its launch until its whole tree is proven gone.
// Owns its processes, its cgroup or reaper, its log, its SPILLWAY_SOCKET and its notice file; collects what is known about its end (ExitFacts).
// Never decides why it should stop, and never says Exited while anything of the tree may live.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "worker/frames/frames.h"
#include "worker/supervisor/cgroup.h"
#include "worker/supervisor/event_loop.h"
#include "worker/supervisor/event_queue.h"
#include "worker/supervisor/journal.h"
#include "worker/supervisor/launcher.h"
#include "worker/supervisor/log_file.h"

namespace spillway::supervisor {

class Attempt;

// What all attempts of a supervisor share.
struct AttemptContext {
  EventLoop* loop = nullptr;
  EventQueue* events = nullptr;
  Journal* journal = nullptr;
  CgroupPool* cgroups = nullptr;  // nullptr: under reapers
  Clock* clock = nullptr;
  std::string home_id;
  std::string run_prefix;                   // of sockets and notice files that the worker leaves to us
  std::string secrets_root;                 // where the worker puts the secrets of each attempt; they go with it
  std::function<void(Attempt*)> changed;    // its due time, pid or end may have changed
  std::function<std::set<pid_t>()> strays;  // children of this process that are no attempt's: what a killed reaper left
  std::function<int64_t()> lease_end_ms;
};

struct StopOrder {
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  std::string reason;  // one word, for the notice file
  std::string detail;
  int64_t kill_at_ms = 0;  // on CLOCK_BOOTTIME
};

// The values go as soon as nothing can read them any more, also where no worker lives to see the end; what the job itself put beside them, and so could not
// be removed, the worker removes with the folder.
void RemoveSecrets(const std::string& secrets_root, AttemptId attempt);

class Attempt {
 public:
  Attempt(AttemptContext* context, frames::Start start, int64_t sequence);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Ends at once (with a launch error in its Exited) when the node cannot do it.
  void Launch();

  // Notice file, stop signal once, SIGKILL of the tree at kill_at_ms. Later orders can only bring that closer.
  void Stop(const StopOrder& order);
  // SIGKILL of the tree now.
  void Kill(const StopOrder& order);
  // Only the notice file: for a node's notice (Stop follows) and a lease's checkpoint request (which may be withdrawn).
  void ShowNotice(const StopOrder& order);
  void RequestLeaseCheckpoint(const StopOrder& order);
  void WithdrawLeaseRequest();

  // `pid()` has ended: our child, which is the main process or its reaper.
  void OnChildExit(int status, const rusage& usage);
  // A limit of it is held by nobody but us: it wants to be looked at now and then (tree_use.h). `parents` is asked for only under a reaper.
  bool watched() const { return watch_memory_ || watch_pids_; }
  void LookAtUse(const std::function<const std::map<pid_t, pid_t>&()>& parents);
  void OnTime(int64_t now_ms);
  int64_t NextDueMs() const;  // INT64_MAX: nothing

  const frames::AttemptRef& ref() const { return start_.attempt; }
  const std::string& key() const { return start_.attempt.key; }
  pid_t pid() const { return child_; }  // -1 when there is none
  bool ended() const { return ended_; }
  bool lease_bound() const { return start_.lease_bound; }
  bool lease_requested() const { return lease_requested_; }
  int64_t grace_ms() const { return start_.grace_ms; }
  frames::InventoryItem Item() const;

  int64_t indexed_due_ms = 0;  // the supervisor's timer index and count of the living
  bool counted_out = false;

 private:
  absl::Status Prepare();
  absl::Status OpenSocket();
  void ComposeEnvironment(std::vector<std::string>& env) const;
  void FailLaunch(const absl::Status& status);
  void OnReport();
  void OnReaperStatus();
  void OnOutput();
  bool ReadOutput();
  void OnSocket(int messages_max);
  void OnDatagram(absl::string_view datagram);
  void MaybeStarted();
  void MainEnded(int status, const rusage& usage);
  void RecordStop(const StopOrder& order);
  bool WriteNotice(const std::string& reason, int64_t kill_at_ms);
  void SendStopSignal();
  void KillTree();
  void LookForTree();
  void TreeGone();
  void PushProgress();
  void Emit(decltype(frames::Event::what) what);
  void CloseFd(int& fd);

  AttemptContext* const context_;
  frames::Start start_;  // argv and env are dropped once it runs
  const int64_t sequence_;
  std::string socket_path_, notice_path_;
  std::unique_ptr<LogFile> log_;
  std::unique_ptr<Cgroup> cgroup_;
  int output_fd_ = -1, report_fd_ = -1, status_fd_ = -1, socket_fd_ = -1;

  pid_t child_ = -1;       // until reaped
  pid_t main_ = -1;        // until it ended; the child itself, or the reaper's child
  pid_t main_shown_ = -1;  // the same, for people, also afterwards
  bool runs_ = false;      // the exec went well
  bool started_sent_ = false;
  bool main_gone_ = false;
  bool sweeping_ = false;  // the reaper was killed: its tree is looked for in /proc
  int clean_looks_ = 0;
  bool ended_ = false;

  bool watch_memory_ = false, watch_pids_ = false;
  bool signalled_ = false;
  bool lease_requested_ = false;
  int64_t kill_at_ms_ = 0;       // 0: none
  int64_t notice_shown_ms_ = 0;  // the deadline that the notice file says; 0: there is no file
  int64_t timeout_at_ms_ = 0;
  int64_t look_at_ms_ = 0;  // look again whether the tree is gone, or kill again
  int64_t look_delay_ms_ = 1;

  frames::ExitFacts facts_;
  frames::Progress progress_;
  bool progress_waits_ = false;
  int64_t progress_at_ms_ = 0;  // the next Progress event not before this
};

}  // namespace spillway::supervisor
