// The session: connecting, hello and welcome, renewals, sending and acknowledging reports, notices, leaving. Attempts: session_attempts.cc.
#include "worker/session_logic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway::worker {
namespace {

constexpr size_t kReportsPerFrameMax = 512;
constexpr int64_t kStableSessionMs = 10'000;          // a session that lived this long starts the back-off anew
constexpr int64_t kRefusedWaitMs = 5'000;             // at least, after a goodbye that may last (another worker of our name is there)
constexpr int64_t kNoticeForgottenAfterMs = 120'000;  // after its deadline: the node was not taken after all
constexpr size_t kAdviceMax = 16;
constexpr int64_t kSaidAgainAfterMs = 60'000;

}  // namespace

SessionLogic::SessionLogic(SessionConfig config, SavedReports saved) : config_(std::move(config)), rng_(config_.seed) {
  book_.Restore(std::move(saved));
  for (const Report& report : book_.PendingEnds()) {
    Known known;
    known.offer.attempt = report.attempt;
    known.step = Step::kEnded;
    known.end = report.end;
    known_.emplace(report.attempt, std::move(known));
    RememberNewest(report.attempt);
  }
}

std::vector<Output> SessionLogic::Handle(const Input& input, int64_t now_ms) {
  now_ms_ = std::max(now_ms_, now_ms);
  out_.clear();
  if (done_) return {};
  if (last_session_ms_ < 0) last_session_ms_ = now_ms_;
  std::visit([this](const auto& in) { On(in); }, input);
  WatchLease();
  NumberAndSend();
  SendProgress();
  AckFinishedEvents();
  LeaveIfDone();
  return std::move(out_);
}

int64_t SessionLogic::NextWakeMs() const {
  if (done_) return LeaseKeeper::kNever;
  int64_t wake = std::min(leave_by_ms_, lease_.NextPhaseAtMs(now_ms_));
  if (config_.node_lease_ms > 0 && !leaving_) wake = std::min(wake, last_session_ms_ + config_.node_lease_ms);
  if (notice_ && !leaving_) wake = std::min(wake, notice_->deadline_ms + kNoticeForgottenAfterMs);
  switch (phase_) {
    case Phase::kNoSupervisor: break;
    case Phase::kWaiting: wake = std::min(wake, connect_at_ms_); break;
    case Phase::kConnecting:
    case Phase::kHelloSent: wake = std::min(wake, session_since_ms_ + config_.welcome_timeout_ms); break;
    case Phase::kWelcomed:
      wake = std::min({wake, lease_.NextRenewalAtMs(), alive_ms_ + SilenceLimitMs()});
      if (!book_.unacked().empty()) wake = std::min(wake, reports_sent_ms_ + SilenceLimitMs());
      for (const AttemptId& attempt : progress_pending_) wake = std::min(wake, known_.at(attempt).progress_sent_ms + config_.progress_every_ms);
      break;
  }
  return wake;
}

void SessionLogic::On(const Connected& in) {
  if (in.session != session_ || phase_ != Phase::kConnecting) return;
  phase_ = Phase::kHelloSent;
  SendHello();
}

void SessionLogic::On(const Disconnected& in) {
  if (in.session != session_ || phase_ == Phase::kWaiting || phase_ == Phase::kNoSupervisor) return;
  EndSession(in.why, 0);
}

void SessionLogic::On(const FrameReceived& in) {
  if (in.session != session_ || (phase_ != Phase::kHelloSent && phase_ != Phase::kWelcomed)) return;
  const SchedulerFrame& frame = in.frame;
  if (frame.welcome) OnWelcome(*frame.welcome);
  if (phase_ == Phase::kWelcomed) {
    for (const SpecData& spec : frame.specs) KeepSpec(spec);
    if (frame.renewal_ack > 0) {
      alive_ms_ = last_session_ms_ = now_ms_;
      if (lease_.Acknowledged(frame.renewal_ack)) LeaseMoved();
    }
    if (frame.report_ack > book_.acked()) OnDurable(book_.Acked(frame.report_ack));
    for (const Offer& offer : frame.offers) {
      if (phase_ == Phase::kWelcomed) OnOffer(offer, false);
    }
    for (const Stop& stop : frame.stops) OnStop(stop);
    for (const AttemptId& attempt : frame.forget) OnForget(attempt);
  }
  if (frame.goodbye && phase_ != Phase::kWaiting) OnGoodbye(*frame.goodbye);
}

void SessionLogic::OnWelcome(const Welcome& welcome) {
  if (phase_ != Phase::kHelloSent) return;  // repeated
  Hello& node = config_.node;
  if (welcome.cluster_uuid.empty() || (!node.cluster_uuid.empty() && node.cluster_uuid != welcome.cluster_uuid)) {
    EndSession(absl::StrCat("welcomed by cluster '", Printable(welcome.cluster_uuid), "', but this node belongs to '", node.cluster_uuid, "'"), kRefusedWaitMs);
    return;
  }
  // A scheduler that was given up for lost, and another one made from its backup: whoever has heard of the later one serves it alone.
  if (welcome.incarnation < config_.incarnation) {
    EndSession(absl::StrCat("welcomed by incarnation ", welcome.incarnation, " of the scheduler, but this node has served ", config_.incarnation),
               kRefusedWaitMs);
    return;
  }
  phase_ = Phase::kWelcomed;
  config_.incarnation = welcome.incarnation;
  alive_ms_ = last_session_ms_ = reports_sent_ms_ = now_ms_;
  node.cluster_uuid = welcome.cluster_uuid;
  node.node_id = welcome.node_id;
  Put(SaveNode{welcome.cluster_uuid, welcome.node_id, welcome.store_url, welcome.incarnation});
  Info(
      absl::StrCat("welcomed as node ", welcome.node_id, ", lease ", FormatDurationMs(welcome.lease_ms), ", ", welcome.wanted.size(), " attempts wanted here"));
  if (lease_.Welcomed(welcome.lease_ms, welcome.renew_every_ms)) LeaseMoved();
  OnDurable(book_.Welcomed(welcome.report_ack));
  // What was sent in an earlier session and not acked goes out again, in front of whatever follows from this welcome.
  SendReports(std::vector<Report>(book_.unacked().begin(), book_.unacked().end()));
  for (const SpecData& spec : welcome.specs) KeepSpec(spec);
  StopWhatIsNotWanted(welcome);
  for (const Stop& stop : welcome.stops) OnStop(stop);
  for (const Offer& offer : welcome.offers) OnOffer(offer, true);
  SendNotice();
}

void SessionLogic::OnGoodbye(const Goodbye& goodbye) {
  const std::string why = absl::StrCat("scheduler said goodbye: ", Printable(goodbye.code), " ", Printable(goodbye.message));
  if (goodbye.come_back) {
    // Two that take each other's place must not do it in a hurry; every other reason passes by itself.
    EndSession(why, goodbye.code == "REPLACED" || goodbye.code == "DUPLICATE_NODE" ? kRefusedWaitMs : 0);
    return;
  }
  LeaveForGood(why, EndCause::kFenced, "the scheduler wants nothing more of this node");
}

// Nobody takes this node's reports any more: its attempts end, and then it does.
void SessionLogic::LeaveForGood(std::string why, EndCause cause, absl::string_view detail) {
  Warn(absl::StrCat(why, "; this node ends its attempts and leaves"));
  EndSession(why, 0);
  connect_at_ms_ = LeaseKeeper::kNever;
  leaving_ = banned_ = true;
  leave_why_ = std::move(why);
  leave_by_ms_ = LeaseKeeper::kNever;
  for (auto& [attempt, known] : known_) {
    if (!Lives(known)) continue;
    frames::Stop stop;
    stop.cause = cause;
    stop.initiator = Initiator::kScheduler;
    stop.reason = "released";
    stop.detail = std::string(detail);
    StopKnown(known, std::move(stop));
  }
}

void SessionLogic::OnDurable(const std::vector<Report>& reports) {
  if (reports.empty()) return;
  Put(SaveReportAck{reports.back().seq});
  reports_sent_ms_ = now_ms_;
  for (const Report& report : reports) {
    Known* known = report.kind == Report::Kind::kEnded ? Find(report.attempt) : nullptr;
    if (known == nullptr || known->step != Step::kEnded || known->end_durable) continue;
    known->end_durable = true;
    ended_durable_.push_back(report.attempt);
    // The members of a gang share their checkpoint directory: none of them knows when it is of no use any more.
    Put(CleanUp{report.attempt, IsGang(known->offer) ? "" : known->offer.checkpoint_dir});
  }
}

void SessionLogic::EndSession(absl::string_view why, int64_t wait_ms) {
  if (phase_ == Phase::kWaiting || phase_ == Phase::kNoSupervisor) return;
  const bool welcomed = phase_ == Phase::kWelcomed;
  const bool stable = welcomed && now_ms_ - session_since_ms_ >= kStableSessionMs;
  Put(Disconnect{session_, std::string(why)});
  phase_ = Phase::kWaiting;
  lease_.SessionOver();
  if (notice_) notice_->sent = false;
  backoff_ms_ = stable || backoff_ms_ == 0 ? config_.connect_backoff_min_ms : std::min(backoff_ms_ * 2, config_.connect_backoff_max_ms);
  // Half fixed, half drawn: nodes that lost the same scheduler do not all come back in the same moment.
  WaitToConnect(std::max(wait_ms, backoff_ms_ / 2 + rng_.Between(0, backoff_ms_ / 2)));
  // A scheduler that is away is said once, then once a minute.
  if (!welcomed && now_ms_ < quiet_until_ms_) return;
  quiet_until_ms_ = welcomed ? 0 : now_ms_ + kSaidAgainAfterMs;
  Info(absl::StrCat(welcomed ? "session ended: " : "no session: ", why, "; connecting again in ", FormatDurationMs(connect_at_ms_ - now_ms_)));
}

void SessionLogic::WaitToConnect(int64_t wait_ms) { connect_at_ms_ = now_ms_ + wait_ms; }

void SessionLogic::SendHello() {
  Hello hello = config_.node;
  hello.boot_id = book_.boot_id();
  for (const auto& [attempt, known] : known_) {
    AttemptState state = AttemptState::kEnded;
    switch (known.step) {
      case Step::kHeld:
      case Step::kStarting: state = AttemptState::kStarting; break;
      case Step::kRunning: state = known.stopping ? AttemptState::kStopping : AttemptState::kRunning; break;
      case Step::kScanning: state = AttemptState::kEnded; break;
      case Step::kEnded:
        if (known.end_durable) continue;
        break;
    }
    hello.inventory.push_back({attempt, state});
  }
  WorkerFrame frame;
  frame.hello = std::move(hello);
  Put(SendFrame{session_, std::move(frame)});
  lease_.HelloSent(now_ms_);
}

void SessionLogic::SendReports(const std::vector<Report>& reports) {
  if (reports.empty()) return;
  reports_sent_ms_ = now_ms_;
  for (size_t from = 0; from < reports.size(); from += kReportsPerFrameMax) {
    WorkerFrame frame;
    frame.reports.assign(reports.begin() + from, reports.begin() + std::min(reports.size(), from + kReportsPerFrameMax));
    Put(SendFrame{session_, std::move(frame)});
  }
}

void SessionLogic::NumberAndSend() {
  if (phase_ != Phase::kWelcomed) return;
  std::set<uint64_t> finished;
  const std::vector<Report> numbered = book_.NumberWaiting(finished);
  if (numbered.empty()) return;
  Put(SaveReports{book_.boot_id(), book_.TakeAnew(), book_.acked(), numbered});
  for (const uint64_t event : finished) open_events_.erase(event);
  SendReports(numbered);
}

void SessionLogic::SendProgress() {
  if (phase_ != Phase::kWelcomed) return;
  WorkerFrame frame;
  const auto flush = [&] {
    if (!frame.progress.empty()) Put(SendFrame{session_, std::move(frame)});
    frame = {};
  };
  for (auto it = progress_pending_.begin(); it != progress_pending_.end();) {
    Known& known = known_.at(*it);
    if (now_ms_ - known.progress_sent_ms < config_.progress_every_ms) {
      ++it;
      continue;
    }
    ProgressReport report{*it, known.progress.step, known.progress.total, {}};
    for (const frames::Metric& metric : known.progress.metrics) report.metrics.emplace_back(metric.name, metric.value);
    frame.progress.push_back(std::move(report));
    known.progress_sent_ms = now_ms_;
    it = progress_pending_.erase(it);
    if (frame.progress.size() == kReportsPerFrameMax) flush();
  }
  flush();
}

void SessionLogic::SendNotice() {
  if (phase_ != Phase::kWelcomed) return;
  const auto send = [&](NodeNotice notice) {
    WorkerFrame frame;
    frame.notice = std::move(notice);
    Put(SendFrame{session_, std::move(frame)});
  };
  for (; !advice_.empty(); advice_.pop_front()) send(std::move(advice_.front()));
  if (!notice_ || notice_->sent) return;
  notice_->sent = true;
  send({std::max<int64_t>(0, notice_->deadline_ms - now_ms_), notice_->source, false});
}

void SessionLogic::AckFinishedEvents() {
  const uint64_t upto = open_events_.empty() ? highest_event_ : *open_events_.begin() - 1;
  if (upto <= acked_event_) return;
  acked_event_ = upto;
  Put(AckEvents{upto});
}

void SessionLogic::On(const LocalNotice& in) {
  if (in.advisory) {
    if (advised_.size() >= kAdviceMax || !advised_.insert(in.source).second) return;
    Info(absl::StrCat("advice from ", Printable(in.source), ": this node may be taken"));
    advice_.push_back({0, in.source, true});
    SendNotice();
    return;
  }
  const int64_t deadline = now_ms_ + std::max<int64_t>(0, in.in_ms);
  if (notice_ && deadline >= notice_->deadline_ms) return;  // told again, or something milder
  notice_ = NoticeState{deadline, in.source, Initiator::kProvider, false};
  Warn(absl::StrCat("notice from ", Printable(in.source), ": this node will be taken in ", FormatDurationMs(deadline - now_ms_)));
  Put(NoticeAttempts{{deadline, Initiator::kProvider, "preempted"}});
  SendNotice();
}

void SessionLogic::On(const DrainAndExit& in) {
  if (leaving_) return;
  leaving_ = true;
  leave_why_ = "asked to stop, attempts included";
  const int64_t deadline = now_ms_ + std::max<int64_t>(0, in.grace_ms);
  leave_by_ms_ = deadline + 10'000;
  if (notice_ && notice_->deadline_ms <= deadline) return;
  notice_ = NoticeState{deadline, "shutdown", Initiator::kNode, false};
  Put(NoticeAttempts{{deadline, Initiator::kNode, "shutdown"}});
  SendNotice();
}

void SessionLogic::On(const Tick&) {
  if (notice_ && !leaving_ && now_ms_ >= notice_->deadline_ms + kNoticeForgottenAfterMs) {
    Warn(absl::StrCat("the notice of ", Printable(notice_->source), " passed and the node is still here: taking work again"));
    notice_.reset();
  }
  if (config_.node_lease_ms > 0 && !leaving_ && now_ms_ - last_session_ms_ >= config_.node_lease_ms) {
    return LeaveForGood(absl::StrCat("no scheduler for ", FormatDurationMs(now_ms_ - last_session_ms_)), EndCause::kFenced, "no scheduler answers");
  }
  switch (phase_) {
    case Phase::kNoSupervisor: return;
    case Phase::kWaiting:
      if (now_ms_ < connect_at_ms_) return;
      phase_ = Phase::kConnecting;
      session_since_ms_ = now_ms_;
      connect_at_ms_ = LeaseKeeper::kNever;
      Put(Connect{++session_});
      return;
    case Phase::kConnecting:
    case Phase::kHelloSent:
      if (now_ms_ - session_since_ms_ >= config_.welcome_timeout_ms) EndSession("no welcome", 0);
      return;
    case Phase::kWelcomed: break;
  }
  if (now_ms_ - alive_ms_ >= SilenceLimitMs()) {
    EndSession(absl::StrCat("no renewal was acknowledged for ", FormatDurationMs(now_ms_ - alive_ms_)), 0);
    return;
  }
  if (now_ms_ >= lease_.NextRenewalAtMs()) {
    WorkerFrame frame;
    frame.renewal = lease_.SendRenewal(now_ms_);
    Put(SendFrame{session_, std::move(frame)});
  }
  if (!book_.unacked().empty() && now_ms_ - reports_sent_ms_ >= SilenceLimitMs()) {
    SendReports(std::vector<Report>(book_.unacked().begin(), book_.unacked().end()));
  }
}

void SessionLogic::LeaseMoved() {
  Put(RenewLease{{lease_.lease_end_ms(), lease_.lease_ms()}});
  StartHeld();
}

void SessionLogic::WatchLease() {
  const LeasePhase phase = lease_.PhaseAt(now_ms_);
  if (phase == lease_phase_) return;
  if (phase == LeasePhase::kHeld && lease_phase_ > LeasePhase::kHeld) Info("the lease is renewed");
  if (phase == LeasePhase::kCheckpoint && living_ > 0) Warn("the lease is not renewed: attempts are asked for a checkpoint");
  if (phase == LeasePhase::kTerm && living_ > 0) Warn("the lease is about to end: attempts are stopped");
  if (phase == LeasePhase::kKill && living_ > 0) Warn("the lease is about to end: attempts are killed");
  if (phase == LeasePhase::kLapsed) Warn("the lease has lapsed");
  lease_phase_ = phase;
}

void SessionLogic::LeaveIfDone() {
  if (!leaving_) return;
  const bool all_told = banned_ || book_.empty();
  if ((living_ > 0 || !all_told) && now_ms_ < leave_by_ms_) return;
  const bool supervisor_too = living_ == 0 && all_told;
  if (supervisor_too && highest_event_ > acked_event_) Put(AckEvents{acked_event_ = highest_event_});
  if (phase_ != Phase::kWaiting && phase_ != Phase::kNoSupervisor) Put(Disconnect{session_, leave_why_});
  phase_ = Phase::kWaiting;
  done_ = true;
  Put(Exit{0, supervisor_too, leave_why_});
}

void SessionLogic::KeepSpec(const SpecData& spec) {
  const Sha256Digest digest = Sha256Of(spec.spec);
  if (spec.digest != absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size())) {
    Warn(absl::StrCat("a spec of ", spec.spec.size(), " bytes does not have the digest it was sent with: ignored"));
    return;
  }
  if (specs_.count(spec.digest) != 0) return;
  specs_.emplace(spec.digest, std::make_shared<const std::string>(spec.spec));
  specs_order_.push_back(spec.digest);
  specs_bytes_ += spec.spec.size();
  // The oldest go first; an attempt that still needs one holds it itself. A later offer of a dropped one makes the session start anew.
  while (specs_bytes_ > config_.specs_bytes_max && specs_order_.size() > 1) {
    const auto oldest = specs_.find(specs_order_.front());
    specs_bytes_ -= oldest->second->size();
    specs_.erase(oldest);
    specs_order_.pop_front();
  }
}

// A scheduler that takes no renewals is tried anew while most of the lease is left, however short that is.
int64_t SessionLogic::SilenceLimitMs() const {
  const int64_t quarter_ms = lease_.lease_ms() > 0 ? lease_.lease_ms() / 4 : config_.silence_timeout_ms;
  return std::max(std::min(config_.silence_timeout_ms, quarter_ms), 3 * lease_.renew_every_ms());
}

}  // namespace spillway::worker
