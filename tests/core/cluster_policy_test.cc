// What every cluster policy owes, on random clusters: nothing is lost or doubled, gangs whole, a decision carried out leaves nothing to decide, the order of a
// View means nothing, what must not be interrupted is never on spot, reserved nodes come first. And the rules of each policy by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/policy/cluster/board.h"
#include "scheduler/core/policy/cluster/make.h"

namespace spillway::core::cluster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMinute = 60'000;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kNow = 1'000 * kHour;
constexpr uint64_t kCases = 1'000;

// A View and all that it points to.
struct Case {
  std::deque<Shape> shapes;
  std::deque<Node> nodes;
  std::deque<Offer> offers;
  View view;

  Case() {
    view.now_ms = kNow;
    view.overheads = {10 * kMinute, 2 * kMinute, 30 * kMinute};
  }
  const Shape* ShapeOf(int64_t gpus, int64_t members = 1, bool interruptible = true) {
    Shape shape;
    shape.cpu_milli = 0;
    shape.gpu_count = gpus;
    shape.nodes = members;
    shape.interruptible = interruptible;
    shapes.push_back(shape);
    return &shapes.back();
  }
  void AddNode(int64_t gpus) {
    Node node;
    node.id = static_cast<int64_t>(nodes.size()) + 1;
    node.market = Market::kReserved;
    node.capacity.gpu_count = gpus;
    nodes.push_back(node);
    view.reserved.push_back({&nodes.back(), EmptyRoom(node.capacity)});
  }
  OfferKey AddOffer(Market market, int64_t gpus, int64_t price, int64_t available) {
    Offer offer;
    offer.provider = "p";
    offer.name = absl::StrCat("offer-", offers.size());
    offer.market = market;
    offer.capacity.gpu_count = gpus;
    offer.price_micros_per_hour = price;
    offers.push_back(offer);
    view.offers.push_back({&offers.back(), available, price});
    return {offer.provider, offer.name};
  }
  QueuedWork Work(const Shape* shape, int64_t left_ms, int64_t deadline_ms = 0) {
    QueuedWork work;
    work.id = {++next_, 0};
    work.owner = "anna";
    work.shape = shape;
    work.arrived_ms = work.queued_ms = kNow;
    work.left_ms = left_ms;
    work.deadline_ms = deadline_ms;
    return work;
  }
  TaskId AddWaiting(const Shape* shape, int64_t left_ms, int64_t deadline_ms = 0) {
    view.waiting.push_back(Work(shape, left_ms, deadline_ms));
    return view.waiting.back().id;
  }
  // On reserved nodes since long ago; where it does not fit, not at all.
  TaskId AddRunning(const Shape* shape, int64_t left_ms, int64_t deadline_ms = 0) {
    Board board(view);
    const std::optional<Members> members = board.Fit(*shape);
    if (!members) return {};
    RunningWork one{Work(shape, left_ms, deadline_ms), *members, {}, kNow - 2 * kHour, kNow - 2 * kHour, false};
    one.work.arrived_ms = kNow - 3 * kHour;
    one.work.resumes = true;
    one.work.attained = 2 * kHour * DevicesOf(*shape);
    for (const Member& member : *members) view.reserved[static_cast<size_t>(member.node - 1)].room.TakeDevices(*shape, member.devices);
    view.running.push_back(one);
    return one.work.id;
  }
  TaskId AddBurst(const Shape* shape, const OfferKey& offer, int64_t left_ms, int64_t deadline_ms = 0) {
    RunningWork one{Work(shape, left_ms, deadline_ms), {}, offer, kNow - 2 * kHour, kNow - kHour, false};
    one.work.resumes = true;
    view.running.push_back(one);
    return one.work.id;
  }

 private:
  int64_t next_ = 0;
};

Decision DecideBy(absl::string_view policy, const View& view, Patience patience = {}) {
  const auto made = MakePolicy(policy, patience);
  EXPECT_TRUE(made.ok());
  return (*made)->Decide(view);
}

const Start* StartOf(const Decision& decision, TaskId id) {
  for (const Start& start : decision.starts) {
    if (start.task == id) return &start;
  }
  return nullptr;
}
bool OnReserved(const Decision& decision, TaskId id) { return StartOf(decision, id) != nullptr && !StartOf(decision, id)->members.empty(); }
bool OnOffer(const Decision& decision, TaskId id, const OfferKey& offer) {
  return StartOf(decision, id) != nullptr && StartOf(decision, id)->members.empty() && StartOf(decision, id)->offer == offer;
}

// --- Random clusters ---

std::unique_ptr<Case> RandomCase(uint64_t seed) {
  Rng rng(seed);
  auto made = std::make_unique<Case>();
  Case& one = *made;
  if (rng.Chance(0.2)) one.view.overheads = {static_cast<int64_t>(rng.Below(3)) * kMinute, static_cast<int64_t>(rng.Below(2)) * kMinute, kMinute};
  const uint64_t nodes = rng.Below(5);
  for (uint64_t i = 0; i < nodes; ++i) one.AddNode(rng.Between(1, 8));
  const uint64_t offers = rng.Below(6);
  for (uint64_t i = 0; i < offers; ++i) {
    // One draw a statement: the order of arguments is the compiler's.
    const Market market = rng.Chance(0.6) ? Market::kSpot : Market::kOnDemand;
    const int64_t gpus = int64_t{1} << rng.Below(4);
    const int64_t price = rng.Between(1, 5) * 1'000'000;
    one.AddOffer(market, gpus, price, rng.Chance(0.3) ? -1 : rng.Between(0, 4));
  }
  const auto shape = [&] {
    const int64_t gpus = rng.Between(1, 8);
    const int64_t members = rng.Chance(0.2) ? rng.Between(2, 3) : 1;
    return one.ShapeOf(gpus, members, rng.Chance(0.7));
  };
  const auto vary = [&](QueuedWork* work) {
    work->owner = rng.Chance(0.5) ? "anna" : "ben";
    work->left_ms = rng.Between(1, rng.Chance(0.5) ? kHour : 40 * kHour);
    work->arrived_ms = kNow - rng.Between(0, 3) * 7 * kHour;
    work->queued_ms = rng.Chance(0.5) ? work->arrived_ms : kNow;
    work->deadline_ms = rng.Chance(0.4) ? 0 : kNow + work->left_ms + rng.Between(-kHour, 3 * kHour);
    work->attained = rng.Between(0, 2) * kHour;
    work->resumes = rng.Chance(0.5);
    work->moved_ms = rng.Chance(0.8) ? 0 : kNow - rng.Between(0, kHour);
  };
  const uint64_t running = rng.Below(8);
  for (uint64_t i = 0; i < running; ++i) {
    const Shape* needs = shape();
    const bool burst = rng.Chance(0.4) && !one.offers.empty();
    if (burst) {
      const Offer& offer = one.offers[rng.Below(one.offers.size())];
      if (Misfits(*needs, offer) != 0) continue;
      one.AddBurst(needs, {offer.provider, offer.name}, kHour);
    } else if (one.AddRunning(needs, kHour) == TaskId{}) {
      continue;
    }
    RunningWork& added = one.view.running.back();
    vary(&added.work);
    added.started_ms = kNow - rng.Between(0, kHour);
    added.works_from_ms = added.started_ms + (burst ? one.view.overheads.boot_ms : 0);
    added.moving = burst && rng.Chance(0.2);
  }
  const uint64_t waiting = rng.Below(10);
  for (uint64_t i = 0; i < waiting; ++i) {
    one.AddWaiting(shape(), kHour);
    vary(&one.view.waiting.back());
  }
  one.view.reserved_used["anna"] = rng.Between(0, 100) * kHour;
  one.view.reserved_used["ben"] = rng.Between(0, 100) * kHour;
  return made;
}

const QueuedWork* WorkOf(const View& view, TaskId id) {
  for (const QueuedWork& work : view.waiting) {
    if (work.id == id) return &work;
  }
  for (const RunningWork& one : view.running) {
    if (one.work.id == id) return &one.work;
  }
  return nullptr;
}
const RunningWork* RunningOf(const View& view, TaskId id) {
  for (const RunningWork& one : view.running) {
    if (one.work.id == id) return &one;
  }
  return nullptr;
}

// What a real cluster would refuse; reckoned apart from Board and After.
std::string BrokenBy(const View& view, const Decision& decision) {
  std::map<NodeId, uint64_t> free;
  std::map<OfferKey, int64_t> left;
  for (const ReservedNode& node : view.reserved) free[node.node->id] = node.room.devices;
  for (const OpenOffer& one : view.offers) left[{one.offer->provider, one.offer->name}] = one.available;
  std::set<TaskId> leaves, started;
  for (const TaskId& id : decision.stops) {
    if (RunningOf(view, id) == nullptr || !leaves.insert(id).second) return absl::StrCat("stops ", id.ToString());
  }
  for (const Start& start : decision.starts) {
    if (!started.insert(start.task).second) return absl::StrCat("starts twice ", start.task.ToString());
    if (WorkOf(view, start.task) == nullptr) return absl::StrCat("starts what is not there ", start.task.ToString());
    const RunningWork* running = RunningOf(view, start.task);
    if (start.beside && (running == nullptr || running->reserved() || running->moving || leaves.contains(start.task))) return "moves what cannot move";
    if (running != nullptr && !start.beside) leaves.insert(start.task);
  }
  for (const TaskId& id : leaves) {
    const RunningWork& one = *RunningOf(view, id);
    for (const Member& member : one.members) free[member.node] |= member.devices;
    if (!one.reserved() && left[one.offer] >= 0) left[one.offer] += one.work.shape->nodes;
  }
  for (const Start& start : decision.starts) {
    const Shape& shape = *WorkOf(view, start.task)->shape;
    if (start.members.empty()) {
      const auto offer = std::find_if(view.offers.begin(), view.offers.end(),
                                      [&](const OpenOffer& one) { return OfferKey(one.offer->provider, one.offer->name) == start.offer; });
      if (offer == view.offers.end() || Misfits(shape, *offer->offer) != 0) return absl::StrCat(start.task.ToString(), " on an offer that does not fit");
      if (!shape.interruptible && offer->offer->market == Market::kSpot) return absl::StrCat(start.task.ToString(), " must not be on spot");
      int64_t& machines = left[start.offer];
      if (machines >= 0 && (machines -= shape.nodes) < 0) return absl::StrCat("more machines than ", start.offer.second, " gives");
      continue;
    }
    if (static_cast<int64_t>(start.members.size()) != shape.nodes) return absl::StrCat("half a gang ", start.task.ToString());
    std::set<NodeId> nodes;
    for (const Member& member : start.members) {
      if (!nodes.insert(member.node).second) return "two members on a node";
      if (std::popcount(member.devices) != shape.gpu_count || (free[member.node] & member.devices) != member.devices) return "devices that are not free";
      free[member.node] &= ~member.devices;
    }
  }
  return "";
}

template <typename T>
void Shuffle(std::vector<T>* items, Rng* rng) {
  for (size_t i = items->size(); i > 1; --i) std::swap((*items)[i - 1], (*items)[rng->Below(i)]);
}

class EveryPolicy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Cluster, EveryPolicy, ::testing::ValuesIn(PolicyNames()), [](const auto& info) { return info.param; });

TEST_P(EveryPolicy, AsksOnlyForWhatCanBe) {
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const auto one = RandomCase(seed);
    ASSERT_EQ(BrokenBy(one->view, DecideBy(GetParam(), one->view)), "") << "seed " << seed;
  }
}

TEST_P(EveryPolicy, LosesAndDoublesNothing) {
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const auto one = RandomCase(seed);
    const View after = After(one->view, DecideBy(GetParam(), one->view));
    const auto tasks = [](const View& view) {
      std::multiset<TaskId> ids;
      for (const QueuedWork& work : view.waiting) ids.insert(work.id);
      for (const RunningWork& running : view.running) ids.insert(running.work.id);
      return ids;
    };
    const auto devices = [](const View& view) {
      int64_t count = 0;
      for (const ReservedNode& node : view.reserved) count += node.room.free_devices();
      for (const RunningWork& running : view.running) {
        for (const Member& member : running.members) count += std::popcount(member.devices);
      }
      return count;
    };
    ASSERT_EQ(tasks(one->view), tasks(after)) << "seed " << seed;
    ASSERT_EQ(devices(one->view), devices(after)) << "seed " << seed;
  }
}

TEST_P(EveryPolicy, DecidesNothingAboutWhatItHasDecided) {
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const auto one = RandomCase(seed);
    const View after = After(one->view, DecideBy(GetParam(), one->view));
    const Decision again = DecideBy(GetParam(), after);
    ASSERT_TRUE(again.empty()) << "seed " << seed << ": " << again.stops.size() << " stops, " << again.starts.size() << " starts, the first of "
                               << (again.starts.empty() ? TaskId{} : again.starts[0].task).ToString();
  }
}

TEST_P(EveryPolicy, DoesNotCareInWhichOrderItIsTold) {
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const auto one = RandomCase(seed);
    const Decision first = DecideBy(GetParam(), one->view);
    Rng rng(seed);
    View shuffled = one->view;
    Shuffle(&shuffled.waiting, &rng);
    Shuffle(&shuffled.running, &rng);
    Shuffle(&shuffled.reserved, &rng);
    Shuffle(&shuffled.offers, &rng);
    const Decision second = DecideBy(GetParam(), shuffled);
    ASSERT_EQ(first.stops, second.stops) << "seed " << seed;
    ASSERT_EQ(first.starts, second.starts) << "seed " << seed;
    ASSERT_EQ(first.wake_ms, second.wake_ms) << "seed " << seed;
  }
}

TEST_P(EveryPolicy, FillsReservedNodesBeforeItBursts) {
  int bursts = 0;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const auto one = RandomCase(seed);
    const Decision decision = DecideBy(GetParam(), one->view);
    const View after = After(one->view, decision);
    // A place that is kept for one that waits may stand free.
    const Board board(after);
    const bool kept = std::any_of(after.waiting.begin(), after.waiting.end(), [&](const QueuedWork& work) { return board.CouldEverFit(*work.shape); });
    for (const Start& start : decision.starts) {
      if (!start.members.empty() || start.beside) continue;
      ++bursts;
      ASSERT_TRUE(kept || !board.Fit(*WorkOf(one->view, start.task)->shape)) << "seed " << seed << ", " << start.task.ToString();
    }
  }
  EXPECT_GT(bursts, 200);
}

TEST_P(EveryPolicy, WithNothingToDoDoesNothing) {
  Case empty;
  EXPECT_TRUE(DecideBy(GetParam(), empty.view).empty());
  empty.AddNode(8);
  EXPECT_TRUE(DecideBy(GetParam(), empty.view).empty());
}

// --- By hand ---

TEST(Cluster, PoliciesAreKnownByName) {
  const auto made = MakePolicy("spilway");
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("did you mean 'spillway'"));
}

TEST(Cluster, FifoStopsAtTheFirstThatFitsNowhere) {
  Case one;
  one.AddNode(8);
  one.AddRunning(one.ShapeOf(4), kHour);
  const TaskId head = one.AddWaiting(one.ShapeOf(8), kHour), behind = one.AddWaiting(one.ShapeOf(1), kMinute);
  EXPECT_TRUE(DecideBy("fifo", one.view).empty());
  const Decision easy = DecideBy("easy", one.view);
  EXPECT_EQ(StartOf(easy, head), nullptr);
  EXPECT_TRUE(OnReserved(easy, behind));
}

TEST(Cluster, BackfillNeverDelaysTheHead) {
  Case one;
  one.AddNode(8);
  one.AddRunning(one.ShapeOf(4), kHour);
  one.AddWaiting(one.ShapeOf(6), kHour);                            // in an hour, with two left over
  const TaskId shorter = one.AddWaiting(one.ShapeOf(2), kHour);     // ends in time
  const TaskId longer = one.AddWaiting(one.ShapeOf(2), 2 * kHour);  // does not, but two are left over
  const Decision decision = DecideBy("easy", one.view);
  EXPECT_TRUE(OnReserved(decision, shorter));
  EXPECT_TRUE(OnReserved(decision, longer));

  Case other;
  other.AddNode(8);
  other.AddRunning(other.ShapeOf(4), kHour);
  other.AddWaiting(other.ShapeOf(7), kHour);  // in an hour, with one left over
  const TaskId two = other.AddWaiting(other.ShapeOf(2), 2 * kHour), ends = other.AddWaiting(other.ShapeOf(2), kHour);
  const Decision careful = DecideBy("easy", other.view);
  EXPECT_EQ(StartOf(careful, two), nullptr) << "it would delay the head";
  EXPECT_TRUE(OnReserved(careful, ends));
}

TEST(Cluster, BaselinesSpillAtOnceToTheCheapestSpotElseOnDemand) {
  for (const char* policy : {"fifo", "easy", "las", "laxity"}) {
    Case one;
    one.AddNode(2);
    one.AddRunning(one.ShapeOf(2), kHour);
    one.view.running[0].work.attained = 0;  // of the first queue too
    one.AddOffer(Market::kSpot, 8, 9'000'000, -1);
    const OfferKey cheap = one.AddOffer(Market::kSpot, 2, 2'000'000, 1);
    const OfferKey on_demand = one.AddOffer(Market::kOnDemand, 2, 1'000'000, -1);
    const TaskId first = one.AddWaiting(one.ShapeOf(2), kHour);
    const TaskId steady = one.AddWaiting(one.ShapeOf(2, 1, false), kHour);
    const Decision decision = DecideBy(policy, one.view);
    EXPECT_TRUE(OnOffer(decision, first, cheap)) << policy;
    EXPECT_TRUE(OnOffer(decision, steady, on_demand)) << policy;
  }
}

TEST(Cluster, LeastAttainedServiceMakesLongTasksMakeWayButNotTwiceAsMany) {
  Case one;
  one.AddNode(4);
  const TaskId old_one = one.AddRunning(one.ShapeOf(2), 5 * kHour);
  one.AddRunning(one.ShapeOf(2), 5 * kHour);
  one.view.running[0].work.attained = 9 * kHour;
  const TaskId fresh = one.AddWaiting(one.ShapeOf(1), kHour);
  const Decision decision = DecideBy("las", one.view);
  EXPECT_EQ(decision.stops, std::vector<TaskId>{old_one});
  EXPECT_TRUE(OnReserved(decision, fresh));
  one.view.waiting[0].attained = 2 * kHour;
  EXPECT_TRUE(DecideBy("las", one.view).empty()) << "of the second queue themselves, they wait";
}

TEST(Cluster, LaxityServesTheTightestFirstAndTheHopelessLast) {
  Case one;
  one.AddNode(1);
  one.AddWaiting(one.ShapeOf(1), kHour);
  one.AddWaiting(one.ShapeOf(1), kHour, kNow + kMinute);  // late whatever happens
  one.AddWaiting(one.ShapeOf(1), kHour, kNow + 3 * kHour);
  const TaskId tight = one.AddWaiting(one.ShapeOf(1), kHour, kNow + 2 * kHour);
  const Decision decision = DecideBy("laxity", one.view);
  ASSERT_EQ(decision.starts.size(), 1u);
  EXPECT_EQ(decision.starts[0].task, tight);
}

// Reserved nodes of two GPUs, busy for `busy_ms`; spot at 1, on demand at 3 an hour.
struct Busy : Case {
  explicit Busy(int64_t busy_ms, int64_t deadline_ms = 0) {
    AddNode(2);
    running = AddRunning(ShapeOf(2), busy_ms, deadline_ms);
    spot = AddOffer(Market::kSpot, 2, 1'000'000, -1);
    on_demand = AddOffer(Market::kOnDemand, 2, 3'000'000, -1);
  }
  TaskId running;
  OfferKey spot, on_demand;
};

TEST(Cluster, SpillwayWaitsForLessThanAMachineWouldBoot) {
  Busy soon(7 * kMinute);
  soon.AddWaiting(soon.ShapeOf(2), 5 * kHour);
  const Decision waits = DecideBy("spillway", soon.view);
  EXPECT_TRUE(waits.empty());
  EXPECT_EQ(waits.wake_ms, kNow + 7 * kMinute + 30'000 + 1) << "if the prediction was wrong, it bursts then";

  Busy late(8 * kMinute);
  const TaskId spills = late.AddWaiting(late.ShapeOf(2), 5 * kHour);
  EXPECT_TRUE(OnOffer(DecideBy("spillway", late.view), spills, late.spot));
  EXPECT_TRUE(DecideBy("spillway", late.view, {4}).empty()) << "four thousandths of five hours are more than half a minute";
}

TEST(Cluster, SpillwayKeepsDeadlinesOnDemandOnlyWhereSpotMightBreakThem) {
  Busy one(5 * kHour, kNow + 5 * kHour + 11 * kMinute);  // what runs has no time to make way
  // Ten minutes of boot; after the worst, ten more, two of restore, and thirty lost.
  const TaskId safe = one.AddWaiting(one.ShapeOf(2), kHour, kNow + kHour + 52 * kMinute);
  const TaskId unsafe = one.AddWaiting(one.ShapeOf(2), kHour, kNow + kHour + 51 * kMinute);
  const TaskId hopeless = one.AddWaiting(one.ShapeOf(2), kHour, kNow + kHour + 9 * kMinute);
  const Decision decision = DecideBy("spillway", one.view);
  EXPECT_TRUE(OnOffer(decision, safe, one.spot));
  EXPECT_TRUE(OnOffer(decision, unsafe, one.on_demand));
  EXPECT_TRUE(OnOffer(decision, hopeless, one.spot)) << "late whatever happens: for the least money";
}

TEST(Cluster, SpillwayLetsATightTaskTakeThePlaceOfOneThatHasTime) {
  Busy one(5 * kHour);
  const TaskId tight = one.AddWaiting(one.ShapeOf(1), 7 * kMinute, kNow + 12 * kMinute);
  const Decision decision = DecideBy("spillway", one.view);
  EXPECT_TRUE(OnReserved(decision, tight));
  ASSERT_EQ(decision.stops, std::vector<TaskId>{one.running});
  EXPECT_EQ(StartOf(decision, one.running), nullptr) << "its place is free again in seven minutes, sooner than a machine boots";

  one.view.running[0].work.moved_ms = kNow - kMinute;
  EXPECT_TRUE(DecideBy("spillway", one.view).stops.empty()) << "it was moved a minute ago";
}

TEST(Cluster, SpillwayTakesBurstTasksBackTheDearestRestFirst) {
  Case one;
  one.AddNode(2);
  const OfferKey spot = one.AddOffer(Market::kSpot, 2, 1'000'000, -1), on_demand = one.AddOffer(Market::kOnDemand, 2, 3'000'000, -1);
  one.AddBurst(one.ShapeOf(2), spot, 2 * kHour);
  const TaskId dear = one.AddBurst(one.ShapeOf(2), on_demand, kHour);
  const Decision decision = DecideBy("spillway", one.view);
  EXPECT_TRUE(OnReserved(decision, dear));
  EXPECT_EQ(decision.starts.size(), 1u);
  one.view.running[1].work.left_ms = 39 * kMinute;
  EXPECT_FALSE(OnReserved(DecideBy("spillway", one.view), dear)) << "its restore would be more than a twentieth of what is left";
}

TEST(Cluster, SpillwayLeavesDearMachinesForCheapOnesThatBootBeside) {
  Case one;
  const OfferKey spot = one.AddOffer(Market::kSpot, 2, 1'000'000, -1), on_demand = one.AddOffer(Market::kOnDemand, 2, 3'000'000, -1);
  const TaskId dear = one.AddBurst(one.ShapeOf(2), on_demand, 2 * kHour);
  EXPECT_TRUE(DecideBy("spillway", one.view).empty()) << "its restore would delay it";
  const Decision decision = DecideBy("spillway", one.view, {20});  // 2.4 minutes
  ASSERT_TRUE(OnOffer(decision, dear, spot));
  EXPECT_TRUE(decision.starts[0].beside);
  one.view.running[0].work.deadline_ms = kNow + 2 * kHour + 20 * kMinute;
  EXPECT_TRUE(DecideBy("spillway", one.view, {20}).empty()) << "spot might break its deadline";
  one.view.running[0].work.deadline_ms = 0;
  one.view.offers[0].expected_micros_per_hour = 1'004'000;  // taken away so often that half a minute is lost
  EXPECT_TRUE(DecideBy("spillway", one.view, {20}).empty());
}

TEST(Cluster, SpillwayLeavesRoomToWhatComesNextWhenItTakesTasksBack) {
  Case one;
  one.AddNode(8);
  one.AddNode(8);
  const OfferKey spot = one.AddOffer(Market::kSpot, 8, 1'000'000, -1);
  one.AddRunning(one.ShapeOf(6), kHour);
  const TaskId large = one.AddBurst(one.ShapeOf(8), spot, 9 * kHour), small = one.AddBurst(one.ShapeOf(2), spot, kHour);
  const Decision decision = DecideBy("spillway", one.view);
  EXPECT_TRUE(OnReserved(decision, large));
  EXPECT_EQ(StartOf(decision, small), nullptr) << "two of sixteen are a tenth, and would be all";
}

TEST(Cluster, SpillwayKeepsTheTurnOfWhatWaitsForAPlace) {
  Case one;
  one.AddNode(2);
  const TaskId waits = one.AddWaiting(one.ShapeOf(2), kHour);
  const TaskId poor = one.AddWaiting(one.ShapeOf(2), kHour);
  one.view.waiting[1].owner = "ben";
  one.view.reserved_used = {{"anna", 10 * kHour}, {"ben", kHour}};
  one.view.waiting[0].queued_ms = kNow - kMinute;
  EXPECT_TRUE(OnReserved(DecideBy("spillway", one.view), waits));
  one.view.waiting[0].queued_ms = kNow - 8 * kMinute;
  EXPECT_TRUE(OnReserved(DecideBy("spillway", one.view), poor)) << "it has waited for too long, and is promised nothing";
}

// Without a boot what has just begun works already; it does not begin elsewhere in the same breath.
TEST(Cluster, SpillwayMovesOnlyWhatRanBefore) {
  for (uint64_t seed = 0; seed < 20 * kCases; ++seed) {
    const auto one = RandomCase(seed);
    one->view.overheads = {0, 0, kMinute};
    ASSERT_EQ(BrokenBy(one->view, DecideBy("spillway", one->view)), "") << "seed " << seed;
  }
}

TEST(Cluster, SpillwayServesWhoHadLeast) {
  Case one;
  one.AddNode(2);
  one.AddWaiting(one.ShapeOf(2), kHour);
  const TaskId poor = one.AddWaiting(one.ShapeOf(2), kHour);
  one.view.waiting[1].owner = "ben";
  one.view.reserved_used = {{"anna", 10 * kHour}, {"ben", kHour}};
  const Decision decision = DecideBy("spillway", one.view);
  EXPECT_TRUE(OnReserved(decision, poor));
  one.view.waiting[0].queued_ms = kNow - 12 * kHour;
  EXPECT_FALSE(OnReserved(DecideBy("spillway", one.view), poor)) << "nobody waits for ever";
}

}  // namespace
}  // namespace spillway::core::cluster
