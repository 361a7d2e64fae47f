#include "worker/supervisor/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/units.h"
#include "worker/supervisor/job_message.h"
#include "worker/supervisor/process_tree.h"
#include "worker/supervisor/tree_use.h"

namespace spillway::supervisor {
namespace {

constexpr int64_t kProgressEveryMs = 200;
constexpr int64_t kKillAgainMs = 1'000;
constexpr int64_t kLookDelayMaxMs = 50;
constexpr int kReadsPerTurn = 4;
constexpr int kMessagesPerTurn = 64;
// More than a pipe or a socket's buffer can hold, so all that the tree wrote; an outsider that was handed the descriptor is cut off.
constexpr int kReadsAtEndMax = 64;
constexpr int kMessagesAtEndMax = 4096;

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

}  // namespace

Attempt::Attempt(AttemptContext* context, frames::Start start, int64_t sequence) : context_(context), start_(std::move(start)), sequence_(sequence) {
  socket_path_ = start_.socket_path.empty() ? absl::StrCat(context_->run_prefix, ".j", sequence_) : start_.socket_path;
  notice_path_ = start_.notice_path.empty() ? absl::StrCat(context_->run_prefix, ".n", sequence_) : start_.notice_path;
}

Attempt::~Attempt() {
  for (int* fd : {&output_fd_, &report_fd_, &status_fd_, &socket_fd_}) CloseFd(*fd);
}

void Attempt::CloseFd(int& fd) {
  if (fd < 0) return;
  context_->loop->Forget(fd);
  close(fd);
  fd = -1;
}

// ---- launch ----

void Attempt::Launch() {
  facts_.started_boottime_ms = context_->clock->NowSteadyMs();
  if (start_.max_duration_ms > 0) timeout_at_ms_ = facts_.started_boottime_ms + start_.max_duration_ms;
  if (const absl::Status status = Prepare(); !status.ok()) FailLaunch(status);
  context_->changed(this);
}

absl::Status Attempt::Prepare() {
  if (!start_.log_path.empty()) {
    ASSIGN_OR_RETURN(log_, LogFile::Open(start_.log_path, {start_.log_bytes_max, true}));
  }
  RETURN_IF_ERROR(OpenSocket());
  unlink(notice_path_.c_str());
  if (context_->cgroups != nullptr) {
    ASSIGN_OR_RETURN(cgroup_, context_->cgroups->Take({start_.memory_bytes, start_.pids_max, start_.cpu_milli}));
  }
  int output[2] = {-1, -1};
  if (log_ != nullptr) {
    if (pipe2(output, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
    output_fd_ = output[0];
    fcntl(output_fd_, F_SETFL, O_NONBLOCK);
  }
  LaunchPlan plan;
  plan.argv = std::move(start_.argv);
  plan.env = std::move(start_.env);
  ComposeEnvironment(plan.env);
  plan.cwd = start_.cwd;
  plan.rlimits = start_.rlimits;
  plan.output_fd = output[1];
  plan.cgroup = cgroup_.get();
  const absl::StatusOr<Launched> launched = supervisor::Launch(plan);
  start_.argv = {plan.argv[0]};  // for messages
  start_.env.clear();
  if (output[1] >= 0) close(output[1]);
  RETURN_IF_ERROR(launched.status());
  child_ = launched->pid;
  report_fd_ = launched->report_fd;
  status_fd_ = launched->status_fd;
  if (cgroup_ != nullptr) main_ = main_shown_ = child_;
  watch_memory_ = start_.memory_bytes > 0 && (cgroup_ == nullptr || !cgroup_->memory_enforced());
  watch_pids_ = start_.pids_max > 0 && (cgroup_ == nullptr || !cgroup_->pids_enforced());
  const int64_t ticks = ProcessStartTicks(child_).value_or(0);
  absl::Status status = context_->journal->Started(ref(), child_, ticks, cgroup_ == nullptr ? "" : cgroup_->path());
  const auto watch = [&](int fd, std::function<void()> read) {
    if (status.ok() && fd >= 0) status = context_->loop->Watch(fd, EPOLLIN, [this, read = std::move(read)](uint32_t) { read(), context_->changed(this); });
  };
  watch(report_fd_, [this] { OnReport(); });
  watch(status_fd_, [this] { OnReaperStatus(); });
  watch(output_fd_, [this] { OnOutput(); });
  watch(socket_fd_, [this] { OnSocket(kMessagesPerTurn); });
  if (!status.ok()) {
    // It may not run unjournaled or unwatched: its end will say so.
    facts_.launch_error = std::string(status.message());
    KillTree();
  }
  return absl::OkStatus();
}

absl::Status Attempt::OpenSocket() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path) return absl::InvalidArgumentError(absl::StrCat("socket path longer than 107 bytes: ", socket_path_));
  memcpy(address.sun_path, socket_path_.c_str(), socket_path_.size() + 1);
  socket_fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_fd_ < 0) return ErrnoStatus(errno, "cannot make a socket");
  unlink(socket_path_.c_str());
  if (bind(socket_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return ErrnoStatus(errno, absl::StrCat("cannot bind ", socket_path_));
  return absl::OkStatus();
}

void Attempt::ComposeEnvironment(std::vector<std::string>& env) const {
  const auto named = [](const std::string& pair, absl::string_view name) { return absl::StartsWith(pair, absl::StrCat(name, "=")); };
  env.erase(
      std::remove_if(env.begin(), env.end(),
                     [&](const std::string& pair) { return named(pair, "SPILLWAY_SOCKET") || named(pair, "SPILLWAY_NOTICE_FILE") || named(pair, kMarkName); }),
      env.end());
  if (std::none_of(env.begin(), env.end(), [&](const std::string& pair) { return named(pair, "PATH"); })) {
    env.push_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  }
  env.push_back(absl::StrCat("SPILLWAY_SOCKET=", socket_path_));
  env.push_back(absl::StrCat("SPILLWAY_NOTICE_FILE=", notice_path_));
  env.push_back(absl::StrCat(kMarkName, "=", context_->home_id, "/", key()));
}

// Nothing runs: what was prepared is taken back, and the end is told.
void Attempt::FailLaunch(const absl::Status& status) {
  facts_.launch_error = std::string(status.message());
  if (log_ != nullptr) log_->Note(absl::StrCat("not started: ", facts_.launch_error));
  main_gone_ = true;
  if (const absl::Status journaled = context_->journal->Started(ref(), 0, 0, ""); !journaled.ok()) LOG(ERROR) << journaled.ToString();
  TreeGone();
}

// End of file: the exec closed the pipe. Bytes: why it could not.
void Attempt::OnReport() {
  if (report_fd_ < 0) return;
  LaunchFailure failure;
  const ssize_t n = read(report_fd_, &failure, sizeof failure);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  CloseFd(report_fd_);
  if (n == static_cast<ssize_t>(sizeof failure)) {
    facts_.launch_errno = failure.error;
    facts_.launch_error = Describe(failure, start_, &facts_.launch_error_is_jobs);
    if (log_ != nullptr) log_->Note(absl::StrCat("not started: ", facts_.launch_error));
  } else {
    runs_ = true;
    MaybeStarted();
  }
}

void Attempt::MaybeStarted() {
  if (!runs_ || started_sent_ || main_shown_ <= 0 || !facts_.launch_error.empty()) return;
  started_sent_ = true;
  frames::Started started;
  started.pid = main_shown_;
  started.start_ticks = ProcessStartTicks(main_shown_).value_or(0);
  if (cgroup_ != nullptr) {
    started.cgroup = cgroup_->path();
    started.memory_enforced = cgroup_->memory_enforced();
    started.pids_enforced = cgroup_->pids_enforced();
  }
  Emit(started);
}

void Attempt::OnReaperStatus() {
  ReaperRecord record;
  while (status_fd_ >= 0) {
    const ssize_t n = read(status_fd_, &record, sizeof record);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n != static_cast<ssize_t>(sizeof record)) {
      CloseFd(status_fd_);  // the reaper's end follows as our child's
      return;
    }
    if (record.kind == ReaperRecord::kMain) {
      main_ = main_shown_ = record.value;
      const absl::Status status = context_->journal->MainProcess(key(), main_, ProcessStartTicks(main_).value_or(0));
      if (!status.ok()) LOG(ERROR) << status.ToString();
      MaybeStarted();
    } else if (record.kind == ReaperRecord::kEnded) {
      MainEnded(record.value, record.usage);
    } else if (record.kind == ReaperRecord::kGone) {
      facts_.leftovers_killed = record.value;
      clean_looks_ = 2;  // the reaper's word: it has no child left
    }
  }
}

// ---- what the job writes ----

// True when there were bytes.
bool Attempt::ReadOutput() {
  static char buffer[64 << 10];
  if (output_fd_ < 0) return false;
  const ssize_t n = read(output_fd_, buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  if (n <= 0) {
    CloseFd(output_fd_);
    return false;
  }
  log_->Append(absl::string_view(buffer, static_cast<size_t>(n)));
  return true;
}

void Attempt::OnOutput() {
  for (int i = 0; i < kReadsPerTurn && ReadOutput(); ++i) {
  }
}

void Attempt::OnSocket(int messages_max) {
  static char buffer[limits::kSocketMessageBytesMax + 1];
  for (int i = 0; i < messages_max && socket_fd_ >= 0; ++i) {
    const ssize_t n = recv(socket_fd_, buffer, sizeof buffer, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0) return;
    // MSG_TRUNC gives the whole length: what was cut off is too long and refused as that.
    OnDatagram(absl::string_view(buffer, std::min(static_cast<size_t>(n), sizeof buffer)));
  }
}

void Attempt::OnDatagram(absl::string_view datagram) {
  const absl::StatusOr<JobMessage> message = ParseJobMessage(datagram);
  if (!message.ok()) {
    if (facts_.garbage_messages++ == 0 && log_ != nullptr) {
      log_->Note(absl::StrCat("ignored: ", message.status().message(), " (further ones are only counted)"));
    }
    return;
  }
  if (const auto* progress = std::get_if<frames::Progress>(&*message)) {
    progress_ = *progress;
    facts_.has_progress = true;
    facts_.last_step = progress->step;
    facts_.last_total = progress->total;
    progress_waits_ = true;
    if (context_->clock->NowSteadyMs() >= progress_at_ms_) PushProgress();
  } else if (const auto* checkpoint = std::get_if<frames::Checkpoint>(&*message)) {
    ++facts_.checkpoints;
    facts_.last_checkpoint_step = checkpoint->step;
    Emit(*checkpoint);
  } else {
    facts_.said_completed = true;
  }
}

void Attempt::PushProgress() {
  progress_waits_ = false;
  progress_at_ms_ = context_->clock->NowSteadyMs() + kProgressEveryMs;
  Emit(progress_);
}

void Attempt::Emit(decltype(frames::Event::what) what) { context_->events->Push(frames::Event{0, ref(), context_->clock->NowSteadyMs(), std::move(what)}); }

// ---- stopping ----

// The first cause stays, except that a mere checkpoint request of the lease, or one withdrawn, gives way.
void Attempt::RecordStop(const StopOrder& order) {
  if (facts_.stop_cause != EndCause::kUnspecified && !lease_requested_ && !facts_.stop_withdrawn) return;
  lease_requested_ = false;
  facts_.stop_withdrawn = false;
  facts_.stop_cause = order.cause;
  facts_.stop_initiator = order.initiator;
  facts_.stop_detail = order.detail;
}

bool Attempt::WriteNotice(const std::string& reason, int64_t kill_at_ms) {
  if (notice_shown_ms_ == kill_at_ms) return true;
  const int64_t left_ms = std::max<int64_t>(0, kill_at_ms - context_->clock->NowSteadyMs());
  const nlohmann::json notice = {
      {"reason", reason}, {"deadline", FormatUtcMs(context_->clock->NowUtcMs() + left_ms)}, {"seconds_left", static_cast<double>(left_ms) / 1000}};
  const absl::Status status = WriteFileAtomically(notice_path_, notice.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!status.ok()) {
    LOG(ERROR) << key() << ": no notice file: " << status.ToString();
    if (log_ != nullptr) log_->Note(absl::StrCat("the notice file could not be written: ", status.message()));
  }
  if (status.ok()) notice_shown_ms_ = kill_at_ms;
  return status.ok();
}

void Attempt::ShowNotice(const StopOrder& order) {
  if (main_gone_ || ended_) return;
  RecordStop(order);
  if (WriteNotice(order.reason, kill_at_ms_ == 0 ? order.kill_at_ms : std::min(kill_at_ms_, order.kill_at_ms))) facts_.stop_delivered = true;
}

void Attempt::RequestLeaseCheckpoint(const StopOrder& order) {
  if (main_gone_ || ended_ || lease_requested_ || signalled_) return;
  ShowNotice(order);
  lease_requested_ = true;
  if (log_ != nullptr) log_->Note("the node's lease runs out: save now");
}

void Attempt::WithdrawLeaseRequest() {
  if (!lease_requested_ || signalled_ || ended_) return;
  lease_requested_ = false;
  facts_.stop_withdrawn = true;
  notice_shown_ms_ = 0;
  unlink(notice_path_.c_str());
  if (log_ != nullptr) log_->Note("the lease was renewed: go on");
}

void Attempt::Stop(const StopOrder& order) {
  if (main_gone_ || ended_) return;
  const int64_t now = context_->clock->NowSteadyMs();
  if (order.kill_at_ms <= now) {
    Kill(order);
    return;
  }
  RecordStop(order);
  const bool closer = kill_at_ms_ == 0 || order.kill_at_ms < kill_at_ms_;
  if (closer) {
    kill_at_ms_ = order.kill_at_ms;
    if (WriteNotice(order.reason, kill_at_ms_)) facts_.stop_delivered = true;
  }
  if (!signalled_) {
    if (log_ != nullptr) {
      log_->Note(absl::StrCat("stopping (", order.reason, order.detail.empty() ? "" : ": ", order.detail,
                              "): ", SignalName(static_cast<int>(start_.stop_signal)), " now, SIGKILL in ", FormatDurationMs(kill_at_ms_ - now)));
    }
    SendStopSignal();
    frames::Stopping stopping;
    stopping.cause = facts_.stop_cause;
    stopping.initiator = facts_.stop_initiator;
    stopping.reason = order.reason;
    stopping.kill_at_boottime_ms = kill_at_ms_;
    Emit(stopping);
  }
  context_->changed(this);
}

// To the main process's group, and to the other groups of its session.
void Attempt::SendStopSignal() {
  signalled_ = true;
  facts_.stop_delivered = true;
  const int signal = static_cast<int>(start_.stop_signal);
  if (cgroup_ == nullptr) {
    if (child_ > 0) TellReaper(child_, signal);
    return;
  }
  if (main_ <= 0) return;
  // Before its setsid the child has no group of its own yet.
  if (kill(-main_, signal) != 0) kill(main_, signal);
  for (const int64_t pid : cgroup_->Processes()) {
    const auto process = static_cast<pid_t>(pid);
    if (process != main_ && getpgid(process) != main_ && getsid(process) == main_) kill(process, signal);
  }
}

void Attempt::Kill(const StopOrder& order) {
  if (main_gone_ || ended_ || facts_.killed) return;
  RecordStop(order);
  facts_.stop_delivered = true;
  if (log_ != nullptr) log_->Note(absl::StrCat("killed (", order.reason, order.detail.empty() ? "" : ": ", order.detail, ")"));
  KillTree();
  context_->changed(this);
}

void Attempt::KillTree() {
  if (ended_) return;
  if (!main_gone_) facts_.killed = true;
  if (cgroup_ != nullptr) {
    cgroup_->Kill();
  } else if (child_ > 0) {
    TellReaper(child_, kReaperKillTree);
  }
  kill_at_ms_ = 0;
  timeout_at_ms_ = 0;
  if (look_at_ms_ == 0) look_at_ms_ = context_->clock->NowSteadyMs() + kKillAgainMs;
}

// ---- limits that only we hold ----

void Attempt::LookAtUse(const std::function<const std::map<pid_t, pid_t>&()>& parents) {
  if (!watched() || main_gone_ || ended_ || facts_.killed) return;
  std::set<pid_t> tree;
  if (cgroup_ != nullptr) {
    for (const int64_t pid : cgroup_->Processes()) tree.insert(static_cast<pid_t>(pid));
  } else if (child_ > 0) {
    tree = DescendantsOf(child_, parents());
  }
  const TreeUse use = UseOf(tree, watch_memory_ ? start_.memory_bytes : 0);
  if (watch_memory_ && use.memory_bytes > start_.memory_bytes) {
    // The tree is ended as the kernel would end it: no stop is recorded, the facts say why.
    facts_.out_of_memory = true;
    if (log_ != nullptr) log_->Note(absl::StrCat("it uses ", FormatBytes(use.memory_bytes), " of memory and is killed"));
    KillTree();
  } else if (watch_pids_ && use.processes > start_.pids_max) {
    Kill({EndCause::kUserError, Initiator::kJob, "processes", absl::StrCat("it had ", use.processes, " processes, more than its ", start_.pids_max), 0});
  }
}

// ---- the end ----

void Attempt::MainEnded(int status, const rusage& usage) {
  if (main_gone_) return;
  main_gone_ = true;
  main_ = -1;
  facts_.exited = WIFEXITED(status);
  facts_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  facts_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const auto ms = [](const timeval& t) { return static_cast<int64_t>(t.tv_sec) * 1000 + t.tv_usec / 1000; };
  facts_.cpu_ms = ms(usage.ru_utime) + ms(usage.ru_stime);
  facts_.memory_peak_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
  kill_at_ms_ = 0;
  timeout_at_ms_ = 0;
  OnReport();
}

void Attempt::OnChildExit(int status, const rusage& usage) {
  child_ = -1;
  if (cgroup_ != nullptr) {
    MainEnded(status, usage);
    LookForTree();
  } else {
    OnReport();
    OnReaperStatus();
    if (clean_looks_ < 2) {
      // Something killed the reaper. What it held is ours now (we adopt it) or marked.
      sweeping_ = true;
      if (!main_gone_) MainEnded(SIGKILL, usage);
      if (facts_.launch_error.empty()) LOG(WARNING) << key() << ": its reaper was killed; looking for what it held";
    }
    LookForTree();
  }
  context_->changed(this);
}

void Attempt::LookForTree() {
  if (!main_gone_ || child_ > 0 || ended_) return;
  if (cgroup_ != nullptr) {
    if (!cgroup_->Populated()) return TreeGone();
    if (look_delay_ms_ == 1) facts_.leftovers_killed = static_cast<int64_t>(cgroup_->Processes().size());
    cgroup_->Kill();
  } else if (sweeping_) {
    std::set<pid_t> found = MarkedWith(absl::StrCat(context_->home_id, "/", key()));
    found.merge(context_->strays());
    for (const pid_t pid : found) kill(pid, SIGKILL);
    facts_.leftovers_killed += static_cast<int64_t>(found.size());
    clean_looks_ = found.empty() ? clean_looks_ + 1 : 0;
  }
  if (cgroup_ == nullptr && clean_looks_ >= 2) return TreeGone();
  look_at_ms_ = context_->clock->NowSteadyMs() + look_delay_ms_;
  look_delay_ms_ = std::min(look_delay_ms_ * 2, kLookDelayMaxMs);
}

void RemoveSecrets(const std::string& secrets_root, AttemptId attempt) {
  const absl::Status gone = RemoveFolderOfFiles(JoinPath(secrets_root, attempt.ToString()), static_cast<int64_t>(limits::kSecretsMax));
  if (!gone.ok()) LOG(WARNING) << gone.message() << "; the worker tries again";
}

void Attempt::TreeGone() {
  if (ended_) return;
  // Nobody of the tree can write any more: what is in the pipe and the socket is all there is.
  for (int i = 0; i < kReadsAtEndMax && ReadOutput(); ++i) {
  }
  OnSocket(kMessagesAtEndMax);
  if (progress_waits_) PushProgress();
  ended_ = true;
  kill_at_ms_ = timeout_at_ms_ = look_at_ms_ = 0;
  for (int* fd : {&output_fd_, &report_fd_, &status_fd_, &socket_fd_}) CloseFd(*fd);
  unlink(socket_path_.c_str());
  unlink(notice_path_.c_str());
  RemoveSecrets(context_->secrets_root, start_.attempt.id);
  const int64_t now = context_->clock->NowSteadyMs();
  facts_.ended_boottime_ms = now;
  const int64_t lease_end = context_->lease_end_ms();
  facts_.lease_lapsed = start_.lease_bound && lease_end > 0 && now >= lease_end && facts_.launch_error.empty();
  if (cgroup_ != nullptr) {
    facts_.out_of_memory = facts_.out_of_memory || cgroup_->OutOfMemoryKills() > 0;
    facts_.forks_refused = cgroup_->ForksRefused();
    if (const int64_t peak = cgroup_->MemoryPeakBytes(); peak > 0) facts_.memory_peak_bytes = peak;
    context_->cgroups->GiveBack(std::move(cgroup_));
  }
  if (log_ != nullptr) {
    if (facts_.out_of_memory) log_->Note(absl::StrCat("out of memory: the limit is ", FormatBytes(start_.memory_bytes)));
    if (facts_.forks_refused > 0) log_->Note(absl::StrCat("it asked for more than its ", start_.pids_max, " processes and threads and was refused"));
    if (facts_.leftovers_killed > 0) log_->Note(absl::StrCat(facts_.leftovers_killed, " processes outlived the main process and were killed"));
    log_->Close();
    facts_.log_bytes = log_->end_offset();
    facts_.log_error = log_->error();
    log_.reset();
  }
  if (const absl::Status status = context_->journal->Ended(ref(), facts_, now); !status.ok()) LOG(ERROR) << status.ToString();
  Emit(frames::Exited{facts_});
}

// ---- time ----

void Attempt::OnTime(int64_t now_ms) {
  if (progress_waits_ && now_ms >= progress_at_ms_) PushProgress();
  if (timeout_at_ms_ != 0 && now_ms >= timeout_at_ms_) {
    timeout_at_ms_ = 0;
    Stop({EndCause::kTimeout, Initiator::kJob, "timeout", absl::StrCat("ran for its max_duration of ", FormatDurationMs(start_.max_duration_ms)),
          now_ms + start_.grace_ms});
  }
  if (kill_at_ms_ != 0 && now_ms >= kill_at_ms_) {
    if (log_ != nullptr) log_->Note("its grace is over: SIGKILL");
    KillTree();
  }
  if (look_at_ms_ != 0 && now_ms >= look_at_ms_) {
    look_at_ms_ = 0;
    if (main_gone_ && child_ <= 0) {
      LookForTree();
    } else {
      KillTree();
    }
  }
  context_->changed(this);
}

int64_t Attempt::NextDueMs() const {
  int64_t due = std::numeric_limits<int64_t>::max();
  for (const int64_t at : {kill_at_ms_, timeout_at_ms_, look_at_ms_, progress_waits_ ? progress_at_ms_ : 0}) {
    if (at != 0) due = std::min(due, at);
  }
  return due;
}

frames::InventoryItem Attempt::Item() const {
  frames::InventoryItem item;
  item.attempt = ref();
  item.state = ended_                        ? AttemptState::kEnded
               : signalled_ || facts_.killed ? AttemptState::kStopping
               : started_sent_               ? AttemptState::kRunning
                                             : AttemptState::kStarting;
  item.pid = std::max<pid_t>(main_shown_, 0);
  item.started_boottime_ms = facts_.started_boottime_ms;
  item.progress = progress_;
  item.checkpoints = facts_.checkpoints;
  item.stop_cause = facts_.stop_cause;
  item.kill_at_boottime_ms = kill_at_ms_;
  item.log_path = start_.log_path;
  item.log_bytes = log_ != nullptr ? log_->end_offset() : facts_.log_bytes;
  item.tag = start_.tag;
  return item;
}

}  // namespace spillway::supervisor
