#include "playground/host.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/process_lock.h"
#include "base/status_macros.h"

namespace spillway::playground {
namespace {

constexpr int64_t kKillHardAfterMs = 5'000;
constexpr int64_t kRetryMs = 200;
constexpr int64_t kNoteAliveEveryMs = 1'000;
constexpr int64_t kCutConsolesEveryMs = 30'000;
constexpr int64_t kUtcDriftMs = 50;

}  // namespace

std::string BootId() {
  absl::StatusOr<std::string> id = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  if (!id.ok()) return "unknown";
  return std::string(absl::StripAsciiWhitespace(*id));
}

absl::StatusOr<std::unique_ptr<Host>> Host::Open(Options options, Clock* clock, MachineRunner* runner) {
  RETURN_IF_ERROR(MakeDirectories(options.home, 0700));
  ASSIGN_OR_RETURN(const int lock_fd, LockFile(JoinPath(options.home, "playground.lock"), absl::StrCat("another playground is running in ", options.home)));
  RETURN_IF_ERROR(runner->Prepare());
  Cloud cloud(options.config);
  ASSIGN_OR_RETURN(Ledger ledger, Ledger::Open(JoinPath(options.home, "ledger.jsonl"), &cloud));
  if (const std::optional<Opened>& opened = cloud.opened()) {
    if (opened->seed != options.config.seed || opened->scale != options.config.scale) {
      return absl::FailedPreconditionError(absl::StrCat(options.home, " was opened with seed ", opened->seed, " and scale ", opened->scale, ", not ",
                                                        options.config.seed, " and ", options.config.scale,
                                                        ": bills already written would no longer be right; use another home"));
    }
  }
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return ErrnoStatus(errno, "eventfd");
  std::unique_ptr<Host> host(new Host(std::move(options), clock, runner, std::move(cloud), std::move(ledger), lock_fd, wake_fd));
  MutexLock lock(&host->mutex_);
  RETURN_IF_ERROR(host->Anchor());
  host->Recover();
  return host;
}

Host::Host(Options options, Clock* clock, MachineRunner* runner, Cloud cloud, Ledger ledger, int lock_fd, int wake_fd)
    : options_(std::move(options)),
      clock_(clock),
      runner_(runner),
      lock_fd_(lock_fd),
      wake_fd_(wake_fd),
      cloud_(std::move(cloud)),
      ledger_(std::move(ledger)) {}

Host::~Host() {
  Stop();
  for (const auto& [instance, fd] : watched_) close(fd);
  close(wake_fd_);
  close(lock_fd_);
}

// The time line goes on where it was: by the steady clock within one boot, by the wall clock (never backwards) across boots.
absl::Status Host::Anchor() {
  const std::optional<Opened>& before = cloud_.opened();
  if (before.has_value() && before->boot_id == options_.boot_id) return absl::OkStatus();
  Opened opened;
  opened.cloud_id = before.has_value() ? before->cloud_id : NewUuid();
  opened.boot_id = options_.boot_id;
  opened.seed = options_.config.seed;
  opened.scale = options_.config.scale;
  const int64_t at_ms = before.has_value() ? std::max(cloud_.last_event_ms(), clock_->NowUtcMs() - before->utc_ms) : 0;
  opened.steady_ms = clock_->NowSteadyMs() - at_ms;
  opened.utc_ms = clock_->NowUtcMs() - at_ms;
  const Event event{at_ms, opened};
  RETURN_IF_ERROR(ledger_.Append({event}));
  cloud_.Apply(event);
  return absl::OkStatus();
}

void Host::Recover() {
  const int64_t now_ms = NowMs();
  cloud_.RestartLeases(now_ms);
  int64_t last_alive_ms = cloud_.last_event_ms();
  if (absl::StatusOr<std::string> noted = ReadFile(JoinPath(options_.home, "alive"), 4096); noted.ok()) {
    int64_t noted_ms = 0;
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(*noted), &noted_ms)) last_alive_ms = std::max(last_alive_ms, noted_ms);
  }
  std::vector<Event> events;
  int adopted = 0;
  for (const auto& [number, instance] : cloud_.instances()) {
    if (instance.state == InstanceState::kEnded) continue;
    absl::StatusOr<int> fd = instance.pid == 0 ? absl::NotFoundError("never started") : runner_->Watch(static_cast<pid_t>(instance.pid), instance.start_ticks);
    if (fd.ok()) {
      watched_[number] = *fd;
      ++adopted;
      continue;
    }
    // A machine started just before the last host died is not in the ledger, and a monitor may have been killed alone: what they left goes.
    runner_->KillLeftovers(MarkerOf(instance));
    if (instance.pid == 0) continue;
    const std::optional<MachineEnd> end = runner_->EndOf(instance.id);
    const int64_t died_ms = end.has_value() ? end->steady_ms - cloud_.opened()->steady_ms : std::min(last_alive_ms, now_ms);
    const std::vector<Event> gone =
        cloud_.ProcessGone(number, died_ms, end.has_value() ? absl::StrCat("exit status ", end->exit_status) : "found dead", now_ms);
    events.insert(events.end(), gone.begin(), gone.end());
  }
  Commit(events);
  if (adopted > 0) LOG(INFO) << "adopted " << adopted << " running instances";
}

void Host::Start(std::function<std::string(const std::string& id)> metadata_url) {
  metadata_url_ = std::move(metadata_url);
  thread_ = std::thread([this] { Loop(); });
}

void Host::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

absl::Status Host::TerminateAll(int64_t timeout_ms) {
  const int64_t deadline_ms = clock_->NowSteadyMs() + timeout_ms;
  MutexLock lock(&mutex_);
  std::vector<Event> events;
  for (const auto& [number, instance] : cloud_.instances()) {
    absl::StatusOr<std::vector<Event>> ending = cloud_.Terminate(number, NowMs());
    if (ending.ok()) events.insert(events.end(), ending->begin(), ending->end());
  }
  Commit(events);
  Wake();
  auto left = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cloud_.WhatIsOwed(NowMs()).size(); };
  while (left() > 0) {
    const int64_t wait_ms = deadline_ms - clock_->NowSteadyMs();
    if (wait_ms <= 0) return absl::DeadlineExceededError(absl::StrCat(left(), " instances are not gone yet"));
    changed_.WaitForMs(&mutex_, wait_ms);
  }
  return absl::OkStatus();
}

absl::StatusOr<Instance> Host::Create(const CreateRequest& request) {
  MutexLock lock(&mutex_);
  if (!TakeRequestToken()) return absl::UnavailableError("too many creations: try again a little later");
  ASSIGN_OR_RETURN(const Cloud::CreateOutcome outcome, cloud_.Create(request, NowMs()));
  Commit(outcome.events);
  Wake();
  return *cloud_.Find(outcome.instance);
}

absl::StatusOr<Instance> Host::Terminate(const std::string& id, int64_t wait_ms) {
  const int64_t deadline_ms = clock_->NowSteadyMs() + wait_ms;
  MutexLock lock(&mutex_);
  const Instance* instance = FindOrNull(id);
  if (instance == nullptr) return absl::NotFoundError(absl::StrCat("no instance ", id));
  const int64_t number = instance->number;
  ASSIGN_OR_RETURN(const std::vector<Event> events, cloud_.Terminate(number, NowMs()));
  Commit(events);
  Wake();
  for (;;) {
    instance = cloud_.Find(number);
    if (instance == nullptr) return absl::NotFoundError(absl::StrCat("instance ", id, " is forgotten"));
    const int64_t left_ms = deadline_ms - clock_->NowSteadyMs();
    if (instance->state == InstanceState::kEnded || left_ms <= 0 || stopping_) return *instance;
    changed_.WaitForMs(&mutex_, left_ms);
  }
}

absl::StatusOr<Instance> Host::OrderReclaim(const std::string& id, std::optional<int64_t> notice_ms) {
  MutexLock lock(&mutex_);
  const Instance* instance = FindOrNull(id);
  if (instance == nullptr) return absl::NotFoundError(absl::StrCat("no instance ", id));
  const Offer* offer = cloud_.config().Find(instance->request.offer);
  const int64_t usual_ms = offer == nullptr ? 0 : offer->notice_ms;
  const int64_t now_ms = NowMs();
  ASSIGN_OR_RETURN(const std::vector<Event> events, cloud_.OrderReclaim(instance->number, notice_ms.value_or(usual_ms), now_ms));
  Commit(events);
  Commit(cloud_.Due(now_ms));  // the announcement, or the end itself, is true when this returns
  Wake();
  return *instance;
}

absl::Status Host::KeepAlive(const std::string& id) {
  MutexLock lock(&mutex_);
  const Instance* instance = FindOrNull(id);
  if (instance == nullptr) return absl::NotFoundError(absl::StrCat("no instance ", id));
  return cloud_.KeepAlive(instance->number, NowMs());
}

int64_t Host::NowMs() { return clock_->NowSteadyMs() - cloud_.opened()->steady_ms; }

int64_t Host::UtcAtZeroMs() {
  const int64_t zero_ms = clock_->NowUtcMs() - NowMs();
  if (!utc_at_zero_ms_.has_value() || std::abs(*utc_at_zero_ms_ - zero_ms) > kUtcDriftMs) utc_at_zero_ms_ = zero_ms;
  return *utc_at_zero_ms_;
}

void Host::Commit(const std::vector<Event>& events) {
  if (events.empty()) return;
  const absl::Status status = ledger_.Append(events);
  CHECK(status.ok()) << "the ledger cannot be written: " << status.message();
  for (const Event& event : events) cloud_.Apply(event);
  changed_.SignalAll();
}

bool Host::TakeRequestToken() {
  const CloudConfig& config = cloud_.config();
  if (config.requests_per_second == 0) return true;
  const int64_t now_ms = NowMs();
  const int64_t full = std::max<int64_t>(1, config.request_burst) * 1'000;
  const int64_t since_ms = request_tokens_at_ms_ == 0 ? INT32_MAX : std::min<int64_t>(now_ms - request_tokens_at_ms_, INT32_MAX);
  request_tokens_milli_ = std::min(full, request_tokens_milli_ + since_ms * config.requests_per_second);
  request_tokens_at_ms_ = now_ms;
  if (request_tokens_milli_ < 1'000) return false;
  request_tokens_milli_ -= 1'000;
  return true;
}

std::string Host::MarkerOf(const Instance& instance) const { return absl::StrCat(cloud_.opened()->cloud_id, "/", instance.id); }

void Host::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));  // full means awake already
}

void Host::Loop() {
  for (;;) {
    std::vector<Owed> owed;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      Commit(cloud_.Due(NowMs()));
      owed = cloud_.WhatIsOwed(NowMs());
    }
    bool changed = false;
    for (const Owed& one : owed) changed |= Settle(one);
    NoteAlive();
    if (!changed) WaitForNews();
  }
}

bool Host::Settle(const Owed& owed) {
  switch (owed.kind) {
    case Owed::Kind::kStart: return StartMachine(owed.instance);
    case Owed::Kind::kKill: return KillMachine(owed.instance);
    case Owed::Kind::kBury: return Bury(owed.instance);
  }
  return false;
}

bool Host::StartMachine(int64_t number) {
  Instance instance;
  std::string marker;
  {
    MutexLock lock(&mutex_);
    const Instance* found = cloud_.Find(number);
    if (found == nullptr || found->state != InstanceState::kBooting) return false;
    instance = *found;
    marker = MarkerOf(instance);
  }
  absl::StatusOr<MachineRunner::Machine> machine = runner_->Start(instance, metadata_url_(instance.id), marker);
  MutexLock lock(&mutex_);
  if (!machine.ok()) {
    LOG(WARNING) << instance.id << " did not start: " << machine.status().message();
    Commit(cloud_.StartFailed(number, machine.status().message(), NowMs()));
    return true;
  }
  Commit(cloud_.ProcessStarted(number, machine->pid, machine->start_ticks, NowMs()));
  absl::StatusOr<int> fd = runner_->Watch(machine->pid, machine->start_ticks);
  if (fd.ok()) {
    watched_[number] = *fd;
  } else {
    runner_->Reap(machine->pid);
    const std::optional<MachineEnd> end = runner_->EndOf(instance.id);
    Commit(cloud_.ProcessGone(number, NowMs(), end.has_value() ? absl::StrCat("exit status ", end->exit_status) : "ended at once", NowMs()));
  }
  return true;
}

bool Host::KillMachine(int64_t number) {
  auto watched = watched_.find(number);
  if (watched == watched_.end()) return Bury(number);  // not watched means proven dead: every living machine is, from its start or adoption
  const int64_t now_ms = clock_->NowSteadyMs();
  auto [sent, first] = kill_sent_ms_.emplace(number, now_ms);
  if (first) runner_->Kill(watched->second, /*hard=*/false);
  if (now_ms - sent->second >= kKillHardAfterMs) runner_->Kill(watched->second, /*hard=*/true);
  return false;
}

bool Host::Bury(int64_t number) {
  std::string id, marker;
  bool started = false;
  {
    MutexLock lock(&mutex_);
    const Instance* instance = cloud_.Find(number);
    if (instance == nullptr || instance->state != InstanceState::kStopping) return false;
    id = instance->id;
    marker = MarkerOf(*instance);
    started = instance->pid != 0;
  }
  // A monitor that wrote no end was itself killed; without a namespace its children may have outlived it.
  if (started && !runner_->EndOf(id).has_value()) runner_->KillLeftovers(marker);
  if (absl::Status buried = runner_->Bury(id); !buried.ok()) {
    LOG(WARNING) << id << ": cannot delete its disk, trying again: " << buried.message();
    return false;
  }
  kill_sent_ms_.erase(number);
  MutexLock lock(&mutex_);
  Commit(cloud_.Buried(number, NowMs()));
  return true;
}

// Until a machine ends, somebody calls, or the next moment comes at which time alone changes something.
void Host::WaitForNews() {
  std::vector<pollfd> fds{{wake_fd_, POLLIN, 0}};
  std::vector<int64_t> numbers{0};
  for (const auto& [number, fd] : watched_) {
    fds.push_back({fd, POLLIN, 0});
    numbers.push_back(number);
  }
  int64_t timeout_ms = kCutConsolesEveryMs;
  {
    MutexLock lock(&mutex_);
    const int64_t now_ms = NowMs();
    if (const std::optional<int64_t> next = cloud_.NextDeadlineMs(now_ms)) timeout_ms = std::min(timeout_ms, *next - now_ms);
    if (!cloud_.WhatIsOwed(now_ms).empty()) timeout_ms = std::min(timeout_ms, kRetryMs);
  }
  if (!watched_.empty()) timeout_ms = std::min(timeout_ms, kNoteAliveEveryMs);
  if (poll(fds.data(), fds.size(), static_cast<int>(timeout_ms)) <= 0) return;
  uint64_t drained = 0;
  [[maybe_unused]] const ssize_t n = read(wake_fd_, &drained, sizeof(drained));
  for (size_t i = 1; i < fds.size(); ++i) {
    if (fds[i].revents != 0) OnMachineEnded(numbers[i]);
  }
}

void Host::OnMachineEnded(int64_t number) {
  close(watched_[number]);
  watched_.erase(number);
  MutexLock lock(&mutex_);
  const Instance* instance = cloud_.Find(number);
  if (instance == nullptr) return;
  runner_->Reap(static_cast<pid_t>(instance->pid));
  const std::optional<MachineEnd> end = runner_->EndOf(instance->id);
  const int64_t died_ms = end.has_value() ? end->steady_ms - cloud_.opened()->steady_ms : NowMs();
  Commit(cloud_.ProcessGone(number, died_ms, end.has_value() ? absl::StrCat("exit status ", end->exit_status) : "killed", NowMs()));
}

// Where no better word is left of when a machine died, it was alive at least until here.
void Host::NoteAlive() {
  const int64_t steady_ms = clock_->NowSteadyMs();
  if (!watched_.empty() && steady_ms - alive_noted_ms_ >= kNoteAliveEveryMs) {
    alive_noted_ms_ = steady_ms;
    int64_t now_ms = 0;
    {
      MutexLock lock(&mutex_);
      now_ms = NowMs();
    }
    const absl::Status status = WriteFileAtomically(JoinPath(options_.home, "alive"), absl::StrCat(now_ms, "\n"), 0600);
    if (!status.ok()) LOG(WARNING) << status.message();
  }
  if (steady_ms - consoles_cut_ms_ >= kCutConsolesEveryMs) {
    consoles_cut_ms_ = steady_ms;
    runner_->CutConsoles();
  }
}

}  // namespace spillway::playground
