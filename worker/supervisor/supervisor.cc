#include "worker/supervisor/supervisor.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/supervisor/process_tree.h"
#include "worker/supervisor/tree_use.h"

namespace spillway::supervisor {
namespace {

constexpr size_t kInventoryBytes = 256 << 10;
constexpr size_t kReasonBytesMax = 64;
constexpr char kBuild[] = "0.1.0";

// Text of a peer goes into logs, notice files and events: without control characters, and bounded.
std::string Word(absl::string_view text) { return Printable(text, kReasonBytesMax); }
std::string Detail(absl::string_view text) { return Printable(text, frames::kDetailBytesMax); }

StopOrder LeaseOrder(const Lease& lease, absl::string_view detail) {
  return {EndCause::kFenced, Initiator::kNode, "lease", std::string(detail), lease.kill_ms()};
}

}  // namespace

Supervisor::Supervisor(SupervisorParts parts) : boot_id_(NewUuid()), reaper_because_(std::move(parts.reaper_because)) {
  context_.loop = parts.loop;
  context_.events = parts.events;
  context_.journal = parts.journal;
  context_.cgroups = parts.cgroups;
  context_.clock = parts.clock;
  context_.home_id = std::move(parts.home_id);
  context_.run_prefix = std::move(parts.run_prefix);
  context_.secrets_root = std::move(parts.secrets_root);
  context_.changed = [this](Attempt* attempt) { Changed(attempt); };
  context_.strays = [this] { return Strays(); };
  context_.lease_end_ms = [this] { return lease_.end_ms(); };
}

void Supervisor::Adopt(const JournalContent& journal) {
  for (const JournalEntry& entry : journal.entries) {
    frames::ExitFacts facts;
    if (entry.exited) {
      facts = std::get<frames::Exited>(entry.exited->what).facts;
    } else {
      facts.supervisor_lost = true;
      facts.ended_boottime_ms = context_.clock->NowSteadyMs();
      const absl::Status status = context_.journal->Ended(entry.attempt, facts, facts.ended_boottime_ms);
      if (!status.ok()) LOG(ERROR) << status.ToString();
      LOG(WARNING) << entry.attempt.key << ": lost with the supervisor before this one";
    }
    RemoveSecrets(context_.secrets_root, entry.attempt.id);
    frames::InventoryItem item;
    item.attempt = entry.attempt;
    item.state = AttemptState::kEnded;
    item.started_boottime_ms = facts.started_boottime_ms;
    item.progress.step = facts.last_step;
    item.progress.total = facts.last_total;
    item.checkpoints = facts.checkpoints;
    item.stop_cause = facts.stop_cause;
    item.log_bytes = facts.log_bytes;
    adopted_[entry.attempt.key] = std::move(item);
    context_.events->Push(frames::Event{0, entry.attempt, facts.ended_boottime_ms, frames::Exited{facts}});
  }
}

// ---- commands ----

absl::Status Supervisor::Handle(frames::ToSupervisor command) {
  if (auto* start = std::get_if<frames::Start>(&command.what)) return Start(std::move(*start));
  if (const auto* renew = std::get_if<frames::Renew>(&command.what)) {
    Renew(*renew);
    return absl::OkStatus();
  }
  if (const auto* notice = std::get_if<frames::Notice>(&command.what)) return Notice(*notice);
  if (const auto* stop = std::get_if<frames::Stop>(&command.what)) return Stop(*stop);
  if (const auto* kill = std::get_if<frames::Kill>(&command.what)) return Kill(*kill);
  if (const auto* ack = std::get_if<frames::Ack>(&command.what)) {
    absl::Status journaled;  // a line that is missing is written with the next one
    for (const std::string& key : context_.events->Ack(ack->number)) {
      journaled.Update(context_.journal->Acked(key));
      if (const auto it = attempts_.find(key); it != attempts_.end()) {
        if (it->second->indexed_due_ms != 0) timers_.erase({it->second->indexed_due_ms, it->second.get()});
        attempts_.erase(it);
      }
      adopted_.erase(key);
    }
    return journaled;
  }
  if (std::holds_alternative<frames::Shutdown>(command.what)) {
    if (living_ > 0) return absl::FailedPreconditionError(absl::StrCat(living_, " attempts still live on this node"));
    leaving_ = true;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("not a command for the supervisor");
}

absl::Status Supervisor::Start(frames::Start start) {
  RETURN_IF_ERROR(Validate(start));
  const std::string& key = start.attempt.key;
  const int64_t now = context_.clock->NowSteadyMs();
  if (attempts_.contains(key) || adopted_.contains(key)) return absl::AlreadyExistsError(absl::StrCat(key, " is known here"));
  if (leaving_) return absl::UnavailableError("the supervisor is leaving");
  if (context_.events->Full(living_)) return absl::ResourceExhaustedError("too many unacknowledged events on this node");
  if (now < notice_until_ms_) return absl::UnavailableError("this node has notice that it will be taken");
  if (start.lease_bound) {
    const LeaseStage stage = lease_.StageAt(now);
    if (stage != LeaseStage::kHeld) {
      return absl::FailedPreconditionError(stage == LeaseStage::kNone ? "this node holds no lease; renew first"
                                                                      : "this node's lease is about to end; renew first");
    }
  }
  auto attempt = std::make_unique<Attempt>(&context_, std::move(start), next_sequence_++);
  Attempt* const raw = attempt.get();
  attempts_[raw->key()] = std::move(attempt);
  ++living_;
  raw->Launch();
  if (raw->watched() && look_at_use_ms_ == 0) look_at_use_ms_ = now + kLookAtUseEveryMs;
  return absl::OkStatus();
}

absl::StatusOr<Attempt*> Supervisor::Find(const std::string& key) const {
  const auto it = attempts_.find(key);
  if (it == attempts_.end() || it->second->ended()) return absl::NotFoundError(absl::StrCat("no attempt ", Printable(key), " lives on this node"));
  return it->second.get();
}

absl::Status Supervisor::Stop(const frames::Stop& stop) {
  ASSIGN_OR_RETURN(Attempt * attempt, Find(stop.key));
  const int64_t now = context_.clock->NowSteadyMs();
  const int64_t grace_ms = std::clamp<int64_t>(stop.grace_ms < 0 ? attempt->grace_ms() : stop.grace_ms, 0, int64_t{1} << 53);
  StopOrder order{stop.cause, stop.initiator, stop.reason.empty() ? LowerName(stop.cause) : Word(stop.reason), Detail(stop.detail), now + grace_ms};
  if (stop.deadline_boottime_ms > 0) order.kill_at_ms = std::min(order.kill_at_ms, stop.deadline_boottime_ms);
  attempt->Stop(order);
  return absl::OkStatus();
}

absl::Status Supervisor::Kill(const frames::Kill& kill) {
  ASSIGN_OR_RETURN(Attempt * attempt, Find(kill.key));
  attempt->Kill({kill.cause, kill.initiator, LowerName(kill.cause), Detail(kill.detail), 0});
  return absl::OkStatus();
}

// All files first, then the signals: no attempt waits for another's.
absl::Status Supervisor::Notice(const frames::Notice& notice) {
  if (notice.deadline_boottime_ms <= 0) return absl::InvalidArgumentError("notice.deadline_boottime_ms: required");
  notice_until_ms_ = notice.deadline_boottime_ms;
  const StopOrder order{EndCause::kPreempted, notice.initiator, notice.reason.empty() ? "notice" : Word(notice.reason), "the node will be taken",
                        notice.deadline_boottime_ms};
  const std::vector<Attempt*> living = Living();
  for (Attempt* attempt : living) attempt->ShowNotice(order);
  for (Attempt* attempt : living) attempt->Stop(order);
  return absl::OkStatus();
}

// ---- the lease ----

void Supervisor::Renew(const frames::Renew& renew) {
  const int64_t now = context_.clock->NowSteadyMs();
  lease_ = Lease::From(renew, now);
  applied_stage_ = LeaseStage::kHeld;
  const LeaseStage stage = lease_.StageAt(now);
  for (Attempt* attempt : Living()) {
    if (!attempt->lease_bound()) continue;
    if (stage == LeaseStage::kHeld) attempt->WithdrawLeaseRequest();
    if (stage == LeaseStage::kNone) attempt->Kill(LeaseOrder(lease_, "the lease was taken away"));
  }
  ApplyLease(now);
}

void Supervisor::ApplyLease(int64_t now) {
  const LeaseStage stage = lease_.StageAt(now);
  if (stage == applied_stage_) return;
  applied_stage_ = stage;
  if (stage == LeaseStage::kNone || stage == LeaseStage::kHeld) return;
  for (Attempt* attempt : Living()) {
    if (!attempt->lease_bound()) continue;
    if (stage == LeaseStage::kCheckpoint) {
      attempt->RequestLeaseCheckpoint(LeaseOrder(lease_, "the lease runs out"));
    } else if (stage == LeaseStage::kTerm) {
      attempt->Stop(LeaseOrder(lease_, "the lease runs out"));
    } else {
      attempt->Kill(LeaseOrder(lease_, "the lease ran out"));
    }
  }
}

// ---- time and children ----

void Supervisor::Changed(Attempt* attempt) {
  const int64_t due = attempt->NextDueMs() == std::numeric_limits<int64_t>::max() ? 0 : attempt->NextDueMs();
  if (due != attempt->indexed_due_ms) {
    if (attempt->indexed_due_ms != 0) timers_.erase({attempt->indexed_due_ms, attempt});
    if (due != 0) timers_.insert({due, attempt});
    attempt->indexed_due_ms = due;
  }
  if (attempt->pid() > 0) by_pid_[attempt->pid()] = attempt;
  if (attempt->ended() && !attempt->counted_out) {
    attempt->counted_out = true;
    --living_;
  }
}

void Supervisor::OnTime() {
  const int64_t now = context_.clock->NowSteadyMs();
  ApplyLease(now);
  if (look_at_use_ms_ != 0 && now >= look_at_use_ms_) LookAtUse(now);
  while (!timers_.empty() && timers_.begin()->first <= now) timers_.begin()->second->OnTime(now);
}

// One look at /proc for all of them.
void Supervisor::LookAtUse(int64_t now) {
  std::optional<std::map<pid_t, pid_t>> parents;
  const auto ask = [&]() -> const std::map<pid_t, pid_t>& {
    if (!parents) parents = Parents();
    return *parents;
  };
  bool any = false;
  for (Attempt* attempt : Living()) {
    if (!attempt->watched()) continue;
    any = true;
    attempt->LookAtUse(ask);
  }
  // Where there is much to look at, looking is not all that is done: notices and leases are this thread's too.
  const int64_t done_ms = context_.clock->NowSteadyMs();
  look_at_use_ms_ = any ? done_ms + std::max(kLookAtUseEveryMs, kLookAtUsePauseFactor * (done_ms - now)) : 0;
}

int64_t Supervisor::NextDueMs() const {
  int64_t due = timers_.empty() ? std::numeric_limits<int64_t>::max() : timers_.begin()->first;
  if (look_at_use_ms_ != 0) due = std::min(due, look_at_use_ms_);
  if (living_ > 0) due = std::min(due, lease_.NextChangeMs(context_.clock->NowSteadyMs()));
  return due;
}

void Supervisor::ReapChildren() {
  int status = 0;
  rusage usage = {};
  pid_t pid;
  while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
    const auto it = by_pid_.find(pid);
    if (it == by_pid_.end()) continue;  // an orphan that we adopted
    Attempt* const attempt = it->second;
    by_pid_.erase(it);
    attempt->OnChildExit(status, usage);
  }
}

std::set<pid_t> Supervisor::Strays() const {
  std::set<pid_t> strays;
  const pid_t self = getpid();
  const auto parents = Parents();
  for (const auto& [pid, parent] : parents) {
    if (parent != self || by_pid_.contains(pid)) continue;
    strays.insert(pid);
    strays.merge(DescendantsOf(pid, parents));
  }
  return strays;
}

std::vector<Attempt*> Supervisor::Living() const {
  std::vector<Attempt*> living;
  for (const auto& [key, attempt] : attempts_) {
    if (!attempt->ended()) living.push_back(attempt.get());
  }
  return living;
}

void Supervisor::AskToLeave() {
  const int64_t now = context_.clock->NowSteadyMs();
  for (Attempt* attempt : Living()) {
    const StopOrder order{EndCause::kPreempted, Initiator::kNode, "shutdown", "the node shuts down", leaving_ ? now : now + attempt->grace_ms()};
    attempt->Stop(order);
  }
  leaving_ = true;
}

std::vector<frames::Inventory> Supervisor::Inventories() const {
  std::vector<frames::Inventory> parts(1);
  size_t bytes = 0;
  const auto add = [&](frames::InventoryItem item) {
    const size_t size = 512 + item.attempt.key.size() + item.log_path.size() + item.tag.size();
    if (bytes + size > kInventoryBytes && bytes > 0) {
      parts.emplace_back();
      bytes = 0;
    }
    bytes += size;
    parts.back().items.push_back(std::move(item));
  };
  for (const auto& [key, item] : adopted_) add(item);
  for (const auto& [key, attempt] : attempts_) add(attempt->Item());
  for (frames::Inventory& part : parts) {
    part.boot_id = boot_id_;
    part.pid = getpid();
    part.build = kBuild;
    part.containment = context_.cgroups != nullptr ? frames::Containment::kCgroup : frames::Containment::kReaper;
    part.memory_limits = context_.cgroups != nullptr && context_.cgroups->can_limit_memory();
    part.pids_limits = context_.cgroups != nullptr && context_.cgroups->can_limit_pids();
    part.reaper_because = reaper_because_;
    part.lease_end_boottime_ms = lease_.end_ms();
    part.more = &part != &parts.back();
  }
  return parts;
}

}  // namespace spillway::supervisor
