// The attempts of a node: which are known, what the supervisor tells of them, what the scheduler wants of them. The session: session_logic.cc.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "worker/frames/end_of_attempt.h"
#include "worker/session_logic.h"

namespace spillway::worker {
namespace {

constexpr size_t kEndedKeptMax = 1'024;    // ended and durable, not forgotten yet
constexpr size_t kNewestKeptMax = 16'384;  // tasks whose newest attempt number is remembered

// Text on the wire must be UTF-8: other bytes (a name cut in its middle) become '?'.
std::string Utf8(std::string text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80 ? 1 : byte >= 0xc2 && byte < 0xe0 ? 2 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xf0 && byte < 0xf5 ? 4 : 0;
    bool good = length > 0 && i + length <= text.size();
    for (size_t k = 1; good && k < length; ++k) good = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    if (good && length == 3) {
      const int second = static_cast<unsigned char>(text[i + 1]);
      good = !(byte == 0xe0 && second < 0xa0) && !(byte == 0xed && second >= 0xa0);
    }
    if (good && length == 4) {
      const int second = static_cast<unsigned char>(text[i + 1]);
      good = !(byte == 0xf0 && second < 0x90) && !(byte == 0xf4 && second >= 0x90);
    }
    if (!good) text[i] = '?';
    i += good ? length : 1;
  }
  return text;
}

Report Ended(const AttemptId& attempt, EndFacts end) {
  end.detail = Utf8(std::move(end.detail));
  Report report;
  report.attempt = attempt;
  report.kind = Report::Kind::kEnded;
  report.end = std::move(end);
  return report;
}

Report Plain(const AttemptId& attempt, Report::Kind kind) {
  Report report;
  report.attempt = attempt;
  report.kind = kind;
  return report;
}

Report OfCheckpoint(const AttemptId& attempt, CheckpointFound checkpoint) {
  Report report;
  report.attempt = attempt;
  report.kind = Report::Kind::kCheckpoint;
  report.checkpoint = std::move(checkpoint);
  return report;
}

}  // namespace

// ---- what the supervisor says ----

void SessionLogic::On(const frames::Inventory& in) {
  const bool same_boot = in.boot_id == book_.boot_id();
  if (!same_boot) {
    if (phase_ != Phase::kNoSupervisor) EndSession("the supervisor began a new life", 0);
    book_.SetBoot(in.boot_id);
    highest_event_ = acked_event_ = 0;
    open_events_.clear();
    for (auto& [attempt, known] : known_) known.exit_event = 0;
  }
  config_.node.isolation = Isolation(in);
  lease_.Resume(in.lease_end_boottime_ms);
  if (lease_.lease_end_ms() > now_ms_) Put(RenewLease{{lease_.lease_end_ms(), lease_.lease_ms()}});
  std::set<AttemptId> there;
  for (const frames::InventoryItem& item : in.items) {
    if (!OurKey(item.attempt.key)) {
      Warn(absl::StrCat("the supervisor has ", Printable(item.attempt.key), ", which is not of this cluster: killed"));
      Put(KillAttempt{{item.attempt.key, EndCause::kFenced, Initiator::kNode, "attempt of another cluster"}});
      continue;
    }
    there.insert(item.attempt.id);
    Adopt(item);
  }
  std::vector<AttemptId> attempts;
  for (const auto& [attempt, known] : known_) attempts.push_back(attempt);
  for (const AttemptId& attempt : attempts) Reconcile(known_.at(attempt), there.count(attempt) != 0, same_boot);
  if (notice_) Put(NoticeAttempts{{notice_->deadline_ms, notice_->initiator, notice_->initiator == Initiator::kNode ? "shutdown" : "preempted"}});
  if (phase_ == Phase::kNoSupervisor) {
    phase_ = Phase::kWaiting;
    WaitToConnect(0);
  }
}

// What holds the attempts of this node, and who holds their limits: "watched" is the supervisor's or the worker's look now and then.
std::string SessionLogic::Isolation(const frames::Inventory& inventory) const {
  const bool cgroups = inventory.containment == frames::Containment::kCgroup;
  const std::string because = cgroups || inventory.reaper_because.empty() ? "" : absl::StrCat(" (", Printable(inventory.reaper_because, 80), ")");
  return absl::StrCat(cgroups ? "cgroup2" : "reaper", because, "; memory: ", inventory.memory_limits ? "cgroup" : "watched",
                      "; processes: ", inventory.pids_limits ? "cgroup" : "watched", "; disk: ", config_.disk_limits.empty() ? "watched" : config_.disk_limits);
}

// An attempt that the supervisor has and this life of the worker has not started.
void SessionLogic::Adopt(const frames::InventoryItem& item) {
  if (Find(item.attempt.id) != nullptr) return;
  Known known;
  known.offer = DecodeTag(item.tag);
  known.offer.attempt = item.attempt.id;
  known.key = item.attempt.key;
  known.step = item.state == AttemptState::kStarting ? Step::kStarting : Step::kRunning;
  known.stopping = item.state == AttemptState::kStopping;
  known.progress = item.progress;
  if (item.progress.step > 0) progress_pending_.insert(item.attempt.id);
  known_.emplace(item.attempt.id, std::move(known));
  ++living_;
  RememberNewest(item.attempt.id);
}

// After a connection to the supervisor: commands may have been lost with the one before.
void SessionLogic::Reconcile(Known& known, bool in_inventory, bool same_boot) {
  if (known.step != Step::kStarting && known.step != Step::kRunning) return;
  if (in_inventory) {
    if (known.kill) Put(KillAttempt{*known.kill});
    if (known.stop) Put(StopAttempt{*known.stop});
    return;
  }
  if (known.step == Step::kStarting && same_boot && known.spec != nullptr) {
    if (known.kill) return End(known, {known.kill->cause, known.kill->initiator, "stopped before it was started"}, 0);
    if (known.stop) return End(known, {known.stop->cause, known.stop->initiator, "stopped before it was started"}, 0);
    Put(StartAttempt{known.key, known.offer, known.spec});  // a START that did arrive changes nothing the second time
    return;
  }
  End(known, {EndCause::kNodeLost, Initiator::kNode, "the supervisor was restarted and knows nothing of it"}, 0);
}

void SessionLogic::On(const frames::Event& in) {
  if (in.number <= highest_event_) return;
  highest_event_ = in.number;
  Known* known = OurKey(in.attempt.key) ? Find(in.attempt.id) : nullptr;
  if (known == nullptr) return;
  if (!Lives(*known) || known->step == Step::kScanning) {
    if (std::holds_alternative<frames::Exited>(in.what)) OnExitedAgain(*known, in.number);
    return;
  }
  if (std::holds_alternative<frames::Started>(in.what)) {
    known->step = Step::kRunning;
    Queue(Plain(in.attempt.id, Report::Kind::kStarted), in.number);
  } else if (const auto* progress = std::get_if<frames::Progress>(&in.what)) {
    known->progress = *progress;
    progress_pending_.insert(in.attempt.id);
  } else if (const auto* checkpoint = std::get_if<frames::Checkpoint>(&in.what)) {
    open_events_.insert(in.number);
    Put(CheckCheckpoint{in.attempt.id, in.number, known->offer.checkpoint_dir, known->offer.job_uid, *checkpoint});
  } else if (const auto* stopping = std::get_if<frames::Stopping>(&in.what)) {
    known->stopping = true;
    Info(absl::StrCat(in.attempt.id.ToString(), " is being stopped: ", LowerName(stopping->cause), " (", Printable(stopping->reason), ")"));
  } else if (const auto* exited = std::get_if<frames::Exited>(&in.what)) {
    OnExited(*known, *exited, in.number);
  }
}

void SessionLogic::OnExited(Known& known, const frames::Exited& exited, uint64_t event) {
  known.step = Step::kScanning;
  known.facts = exited.facts;
  known.exit_event = event;
  open_events_.insert(event);
  if (known.offer.checkpoint_dir.empty() || banned_) {
    On(ScanResult{known.offer.attempt, {}, ""});
  } else {
    Put(ScanCheckpoints{known.offer.attempt, known.offer.checkpoint_dir, known.offer.job_uid});
  }
}

// A new supervisor tells of an end that is known, but perhaps nowhere saved yet: its word must last until it is.
void SessionLogic::OnExitedAgain(Known& known, uint64_t event) {
  if (known.step == Step::kScanning) {
    known.exit_event = event;
    open_events_.insert(event);
  } else if (book_.Attach(known.offer.attempt, Report::Kind::kEnded, event)) {
    open_events_.insert(event);
  }
}

void SessionLogic::On(const StartRefused& in) {
  Known* known = Find(in.attempt);
  if (known == nullptr || known->step != Step::kStarting) return;
  End(*known, {in.cause, in.initiator, in.detail}, 0);
}

void SessionLogic::On(const CheckpointChecked& in) {
  Known* known = Find(in.attempt);
  if (!in.ok) Warn(absl::StrCat(in.attempt.ToString(), ": what it calls a checkpoint is none, ignored: ", Printable(in.why, 500)));
  // After the end was reported only the scheduler's seal may still find it.
  if (in.ok && known != nullptr && known->step != Step::kEnded && known->steps.insert(in.checkpoint.step).second) {
    Queue(OfCheckpoint(in.attempt, in.checkpoint), in.event);
  } else {
    open_events_.erase(in.event);
  }
}

void SessionLogic::On(const ScanResult& in) {
  Known* known = Find(in.attempt);
  if (known == nullptr || known->step != Step::kScanning) return;
  frames::ExitFacts& facts = known->facts;
  if (in.error.empty()) {
    std::vector<CheckpointFound> found = in.committed;
    std::sort(found.begin(), found.end(), [](const CheckpointFound& a, const CheckpointFound& b) { return a.step < b.step; });
    // What lies in the store counts, not what the job said of it.
    facts.checkpoints = static_cast<int64_t>(found.size());
    facts.last_checkpoint_step = found.empty() ? 0 : found.back().step;
    for (CheckpointFound& checkpoint : found) {
      if (known->steps.insert(checkpoint.step).second) Queue(OfCheckpoint(in.attempt, std::move(checkpoint)), 0);
    }
  } else {
    Warn(absl::StrCat(in.attempt.ToString(), ": its checkpoints could not be listed (the scheduler's seal will): ", in.error));
  }
  facts.disk_full = in.disk_full;
  facts.disk_full_is_jobs = in.disk_full_is_jobs;
  const frames::End why = frames::EndOf(facts);
  EndFacts end{why.cause, why.initiator, why.detail, facts.last_step, facts.last_total, facts.log_bytes, 0};
  if (facts.started_boottime_ms > 0) end.run_ms = std::max<int64_t>(0, facts.ended_boottime_ms - facts.started_boottime_ms);
  End(*known, std::move(end), known->exit_event);
}

void SessionLogic::On(const DiskOver& in) {
  Known* known = Find(in.attempt);
  if (known != nullptr) KillKnown(*known, EndCause::kDiskFull, Initiator::kJob, in.detail);
}

// ---- what the scheduler wants ----

void SessionLogic::OnOffer(const Offer& offer, bool in_welcome) {
  const AttemptId& attempt = offer.attempt;
  if (Known* known = Find(attempt)) {
    // The word to start, for which it was waiting.
    if (known->step != Step::kHeld || offer.rendezvous.empty() || !known->offer.rendezvous.empty()) return AnswerByState(*known);
    known->offer.rendezvous = offer.rendezvous;
    return StartIfPossible(*known);
  }
  if (const AttemptNumber newest = NewestOf(attempt.task()); newest >= attempt.number) {
    return EndUnstarted(attempt, EndCause::kFenced, Initiator::kNode,
                        newest == attempt.number ? "this attempt was here before" : absl::StrCat("attempt ", newest, " of this task was here already"));
  }
  if (notice_ || leaving_) {
    return EndUnstarted(attempt, EndCause::kPreempted, notice_ ? notice_->initiator : Initiator::kNode, "the node is about to be taken");
  }
  if (living_ >= config_.attempts_max) {
    return EndUnstarted(attempt, EndCause::kLaunchFailed, Initiator::kNode, absl::StrCat("the node has ", living_, " attempts already"));
  }
  const auto spec = specs_.find(offer.spec_digest);
  if (spec == specs_.end()) {
    if (in_welcome) return EndUnstarted(attempt, EndCause::kStagingFailed, Initiator::kNode, "its spec was not sent");
    // It was sent earlier in the same session and dropped here. In a new session it will be sent again.
    return EndSession("an offer needs a spec that is not here", 0);
  }
  Known known;
  known.offer = offer;
  known.key = KeyOf(attempt);
  known.spec = spec->second;
  known.step = Step::kHeld;
  RememberNewest(attempt);
  Known& kept = known_.emplace(attempt, std::move(known)).first->second;
  ++living_;
  kept.reserves = IsGang(offer) && offer.rank == 0 && offer.rendezvous.empty();
  if (kept.reserves) {
    Put(ReserveRendezvous{attempt});
  } else {
    Accept(kept);
  }
  // A newer attempt of a task ends the authority of every older one.
  for (auto it = known_.lower_bound(AttemptId{attempt.job, attempt.index, 0}); it != known_.end() && it->first < attempt; ++it) {
    if (Lives(it->second)) KillKnown(it->second, EndCause::kFenced, Initiator::kScheduler, absl::StrCat("attempt ", attempt.number, " was offered"));
  }
  StartIfPossible(kept);
}

void SessionLogic::On(const RendezvousReserved& in) {
  Known* known = Find(in.attempt);
  if (known == nullptr || !known->reserves || known->step != Step::kHeld) return;
  known->reserves = false;
  known->rendezvous = in.rendezvous;
  if (in.rendezvous.empty()) return End(*known, {EndCause::kLaunchFailed, Initiator::kNode, "no port is free for its members to meet at"}, 0);
  Accept(*known);
}

void SessionLogic::Accept(const Known& known) {
  Report report = Plain(known.offer.attempt, Report::Kind::kAccepted);
  report.rendezvous = known.rendezvous;
  Queue(std::move(report), 0);
}

void SessionLogic::OnStop(const Stop& stop) {
  Known* known = Find(stop.attempt);
  if (known == nullptr) return EndUnstarted(stop.attempt, stop.cause, stop.initiator, "it was not here when its stop came");
  if (known->step == Step::kEnded) return AnswerByState(*known);
  frames::Stop order;
  order.cause = stop.cause;
  order.initiator = stop.initiator;
  order.reason = LowerName(stop.cause);
  order.detail = stop.reason;
  order.grace_ms = std::max<int64_t>(0, stop.grace_ms);
  StopKnown(*known, std::move(order));
}

void SessionLogic::OnForget(const AttemptId& attempt) {
  const Known* known = Find(attempt);
  if (known != nullptr && known->step == Step::kEnded && known->end_durable) known_.erase(attempt);
}

void SessionLogic::StopWhatIsNotWanted(const Welcome& welcome) {
  std::set<AttemptId> named(welcome.wanted.begin(), welcome.wanted.end());
  std::set<AttemptId> coming;
  for (const Stop& stop : welcome.stops) coming.insert(stop.attempt);
  for (const Offer& offer : welcome.offers) coming.insert(offer.attempt);
  for (auto& [attempt, known] : known_) {
    if (!Lives(known) || known.step == Step::kScanning || named.count(attempt) != 0 || coming.count(attempt) != 0) continue;
    KillKnown(known, EndCause::kFenced, Initiator::kScheduler, "not wanted on this node any more");
  }
  for (const AttemptId& attempt : named) {
    if (Find(attempt) != nullptr || coming.count(attempt) != 0) continue;
    EndUnstarted(attempt, EndCause::kNodeLost, Initiator::kNode, "the node knows nothing of it");
  }
}

// ---- attempts ----

void SessionLogic::StartIfPossible(Known& known) {
  if (IsGang(known.offer) && known.offer.rendezvous.empty()) return;
  if (lease_.PhaseAt(now_ms_) != LeasePhase::kHeld || OlderLives(known.offer.attempt) || DevicesTaken(known)) return;
  known.step = Step::kStarting;
  Put(StartAttempt{known.key, known.offer, known.spec});
}

std::optional<StartRefused> SessionLogic::InsteadOfStart(const AttemptId& attempt) const {
  const auto at = known_.find(attempt);
  if (at == known_.end() || at->second.step != Step::kStarting) return std::nullopt;
  const Known& known = at->second;
  if (known.kill) return StartRefused{attempt, known.kill->cause, known.kill->initiator, "stopped before it was started"};
  if (known.stop) return StartRefused{attempt, known.stop->cause, known.stop->initiator, "stopped before it was started"};
  return std::nullopt;
}

void SessionLogic::StartHeld() {
  for (auto& [attempt, known] : known_) {
    if (known.step == Step::kHeld) StartIfPossible(known);
  }
}

void SessionLogic::StopKnown(Known& known, frames::Stop stop) {
  if (known.step == Step::kHeld) return End(known, {stop.cause, stop.initiator, "stopped before it was started"}, 0);
  if (known.step != Step::kStarting && known.step != Step::kRunning) return;
  known.stopping = true;
  stop.key = known.key;
  known.stop = stop;
  Put(StopAttempt{std::move(stop)});
}

void SessionLogic::KillKnown(Known& known, EndCause cause, Initiator initiator, absl::string_view detail) {
  if (known.step == Step::kHeld) return End(known, {cause, initiator, std::string(detail)}, 0);
  if (known.step != Step::kStarting && known.step != Step::kRunning) return;
  known.stopping = true;
  known.kill = frames::Kill{known.key, cause, initiator, std::string(detail)};
  Put(KillAttempt{*known.kill});
}

void SessionLogic::End(Known& known, EndFacts end, uint64_t event) {
  const AttemptId attempt = known.offer.attempt;
  known.step = Step::kEnded;
  known.end = std::move(end);
  known.spec = nullptr;
  known.kill.reset();
  known.stop.reset();
  known.steps.clear();
  progress_pending_.erase(attempt);
  --living_;
  Info(absl::StrCat(attempt.ToString(), " ended: ", LowerName(known.end.cause), known.end.detail.empty() ? "" : ", ", Printable(known.end.detail)));
  Queue(Ended(attempt, known.end), event);
  StartHeld();
}

// Answers for an attempt that never ran here; kept like an ended one, so that a repeated offer or stop is answered in the same way.
void SessionLogic::EndUnstarted(const AttemptId& attempt, EndCause cause, Initiator initiator, absl::string_view detail) {
  RememberNewest(attempt);
  Known known;
  known.offer.attempt = attempt;
  known.key = KeyOf(attempt);
  known.step = Step::kEnded;
  known.end = {cause, initiator, std::string(detail)};
  Info(absl::StrCat(attempt.ToString(), " is answered with ", LowerName(cause), ": ", detail));
  Queue(Ended(attempt, known.end), 0);
  known_[attempt] = std::move(known);
}

// The scheduler offered or stopped what is known here: it hears the state again, unless that is on its way already.
void SessionLogic::AnswerByState(const Known& known) {
  const AttemptId& attempt = known.offer.attempt;
  if (known.step == Step::kEnded) {
    if (!book_.Pending(attempt, Report::Kind::kEnded)) Queue(Ended(attempt, known.end), 0);
    return;
  }
  if (known.reserves || book_.Pending(attempt, Report::Kind::kAccepted)) return;
  Accept(known);
  if (known.step == Step::kRunning && !book_.Pending(attempt, Report::Kind::kStarted)) Queue(Plain(attempt, Report::Kind::kStarted), 0);
}

void SessionLogic::Queue(Report report, uint64_t event) {
  if (event != 0) open_events_.insert(event);
  for (const uint64_t dropped : book_.Add(std::move(report), event)) open_events_.erase(dropped);
  while (ended_durable_.size() > kEndedKeptMax) {
    OnForget(ended_durable_.front());
    ended_durable_.pop_front();
  }
}

SessionLogic::Known* SessionLogic::Find(const AttemptId& attempt) {
  const auto it = known_.find(attempt);
  return it == known_.end() ? nullptr : &it->second;
}

bool SessionLogic::OlderLives(const AttemptId& attempt) const {
  for (auto it = known_.lower_bound(AttemptId{attempt.job, attempt.index, 0}); it != known_.end() && it->first < attempt; ++it) {
    if (Lives(it->second)) return true;
  }
  return false;
}

// The scheduler gave up whoever holds them (its node was silent, say); its tree may still be on its way out.
bool SessionLogic::DevicesTaken(const Known& wants) const {
  for (const auto& [attempt, known] : known_) {
    if (&known == &wants || !Lives(known) || known.step == Step::kHeld) continue;
    for (const int device : known.offer.devices) {
      if (std::find(wants.offer.devices.begin(), wants.offer.devices.end(), device) != wants.offer.devices.end()) return true;
    }
  }
  return false;
}

void SessionLogic::RememberNewest(const AttemptId& attempt) {
  const auto [it, is_new] = newest_.try_emplace(attempt.task(), attempt.number);
  it->second = std::max(it->second, attempt.number);
  if (!is_new) return;
  newest_order_.push_back(attempt.task());
  while (newest_order_.size() > kNewestKeptMax) {
    newest_.erase(newest_order_.front());
    newest_order_.pop_front();
  }
}

AttemptNumber SessionLogic::NewestOf(const TaskId& task) const {
  const auto it = newest_.find(task);
  return it == newest_.end() ? 0 : it->second;
}

std::string SessionLogic::KeyOf(const AttemptId& attempt) const { return absl::StrCat(config_.node.cluster_uuid, "/", attempt.ToString()); }

// Keys carry the cluster. A worker that does not know its cluster yet learns it from what its supervisor runs.
bool SessionLogic::OurKey(absl::string_view key) {
  const size_t slash = key.find('/');
  if (slash == absl::string_view::npos || slash == 0) return false;
  if (config_.node.cluster_uuid.empty()) config_.node.cluster_uuid = std::string(key.substr(0, slash));
  return key.substr(0, slash) == config_.node.cluster_uuid;
}

}  // namespace spillway::worker
