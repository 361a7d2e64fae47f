// An engine on a real store, driven by hand: the test says when time passes, when a turn is made, when it is committed, and when the process dies.
// Records everything that leaves the engine, in order.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/verify.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/core/world.h"

namespace spillway::engine {

using core::Box;
using core::Cpu;
using core::Gpus;
using core::kMinute;
using core::kSecond;
using core::MakeJob;
using core::MakeOffer;

class Harness : public SessionSink, public EffectSink {
 public:
  explicit Harness(Options engine_options = {}) : options(std::move(engine_options)) {
    options.check_invariants_every = 1;
    store::SqliteOptions on;
    on.path = ":memory:";
    auto opened = store::SqliteStore::Open(on);
    EXPECT_OK(opened);
    store = *std::move(opened);
    Restart();
  }

  // The process dies and another one begins: what was not committed is gone, and so is everything volatile.
  void Restart() {
    engine = std::make_unique<Engine>(options, this, this);
    batches.clear();
    auto loaded = store->Load();
    ASSERT_OK(loaded);
    engine->Start(*std::move(loaded), now_ms);
  }

  // --- driving ---
  bool Step() {
    auto batch = engine->Step(now_ms);
    if (!batch.has_value()) return false;
    if (keep_states) states[batch->seq] = store::EncodeState(engine->state());
    batches.push_back(*std::move(batch));
    return true;
  }
  void CommitOne() {
    ASSERT_FALSE(batches.empty());
    const store::Batch batch = std::move(batches.front());
    batches.pop_front();
    ASSERT_OK(store->Commit(batch));
    committed_seq = batch.seq;
    for (const core::Job& job : batch.jobs) jobs[job.id] = job;
    engine->Committed(batch.seq);
  }
  void Run() {
    while (true) {
      const bool made = Step();
      while (!batches.empty()) CommitOne();
      if (!made && !engine->HasInput()) return;
    }
  }
  // Moves time to `until_ms` the way a driver does, stopping at every deadline.
  void Pass(int64_t ms) {
    const int64_t until_ms = now_ms + ms;
    while (now_ms < until_ms) {
      now_ms = std::min(until_ms, std::max(engine->NextDeadlineMs(), now_ms + 1));
      for (const int64_t session : renewing) engine->Heard(session, ++renewals);
      Run();
    }
  }

  // --- shorthands ---
  absl::StatusOr<core::Reply> Do(core::Command command) {
    absl::StatusOr<core::Reply> answer = absl::UnknownError("not answered");
    const absl::Status posted = engine->Post(std::move(command), [&](absl::StatusOr<core::Reply> reply) { answer = std::move(reply); });
    if (!posted.ok()) return posted;
    Run();
    return answer;
  }
  void Configure(std::vector<core::ProviderInfo> providers, std::vector<core::Reservation> reservations = {}) {
    ASSERT_OK(Do(core::Configure{"cluster", std::move(providers), std::move(reservations)}));
  }
  static core::Submit OneJob(const core::Shape& shape, const std::string& request_id = "") {
    core::Submit submit;
    submit.request_id = request_id;
    submit.request_digest = "digest of " + request_id;
    submit.jobs = {MakeJob(shape)};
    return submit;
  }
  JobId SubmitJob(const core::Shape& shape) {
    auto reply = Do(OneJob(shape));
    EXPECT_OK(reply);
    return reply.ok() ? reply->jobs.at(0) : 0;
  }
  static core::NodeHello HelloOf(const std::string& name, const core::Capacity& capacity, const std::string& boot_id = "boot-1") {
    core::NodeHello hello;
    hello.name = name;
    hello.provider = "static";
    hello.boot_id = boot_id;
    hello.capacity = capacity;
    return hello;
  }
  NodeId Register(int64_t session, const std::string& name, const core::Capacity& capacity, const std::string& boot_id = "boot-1") {
    EXPECT_OK(engine->Hello(session, HelloOf(name, capacity, boot_id)));
    Run();
    const auto it = welcomes.find(session);
    EXPECT_TRUE(it != welcomes.end()) << "no welcome for session " << session;
    return it == welcomes.end() ? 0 : it->second.node;
  }
  core::Report Said(AttemptId attempt, core::Report::Kind kind, NodeId node) {
    core::Report report;
    report.seq = ++reports[node];
    report.attempt = attempt;
    report.kind = kind;
    return report;
  }
  const core::Attempt* Living(TaskId id) {
    const core::Task* task = core::FindTask(engine->state(), id);
    return task == nullptr || !task->attempt ? nullptr : &*task->attempt;
  }
  AttemptId LivingId(TaskId id) {
    const core::Attempt* attempt = Living(id);
    return {id.job, id.index, attempt == nullptr ? 0 : attempt->number};
  }

  // --- what leaves ---
  void Welcome(int64_t session, const WelcomeOrder& order) override { welcomes[session] = order, Note("welcome ", session); }
  void Refuse(int64_t session, const absl::Status& why) override { refused[session] = why, Note("refuse ", session); }
  void Offer(int64_t session, const OfferOrder& order) override { offers.push_back(order), Note("offer ", session, " ", order.attempt.ToString()); }
  void Stop(int64_t session, const StopOrder& order) override { stops.push_back(order), Note("stop ", session, " ", order.attempt.ToString()); }
  void Forget(int64_t session, const ForgetOrder& order) override { Note("forget ", session, " ", order.attempt.ToString()); }
  void AckReports(int64_t session, int64_t seq) override { Note("ack reports ", session, " ", seq); }
  void AckRenewal(int64_t session, int64_t renewal) override { Note("ack renewal ", session, " ", renewal); }
  void Close(int64_t session, absl::string_view code, absl::string_view message, bool come_back) override {
    Note("close ", session, " ", std::string(code), come_back ? " come back" : "");
  }
  void Seal(const SealOrder& order) override { seals.push_back(order), Note("seal ", order.attempt.ToString()); }
  void Create(const CreateOrder& order) override { creates.push_back(order), Note("create ", order.node.id); }
  void Terminate(const TerminateOrder& order) override { terminates.push_back(order), Note("terminate ", order.node); }
  void AskAbout(const std::string& provider) override { Note("ask about ", provider); }

  // The log since the last call.
  std::vector<std::string> Said() { return std::exchange(log, {}); }
  int64_t Count(const std::string& line) const { return std::count(log.begin(), log.end(), line); }

  Options options;
  int64_t now_ms = 1'000'000'000;
  std::unique_ptr<store::SqliteStore> store;
  std::unique_ptr<Engine> engine;
  std::deque<store::Batch> batches;  // made, not committed

  int64_t committed_seq = 0;
  std::map<JobId, core::Job> jobs;  // newest committed value of each, ended ones too
  bool keep_states = false;
  std::map<int64_t, std::string> states;  // seq -> the state after that turn, encoded

  std::map<int64_t, WelcomeOrder> welcomes;
  std::map<int64_t, absl::Status> refused;
  std::vector<OfferOrder> offers;
  std::vector<StopOrder> stops;
  std::vector<SealOrder> seals;
  std::vector<CreateOrder> creates;
  std::vector<TerminateOrder> terminates;
  std::vector<std::string> log;
  std::map<NodeId, int64_t> reports;  // last number used
  std::set<int64_t> renewing;         // sessions that renew at every stop of Pass
  int64_t renewals = 0;

 private:
  template <typename... Parts>
  void Note(const Parts&... parts) {
    log.push_back(absl::StrCat(parts...));
  }
};

}  // namespace spillway::engine
