// The real SessionLogic between a network that loses, repeats and reorders frames, a scheduler and a supervisor that keep to the contract,
// and a worker that is killed between any two of its outputs. Whatever happens: nothing starts twice, a report number has one content, and when
// the storm is over every attempt's end has arrived, after its checkpoints.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "tests/worker/rig.h"
#include "worker/session_logic.h"

namespace spillway::worker {
namespace {

constexpr int kTasks = 6, kAttemptsEach = 3;

std::string Key(const AttemptId& attempt) { return std::string(kCluster) + "/" + attempt.ToString(); }

// Keeps START idempotent within a life, events until acked, and the store its jobs write checkpoints to.
struct FakeSupervisor {
  struct Row {
    bool exited = false;
    std::string tag;
    bool started = false;
  };
  int life = 1;
  uint64_t next = 1;
  std::map<AttemptId, Row> rows;
  std::deque<frames::Event> unacked;
  std::map<AttemptId, std::vector<CheckpointFound>> store;
  std::map<AttemptId, int> starts;

  frames::Inventory Inventory() const {
    frames::Inventory inventory;
    inventory.boot_id = "boot-" + std::to_string(life);
    inventory.containment = frames::Containment::kReaper;
    for (const auto& [attempt, row] : rows) {
      frames::InventoryItem item;
      item.attempt = {Key(attempt), attempt};
      item.state = row.exited ? AttemptState::kEnded : row.started ? AttemptState::kRunning : AttemptState::kStarting;
      item.tag = row.tag;
      inventory.items.push_back(item);
    }
    return inventory;
  }
  template <typename What>
  void Say(const AttemptId& attempt, What what) {
    unacked.push_back({next++, {Key(attempt), attempt}, 0, std::move(what)});
  }
  void Start(const StartAttempt& start) {
    const AttemptId attempt = start.offer.attempt;
    if (!rows.emplace(attempt, Row{false, EncodeTag(start.offer), false}).second) return;
    ++starts[attempt];
  }
  void End(const std::string& key, EndCause cause, Initiator initiator) {
    for (auto& [attempt, row] : rows) {
      if (Key(attempt) != key || row.exited) continue;
      row.exited = true;
      frames::ExitFacts facts;
      facts.signal = 9;
      facts.stop_cause = cause;
      facts.stop_initiator = initiator;
      facts.stop_delivered = true;
      Say(attempt, frames::Exited{facts});
    }
  }
  void Ack(uint64_t number) {
    while (!unacked.empty() && unacked.front().number <= number) {
      if (std::holds_alternative<frames::Exited>(unacked.front().what)) rows.erase(unacked.front().attempt.id);
      unacked.pop_front();
    }
  }
  void NewLife() {
    ++life;
    next = 1;
    unacked.clear();
    for (auto& [attempt, row] : rows) {
      row.exited = true;
      frames::ExitFacts facts;
      facts.supervisor_lost = true;
      Say(attempt, frames::Exited{facts});
    }
  }
  // A job does something.
  void Live(Rng& rng) {
    for (auto& [attempt, row] : rows) {
      if (row.exited || !rng.Chance(0.3)) continue;
      if (!row.started) {
        row.started = true;
        Say(attempt, frames::Started{});
      } else if (rng.Chance(0.5)) {
        const int64_t step = static_cast<int64_t>(store[attempt].size()) + 1;
        store[attempt].push_back({step, "p" + std::to_string(step), "sha", 1});
        if (rng.Chance(0.6)) Say(attempt, frames::Checkpoint{step, "p", "{}"});  // else it forgot to say so
        Say(attempt, frames::Progress{step, 0, {}});
      } else {
        row.exited = true;
        Say(attempt, frames::Exited{Rig::Code(0)});
      }
    }
  }
};

struct FakeScheduler {
  struct Task {
    AttemptNumber number = 1;
    AttemptState state = AttemptState::kOffered;
    bool stop_sent = false;
  };
  std::map<TaskId, Task> tasks;
  std::string boot;
  int64_t ack = 0;
  std::map<std::pair<std::string, int64_t>, Report> seen;  // (boot, seq): content
  std::map<AttemptId, EndFacts> ended;
  std::map<AttemptId, std::set<int64_t>> registered;
  bool welcomed = false;

  FakeScheduler() {
    for (int i = 1; i <= kTasks; ++i) tasks[{i, 0}];
  }
  AttemptId Living(const TaskId& id) const { return {id.job, id.index, tasks.at(id).number}; }
  bool AllDone() const { return ended.size() == size_t{kTasks * kAttemptsEach}; }
  void End(const AttemptId& attempt, const EndFacts& end) {
    Task& task = tasks.at(attempt.task());
    if (task.number != attempt.number || task.state == AttemptState::kEnded) return;
    ended[attempt] = end;
    task.stop_sent = false;
    task.state = AttemptState::kEnded;
    if (task.number < kAttemptsEach) {
      ++task.number;
      task.state = AttemptState::kOffered;
    }
  }
  SchedulerFrame Hello(const worker::Hello& hello) {
    std::set<AttemptId> there;
    for (const InventoryItem& item : hello.inventory) there.insert(item.attempt);
    if (hello.boot_id != boot) {
      boot = hello.boot_id;
      ack = 0;
      for (const auto& [id, task] : tasks) {
        if (task.state != AttemptState::kOffered && task.state != AttemptState::kEnded && there.count(Living(id)) == 0) {
          End(Living(id), {EndCause::kNodeLost, Initiator::kNode, "the node forgot it"});
        }
      }
    }
    SchedulerFrame frame;
    Welcome welcome = Rig::WelcomeOf();
    welcome.report_ack = ack;
    welcome.specs = {{SpecDigest("spec"), "spec"}};
    for (const auto& [id, task] : tasks) {
      if (task.state == AttemptState::kEnded) continue;
      welcome.wanted.push_back(Living(id));
      if (task.state == AttemptState::kOffered && there.count(Living(id)) == 0) welcome.offers.push_back(OfferOf(Living(id)));
    }
    frame.welcome = std::move(welcome);
    welcomed = true;
    return frame;
  }
  // False: a gap, the session must start again.
  bool Take(const std::vector<Report>& reports) {
    for (const Report& report : reports) {
      const auto [it, is_new] = seen.emplace(std::make_pair(boot, report.seq), report);
      EXPECT_EQ(it->second, report) << "number " << report.seq << " of " << boot << " means two things";
      if (report.seq <= ack) continue;
      if (report.seq != ack + 1) return false;
      ack = report.seq;
      Apply(report);
    }
    return true;
  }
  void Apply(const Report& report) {
    Task& task = tasks.at(report.attempt.task());
    if (task.number != report.attempt.number || task.state == AttemptState::kEnded) return;
    switch (report.kind) {
      case Report::Kind::kAccepted: task.state = std::max(task.state, AttemptState::kStarting); break;
      case Report::Kind::kStarted: task.state = std::max(task.state, AttemptState::kRunning); break;
      case Report::Kind::kCheckpoint: registered[report.attempt].insert(report.checkpoint.step); break;
      case Report::Kind::kEnded: End(report.attempt, report.end); break;
    }
  }
};

class Storm {
 public:
  explicit Storm(uint64_t seed) : rng_(seed) { Restart(); }

  void Run() {
    for (int i = 0; i < 600 && !scheduler_.AllDone(); ++i) Step(true);
    Cut();
    for (int i = 0; i < 4'000 && !scheduler_.AllDone(); ++i) Step(false);
    ASSERT_TRUE(scheduler_.AllDone()) << "ends are missing";
    for (const auto& [attempt, starts] : supervisor_.starts) EXPECT_EQ(starts, 1) << attempt.ToString();
    for (const auto& [attempt, end] : scheduler_.ended) {
      if (end.cause != EndCause::kCompleted) continue;
      // The jobs that ended by themselves: the newest checkpoints (bounded while cut off) are all there before the end.
      const std::vector<CheckpointFound>& store = supervisor_.store[attempt];
      const size_t from = store.size() - std::min(store.size(), ReportBook::kWaitingCheckpointsMax);
      for (size_t i = from; i < store.size(); ++i)
        EXPECT_TRUE(scheduler_.registered[attempt].count(store[i].step)) << attempt.ToString() << " step " << store[i].step;
      ++completed_;
    }
  }
  int completed() const { return completed_; }
  int restarts() const { return restarts_; }

 private:
  void Step(bool stormy) {
    now_ += rng_.Between(1, stormy ? 3'000 : 300);
    supervisor_.Live(rng_);
    if (stormy && rng_.Chance(0.01)) supervisor_.NewLife(), Hand(supervisor_.Inventory()), replayed_ = 0;
    if (stormy && rng_.Chance(0.02)) return Restart();
    if (stormy && rng_.Chance(0.03)) Cut();
    if (scheduler_.welcomed && session_ > 0) SchedulerSpeaks(stormy);
    Deliver(stormy);
    // Events in order, each once a connection; a supervisor gives unacked ones again after a reconnect.
    for (const frames::Event& event : std::deque<frames::Event>(supervisor_.unacked)) {
      if (event.number <= replayed_) continue;
      replayed_ = event.number;
      if (!Hand(event)) return;
    }
    while (!answers_.empty() && !(stormy && rng_.Chance(0.5))) {
      const Input answer = answers_.front();
      answers_.pop_front();
      if (!Hand(answer)) return;
    }
    Hand(Tick{});
  }

  void SchedulerSpeaks(bool stormy) {
    SchedulerFrame frame;
    for (auto& [id, task] : scheduler_.tasks) {
      if (task.state == AttemptState::kOffered && rng_.Chance(stormy ? 0.3 : 0.05)) {
        frame.specs = {{SpecDigest("spec"), "spec"}};
        frame.offers.push_back(OfferOf(scheduler_.Living(id)));
      } else if (task.state != AttemptState::kEnded && stormy && rng_.Chance(0.02)) {
        frame.stops.push_back({scheduler_.Living(id), EndCause::kPreempted, Initiator::kUser, 100, "storm"});
      }
    }
    if (rng_.Chance(0.5)) frame.report_ack = scheduler_.ack;
    down_.push_back(frame);
  }

  void Deliver(bool stormy) {
    std::deque<SendFrame> up;
    up.swap(up_);
    for (size_t i = 0; i < up.size(); ++i) {
      if (stormy && i + 1 < up.size() && rng_.Chance(0.1)) std::swap(up[i], up[i + 1]);
      if (up[i].session != session_ || (stormy && rng_.Chance(0.05))) continue;
      for (int copies = stormy && rng_.Chance(0.1) ? 2 : 1; copies > 0; --copies) AtScheduler(up[i].frame);
    }
    std::deque<SchedulerFrame> down;
    down.swap(down_);
    const int64_t session = session_;
    for (size_t i = 0; i < down.size(); ++i) {
      if (stormy && i + 1 < down.size() && rng_.Chance(0.1)) std::swap(down[i], down[i + 1]);
      if (stormy && rng_.Chance(0.05)) continue;
      for (int copies = stormy && rng_.Chance(0.1) ? 2 : 1; copies > 0; --copies) {
        if (!Hand(FrameReceived{session, down[i]})) return;
      }
    }
  }

  void AtScheduler(const WorkerFrame& frame) {
    if (frame.hello) return down_.push_back(scheduler_.Hello(*frame.hello));
    if (!scheduler_.welcomed) return;
    SchedulerFrame answer;
    answer.renewal_ack = frame.renewal;
    if (!scheduler_.Take(frame.reports)) {
      answer.goodbye = Goodbye{"GAP", "reports are missing", true};
      scheduler_.welcomed = false;
    }
    if (answer.renewal_ack > 0 || answer.goodbye) down_.push_back(answer);
  }

  void Cut() {
    if (session_ == 0) return;
    const int64_t session = std::exchange(session_, 0);
    up_.clear();
    down_.clear();
    scheduler_.welcomed = false;
    Hand(Disconnected{session, "cut"});
  }

  // A new worker process over the same supervisor and what was saved.
  void Restart() {
    ++restarts_;
    session_ = 0;
    scheduler_.welcomed = false;
    up_.clear();
    down_.clear();
    answers_.clear();
    replayed_ = 0;
    SessionConfig config = Rig::Config();
    config.node.cluster_uuid = cluster_;
    logic_ = std::make_unique<SessionLogic>(config, saved_);
    Hand(supervisor_.Inventory());
  }

  // False when the worker died on the way.
  bool Hand(const Input& input) {
    for (Output& output : logic_->Handle(input, now_)) {
      if (rng_.Chance(0.0005)) {
        Restart();
        return false;
      }
      CarryOut(output);
    }
    return true;
  }

  void CarryOut(Output& output) {
    if (const auto* connect = std::get_if<Connect>(&output)) {
      session_ = connect->session;
      pending_connect_ = true;
    } else if (const auto* disconnect = std::get_if<Disconnect>(&output)) {
      if (disconnect->session == session_) session_ = 0, scheduler_.welcomed = false, up_.clear(), down_.clear();
    } else if (auto* send = std::get_if<SendFrame>(&output)) {
      up_.push_back(std::move(*send));
    } else if (const auto* start = std::get_if<StartAttempt>(&output)) {
      supervisor_.Start(*start);
    } else if (const auto* stop = std::get_if<StopAttempt>(&output)) {
      supervisor_.End(stop->stop.key, stop->stop.cause, stop->stop.initiator);
    } else if (const auto* kill = std::get_if<KillAttempt>(&output)) {
      supervisor_.End(kill->kill.key, kill->kill.cause, kill->kill.initiator);
    } else if (const auto* ack = std::get_if<AckEvents>(&output)) {
      supervisor_.Ack(ack->number);
    } else if (const auto* check = std::get_if<CheckCheckpoint>(&output)) {
      answers_.push_back(CheckpointChecked{check->attempt, check->event, true, {check->said.step, "p", "sha", 1}, ""});
    } else if (const auto* scan = std::get_if<ScanCheckpoints>(&output)) {
      answers_.push_back(ScanResult{scan->attempt, supervisor_.store[scan->attempt], ""});
    } else if (const auto* save = std::get_if<SaveReports>(&output)) {
      if (save->anew) saved_ = SavedReports{save->boot_id, save->acked, {}};
      EXPECT_EQ(saved_.boot_id, save->boot_id);
      saved_.unacked.insert(saved_.unacked.end(), save->reports.begin(), save->reports.end());
    } else if (const auto* acked = std::get_if<SaveReportAck>(&output)) {
      saved_.acked = acked->seq;
      while (!saved_.unacked.empty() && saved_.unacked.front().seq <= acked->seq) saved_.unacked.erase(saved_.unacked.begin());
    } else if (const auto* node = std::get_if<SaveNode>(&output)) {
      cluster_ = node->cluster_uuid;
    }
    if (std::exchange(pending_connect_, false)) answers_.push_front(Connected{session_});
  }

  Rng rng_;
  int64_t now_ = 1'000'000;
  FakeSupervisor supervisor_;
  FakeScheduler scheduler_;
  std::unique_ptr<SessionLogic> logic_;
  SavedReports saved_;
  std::string cluster_;
  int64_t session_ = 0;
  bool pending_connect_ = false;
  uint64_t replayed_ = 0;
  std::deque<SendFrame> up_;
  std::deque<SchedulerFrame> down_;
  std::deque<Input> answers_;
  int completed_ = 0, restarts_ = 0;
};

TEST(SessionRandom, EveryEndArrivesAndNothingStartsTwice) {
  int completed = 0, restarts = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Storm storm(seed);
    storm.Run();
    completed += storm.completed();
    restarts += storm.restarts();
    if (::testing::Test::HasFailure()) break;
  }
  // The storms were no calm: many attempts ended by themselves and many workers died.
  EXPECT_GT(completed, 1'000);
  EXPECT_GT(restarts, 1'000);
}

}  // namespace
}  // namespace spillway::worker
