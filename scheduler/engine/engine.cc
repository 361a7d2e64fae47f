// The turn: take, admit, reduce, decide, hand out, write down.
#include "scheduler/engine/engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/log.h"

namespace spillway::engine {

Engine::Engine(Options options, SessionSink* sessions, EffectSink* effects) : options_(std::move(options)), sessions_sink_(sessions), effects_sink_(effects) {}

void Engine::Start(store::Loaded loaded, int64_t now_ms) {
  state_ = std::move(loaded.state);
  last_seq_ = loaded.last_seq;
  now_ms_ = std::max(now_ms, state_.meta.now_ms);
  last_step_ms_ = now_ms_;
  if (state_.meta.now_ms > 0) DoubtTime(now_ms_ - state_.meta.now_ms);
  core::RestartLeases(state_, options_.policy.lease_ms, now_ms_, &soft_);
  ++counters_.leases_restarted;
  rederive_ = true;
  decide_due_ = true;
}

absl::Status Engine::Refusal(const core::Command& command) const {
  if (!std::holds_alternative<core::Submit>(command)) return absl::OkStatus();
  if (!disk_full_.ok())
    return absl::ResourceExhaustedError(absl::StrCat("the scheduler cannot write to its disk, new jobs are refused: ", std::string(disk_full_.message())));
  if (disk_low_) return absl::ResourceExhaustedError("the scheduler's disk is nearly full, new jobs are refused until there is room");
  return absl::OkStatus();
}

absl::Status Engine::Post(core::Command command, Done done) {
  if (mailbox_.size() >= limits::kMailboxMax) return absl::ResourceExhaustedError("the scheduler's mailbox is full");
  if (const absl::Status refused = Refusal(command); !refused.ok()) return refused;
  mailbox_.push_back({0, std::move(command), std::move(done)});
  return absl::OkStatus();
}

std::optional<store::Batch> Engine::Step(int64_t now_ms) {
  TakeTime(now_ms);
  if (in_flight_.size() >= options_.in_flight_max) {
    TakeRenewals();
    return std::nullopt;
  }
  Turn turn;
  TakeInput(&turn);
  // After the input, before the decision: nothing expires while its renewal waits.
  TakeRenewals();
  AskAboutSilent();
  DecideAndApply(&turn);
  return Finish(&turn);
}

void Engine::TakeTime(int64_t now_ms) {
  now_ms_ = std::max(now_ms_, now_ms);
  // Renewals that waited while the engine stood still were not late. A clock set forward looks the same and gets the same answer.
  const int64_t stood_ms = now_ms_ - last_step_ms_;
  const bool stood_still = stood_ms > options_.policy.renew_every_ms;
  if (stood_still) DoubtTime(stood_ms);
  if (stood_still && !soft_.leases.empty()) {
    LOG(WARNING) << "the engine stood still for " << stood_ms << " ms: all leases start anew";
    core::RestartLeases(state_, options_.policy.lease_ms, now_ms_, &soft_);
    ++counters_.leases_restarted;
    decide_due_ = true;
  }
  last_step_ms_ = now_ms_;
}

void Engine::DoubtTime(int64_t ms) {
  while (!doubtful_ms_.empty() && doubtful_ms_.front().first + 2 * core::kListingGraceMs < now_ms_) doubtful_ms_.pop_front();
  if (ms > 0) doubtful_ms_.emplace_back(now_ms_, ms);
}

// What lies further back than a listing's grace does not matter to it: enough has passed since.
int64_t Engine::DoubtfulMsBefore(int64_t asked_ms) const {
  int64_t sum_ms = 0;
  for (const auto& [at_ms, ms] : doubtful_ms_) sum_ms += asked_ms <= at_ms + core::kListingGraceMs ? ms : 0;
  return sum_ms;
}

void Engine::TakeInput(Turn* turn) {
  while (!mailbox_.empty() && turn->events.size() < limits::kTurnEventsMax) {
    Input input = std::move(mailbox_.front());
    mailbox_.pop_front();
    if (input.session != 0) {
      const auto session = sessions_.find(input.session);
      if (session == sessions_.end()) continue;  // closed, refused or replaced meanwhile
      if (std::holds_alternative<core::NodeHello>(input.command)) {
        TakeHello(&input, turn);
      } else if (session->second.node == 0) {
        continue;  // spoke before its hello was taken
      } else if (std::holds_alternative<core::NodeReports>(input.command)) {
        TakeReports(&input, turn);
      } else {
        TakeNotice(&input, turn);
      }
      continue;
    }
    Answered(input.command);
    if (auto* listing = std::get_if<core::InstanceListing>(&input.command)) listing->doubt_ms = DoubtfulMsBefore(listing->asked_ms);
    const absl::Status refused = Refusal(input.command);
    absl::StatusOr<core::Reply> reply = refused.ok() ? Apply(input.command, turn) : refused;
    if (input.done) turn->deliveries.push_back([done = std::move(input.done), reply = std::move(reply)]() mutable { done(std::move(reply)); });
  }
}

absl::StatusOr<core::Reply> Engine::Apply(const core::Command& command, Turn* turn, NodeId said_by) {
  auto admission = core::Admit(state_, command, now_ms_, options_.policy);
  if (!admission.ok()) return admission.status();
  for (core::Event& event : admission->events) {
    if (auto* ended = std::get_if<core::AttemptEnded>(&event)) {
      // A lost node cannot say how far it came: the last progress heard is what is known.
      if (const auto heard = soft_.progress.find(ended->attempt); heard != soft_.progress.end()) ended->to_step = std::max(ended->to_step, heard->second.step);
      ForgetAttempt(ended->attempt, 0, said_by, turn);
    } else if (const auto* member = std::get_if<core::MemberEnded>(&event)) {
      ForgetAttempt(member->attempt, member->node, said_by, turn);
    }
    core::Reduce(&state_, event, now_ms_, &turn->changes);
    turn->events.push_back(std::move(event));
  }
  for (auto& spec : admission->specs) turn->specs.push_back(std::move(spec));
  return std::move(admission->reply);
}

void Engine::DecideAndApply(Turn* turn) {
  // Without news, Decide is asked when it said so, and once a renewal, since who speaks and who is silent is news of a kind that nobody posts.
  const bool due = decide_due_ || decide_again_ || !turn->events.empty() || now_ms_ >= core_deadline_ms_ ||
                   (!soft_.leases.empty() && now_ms_ - decided_ms_ >= options_.policy.renew_every_ms);
  if (!due) return;
  decide_due_ = false;
  decided_ms_ = now_ms_;
  const size_t before = turn->events.size();
  for (const core::Command& decision : core::Decide(state_, soft_, options_.policy, now_ms_)) {
    const auto taken = Apply(decision, turn);
    if (taken.ok()) continue;
    // Two decisions of one round may exclude each other: the later one is dropped, and made anew if it is still right.
    ++counters_.decisions_refused;
    CHECK(!options_.check_decisions) << "decision " << decision.index() << " was refused: " << taken.status().ToString();
  }
  decide_again_ = turn->events.size() > before;
  core_deadline_ms_ = core::NextDeadlineMs(state_, soft_, options_.policy, now_ms_);
}

std::optional<store::Batch> Engine::Finish(Turn* turn) {
  const bool writes = !turn->events.empty();
  if (writes) {
    ++counters_.turns;
    counters_.events += static_cast<int64_t>(turn->events.size());
    if (counters_.turns % options_.check_invariants_every == 0) {
      const std::string broken = core::BrokenInvariant(state_);
      CHECK(broken.empty()) << broken;
    }
  }
  WelcomeNew(turn);
  if (writes || rederive_) HandOut(turn);
  StopFenced(turn);
  CloseGone(turn);
  if (!writes) {
    CHECK(turn->changes.Empty()) << "rows changed without an event";
    // What was answered from the state rests on every turn that made it.
    if (!in_flight_.empty()) {
      auto& behind = in_flight_.back().deliveries;
      std::move(turn->deliveries.begin(), turn->deliveries.end(), std::back_inserter(behind));
    } else {
      for (const Delivery& deliver : turn->deliveries) deliver();
    }
    return std::nullopt;
  }
  const int64_t seq = ++last_seq_;
  ++counters_.batches;
  store::Batch batch = store::MakeBatch(state_, turn->changes, seq, std::move(turn->events), std::move(turn->specs));
  if (seq % options_.snapshot_every == 0) batch.snapshot = store::EncodeState(state_);
  in_flight_.push_back({seq, std::move(turn->deliveries)});
  return batch;
}

void Engine::Committed(int64_t seq) {
  CHECK(!in_flight_.empty() && in_flight_.front().seq == seq) << "turn " << seq << " was committed out of order";
  disk_full_ = absl::OkStatus();
  const std::vector<Delivery> deliveries = std::move(in_flight_.front().deliveries);
  in_flight_.pop_front();
  for (const Delivery& deliver : deliveries) deliver();
}

void Engine::CommitRefused(int64_t seq, const absl::Status& why) {
  CHECK(!in_flight_.empty() && in_flight_.front().seq == seq) << "turn " << seq << " was refused out of order";
  CHECK(absl::IsResourceExhausted(why)) << "only a full disk leaves nothing behind: " << why.ToString();
  ++counters_.commits_refused;
  disk_full_ = why;
}

void Engine::SetDiskLow(bool low) { disk_low_ = low; }

bool Engine::HasInput() const {
  if (!heard_.empty()) return true;
  return in_flight_.size() < options_.in_flight_max && (!mailbox_.empty() || decide_due_ || decide_again_ || rederive_);
}

int64_t Engine::NextDeadlineMs() const {
  if (in_flight_.size() >= options_.in_flight_max) {
    // Only a commit can move things on; the heartbeat alone tells a stall from a wait.
    return soft_.leases.empty() ? INT64_MAX : last_step_ms_ + options_.policy.renew_every_ms / 2;
  }
  if (HasInput()) return now_ms_;
  return std::min(core_deadline_ms_, soft_.leases.empty() ? INT64_MAX : last_step_ms_ + options_.policy.renew_every_ms / 2);
}

}  // namespace spillway::engine
