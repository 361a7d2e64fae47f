// A SessionLogic with a clock in hand, and words to ask for what it put out. For tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "worker/session_logic.h"

namespace spillway::worker {

inline constexpr int64_t kLease = 600'000, kRenew = 10'000;
inline const char kCluster[] = "c1";

inline std::string SpecDigest(const std::string& spec) {
  const Sha256Digest digest = Sha256Of(spec);
  return std::string(digest.begin(), digest.end());
}

inline Offer OfferOf(const AttemptId& attempt, const std::string& spec = "spec") {
  Offer offer;
  offer.attempt = attempt;
  offer.spec_digest = SpecDigest(spec);
  offer.job_uid = "uid";
  offer.job_name = "job";
  offer.checkpoint_dir = "c1/1/0/a1";
  offer.log_path = "1/0/a1.log";
  return offer;
}

template <typename T>
std::vector<T> All(const std::vector<Output>& outputs) {
  std::vector<T> found;
  for (const Output& output : outputs) {
    if (const T* one = std::get_if<T>(&output)) found.push_back(*one);
  }
  return found;
}

inline std::vector<Report> ReportsIn(const std::vector<Output>& outputs) {
  std::vector<Report> reports;
  for (const SendFrame& send : All<SendFrame>(outputs)) reports.insert(reports.end(), send.frame.reports.begin(), send.frame.reports.end());
  return reports;
}

struct Rig {
  static SessionConfig Config() {
    SessionConfig config;
    config.node.node_name = "n1";
    config.node.provider = "static";
    return config;
  }
  explicit Rig(SavedReports saved = {}, SessionConfig config = Config()) : logic(std::move(config), std::move(saved)) {}

  std::vector<Output> Do(const Input& input) { return logic.Handle(input, now); }
  std::vector<Output> After(int64_t ms) {
    now += ms;
    return Do(Tick{});
  }
  frames::Inventory Empty(const std::string& boot = "boot-1") {
    frames::Inventory inventory;
    inventory.boot_id = boot;
    inventory.containment = frames::Containment::kCgroup;
    return inventory;
  }
  static Welcome WelcomeOf() {
    Welcome welcome;
    welcome.cluster_uuid = kCluster;
    welcome.node_id = 7;
    welcome.lease_ms = kLease;
    welcome.renew_every_ms = kRenew;
    welcome.store_url = "file:/store";
    return welcome;
  }
  std::vector<Output> Receive(SchedulerFrame frame) { return Do(FrameReceived{session, std::move(frame)}); }
  // Runs the clock to the next Connect; the hello it leads to.
  Hello Reconnect() {
    now = std::max(now, logic.NextWakeMs());
    const std::vector<Connect> connects = All<Connect>(Do(Tick{}));
    if (connects.size() != 1) return {};
    session = connects[0].session;
    const std::vector<SendFrame> sent = All<SendFrame>(Do(Connected{session}));
    return sent.size() == 1 && sent[0].frame.hello ? *sent[0].frame.hello : Hello{};
  }
  std::vector<Output> Greet(Welcome welcome = WelcomeOf()) {
    SchedulerFrame frame;
    frame.welcome = std::move(welcome);
    return Receive(std::move(frame));
  }
  void Join() {
    Do(Empty());
    Reconnect();
    Greet();
  }
  std::vector<Output> Offered(const AttemptId& attempt, const std::string& spec = "spec") {
    SchedulerFrame frame;
    frame.specs.push_back({SpecDigest(spec), spec});
    frame.offers.push_back(OfferOf(attempt, spec));
    return Receive(std::move(frame));
  }
  std::vector<Output> StopOf(const AttemptId& attempt, EndCause cause, int64_t grace_ms = 5'000) {
    SchedulerFrame frame;
    frame.stops.push_back({attempt, cause, Initiator::kUser, grace_ms, "asked"});
    return Receive(std::move(frame));
  }
  std::vector<Output> Acked(int64_t seq) {
    SchedulerFrame frame;
    frame.report_ack = seq;
    return Receive(std::move(frame));
  }
  template <typename What>
  std::vector<Output> Event(const AttemptId& attempt, What what) {
    return Do(frames::Event{++events, {std::string(kCluster) + "/" + attempt.ToString(), attempt}, now, std::move(what)});
  }
  // An exit with nothing found in the store.
  std::vector<Output> Exits(const AttemptId& attempt, frames::ExitFacts facts) {
    std::vector<Output> outputs = Event(attempt, frames::Exited{std::move(facts)});
    const std::vector<Output> rest = Do(ScanResult{attempt, {}, ""});
    outputs.insert(outputs.end(), rest.begin(), rest.end());
    return outputs;
  }
  static frames::ExitFacts Code(int64_t code) {
    frames::ExitFacts facts;
    facts.exited = true;
    facts.exit_code = code;
    facts.started_boottime_ms = 1'000;
    facts.ended_boottime_ms = 4'500;
    return facts;
  }

  int64_t now = 1'000'000;
  int64_t session = 0;
  uint64_t events = 0;
  SessionLogic logic;
};

}  // namespace spillway::worker
