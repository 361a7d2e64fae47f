// Who speaks for which node: sessions, the leases they renew, and what nodes are told about them. Owns Soft::leases; the rows of nodes are the core's.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/resolve.h"

namespace spillway::engine {

absl::Status Engine::Hello(int64_t session, core::NodeHello hello) {
  if (mailbox_.size() >= limits::kMailboxMax) return absl::ResourceExhaustedError("the scheduler's mailbox is full");
  sessions_[session];
  mailbox_.push_back({session, std::move(hello), nullptr});
  return absl::OkStatus();
}

void Engine::Heard(int64_t session, int64_t renewal) {
  if (sessions_.count(session) == 0) return;
  int64_t& newest = heard_[session];
  newest = std::max(newest, renewal);
}

void Engine::Reports(int64_t session, std::vector<core::Report> reports) {
  if (sessions_.count(session) == 0) return;
  Heard(session, 0);
  if (CloseWhenFull(session)) return;
  core::NodeReports command;
  command.reports = std::move(reports);
  mailbox_.push_back({session, std::move(command), nullptr});
}

bool Engine::CloseWhenFull(int64_t session) {
  if (mailbox_.size() < limits::kMailboxMax) return false;
  // To drop one report would leave a gap in their numbers. The worker keeps what was not acked.
  sessions_sink_->Close(session, "BUSY", "the scheduler's mailbox is full", true);
  DropSession(session);
  return true;
}

void Engine::Progressed(int64_t session, AttemptId attempt, core::Progress progress) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end() || it->second.node == 0) return;
  Heard(session, 0);
  // Only of what lives on this node: a fenced attempt's progress is nobody's.
  const auto here = state_.index.on_node.find(it->second.node);
  if (here == state_.index.on_node.end() || here->second.count(attempt) == 0) return;
  progress.at_ms = now_ms_;
  soft_.progress[attempt] = std::move(progress);
}

void Engine::Noticed(int64_t session, int64_t in_ms, std::string source, bool advisory) {
  if (sessions_.count(session) == 0) return;
  Heard(session, 0);
  if (CloseWhenFull(session)) return;
  core::NodeNotice command;
  command.in_ms = in_ms;
  command.source = std::move(source);
  command.advisory = advisory;
  mailbox_.push_back({session, std::move(command), nullptr});
}

void Engine::Closed(int64_t session) { DropSession(session); }

void Engine::DropSession(int64_t session) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  // The lease goes on: silence is counted from what was heard last.
  if (const auto lease = soft_.leases.find(it->second.node); lease != soft_.leases.end() && lease->second.session == session) {
    lease->second.session = 0;
    decide_due_ = true;
  }
  sessions_.erase(it);
  heard_.erase(session);
}

Engine::Session* Engine::LiveSessionOf(NodeId node, int64_t* number) {
  const auto lease = soft_.leases.find(node);
  if (lease == soft_.leases.end() || lease->second.session == 0) return nullptr;
  const auto session = sessions_.find(lease->second.session);
  if (session == sessions_.end()) return nullptr;
  *number = session->first;
  return &session->second;
}

bool Engine::SessionAlive(const core::NodeHello& hello, int64_t but) const {
  const std::string provider = hello.provider.empty() ? "static" : hello.provider;
  const auto alive = [&](const std::map<std::pair<std::string, std::string>, NodeId>& index, const std::string& key) {
    const auto found = index.find({provider, key});
    if (found == index.end()) return false;
    const auto lease = soft_.leases.find(found->second);
    // A session whose node has been silent for long is a connection that nobody has missed yet.
    return lease != soft_.leases.end() && lease->second.session != 0 && lease->second.session != but &&
           now_ms_ - lease->second.heard_ms <= options_.policy.silence_ms;
  };
  if (!hello.instance_id.empty() && alive(state_.index.node_by_instance, hello.instance_id)) return true;
  return alive(state_.index.node_by_name, hello.name);
}

void Engine::TakeHello(Input* input, Turn* turn) {
  auto& hello = std::get<core::NodeHello>(input->command);
  const int64_t number = input->session;
  hello.other_session_alive = SessionAlive(hello, number);
  auto reply = Apply(input->command, turn);
  if (!reply.ok()) {
    turn->deliveries.push_back([this, number, why = reply.status()] { sessions_sink_->Refuse(number, why); });
    DropSession(number);
    return;
  }
  core::NodeLease& lease = soft_.leases[reply->node];
  if (lease.session != 0 && lease.session != number) {
    turn->deliveries.push_back([this, old = lease.session] { sessions_sink_->Close(old, "REPLACED", "the node opened a newer session", true); });
    DropSession(lease.session);
  }
  lease.session = number;
  lease.heard_ms = now_ms_;
  lease.lease_end_ms = std::max(lease.lease_end_ms, now_ms_ + options_.policy.lease_ms);
  lease.renewal = 0;
  Session& session = sessions_[number];
  session.node = reply->node;
  session.boot_id = hello.boot_id;
  for (const core::InventoryEntry& entry : hello.inventory) session.inventory.insert(entry.attempt);
  turn->hellos.push_back(number);
  decide_due_ = true;
}

void Engine::TakeReports(Input* input, Turn* turn) {
  const int64_t number = input->session;
  auto& command = std::get<core::NodeReports>(input->command);
  const Session& session = sessions_.at(number);
  command.node = session.node;
  command.boot_id = session.boot_id;
  auto reply = Apply(input->command, turn, session.node);
  if (!reply.ok()) {
    // A gap, another life, or a node that is gone: the session starts again, and its hello tells what is so.
    turn->deliveries.push_back([this, number, message = std::string(reply.status().message())] { sessions_sink_->Close(number, "RESTART", message, true); });
    DropSession(number);
    return;
  }
  turn->deliveries.push_back([this, number, ack = reply->report_ack] { sessions_sink_->AckReports(number, ack); });
  for (const core::Report& report : command.reports) {
    if (report.kind != core::Report::Kind::kEnded) continue;
    turn->deliveries.push_back([this, number, order = ForgetOrder{session.node, report.attempt}] { sessions_sink_->Forget(number, order); });
  }
}

void Engine::TakeNotice(Input* input, Turn* turn) {
  std::get<core::NodeNotice>(input->command).node = sessions_.at(input->session).node;
  // Refused only when the node is gone: then its session is being closed anyway.
  Apply(input->command, turn).status().IgnoreError();
}

void Engine::TakeRenewals() {
  // The sink may call back.
  for (const auto& [number, renewal] : std::exchange(heard_, {})) {
    const auto it = sessions_.find(number);
    if (it == sessions_.end() || it->second.node == 0) continue;
    Session& session = it->second;
    const auto lease = soft_.leases.find(session.node);
    // A node that the state has given up must not be told that its lease goes on, committed or not.
    if (lease == soft_.leases.end() || lease->second.session != number || core::FindNode(state_, session.node) == nullptr) continue;
    lease->second.heard_ms = now_ms_;
    if (renewal == 0) continue;
    lease->second.lease_end_ms = std::max(lease->second.lease_end_ms, now_ms_ + options_.policy.lease_ms);
    lease->second.renewal = std::max(lease->second.renewal, renewal);
    session.renewal = lease->second.renewal;
    if (session.welcomed) sessions_sink_->AckRenewal(number, session.renewal);
  }
}

void Engine::WelcomeNew(Turn* turn) {
  for (const int64_t number : turn->hellos) {
    const auto it = sessions_.find(number);
    if (it == sessions_.end() || core::FindNode(state_, it->second.node) == nullptr) continue;  // replaced or gone within the turn
    Session& session = it->second;
    WelcomeOrder order = ResolveWelcome(state_, options_.policy, session.node, session.inventory);
    session.inventory.clear();
    for (const AttemptId& attempt : order.wanted) {
      session.offered[attempt] = core::FindTask(state_, attempt.task())->attempt->state == AttemptState::kStarting;
    }
    for (const StopOrder& stop : order.stops) session.stopped[stop.attempt] = stop.stop.grace_ms;
    turn->deliveries.push_back([this, number, order = std::move(order)] {
      sessions_sink_->Welcome(number, order);
      const auto session = sessions_.find(number);
      if (session == sessions_.end()) return;
      session->second.welcomed = true;
      if (session->second.renewal > 0) sessions_sink_->AckRenewal(number, session->second.renewal);
    });
  }
}

void Engine::CloseGone(Turn* turn) {
  for (const auto& [id, node] : turn->changes.gone_nodes) {
    const auto lease = soft_.leases.find(id);
    if (lease == soft_.leases.end()) continue;
    if (const int64_t number = lease->second.session; number != 0) {
      // A machine that is not ours to end may come back as a new node; one that we ended has no business here any more.
      turn->deliveries.push_back(
          [this, number, owned = node.owned, reason = node.reason] { sessions_sink_->Close(number, owned ? "RELEASED" : "LOST", reason, !owned); });
      DropSession(number);
    }
    soft_.leases.erase(id);
  }
}

void Engine::ForgetAttempt(AttemptId attempt, NodeId on, NodeId said_by, Turn* turn) {
  if (on == 0) soft_.progress.erase(attempt);
  const core::Task* task = core::FindTask(state_, attempt.task());
  if (task == nullptr || !task->attempt.has_value()) return;
  for (const core::Member& member : task->attempt->members) {
    if (on != 0 && member.node != on) continue;
    int64_t number;
    Session* session = LiveSessionOf(member.node, &number);
    if (session == nullptr) continue;
    session->offered.erase(attempt);
    session->stopped.erase(attempt);
    // The scheduler gave it up, the node may not know: what still runs there has lost its authority.
    if (member.node != said_by && !member.stopped) turn->fenced.push_back({number, member.node, attempt});
  }
}

void Engine::StopFenced(Turn* turn) {
  for (const auto& [number, node, attempt] : turn->fenced) {
    if (sessions_.count(number) == 0 || core::FindNode(state_, node) == nullptr) continue;
    StopOrder order{node, attempt, {}};
    order.stop.cause = EndCause::kFenced;
    order.stop.initiator = Initiator::kScheduler;
    order.stop.requested_ms = now_ms_;
    order.stop.reason = "the scheduler has given this attempt up";
    turn->deliveries.push_back([this, number = number, order = std::move(order)] { sessions_sink_->Stop(number, order); });
  }
}

void Engine::AskAboutSilent() {
  // Once a second is often enough to look, once a renewal to ask.
  if (now_ms_ < silence_checked_ms_ + 1'000) return;
  silence_checked_ms_ = now_ms_;
  for (const auto& [id, lease] : soft_.leases) {
    if (now_ms_ - std::max(lease.heard_ms, soft_.leases_restarted_ms) < options_.policy.silence_ms) continue;
    const core::Node* node = core::FindNode(state_, id);
    if (node == nullptr) continue;
    const auto provider = state_.meta.providers.find(node->provider);
    if (provider == state_.meta.providers.end() || !provider->second.can_testify) continue;
    auto [asked, first] = asked_about_ms_.emplace(node->provider, now_ms_);
    if (!first && now_ms_ - asked->second < options_.policy.renew_every_ms) continue;
    asked->second = now_ms_;
    effects_sink_->AskAbout(node->provider);
  }
}

}  // namespace spillway::engine
