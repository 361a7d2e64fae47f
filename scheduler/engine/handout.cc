// What the state owes the outside, made orders and put behind the commit of its turn. Nothing is owed that a row does not say.
#include "base/log.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/resolve.h"

namespace spillway::engine {

void Engine::HandOut(Turn* turn) {
  // A full derivation hands everything out again that waits for an executor; sessions remember what they were sent, so nodes hear nothing twice.
  const bool all = rederive_ || counters_.turns % options_.rederive_effects_every == 0;
  if (all) {
    seals_asked_.clear();
    creates_asked_.clear();
    terminates_asked_.clear();
    rederive_ = false;
  }
  for (const core::Effect& effect : core::Effects(state_, all ? nullptr : &turn->changes)) {
    if (const auto* offer = std::get_if<core::OfferAttempt>(&effect)) {
      HandOutOffer(*offer, turn);
    } else if (const auto* stop = std::get_if<core::StopOnNode>(&effect)) {
      HandOutStop(*stop, turn);
    } else if (const auto* seal = std::get_if<core::SealAttempt>(&effect)) {
      if (!seals_asked_.insert(seal->attempt).second) continue;
      if (auto order = ResolveSeal(state_, seal->attempt)) turn->deliveries.push_back([this, order = *std::move(order)] { effects_sink_->Seal(order); });
    } else if (const auto* create = std::get_if<core::CreateInstance>(&effect)) {
      if (!creates_asked_.insert(create->node).second) continue;
      if (auto order = ResolveCreate(state_, create->node)) turn->deliveries.push_back([this, order = *std::move(order)] { effects_sink_->Create(order); });
    } else if (const auto* terminate = std::get_if<core::TerminateInstance>(&effect)) {
      if (!terminates_asked_.insert(terminate->node).second) continue;
      if (auto order = ResolveTerminate(state_, terminate->node)) {
        turn->deliveries.push_back([this, order = *std::move(order)] { effects_sink_->Terminate(order); });
      }
    }
  }
}

void Engine::HandOutOffer(const core::OfferAttempt& effect, Turn* turn) {
  int64_t number = 0;
  Session* session = LiveSessionOf(effect.node, &number);
  // Without a session the Welcome of the next one carries it.
  if (session == nullptr) return;
  const bool to_start = core::FindTask(state_, effect.attempt.task())->attempt->state == AttemptState::kStarting;
  const auto [said, first] = session->offered.emplace(effect.attempt, to_start);
  if (!first && said->second == to_start) return;
  said->second = to_start;
  auto order = ResolveOffer(state_, effect.node, effect.attempt);
  CHECK(order.has_value()) << "an offer of " << effect.attempt.ToString() << " is owed and cannot be made";
  turn->deliveries.push_back([this, number, order = *std::move(order)] { sessions_sink_->Offer(number, order); });
}

void Engine::HandOutStop(const core::StopOnNode& effect, Turn* turn) {
  int64_t number = 0;
  Session* session = LiveSessionOf(effect.node, &number);
  if (session == nullptr) return;
  auto order = ResolveStop(state_, effect.node, effect.attempt);
  CHECK(order.has_value()) << "a stop of " << effect.attempt.ToString() << " is owed and cannot be made";
  // Said once, and again when it has become tighter.
  const auto [said, first] = session->stopped.emplace(effect.attempt, order->stop.grace_ms);
  if (!first && said->second == order->stop.grace_ms) return;
  said->second = order->stop.grace_ms;
  turn->deliveries.push_back([this, number, order = *std::move(order)] { sessions_sink_->Stop(number, order); });
}

void Engine::Answered(const core::Command& command) {
  if (const auto* seal = std::get_if<core::SealResult>(&command)) seals_asked_.erase(seal->attempt);
  if (const auto* created = std::get_if<core::InstanceCreated>(&command)) creates_asked_.erase(created->node);
  if (const auto* refused = std::get_if<core::InstanceRefused>(&command)) creates_asked_.erase(refused->node);
  if (const auto* gone = std::get_if<core::InstanceGone>(&command)) terminates_asked_.erase(gone->node);
}

}  // namespace spillway::engine
