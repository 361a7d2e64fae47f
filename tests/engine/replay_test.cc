// Random lives of a small cluster, with crashes at random moments. After each crash: what was acknowledged is there, once; the rows are the state of the newest
// committed turn, byte for byte; and the oldest snapshot with the events after it gives the same bytes (promises 1 and 10).
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/engine/harness.h"

namespace spillway::engine {
namespace {

using Kind = core::Report::Kind;

class RandomLife {
 public:
  explicit RandomLife(uint64_t seed) : rng_(seed), h_(MakeOptions()) {
    h_.keep_states = true;
    h_.Configure({core::Cloud("cloud", 4)}, {{"year", {"rack-0", "rack-1"}, 1'000'000, 0, 0}});
  }

  void Live(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      Act();
      if (rng_.Below(3) != 0) h_.Step();
      while (!h_.batches.empty() && rng_.Below(4) != 0) h_.CommitOne();
      if (rng_.Below(4) == 0) h_.now_ms += rng_.Between(1, 8'000);
      if (rng_.Below(60) == 0) Crash();
    }
    h_.Run();
    Check();
  }

  int crashes() const { return crashes_; }
  size_t acknowledged() const { return acknowledged_.size(); }
  const Harness& h() const { return h_; }
  int64_t ended() const {
    return std::count_if(h_.jobs.begin(), h_.jobs.end(), [](const auto& job) { return job.second.ended_ms != 0; });
  }

 private:
  static Options MakeOptions() {
    Options options;
    options.snapshot_every = 7;
    options.rederive_effects_every = 50;
    options.check_decisions = true;
    return options;
  }

  void Act() {
    switch (rng_.Below(14)) {
      case 0:
      case 1: Submit(); break;
      case 2: Register(); break;
      case 3:
      case 4:
      case 5:
      case 6:
      case 7: Report(); break;
      case 8: Answer(); break;
      case 9: Cloud(); break;
      case 10: Interfere(); break;
      case 11:
        for (const auto& [session, node] : sessions_) h_.engine->Heard(session, ++renewal_);
        break;
      case 12:
        if (!sessions_.empty() && rng_.Below(4) == 0) CloseOne();
        break;
      default: h_.Step(); break;
    }
  }

  void Submit() {
    // What was never answered is sent again with the same request id, as a client does.
    std::string id = absl::StrCat("request-", next_request_++);
    if (!unanswered_.empty() && rng_.Below(2) == 0) id = *unanswered_.begin();
    unanswered_.insert(id);
    Rng choices(std::hash<std::string>()(id));
    core::Submit submit;
    submit.request_id = id;
    submit.request_digest = "digest of " + id;
    core::Shape shape = choices.Below(2) == 0 ? Cpu(choices.Between(1, 3) * 1000) : Gpus(choices.Between(1, 2));
    if (choices.Below(6) == 0) shape.nodes = 2;
    if (choices.Below(4) == 0) shape.interruptible = false;
    submit.jobs = {MakeJob(shape, choices.Between(0, 100))};
    submit.jobs[0].task_count = choices.Below(3) == 0 ? choices.Between(2, 6) : 1;
    submit.jobs[0].spec_bytes = "spec of " + id;
    h_.engine
        ->Post(std::move(submit),
               [this, id](absl::StatusOr<core::Reply> reply) {
                 unanswered_.erase(id);
                 if (!reply.ok()) return;
                 for (const JobId job : reply->jobs) acknowledged_[job] = id;
               })
        .IgnoreError();
  }

  void Register() {
    const std::string name = absl::StrCat("rack-", rng_.Below(4));
    const bool new_life = boots_[name].empty() || rng_.Below(4) == 0;
    if (new_life) boots_[name] = absl::StrCat(name, "-boot-", ++boot_);
    core::NodeHello hello = Harness::HelloOf(name, Box(4, 2), boots_[name]);
    const auto found = h_.engine->state().index.node_by_name.find({"static", name});
    if (!new_life && found != h_.engine->state().index.node_by_name.end()) FillInventory(found->second, &hello);
    Open(std::move(hello));
  }

  void FillInventory(NodeId node, core::NodeHello* hello) {
    for (const AttemptId& id : core::WantedOn(h_.engine->state(), node)) {
      const core::Attempt* attempt = h_.Living(id.task());
      if (attempt->state != AttemptState::kOffered) hello->inventory.push_back({id, attempt->state});
    }
  }

  void Open(core::NodeHello hello) {
    const int64_t session = ++session_;
    ASSERT_OK(h_.engine->Hello(session, std::move(hello)));
    h_.Step();
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      const auto lease = h_.engine->soft().leases.find(it->second);
      it = lease == h_.engine->soft().leases.end() || lease->second.session != it->first ? sessions_.erase(it) : std::next(it);
    }
    for (const auto& [node, lease] : h_.engine->soft().leases) {
      if (lease.session == session) sessions_[session] = node;
    }
  }

  void CloseOne() {
    auto it = sessions_.begin();
    std::advance(it, rng_.Below(sessions_.size()));
    h_.engine->Closed(it->first);
    sessions_.erase(it);
  }

  void Report() {
    if (sessions_.empty()) return;
    auto it = sessions_.begin();
    std::advance(it, rng_.Below(sessions_.size()));
    const core::Node* node = core::FindNode(h_.engine->state(), it->second);
    const auto wanted = core::WantedOn(h_.engine->state(), it->second);
    if (node == nullptr || wanted.empty()) return;
    const AttemptId id = wanted[rng_.Below(wanted.size())];
    const core::Attempt& attempt = *h_.Living(id.task());
    core::Report report;
    report.seq = node->report_ack + 1;
    report.attempt = id;
    if (attempt.accepted_ms == 0) {
      report.kind = rng_.Below(8) == 0 ? Kind::kEnded : Kind::kAccepted;
      report.cause = EndCause::kLaunchFailed;
      report.initiator = Initiator::kNode;
    } else if (attempt.started_ms == 0) {
      report.kind = Kind::kStarted;
    } else if (rng_.Below(2) == 0) {
      report.kind = Kind::kCheckpoint;
      report.checkpoint.attempt = id.number;
      report.checkpoint.step = attempt.saved_step + rng_.Between(1, 50);
      report.checkpoint.path = absl::StrCat("c/", id.ToString(), "/", report.checkpoint.step);
      report.checkpoint.manifest_sha256 = "00";
    } else {
      report.kind = Kind::kEnded;
      const EndCause causes[] = {EndCause::kCompleted,   EndCause::kCompleted,    EndCause::kUserError,
                                 EndCause::kOutOfMemory, EndCause::kCheckpointed, EndCause::kPreempted};
      report.cause = causes[rng_.Below(6)];
      report.initiator = Initiator::kJob;
      report.last_step = attempt.saved_step + 3;
    }
    h_.engine->Progressed(it->first, id, {.step = 1});
    h_.engine->Reports(it->first, {report});
    h_.Step();
  }

  // Executors answer what they were asked, sometimes.
  void Answer() {
    while (!h_.seals.empty() && rng_.Below(4) != 0) {
      core::SealResult result;
      result.attempt = h_.seals.back().attempt;
      if (rng_.Below(2) == 0) {
        result.newest.emplace();
        result.newest->attempt = result.attempt.number;
        result.newest->step = 10'000 + result.attempt.number;
        result.newest->path = "sealed/" + result.attempt.ToString();
        result.newest->manifest_sha256 = "11";
      }
      h_.engine->Post(result, nullptr).IgnoreError();
      h_.seals.pop_back();
    }
    while (!h_.creates.empty() && rng_.Below(3) != 0) {
      const NodeId node = h_.creates.back().node.id;
      if (rng_.Below(4) == 0) {
        core::InstanceRefused refused;
        refused.node = node;
        refused.message = "no capacity";
        h_.engine->Post(refused, nullptr).IgnoreError();
      } else {
        h_.engine->Post(core::InstanceCreated{node, absl::StrCat("i-", node)}, nullptr).IgnoreError();
      }
      h_.creates.pop_back();
    }
    while (!h_.terminates.empty() && rng_.Below(3) != 0) {
      core::InstanceGone gone;
      gone.node = h_.terminates.back().node;
      gone.billed_micros = rng_.Below(2) == 0 ? -1 : rng_.Between(0, 1'000'000);
      h_.engine->Post(gone, nullptr).IgnoreError();
      h_.terminates.pop_back();
    }
  }

  void Cloud() {
    const auto& state = h_.engine->state();
    if (state.offers.empty() || rng_.Below(3) == 0) {
      core::OffersListed listed{"cloud",
                                {MakeOffer("cloud", "od", Market::kOnDemand, rng_.Between(2, 4) * 1'000'000, Box(4, 2)),
                                 MakeOffer("cloud", "spot", Market::kSpot, rng_.Between(1, 3) * 500'000, Box(4, 2))}};
      if (rng_.Below(5) == 0) listed.offers.pop_back();
      h_.engine->Post(std::move(listed), nullptr).IgnoreError();
      return;
    }
    // One machine comes up, or is taken.
    for (const auto& [id, node] : state.nodes) {
      if (!node.owned || rng_.Below(2) == 0) continue;
      if (node.state == NodeState::kBooting) {
        core::NodeHello hello = Harness::HelloOf(node.name, Box(4, 2), "boot of " + node.name);
        hello.provider = "cloud";
        hello.instance_id = node.instance_id;
        return Open(std::move(hello));
      }
      if (node.state == NodeState::kReady && rng_.Below(2) == 0) {
        for (const auto& [session, on] : sessions_) {
          if (on == id) h_.engine->Noticed(session, 30'000, "cloud", false);
        }
        return;
      }
      core::InstanceGone gone;
      gone.node = id;
      gone.reclaimed = true;
      gone.reason = "reclaimed";
      h_.engine->Post(gone, nullptr).IgnoreError();
      return;
    }
  }

  void Interfere() {
    if (h_.engine->state().jobs.empty()) return;
    auto it = h_.engine->state().jobs.begin();
    std::advance(it, rng_.Below(h_.engine->state().jobs.size()));
    switch (rng_.Below(6)) {
      case 0:
      case 1: h_.engine->Post(core::Preempt{{it->first, 0}, rng_.Between(0, 30'000)}, nullptr).IgnoreError(); break;
      case 2: h_.engine->Post(core::Cancel{.job = it->first, .now = rng_.Below(2) == 0}, nullptr).IgnoreError(); break;
      case 3:
        if (!h_.engine->state().nodes.empty())
          h_.engine->Post(core::CordonNode{h_.engine->state().nodes.begin()->first, rng_.Below(2) == 0}, nullptr).IgnoreError();
        break;
      case 4:
        if (!h_.engine->state().nodes.empty() && rng_.Below(4) == 0)
          h_.engine->Post(core::DrainNode{h_.engine->state().nodes.rbegin()->first, 1'000}, nullptr).IgnoreError();
        break;
      default: break;
    }
  }

  void Crash() {
    ++crashes_;
    h_.Restart();
    sessions_.clear();
    Check();
  }

  void Check() {
    ASSERT_OK_AND_ASSIGN(const store::Loaded loaded, h_.store->Load());
    ASSERT_EQ(loaded.last_seq, h_.committed_seq);
    ASSERT_EQ(store::EncodeState(loaded.state), h_.states.at(h_.committed_seq));
    ASSERT_OK_AND_ASSIGN(const Verified verified, Verify(h_.store.get()));
    ASSERT_EQ(verified.last_seq, h_.committed_seq);
    // Acknowledged: there, under the request it answered; doubled: never.
    std::map<std::string, JobId> by_request;
    for (const auto& [id, job] : h_.jobs) {
      const auto [first, is_first] = by_request.emplace(job.request_id, id);
      ASSERT_TRUE(is_first) << job.request_id << " made jobs " << first->second << " and " << id;
    }
    for (const auto& [job, request] : acknowledged_) {
      ASSERT_EQ(h_.jobs.count(job), 1u) << "job " << job << " was acknowledged and is gone";
      ASSERT_EQ(h_.jobs.at(job).request_id, request);
    }
  }

  Rng rng_;
  Harness h_;
  std::map<int64_t, NodeId> sessions_;
  std::map<std::string, std::string> boots_;
  std::set<std::string> unanswered_;
  std::map<JobId, std::string> acknowledged_;
  int64_t next_request_ = 1, session_ = 0, boot_ = 0, renewal_ = 0;
  int crashes_ = 0;
};

TEST(ReplayTest, RandomLivesWithCrashes) {
  int crashes = 0;
  size_t acknowledged = 0;
  int64_t ended = 0, turns = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomLife life(seed);
    life.Live(600);
    if (::testing::Test::HasFatalFailure()) return;
    crashes += life.crashes();
    acknowledged += life.acknowledged();
    ended += life.ended();
    turns += life.h().committed_seq;
  }
  // Were little to happen, little would be tested.
  EXPECT_GT(crashes, 100);
  EXPECT_GT(acknowledged, 500u);
  EXPECT_GT(ended, 100);
  EXPECT_GT(turns, 2'000);
}

// Every commit of one story, once as the last thing the process did and once as what it did not live to do.
TEST(ReplayTest, ACrashAtEveryCommitOfAStory) {
  for (int survive = 0;; ++survive) {
    SCOPED_TRACE(absl::StrCat("crash after commit ", survive));
    Harness h;
    int left = survive;
    bool crashed = false;
    std::map<std::string, JobId> acknowledged;
    const auto run = [&] {
      while (!crashed && (h.Step() || h.engine->HasInput())) {
        while (!h.batches.empty() && !crashed) {
          if (left-- == 0) {
            crashed = true;
          } else {
            h.CommitOne();
          }
        }
      }
    };
    const auto submit = [&](const std::string& id) {
      if (crashed) return;
      ASSERT_OK(h.engine->Post(Harness::OneJob(Cpu(), id), [&acknowledged, id](absl::StatusOr<core::Reply> reply) {
        ASSERT_OK(reply);
        acknowledged[id] = reply->jobs.at(0);
      }));
      run();
    };
    const auto post = [&](core::Command command) {
      if (crashed) return;
      ASSERT_OK(h.engine->Post(std::move(command), nullptr));
      run();
    };
    post(core::Configure{"cluster", {}, {}});
    if (!crashed) {
      ASSERT_OK(h.engine->Hello(1, Harness::HelloOf("a", Box(2))));
    }
    run();
    submit("one");
    submit("two");
    if (!crashed) h.engine->Reports(1, {h.Said({1, 0, 1}, Kind::kAccepted, 1), h.Said({1, 0, 1}, Kind::kStarted, 1)});
    run();
    submit("three");
    post(core::Preempt{{1, 0}, 1000});
    if (!crashed) {
      core::Report ended = h.Said({1, 0, 1}, Kind::kEnded, 1);
      ended.cause = EndCause::kPreempted;
      h.engine->Reports(1, {ended});
    }
    run();
    post(core::SealResult{.attempt = {1, 0, 1}});
    submit("four");
    if (!crashed) {
      EXPECT_GT(survive, 8);
      return;
    }
    // The next life: the clients whose answer never came send again.
    h.Restart();
    h.Configure({});
    for (const std::string id : {"one", "two", "three", "four"}) {
      auto reply = h.Do(Harness::OneJob(Cpu(), id));
      ASSERT_OK(reply);
      if (const auto answered = acknowledged.find(id); answered != acknowledged.end()) {
        EXPECT_TRUE(reply->repeated) << id << " was acknowledged and then forgotten";
        EXPECT_EQ(reply->jobs.at(0), answered->second);
      }
    }
    EXPECT_EQ(h.engine->state().jobs.size(), 4u) << "doubled or lost";
    ASSERT_OK(Verify(h.store.get()));
  }
}

TEST(VerifyTest, FindsAStateThatItsEventsDoNotGive) {
  Harness h;
  h.Configure({});
  h.SubmitJob(Cpu());
  ASSERT_OK(Verify(h.store.get()));
  // A row that no event explains.
  store::Batch batch;
  batch.seq = h.committed_seq + 1;
  batch.now_ms = h.now_ms;
  batch.events = {core::RequestsForgotten{}};
  core::Job job = h.jobs.at(1);
  job.priority = 99;
  batch.jobs = {job};
  ASSERT_OK(h.store->Commit(batch));
  EXPECT_THAT(Verify(h.store.get()), StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("another state than the rows")));
}

}  // namespace
}  // namespace spillway::engine
