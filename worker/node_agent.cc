#include "worker/node_agent.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "worker/examiner.h"

namespace spillway::worker {
namespace {

constexpr int64_t kSupervisorRetryMs = 1'000;
constexpr int64_t kMendEveryMs = 1'000;
constexpr int kSupervisorFramesPerTurn = 512;
constexpr int64_t kFlushMs = 1'000;
constexpr int64_t kShutdownReplyMs = 2'000;

// Little of the worker's own surroundings reaches a job. Our programs are found by name, after the system's: `spillway report` is how a script speaks.
std::map<std::string, std::string> BaseEnvironment() {
  std::map<std::string, std::string> env = {{"PATH", absl::StrCat("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:", ExecutableFolder())},
                                            {"LANG", "C.UTF-8"}};
  for (const char* name : {"HOME", "USER"}) {
    if (const char* value = getenv(name)) env[name] = value;
  }
  env.try_emplace("HOME", "/");
  env.try_emplace("USER", geteuid() == 0 ? "root" : absl::StrCat(geteuid()));
  return env;
}

}  // namespace

NodeAgent::NodeAgent(AgentOptions options, NodeHome* home) : options_(std::move(options)), home_(home), supervisor_(options_.supervisor) {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(wake_fd_ >= 0) << "eventfd: errno " << errno;
}

NodeAgent::~NodeAgent() {
  link_.reset();
  examiner_.reset();  // before the watch: it asks it
  disk_watch_.reset();
  stager_.reset();
  close(wake_fd_);
}

void NodeAgent::Post(Input input) {
  {
    MutexLock lock(&mutex_);
    inbox_.push_back(std::move(input));
  }
  WakeUp();
}

void NodeAgent::PostStaged(Staged staged) {
  {
    MutexLock lock(&mutex_);
    staged_.push_back(std::move(staged));
  }
  WakeUp();
}

void NodeAgent::WakeUp() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof one);
}

absl::StatusOr<int> NodeAgent::Run() {
  RETURN_IF_ERROR(Begin());
  while (!exit_code_) {
    WaitForSomething();
    ReadSignals();
    ReadInbox();
    ReadSupervisor();
    const int64_t now = clock_.NowSteadyMs();
    if (supervisor_retry_at_ms_ > 0 && now >= supervisor_retry_at_ms_) {
      if (const absl::Status status = ConnectSupervisor(); !status.ok()) LoseSupervisor(status);
    }
    if (now >= drain_at_ms_) {
      LOG(INFO) << "this worker's lifetime is over";
      drain_at_ms_ = LeaseKeeper::kNever;
      Handle(DrainAndExit{limits::kStopGraceMs});
    }
    if (!reports_->whole() && now >= mend_at_ms_) ReportLogWritten(reports_->Mend());
    if (now >= logic_->NextWakeMs()) Handle(Tick{});
  }
  link_->Flush(kFlushMs);
  return *exit_code_;
}

absl::Status NodeAgent::Begin() {
  ASSIGN_OR_RETURN(identity_, home_->LoadIdentity());
  SavedReports saved;
  ASSIGN_OR_RETURN(ReportLog log, ReportLog::Open(JoinPath(home_->path(), "worker.reports"), &saved));
  reports_ = std::make_unique<ReportLog>(std::move(log));
  SessionConfig config = options_.session;
  config.node.cluster_uuid = identity_.cluster_uuid;
  config.node.node_id = identity_.node_id;
  config.incarnation = identity_.incarnation;
  logic_ = std::make_unique<SessionLogic>(std::move(config), std::move(saved));
  if (options_.max_lifetime_ms > 0) drain_at_ms_ = clock_.NowSteadyMs() + options_.max_lifetime_ms;
  stager_ = std::make_unique<WorkThread>();
  examiner_ = std::make_unique<WorkThread>();
  disk_watch_ = std::make_unique<DiskWatch>([this](const AttemptId& attempt, std::string detail) { Post(DiskOver{attempt, std::move(detail)}); });
  disk_watch_->Start();
  link_ = std::make_unique<SchedulerLink>(options_.link, SchedulerLink::Callbacks{[this](int64_t session, SchedulerFrame frame) {
                                                                                    Post(FrameReceived{session, std::move(frame)});
                                                                                  },
                                                                                  [this](int64_t session, std::string why) {
                                                                                    Post(Disconnected{session, std::move(why)});
                                                                                  }});
  return ConnectSupervisor();
}

absl::Status NodeAgent::ConnectSupervisor() {
  ASSIGN_OR_RETURN(const frames::Inventory inventory, supervisor_.Connect());
  LOG(INFO) << "supervisor " << inventory.pid << ", boot " << inventory.boot_id << ", " << inventory.items.size() << " attempts";
  supervisor_retry_at_ms_ = 0;
  supervisor_since_ms_ = clock_.NowSteadyMs();
  starts_.clear();
  // Numbers of events mean something within one life of the supervisor.
  if (supervisor_boot_ != inventory.boot_id) ack_waits_ = 0;
  supervisor_boot_ = inventory.boot_id;
  if (!std::exchange(folders_checked_, true)) RemoveForeignFolders(inventory);
  Handle(inventory);
  return absl::OkStatus();
}

void NodeAgent::LoseSupervisor(const absl::Status& why) {
  LOG(WARNING) << "no supervisor: " << why.message();
  // A successor at once, since what the dead one left is still running; one that does not stay is not started in a hurry again.
  const int64_t now = clock_.NowSteadyMs();
  supervisor_retry_at_ms_ = now - supervisor_since_ms_ >= kSupervisorRetryMs ? now : now + kSupervisorRetryMs;
}

// Of an attempt that has a quota: its folder says so.
void NodeAgent::WatchDisk(const AttemptId& attempt) {
  const std::string folder = home_->AttemptFolder(attempt);
  if (HasDiskQuota(folder)) disk_watch_->Add(attempt, folder);
}

// Folders of attempts that ended while no worker was here to clean up.
void NodeAgent::RemoveForeignFolders(const frames::Inventory& inventory) {
  std::set<AttemptId> there;
  for (const frames::InventoryItem& item : inventory.items) {
    there.insert(item.attempt.id);
    WatchDisk(item.attempt.id);
  }
  for (const AttemptId& attempt : home_->AttemptFolders()) {
    if (there.count(attempt) != 0) continue;
    stager_->Do([folder = home_->AttemptFolder(attempt), secrets = home_->SecretsFolder(attempt)] {
      if (const absl::Status status = Unstage(folder, secrets, ""); !status.ok()) LOG(WARNING) << status.message();
    });
  }
}

// ---- what happens ----

void NodeAgent::WaitForSomething() {
  int64_t until = std::min(logic_->NextWakeMs(), drain_at_ms_);
  if (supervisor_retry_at_ms_ > 0) until = std::min(until, supervisor_retry_at_ms_);
  if (!reports_->whole()) until = std::min(until, mend_at_ms_);
  const int64_t left = std::clamp<int64_t>(until == LeaseKeeper::kNever ? 60'000 : until - clock_.NowSteadyMs(), 0, 60'000);
  pollfd ready[3] = {{wake_fd_, POLLIN, 0}, {supervisor_retry_at_ms_ > 0 ? -1 : supervisor_.fd(), POLLIN, 0}, {options_.signal_fd, POLLIN, 0}};
  // A connection that broke while sending has no descriptor any more: Receive says why.
  const bool broken = supervisor_retry_at_ms_ == 0 && ready[1].fd < 0;
  (void)poll(ready, 3, broken ? 0 : static_cast<int>(left));
  uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof count);
}

void NodeAgent::ReadSignals() {
  if (options_.signal_fd < 0) return;
  signalfd_siginfo info;
  while (!exit_code_ && read(options_.signal_fd, &info, sizeof info) == sizeof info) {
    if (options_.stop_jobs_on_exit && !std::exchange(draining_, true)) {
      LOG(INFO) << "asked to stop: draining";
      Handle(DrainAndExit{limits::kStopGraceMs});
    } else {
      LOG(INFO) << "asked to stop: attempts go on under the supervisor";
      exit_code_ = 0;
    }
  }
}

void NodeAgent::ReadInbox() {
  std::deque<Input> inputs;
  std::deque<Staged> staged;
  {
    MutexLock lock(&mutex_);
    inputs.swap(inbox_);
    staged.swap(staged_);
  }
  for (Staged& one : staged) OnStaged(std::move(one));
  for (const Input& input : inputs) {
    Handle(input);
    if (const auto* frame = std::get_if<FrameReceived>(&input)) link_->Consumed(frame->session);
  }
}

void NodeAgent::ReadSupervisor() {
  if (supervisor_retry_at_ms_ > 0) return;
  for (int i = 0; i < kSupervisorFramesPerTurn && !exit_code_; ++i) {
    auto frame = supervisor_.Receive(0);
    if (!frame.ok()) return LoseSupervisor(frame.status());
    if (!frame->has_value()) return;
    if (const auto* event = std::get_if<frames::Event>(&**frame)) {
      Handle(*event);
    } else if (const auto* reply = std::get_if<frames::Reply>(&**frame)) {
      OnReply(*reply);
    }
  }
  WakeUp();  // there may be more
}

void NodeAgent::Handle(const Input& input) {
  if (exit_code_) return;
  for (Output& output : logic_->Handle(input, clock_.NowSteadyMs())) {
    std::visit([this](auto& out) { CarryOut(out); }, output);
  }
}

void NodeAgent::OnReply(const frames::Reply& reply) {
  const auto it = starts_.find(reply.request);
  const auto code = static_cast<absl::StatusCode>(reply.code);
  if (it == starts_.end()) {
    // A stop of what has just ended is no news.
    if (code != absl::StatusCode::kOk && code != absl::StatusCode::kNotFound) LOG(WARNING) << "the supervisor refused a command: " << reply.message;
    return;
  }
  const AttemptId attempt = it->second;
  starts_.erase(it);
  if (code == absl::StatusCode::kOk || code == absl::StatusCode::kAlreadyExists) return;
  const bool jobs = code == absl::StatusCode::kInvalidArgument;
  Handle(StartRefused{attempt, EndCause::kLaunchFailed, jobs ? Initiator::kJob : Initiator::kNode, reply.message});
}

void NodeAgent::OnStaged(Staged staged) {
  const auto it = staging_.find(staged.attempt);
  if (it == staging_.end()) return;
  const auto commands = std::move(it->second);
  staging_.erase(it);
  if (!logic_->MayStart(staged.attempt)) return;  // its end was reported meanwhile
  if (const auto refused = logic_->InsteadOfStart(staged.attempt)) return Handle(*refused);
  if (!staged.plan.ok()) {
    const bool lacks_secret = absl::IsUnauthenticated(staged.plan.status());
    const Initiator initiator = lacks_secret ? Initiator::kUser : absl::IsInvalidArgument(staged.plan.status()) ? Initiator::kJob : Initiator::kNode;
    const EndCause cause = absl::IsResourceExhausted(staged.plan.status()) ? EndCause::kDiskFull
                           : lacks_secret                                  ? EndCause::kLaunchFailed
                                                                           : EndCause::kStagingFailed;
    Handle(StartRefused{staged.attempt, cause, initiator, std::string(staged.plan.status().message())});
    return;
  }
  WatchDisk(staged.attempt);
  held_ports_.erase(staged.attempt);  // it is to listen there itself
  auto request = supervisor_.Start(std::move(staged.plan->start));
  if (request.ok()) {
    starts_[*request] = staged.attempt;
  } else if (!absl::IsUnavailable(request.status())) {
    Handle(StartRefused{staged.attempt, EndCause::kLaunchFailed, Initiator::kNode, std::string(request.status().message())});
    return;
  }
  // A lost START is given again once the supervisor is back, and so are the commands.
  for (const auto& command : commands) {
    if (const auto* stop = std::get_if<frames::Stop>(&command)) Sent(supervisor_.Stop(*stop).status(), "stop");
    if (const auto* kill = std::get_if<frames::Kill>(&command)) Sent(supervisor_.Kill(*kill).status(), "kill");
  }
}

// ---- what is to be done ----

void NodeAgent::CarryOut(Connect& out) {
  link_->Connect(out.session);
  Post(Connected{out.session});  // frames are queued until the stream stands
}
void NodeAgent::CarryOut(Disconnect& out) { link_->Disconnect(out.session); }
void NodeAgent::CarryOut(SendFrame& out) { link_->Send(out.session, out.frame); }

void NodeAgent::CarryOut(StartAttempt& out) {
  const AttemptId attempt = out.offer.attempt;
  staging_.try_emplace(attempt);
  StagingContext context;
  context.attempt_folder = home_->AttemptFolder(attempt);
  context.secrets_folder = home_->SecretsFolder(attempt);
  context.cluster_uuid = identity_.cluster_uuid;
  context.node_name = options_.session.node.node_name;
  context.device_indices = options_.device_indices;
  context.now_utc_ms = clock_.NowUtcMs();
  context.pids_max = options_.pids_max;
  context.base_env = BaseEnvironment();
  stager_->Do([this, attempt, context, mounts = options_.disk.mounts, store_url = identity_.store_url, start = std::move(out)]() mutable {
    const auto plan = [&]() -> absl::StatusOr<StartPlan> {
      context.master_port = HeldPort().number();
      const auto root = StoreRoot(store_url);
      if (!root.ok()) return absl::FailedPreconditionError(root.status().message());  // not the job's fault
      context.store_root = *root;
      ASSIGN_OR_RETURN(StartPlan made, PlanStart(start.offer, start.key, *start.spec, context));
      RETURN_IF_ERROR(ApplyPlan(made, mounts));
      return made;
    }();
    PostStaged({attempt, plan});
  });
}

void NodeAgent::CarryOut(ReserveRendezvous& out) {
  const int port = held_ports_[out.attempt].number();
  const absl::StatusOr<std::string> address = options_.address.empty() ? AddressTowards(options_.link.server) : options_.address;
  if (!address.ok()) LOG(WARNING) << "no address for the members of " << out.attempt.ToString() << " to meet at: " << address.status().message();
  Post(RendezvousReserved{out.attempt, port == 0 || !address.ok() ? "" : absl::StrCat(*address, ":", port)});
}

void NodeAgent::CarryOut(StopAttempt& out) {
  for (auto& [attempt, commands] : staging_) {
    if (out.stop.key == absl::StrCat(identity_.cluster_uuid, "/", attempt.ToString())) return commands.push_back(out.stop);
  }
  Sent(supervisor_.Stop(out.stop).status(), "stop");
}

void NodeAgent::CarryOut(KillAttempt& out) {
  for (auto& [attempt, commands] : staging_) {
    if (out.kill.key == absl::StrCat(identity_.cluster_uuid, "/", attempt.ToString())) return commands.push_back(out.kill);
  }
  Sent(supervisor_.Kill(out.kill).status(), "kill");
}

void NodeAgent::CarryOut(NoticeAttempts& out) { Sent(supervisor_.Notice(out.notice).status(), "notice"); }
void NodeAgent::CarryOut(RenewLease& out) { Sent(supervisor_.Renew(out.renew), "lease"); }
void NodeAgent::CarryOut(AckEvents& out) {
  ack_waits_ = out.number;
  AckWhatIsSaved();
}

void NodeAgent::CarryOut(CheckCheckpoint& out) {
  examiner_->Do([this, root = CheckpointRoot(), question = std::move(out)] { Post(Answer(root, question)); });
}
// Its tree is gone, its folder is not yet: the moment to see what it left, checkpoints and full disks.
void NodeAgent::CarryOut(ScanCheckpoints& out) {
  const std::string folder = home_->AttemptFolder(out.attempt), checkpoints = CheckpointFolder(out.checkpoint_dir);
  examiner_->Do([this, root = CheckpointRoot(), folder, checkpoints, question = std::move(out)] {
    ScanResult result = Answer(root, question);
    result.disk_full = disk_watch_->WhatIsFull(question.attempt, folder, checkpoints, &result.disk_full_is_jobs);
    Post(std::move(result));
  });
}

void NodeAgent::CarryOut(SaveReports& out) {
  ReportLogWritten(out.anew ? reports_->Replace({out.boot_id, out.acked, std::move(out.reports)}) : reports_->Append(out.reports));
}
void NodeAgent::CarryOut(SaveReportAck& out) { ReportLogWritten(reports_->Acked(out.seq)); }

void NodeAgent::CarryOut(SaveNode& out) {
  const NodeIdentity identity{out.cluster_uuid, out.node_id, out.store_url, out.incarnation};
  if (identity == identity_) return;
  identity_ = identity;
  if (const absl::Status status = home_->SaveIdentity(identity); !status.ok()) LOG(WARNING) << "the node's identity is not saved: " << status.message();
}

void NodeAgent::CarryOut(CleanUp& out) {
  disk_watch_->Remove(out.attempt);
  held_ports_.erase(out.attempt);
  const std::string checkpoints = CheckpointFolder(out.checkpoint_dir);
  stager_->Do([folder = home_->AttemptFolder(out.attempt), secrets = home_->SecretsFolder(out.attempt), checkpoints] {
    if (const absl::Status status = Unstage(folder, secrets, checkpoints); !status.ok()) LOG(WARNING) << status.message();
  });
}

void NodeAgent::CarryOut(LogLine& out) {
  if (out.warning) {
    LOG(WARNING) << out.text;
  } else {
    LOG(INFO) << out.text;
  }
}

void NodeAgent::CarryOut(Exit& out) {
  LOG(INFO) << "leaving: " << out.why;
  exit_code_ = out.code;
  if (!out.shutdown_supervisor) return;
  const auto request = supervisor_.Shutdown();
  if (!request.ok()) return Sent(request.status(), "shutdown");
  const int64_t deadline = clock_.NowSteadyMs() + kShutdownReplyMs;
  while (clock_.NowSteadyMs() < deadline) {
    const auto frame = supervisor_.Receive(100);
    if (!frame.ok()) return;  // it has left
    if (!frame->has_value()) continue;
    const auto* reply = std::get_if<frames::Reply>(&**frame);
    if (reply == nullptr || reply->request != *request) continue;
    if (reply->code != 0) LOG(WARNING) << "the supervisor stays: " << reply->message;
    return;
  }
}

std::string NodeAgent::CheckpointRoot() const {
  const auto root = StoreRoot(identity_.store_url);
  return JoinPath(root.ok() ? *root : "/nonexistent", "checkpoints");
}

std::string NodeAgent::CheckpointFolder(const std::string& checkpoint_dir) const {
  if (checkpoint_dir.empty()) return "";
  return InStore(CheckpointRoot(), checkpoint_dir).value_or("");
}

void NodeAgent::Sent(const absl::Status& status, absl::string_view what) {
  if (!status.ok() && !absl::IsUnavailable(status)) LOG(WARNING) << "cannot give the supervisor a " << what << ": " << status.message();
}

// The reports go out all the same, and what they follow from stays with the supervisor: a worker killed right now loses their numbers, not what they
// say. Said once a minute.
void NodeAgent::ReportLogWritten(const absl::Status& status) {
  if (status.ok()) return AckWhatIsSaved();
  const int64_t now = clock_.NowSteadyMs();
  mend_at_ms_ = now + kMendEveryMs;
  if (report_log_warned_ms_ != 0 && now - report_log_warned_ms_ < 60'000) return;
  report_log_warned_ms_ = now;
  LOG(WARNING) << "reports are not saved, trying again: " << status.message();
}

void NodeAgent::AckWhatIsSaved() {
  if (ack_waits_ == 0 || !reports_->whole()) return;
  Sent(supervisor_.Ack(std::exchange(ack_waits_, 0)), "ack");
}

}  // namespace spillway::worker
