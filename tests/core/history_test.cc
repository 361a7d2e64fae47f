// Random histories: users, nodes and a cloud do what they like, in any order, right or wrong. World checks every invariant after every event; here stand the
// promises that span events. The seed of a failing case is printed, and CORE_SEED=n runs that case alone.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/rng.h"
#include "pricing/billing.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/fit/room.h"
#include "scheduler/core/policy/silence.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

constexpr int kCases = 150;
constexpr int kSteps = 200;

// Bytes-for-bytes equality is the codec's test; here it is field by field.
void ExpectSame(const State& a, const State& b) {
  EXPECT_EQ(a.meta, b.meta);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.shapes, b.shapes);
  EXPECT_EQ(a.offers, b.offers);
  EXPECT_EQ(a.requests, b.requests);
  ASSERT_EQ(a.jobs.size(), b.jobs.size());
  for (const auto& [id, live] : a.jobs) {
    ASSERT_TRUE(b.jobs.contains(id));
    EXPECT_EQ(live.job, b.jobs.at(id).job);
    EXPECT_EQ(live.tasks, b.jobs.at(id).tasks);
  }
}

class History {
 public:
  explicit History(uint64_t seed) : rng_(seed) {
    world_.policy.lease_ms = 2 * kMinute;
    world_.policy.silence_ms = 30 * kSecond;
    world_.Configure({Cloud("cloud", 6), Cloud("other", 3)}, {{"year", {"rack-0", "rack-1"}, 1'234'567, 0, 0}});
  }

  // How often room was made for a higher priority.
  int Run() {
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      Step();
      if (rng_.Below(2) == 0) Turn();
    }
    Settle();
    Replay();
    Conserve();
    return rooms_made_;
  }

 private:
  // --- what may happen ---

  void Step() {
    switch (rng_.Below(26)) {
      case 0:
      case 1:
      case 2: return Submit();
      case 3: return Cancel();
      case 4:
      case 5: return Advance();
      case 6: return Hello();
      case 7:
      case 8:
      case 9:
      case 10: return Report();
      case 11:
      case 12: return Seal();
      case 13: return Offers();
      case 14:
      case 15: return CloudAnswers();
      case 16: return Boot();
      case 17: return Reclaim();
      case 18: return List();
      case 19: return Notice();
      case 20: return Operate();
      case 21: return Silence();
      case 22: return Nonsense();
      case 23: return Preempt();
      case 24:
      case 25: return HoldOrUpdate();
    }
  }

  template <typename Map>
  typename Map::key_type Any(const Map& map) {
    if (map.empty()) return {};
    auto it = map.begin();
    std::advance(it, static_cast<int64_t>(rng_.Below(map.size())));
    return it->first;
  }

  Shape RandomShape() {
    Shape shape = rng_.Below(3) == 0 ? Cpu(rng_.Between(1, 8) * 500) : Gpus(rng_.Between(1, 2));
    shape.interruptible = rng_.Below(4) != 0;
    if (rng_.Below(8) == 0) shape.markets = {Market::kReserved, Market::kOnDemand};
    if (rng_.Below(8) == 0) shape.max_price_micros_per_hour = 2'000'000;
    if (rng_.Below(4) == 0) shape.nodes = rng_.Between(2, 3);
    return shape;
  }

  void Submit() {
    std::vector<NewJob> jobs;
    for (int64_t i = rng_.Between(1, 3); i > 0; --i) {
      NewJob job = MakeJob(RandomShape(), rng_.Between(1, 3) * 10);
      job.name = absl::StrCat("job-", rng_.Below(4));
      job.task_count = rng_.Below(4) == 0 ? rng_.Between(2, 8) : 1;
      if (job.task_count > 1 && rng_.Below(2) == 0) job.parallel = rng_.Between(1, 4);
      if (rng_.Below(3) == 0) {
        job.expected_ms = rng_.Between(1, 60) * kMinute;
        job.deadline_ms = world_.now_ms + rng_.Between(1, 120) * kMinute;
      }
      if (rng_.Below(4) == 0) job.max_silence_ms = 45 * kSecond;
      job.retry.user_error = rng_.Between(0, 2);
      job.retry.node_fault = rng_.Between(1, 4);
      job.paused = rng_.Below(12) == 0;
      if (rng_.Below(3) == 0) job.needs.push_back({Any(world_.state.jobs), -1, rng_.Below(2) == 0, TaskState::kUnspecified});
      if (rng_.Below(6) == 0) job.needs.push_back({0, rng_.Between(0, 2), rng_.Below(2) == 0, TaskState::kUnspecified});  // it may be its own, or nobody's
      if (rng_.Below(8) == 0 && !world_.ended_jobs.empty()) {
        const JobId ended = Any(world_.ended_jobs);
        job.needs.push_back({ended, -1, rng_.Below(2) == 0, FoldState(world_.ended_jobs.at(ended))});
      }
      jobs.push_back(job);
    }
    const bool refused = !world_.Try(core::Submit{rng_.Below(3) == 0 ? absl::StrCat("r", rng_.Below(10)) : "", "digest", jobs}).ok();
    if (refused) return (void)++refusals_;
    for (const auto& [id, live] : world_.state.jobs) {
      if (!live.job.needs.empty()) needs_.emplace(id, live.job.needs);
    }
  }

  void Cancel() {
    core::Cancel cancel{Any(world_.state.jobs), rng_.Below(2) == 0, "why not", {}};
    for (int64_t ranges = rng_.Between(0, 3); ranges > 0; --ranges) {
      const TaskIndex first = rng_.Between(0, 6);
      cancel.tasks.push_back({first, rng_.Between(first, 8)});  // it may be empty, or none of the job's
    }
    if (!world_.Try(cancel).ok()) return;
    for (const TaskRange& range : cancel.tasks) {
      for (TaskIndex index = range.first; index < range.end; ++index) cancelled_.insert({cancel.job, index});
    }
  }

  void HoldOrUpdate() {
    const JobId job = Any(world_.state.jobs);
    switch (rng_.Below(4)) {
      case 0: return (void)world_.Try(Pause{job});
      case 1:
        if (rng_.Below(2) == 0) return (void)world_.Try(Update{job, std::nullopt, rng_.Between(1, 6), std::nullopt});
        if (rng_.Below(2) == 0) return (void)world_.Try(Update{job, std::nullopt, std::nullopt, world_.now_ms + rng_.Between(-5, 30) * kMinute});
        return (void)world_.Try(Update{job, rng_.Between(0, 4) * 10, std::nullopt, std::nullopt});
      default: return (void)world_.Try(Resume{job});
    }
  }

  void Advance() {
    world_.Advance(rng_.Between(1, rng_.Below(6) == 0 ? 5 * kMinute : 20 * kSecond));
    for (auto& [id, lease] : world_.soft.leases) {
      if (silent_.contains(id)) continue;
      lease.heard_ms = world_.now_ms;
      lease.lease_end_ms = world_.now_ms + world_.policy.lease_ms;
    }
  }

  void Hello() {
    const std::string name = absl::StrCat("rack-", rng_.Below(4));
    NodeHello hello;
    hello.name = name;
    hello.provider = "static";
    hello.boot_id = absl::StrCat("boot-", rng_.Below(3));
    hello.capacity = Box(8, name == "rack-3" ? 0 : 2);
    const auto known = world_.state.index.node_by_name.find({"static", name});
    if (known != world_.state.index.node_by_name.end()) {
      for (const AttemptId& id : WantedOn(world_.state, known->second)) {
        if (rng_.Below(2) == 0) hello.inventory.push_back({id, AttemptState::kRunning});
      }
    }
    Welcome(world_.Do(hello).node);
  }

  void Welcome(NodeId node) {
    silent_.erase(node);
    world_.soft.leases[node] = {1, world_.now_ms, world_.now_ms + world_.policy.lease_ms, 0};
  }

  AttemptId AnyAttempt() {
    const NodeId node = Any(world_.state.index.on_node);
    if (node == 0) return {};
    const auto attempts = WantedOn(world_.state, node);
    return attempts[rng_.Below(attempts.size())];
  }

  void Report() {
    const AttemptId id = AnyAttempt();
    if (id.job == 0) return;
    const auto& members = world_.task(id.task()).attempt->members;
    const Member& member = members[rng_.Below(members.size())];
    const NodeId node = member.node;
    if (member.stopped || silent_.contains(node)) return;
    core::Report report;
    report.attempt = id;
    std::vector<core::Report> batch;
    const uint64_t what = rng_.Below(6);
    report.kind = core::Report::Kind::kAccepted;
    report.rendezvous = "host:1";
    batch.push_back(report);
    if (what >= 1) report.kind = core::Report::Kind::kStarted, batch.push_back(report);
    if (what >= 2 && rng_.Below(2) == 0) {
      report.kind = core::Report::Kind::kCheckpoint;
      const int64_t step = rng_.Between(1, 100);
      report.checkpoint = {id.number, step, absl::StrCat(id.ToString(), "/", step), "ab", 10, 0, false};
      batch.push_back(report);
    }
    if (what >= 3) {
      report.kind = core::Report::Kind::kEnded;
      report.cause = static_cast<EndCause>(rng_.Between(1, 19));
      report.initiator = static_cast<Initiator>(rng_.Between(1, 5));
      report.last_step = rng_.Between(0, 100);
      batch.push_back(report);
    }
    int64_t seq = world_.node(node).report_ack;
    for (core::Report& one : batch) one.seq = ++seq;
    world_.Do(NodeReports{node, world_.node(node).boot_id, batch});
    EXPECT_EQ(world_.node(node).report_ack, seq);
    world_.Do(NodeReports{node, world_.node(node).boot_id, batch});  // twice is once
    EXPECT_TRUE(world_.changes.Empty());
  }

  void Seal() {
    for (const Effect& effect : Effects(world_.state, nullptr)) {
      const SealAttempt* seal = std::get_if<SealAttempt>(&effect);
      if (seal == nullptr || rng_.Below(2) == 0) continue;
      SealResult result{seal->attempt, std::nullopt, static_cast<int64_t>(rng_.Below(3))};
      if (rng_.Below(2) == 0) {
        const int64_t step = rng_.Between(1, 200);
        result.newest = CheckpointRef{seal->attempt.number, step, absl::StrCat(seal->attempt.ToString(), "/", step), "ab", 10, 0, false};
      }
      world_.Do(result);
    }
  }

  void Offers() {
    const std::string provider = rng_.Below(2) == 0 ? "cloud" : "other";
    std::vector<Offer> offers;
    for (int64_t i = rng_.Between(0, 3); i > 0; --i) {
      const bool spot = rng_.Below(2) == 0;
      Offer offer = MakeOffer(provider, absl::StrCat(spot ? "sp" : "od", i), spot ? Market::kSpot : Market::kOnDemand, rng_.Between(1, 5'000'000), Box(8, 2));
      offer.available = rng_.Below(3) == 0 ? rng_.Between(0, 2) : -1;
      offer.billing = {rng_.Below(2) == 0 ? kSecond : kHour, rng_.Below(2) == 0 ? 0 : kMinute};
      offers.push_back(offer);
    }
    world_.Do(OffersListed{provider, offers});
  }

  void CloudAnswers() {
    for (const Effect& effect : Effects(world_.state, nullptr)) {
      if (rng_.Below(2) == 0) continue;
      if (const auto* create = std::get_if<CreateInstance>(&effect)) {
        if (rng_.Below(4) == 0) {
          world_.Do(InstanceRefused{create->node, static_cast<InstanceRefused::Code>(rng_.Between(1, 3)), "full", 0});
        } else {
          world_.Do(InstanceCreated{create->node, absl::StrCat("i-", create->node)});
        }
      } else if (const auto* terminate = std::get_if<TerminateInstance>(&effect)) {
        world_.Do(InstanceGone{terminate->node, false, "terminated", RandomBill()});
      }
    }
  }

  int64_t RandomBill() { return rng_.Below(2) == 0 ? -1 : rng_.Between(0, 1'000'000); }

  void Boot() {
    for (const NodeId id : world_.NodesIn(NodeState::kBooting)) {
      if (rng_.Below(2) == 0) continue;
      NodeHello hello;
      hello.name = world_.node(id).name;
      hello.provider = world_.node(id).provider;
      hello.boot_id = absl::StrCat("boot-", id);
      hello.capacity = world_.node(id).capacity;
      Welcome(world_.Do(hello).node);
    }
  }

  void Reclaim() {
    const NodeId id = Any(world_.state.nodes);
    if (id == 0 || !world_.node(id).owned || world_.node(id).state == NodeState::kRequested) return;
    world_.Do(InstanceGone{id, rng_.Below(2) == 0, "taken", RandomBill()});
  }

  void List() {
    InstanceListing listing;
    listing.provider = rng_.Below(2) == 0 ? "cloud" : "other";
    listing.asked_ms = world_.now_ms - rng_.Between(0, 10 * kSecond);
    for (const auto& [id, node] : world_.state.nodes) {
      if (node.provider != listing.provider || node.instance_id.empty() || rng_.Below(8) == 0) continue;
      listing.instances.push_back(
          {node.instance_id, node.name, rng_.Below(8) != 0, rng_.Below(2) == 0, "", RandomBill(), rng_.Below(6) == 0 ? 30 * kSecond : -1});
    }
    if (rng_.Below(4) == 0) listing.instances.push_back({absl::StrCat("stray-", world_.now_ms), "stray", true, false, "", -1, -1});
    world_.Do(listing);
  }

  void Notice() {
    const NodeId id = Any(world_.state.nodes);
    if (id != 0) world_.Do(NodeNotice{id, rng_.Between(0, 2 * kMinute), "cloud", rng_.Below(4) == 0});
  }

  void Operate() {
    const NodeId id = Any(world_.state.nodes);
    if (id == 0) return;
    if (rng_.Below(3) == 0) {
      (void)world_.Try(DrainNode{id, 0});
    } else {
      world_.Do(CordonNode{id, rng_.Below(3) == 0});
    }
  }

  void Silence() {
    const NodeId id = Any(world_.soft.leases);
    if (id != 0 && world_.state.nodes.contains(id)) silent_.insert(id);
  }

  void Preempt() {
    const AttemptId id = AnyAttempt();
    (void)world_.Try(core::Preempt{id.task(), 0});
  }

  // Commands that no honest peer sends: refused as a whole, nothing half-applied.
  void Nonsense() {
    const State before = world_.state;
    const NodeId node = Any(world_.state.nodes);
    const AttemptId attempt = AnyAttempt();
    const Command commands[] = {
        Place{attempt.task(), {{node, 1, false}}, {}},
        Place{{Any(world_.state.jobs), 77}, {{node, 0, false}}, {}},
        NodeReports{node, "another life", {}},
        InstanceCreated{999'999, "i"},
        RequestNode{{"cloud", "nothing"}, {}, {}},
        OffersListed{"nobody", {}},
        core::Submit{"", "", {}},
        SettleJob{999'999},
        Update{Any(world_.state.jobs), 101, std::nullopt, std::nullopt},
        FenceAttempt{{attempt.job, attempt.index, attempt.number + 1}, node, ""},
        StopAttempt{{attempt.job, attempt.index, attempt.number + 1}, {}},
    };
    for (const Command& command : commands) EXPECT_FALSE(world_.Try(command).ok()) << command.index();
    ExpectSame(before, world_.state);
  }

  // --- what must hold of decisions ---

  void Turn() {
    // Jobs that were settled may be placed, or settle others; and a job's limit counts in one round what is stopped, asked for or promised room in it, and frees
    // its place for another task in the next; and what is kept with a node that a gang has is free when another takes that node: round by round, as the engine
    // decides again after a turn that changed something, until nobody waits in vain.
    int rounds = 0;
    for (bool again = true; again && !::testing::Test::HasFailure(); ++rounds) {
      ASSERT_LT(rounds, 20) << "no end of it";
      const std::vector<Command> commands = Decide(world_.state, world_.soft, world_.policy, world_.now_ms);
      for (const Command& command : commands) {
        if (const Place* place = std::get_if<Place>(&command)) CheckPlace(*place);
        if (const StopAttempt* stop = std::get_if<StopAttempt>(&command)) CheckStop(*stop);
        world_.Do(command);  // Decide proposes nothing that Admit refuses
        if (const Place* place = std::get_if<Place>(&command)) CheckPlaced(place->task);
      }
      const auto& jobs = world_.state.jobs;
      const bool limited = std::any_of(jobs.begin(), jobs.end(),
                                       [this](const auto& live) { return live.second.job.parallel > 0 || ShapeOf(world_.state, live.second.job).nodes > 1; });
      again = (limited && !commands.empty()) || !Only<SettleJob>(commands).empty() || !world_.state.index.settled.empty();
    }
    const auto again = Decide(world_.state, world_.soft, world_.policy, world_.now_ms);
    EXPECT_TRUE(again.empty()) << again.size() << " more, the first of kind " << again.front().index();
    NothingBeforeTheDeadline();
    EveryWaiterSaysWhy();
  }

  // Whatever fits on reserved capacity goes there first.
  void CheckPlace(const Place& place) {
    CheckMayBegin(*FindJob(world_.state, place.task.job));
    const auto reserved = [this](const Member& member) { return world_.node(member.node).market == Market::kReserved; };
    if (std::all_of(place.members.begin(), place.members.end(), reserved)) return;
    const Job& job = *FindJob(world_.state, place.task.job);
    const Shape& shape = ShapeOf(world_.state, job);
    const std::optional<Task> task = GetTask(world_.state, place.task);
    for (const auto& [id, node] : world_.state.nodes) {
      if (node.market != Market::kReserved || node.state != NodeState::kReady || node.cordoned || node.notice_deadline_ms != 0) continue;
      if (!Reachable(node, world_.soft, world_.policy, world_.now_ms) || Misfits(shape, node) != 0 || id == task->avoid_node) continue;
      if (RoomIsMadeOn(id) || HigherWaitsFor(node, job.priority)) continue;  // it may be kept for somebody
      if (GangWaitsFor(node)) continue;                                      // likewise, with what was bought for it
      if (std::any_of(place.members.begin(), place.members.end(), [&](const Member& member) { return member.node == id; })) continue;
      EXPECT_FALSE(RoomOn(world_.state.index, node).Holds(shape)) << place.task.ToString() << " spilled though " << node.name << " had room";
    }
  }

  // No more at once than there may be, and never one that was cancelled, by the books of this test.
  void CheckPlaced(TaskId task) {
    const Job& job = *FindJob(world_.state, task.job);
    EXPECT_TRUE(job.parallel == 0 || job.counts.active <= job.parallel) << job.counts.active << " of job " << job.id;
    EXPECT_FALSE(cancelled_.contains(task)) << task.ToString();
  }

  bool HigherWaitsFor(const Node& node, int64_t priority) const {
    for (const auto& key : world_.state.index.queue) {
      if (-key.negative_priority > priority && Misfits(ShapeOf(world_.state, *FindJob(world_.state, key.task.job)), node) == 0) return true;
    }
    return false;
  }

  bool GangWaitsFor(const Node& node) const {
    for (const auto& key : world_.state.index.queue) {
      const Shape& shape = ShapeOf(world_.state, *FindJob(world_.state, key.task.job));
      if (shape.nodes > 1 && Misfits(shape, node) == 0) return true;
    }
    return false;
  }

  bool RoomIsMadeOn(NodeId node) const {
    for (const AttemptId& id : WantedOn(world_.state, node)) {
      if (world_.state.index.making_room.contains(id)) return true;
    }
    return false;
  }

  // Who is asked to make room has less priority than whom it is for, may be interrupted, and did not make room a short while ago.
  void CheckStop(const StopAttempt& stop) {
    if (stop.stop.for_task.job == 0) return;
    const Job& victim = *FindJob(world_.state, stop.attempt.job);
    const Job& waits = *FindJob(world_.state, stop.stop.for_task.job);
    EXPECT_LT(victim.priority, waits.priority);
    EXPECT_TRUE(ShapeOf(world_.state, victim).interruptible);
    EXPECT_EQ(GetTask(world_.state, stop.stop.for_task)->state, TaskState::kQueued);
    int64_t& last_ms = made_room_[stop.attempt.task()];
    EXPECT_TRUE(last_ms == 0 || world_.now_ms - last_ms >= world_.policy.displace_again_ms) << stop.attempt.ToString();
    last_ms = world_.now_ms;
    ++rooms_made_;
  }

  // Nothing of a paused job is placed, nor of one that waits for a job that lives, or that ended otherwise than it must: by the books of this test.
  void CheckMayBegin(const Job& job) {
    EXPECT_FALSE(job.paused) << job.id;
    const auto submitted = needs_.find(job.id);
    if (submitted == needs_.end()) return;
    for (const Need& need : submitted->second) {
      const auto ended = world_.ended_jobs.find(need.job);
      ASSERT_TRUE(ended != world_.ended_jobs.end()) << job.id << " began before " << need.job << " ended";
      const TaskCounts& counts = ended->second.counts;
      EXPECT_TRUE(need.any || counts.succeeded == ended->second.task_count) << job.id << " needs " << need.job;
    }
  }

  void NothingBeforeTheDeadline() {
    const int64_t deadline_ms = NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms);
    ASSERT_GT(deadline_ms, world_.now_ms);
    const int64_t last_ms = std::min(deadline_ms - 1, world_.now_ms + kHour);
    for (const int64_t at_ms : {last_ms, rng_.Between(world_.now_ms, last_ms)}) {
      const auto commands = Decide(world_.state, world_.soft, world_.policy, at_ms);
      EXPECT_TRUE(commands.empty()) << "command of kind " << commands.front().index() << " at +" << at_ms - world_.now_ms << " before the deadline at +"
                                    << deadline_ms - world_.now_ms;
    }
  }

  void EveryWaiterSaysWhy() {
    for (const auto& [id, live] : world_.state.jobs) {
      for (TaskIndex index = 0; index < live.job.task_count; ++index) {
        if (!GetTask(world_.state, {id, index})) continue;
        const auto whys = Explain(world_.state, world_.soft, world_.policy, {id, index}, world_.now_ms);
        EXPECT_FALSE(whys.empty());
        for (const Why& why : whys) {
          EXPECT_FALSE(why.message.empty()) << why.code;
          // After a turn nothing placeable is left over.
          EXPECT_NE(why.code, "NEXT_TURN") << TaskId{id, index}.ToString() << " of " << ShapeOf(world_.state, live.job).nodes;
        }
      }
    }
  }

  // --- the end ---

  // The cloud answers everything, sessions speak: nothing may be stuck for ever.
  void Settle() {
    silent_.clear();
    for (int round = 0; round < 3 && !::testing::Test::HasFailure(); ++round) {
      Advance();
      Turn();
    }
  }

  // The events alone give the same state.
  void Replay() {
    State again;
    Changes changes;
    for (size_t i = 0; i < world_.events.size(); ++i) Reduce(&again, world_.events[i], world_.event_times[i], &changes);
    ExpectSame(again, world_.state);
    EXPECT_EQ(changes.charges, world_.charges);
  }

  // Every second of every machine stands in the ledger once, and the sums agree whichever way they are taken.
  void Conserve() {
    std::map<NodeId, int64_t> by_node;
    std::map<NodeId, std::map<int64_t, int64_t>> intervals;
    int64_t runs = 0, sum = 0;
    for (const Charge& charge : world_.charges) {
      by_node[charge.node] += charge.amount_micros;
      sum += charge.amount_micros;
      if (charge.attempt.job != 0) runs += charge.amount_micros;
      if (charge.from_ms == charge.to_ms) continue;
      const auto [interval, is_new] = intervals[charge.node].insert({charge.from_ms, charge.to_ms});
      EXPECT_EQ(interval->second, charge.to_ms) << "node " << charge.node;
    }
    int64_t nodes = 0;
    const auto check = [&](const Node& node) {
      nodes += node.charged_micros;
      EXPECT_EQ(by_node[node.id], node.charged_micros) << "node " << node.id;
      int64_t at_ms = node.created_ms;
      for (const auto& [from_ms, to_ms] : intervals[node.id]) {
        EXPECT_EQ(from_ms, at_ms) << "node " << node.id;
        at_ms = to_ms;
      }
      if (intervals[node.id].empty()) return;  // it has no price
      EXPECT_EQ(at_ms, node.metered_ms) << "node " << node.id;
    };
    for (const auto& [id, node] : world_.state.nodes) check(node);
    for (const auto& [id, node] : world_.gone_nodes) {
      check(node);
      EXPECT_EQ(node.metered_ms, node.created_ms == 0 ? 0 : node.gone_ms);
    }
    EXPECT_EQ(nodes, sum);
    int64_t jobs = 0;
    for (const auto& [id, live] : world_.state.jobs) jobs += live.job.charged_micros + live.job.reserved_micros;
    for (const auto& [id, job] : world_.ended_jobs) jobs += job.charged_micros + job.reserved_micros;
    EXPECT_EQ(jobs, runs);
  }

  Rng rng_;
  World world_;
  std::set<NodeId> silent_;
  std::map<TaskId, int64_t> made_room_;
  int rooms_made_ = 0;
  std::set<TaskId> cancelled_;                // by themselves
  std::map<JobId, std::vector<Need>> needs_;  // as they were submitted, where not met already
  int refusals_ = 0;
};

TEST(History, EveryPromiseHoldsInRandomHistories) {
  const char* one = std::getenv("CORE_SEED");
  int rooms_made = 0;
  for (int i = 0; i < (one != nullptr ? 1 : kCases); ++i) {
    const uint64_t seed = one != nullptr ? std::strtoull(one, nullptr, 10) : 20'260'101 + static_cast<uint64_t>(i);
    SCOPED_TRACE(absl::StrCat("CORE_SEED=", seed));
    rooms_made += History(seed).Run();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(rooms_made > 0 || one != nullptr) << "no history came to it";
}

}  // namespace
}  // namespace spillway::core
