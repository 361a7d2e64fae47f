#include "scheduler/core/policy/cluster/spillway.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/money.h"
#include "scheduler/core/policy/cluster/board.h"
#include "scheduler/core/policy/cluster/laxity.h"

namespace spillway::core::cluster {
namespace {

constexpr int64_t kAgedMs = 12 * kMsPerHour;  // waited for this long: served in order of arrival
constexpr int64_t kWaitPercent = 75;          // of a boot: the wait for a reserved place that is preferred to one
constexpr int64_t kReturnFactor = 20;         // work left, in restores, that makes a return to reserved nodes worth its restore
constexpr int64_t kHeadroomPercent = 10;      // of the reserved devices, which returns leave to what comes next
constexpr int64_t kHopFactor = 2;             // what a move between burst machines must save, in what it costs
constexpr int64_t kDwellFactor = 3;           // never moved again within so many boots and restores
constexpr int64_t kSettledMs = 60'000;        // what has just begun does not make way
constexpr int kPassesMax = 8;

enum class Class { kAged, kTight, kPromised, kLoose };

class Pass {
 public:
  Pass(const View& view, const Patience& patience) : view_(view), patience_(patience), board_(view), releases_(Board::Releases(view)) {
    for (const ReservedNode& node : view.reserved) quantum_ += node.node->capacity.gpu_count * kMsPerHour;
    quantum_ = std::max(quantum_, kMsPerHour);
  }

  Decision Run() {
    std::vector<const QueuedWork*> queue;
    for (const QueuedWork& work : view_.waiting) queue.push_back(&work);
    std::sort(queue.begin(), queue.end(), [&](const QueuedWork* a, const QueuedWork* b) {
      const auto ka = OrderOf(*a), kb = OrderOf(*b);
      return ka != kb ? ka < kb : CameBefore(*a, *b);
    });
    for (const QueuedWork* work : queue) Serve(*work);
    if (!hold_) {
      Return();
      Hop();
    }
    return std::move(decision_);
  }

 private:
  const Overheads& overheads() const { return view_.overheads; }
  int64_t LaxityOf(const QueuedWork& work) const { return LaxityMs(work, overheads(), view_.now_ms); }
  // Without a promise that can be broken: it has no deadline, or is late whatever happens.
  bool Free(const QueuedWork& work) const { return work.deadline_ms == 0 || LaxityOf(work) < 0; }
  // On a spot machine that is taken away at the worst moment, another machine would still finish it in time. `boots`: the first one boots too.
  bool SpotSafe(const QueuedWork& work, bool boots) const {
    const int64_t again_ms = overheads().boot_ms + overheads().restore_ms + overheads().lost_ms;
    return Free(work) || LaxityOf(work) - (boots ? overheads().boot_ms : 0) >= again_ms;
  }
  Class ClassOf(const QueuedWork& work) const {
    if (view_.now_ms - work.queued_ms >= kAgedMs) return Class::kAged;
    if (!SpotSafe(work, true)) return Class::kTight;
    return Promised(work) ? Class::kPromised : Class::kLoose;
  }
  // It has waited for a reserved place already, and not yet for too long: it keeps its turn.
  bool Promised(const QueuedWork& work) const { return work.queued_ms < view_.now_ms && view_.now_ms <= LimitMs(work); }
  std::tuple<Class, int64_t, int64_t> OrderOf(const QueuedWork& work) const {
    const Class of = ClassOf(work);
    if (of == Class::kAged) return {of, 0, 0};
    if (of == Class::kTight) return {of, LaxityOf(work), 0};
    if (of == Class::kPromised) return {of, work.queued_ms, 0};
    const auto used = view_.reserved_used.find(work.owner);
    return {of, used == view_.reserved_used.end() ? 0 : used->second / quantum_, Free(work) ? kNever : LaxityOf(work)};
  }
  int64_t LimitMs(const QueuedWork& work) const { return work.queued_ms + overheads().boot_ms * kWaitPercent / 100 + work.left_ms / 1000 * patience_.permille; }
  bool Rested(const QueuedWork& work) const {
    return work.moved_ms == 0 || view_.now_ms - work.moved_ms >= kDwellFactor * (overheads().boot_ms + overheads().restore_ms);
  }

  void Serve(const QueuedWork& work) {
    if (StartReserved(work)) return;
    const int64_t start_ms = ForecastOf(work);
    const bool in_time = start_ms != kNever && (Free(work) || start_ms + NeedMs(work, overheads()) <= work.deadline_ms);
    const bool soon = start_ms <= LimitMs(work);
    if (in_time && soon) return Wait(work);
    if (!SpotSafe(work, true) && MakeWay(work)) return;
    const Offer* offer = BurstFor(work, in_time);
    if (offer == nullptr) return Wait(work);
    board_.TakeOffer(*work.shape, *offer);
    decision_.starts.push_back({work.id, {}, {offer->provider, offer->name}, false});
  }

  bool StartReserved(const QueuedWork& work) {
    const std::optional<Members> members = board_.Fit(*work.shape);
    const int64_t end_ms = view_.now_ms + NeedMs(work, overheads());
    if (!members || (hold_ && !hold_->Leaves(*work.shape, *members, end_ms)) || BreaksAPromise(work, *members, end_ms)) return false;
    if (hold_) hold_->Take(*work.shape, *members, end_ms);
    board_.Take(*work.shape, *members);
    releases_.push_back({end_ms, work.id, work.shape, *members});
    decision_.starts.push_back({work.id, *members, {}, false});
    return true;
  }

  // Whether those that wait for a reserved place, and would get it soon, would not any more.
  bool BreaksAPromise(const QueuedWork& work, const Members& members, int64_t end_ms) const {
    std::vector<const QueuedWork*> promised;
    for (const QueuedWork* one : waiters_) {
      if (view_.now_ms <= LimitMs(*one)) promised.push_back(one);
    }
    if (promised.empty()) return false;
    const std::vector<int64_t> without = ForecastStarts(board_, releases_, promised, overheads(), view_.now_ms);
    Board board = board_;
    board.Take(*work.shape, members);
    std::vector<Board::Release> releases = releases_;
    releases.push_back({end_ms, work.id, work.shape, members});
    const std::vector<int64_t> with = ForecastStarts(board, releases, promised, overheads(), view_.now_ms);
    for (size_t i = 0; i < promised.size(); ++i) {
      if (with[i] > without[i] && with[i] > LimitMs(*promised[i])) return true;
    }
    return false;
  }

  void Wait(const QueuedWork& work) {
    waiters_.push_back(&work);
    if (!hold_ && board_.CouldEverFit(*work.shape)) head_ = &work, hold_.emplace(board_, releases_, work);
    if (LimitMs(work) >= view_.now_ms) decision_.wake_ms = std::min(decision_.wake_ms, LimitMs(work) + 1);
    // An aged task is served in another order.
    if (work.queued_ms + kAgedMs > view_.now_ms) decision_.wake_ms = std::min(decision_.wake_ms, work.queued_ms + kAgedMs);
  }

  // When it would start on reserved nodes, after those that wait for them already.
  int64_t ForecastOf(const QueuedWork& work) const {
    if (!board_.CouldEverFit(*work.shape)) return kNever;
    std::vector<const QueuedWork*> queue = waiters_;
    queue.push_back(&work);
    return ForecastStarts(board_, releases_, queue, overheads(), view_.now_ms).back();
  }

  // The machines with the lowest expected price that keep the promise; where none do, and waiting does not either, the cheapest.
  const Offer* BurstFor(const QueuedWork& work, bool waiting_is_in_time) const {
    const bool on_demand_in_time = Free(work) || LaxityOf(work) >= overheads().boot_ms;
    if (!on_demand_in_time && waiting_is_in_time) return nullptr;
    return Cheapest(work, SpotSafe(work, true) || !on_demand_in_time);
  }
  const Offer* Cheapest(const QueuedWork& work, bool spot) const {
    const OpenOffer* best = nullptr;
    for (const OpenOffer* one : board_.Open(*work.shape)) {
      if (one->offer->market == Market::kSpot && !spot) continue;
      if (best == nullptr || one->expected_micros_per_hour < best->expected_micros_per_hour) best = one;
    }
    return best == nullptr ? nullptr : best->offer;
  }
  int64_t ExpectedPrice(const OfferKey& key, const Shape& shape) const {
    for (const OpenOffer& one : view_.offers) {
      if (OfferKey(one.offer->provider, one.offer->name) == key) return one.expected_micros_per_hour * shape.nodes;
    }
    return 0;
  }
  int64_t ExpectedPrice(const Offer& offer, const Shape& shape) const { return ExpectedPrice(OfferKey(offer.provider, offer.name), shape); }

  // Takes the place of tasks that have time, if that costs less than running it on demand.
  bool MakeWay(const QueuedWork& work) {
    if (!Rested(work)) return false;
    std::vector<const RunningWork*> candidates;
    for (const RunningWork& one : view_.running) {
      const bool settled = view_.now_ms - one.started_ms >= std::max(overheads().boot_ms, kSettledMs) && Rested(one.work);
      if (one.reserved() && !stopped_.contains(one.work.id) && settled && SpillPrice(one.work) > 0) candidates.push_back(&one);
    }
    std::sort(candidates.begin(), candidates.end(), [&](const RunningWork* a, const RunningWork* b) {
      return std::tuple(SpillPrice(a->work), -LaxityOf(a->work), a->work.id) < std::tuple(SpillPrice(b->work), -LaxityOf(b->work), b->work.id);
    });
    const std::vector<const RunningWork*> stopped = MakeRoom(*work.shape, candidates, board_);
    if (stopped.empty()) return false;
    int64_t cost = 0;
    for (const RunningWork* one : stopped) {
      const int64_t away_ms = std::min(one->work.left_ms, NeedMs(work, overheads())) + overheads().boot_ms + overheads().restore_ms;
      cost += PriceForMs(SpillPrice(one->work), away_ms);
    }
    const Offer* on_demand = LaxityOf(work) >= overheads().boot_ms ? Cheapest(work, false) : nullptr;
    if (on_demand != nullptr && PriceForMs(ExpectedPrice(*on_demand, *work.shape), work.left_ms + overheads().boot_ms) <= cost) return false;
    // Unless that takes the place that is kept for another.
    const Board board = board_;
    const std::vector<Board::Release> releases = releases_;
    const std::optional<Hold> hold = hold_;
    for (const RunningWork* one : stopped) {
      board_.Give(*one->work.shape, one->members);
      std::erase_if(releases_, [&](const Board::Release& release) { return release.task == one->work.id; });
    }
    if (hold_) hold_.emplace(board_, releases_, *head_);
    if (!StartReserved(work)) {
      board_ = board, releases_ = releases, hold_ = hold;
      return false;
    }
    for (const RunningWork* one : stopped) {
      stopped_.insert(one->work.id);
      decision_.stops.push_back(one->work.id);
    }
    return true;
  }
  // What spilling it would cost an hour; 0 where its deadline or the market does not allow that.
  int64_t SpillPrice(const QueuedWork& work) const {
    if (!Free(work) && LaxityOf(work) < overheads().boot_ms) return 0;
    const Offer* offer = Cheapest(work, SpotSafe(work, true));
    return offer == nullptr ? 0 : std::max<int64_t>(1, ExpectedPrice(*offer, *work.shape));
  }

  // Burst tasks come back to what is free.
  void Return() {
    std::vector<std::pair<int64_t, const RunningWork*>> by_rest;
    for (const RunningWork& one : view_.running) {
      if (!one.reserved() && !one.moving) by_rest.emplace_back(PriceForMs(ExpectedPrice(one.offer, *one.work.shape), one.work.left_ms), &one);
    }
    std::sort(by_rest.begin(), by_rest.end(),
              [](const auto& a, const auto& b) { return std::tuple(-a.first, a.second->work.id) < std::tuple(-b.first, b.second->work.id); });
    for (const auto& [rest, one] : by_rest) {
      const QueuedWork& work = one->work;
      const int64_t end_ms = view_.now_ms + NeedMs(work, overheads());
      const bool free_of_cost = end_ms <= ExpectedEndMs(*one, view_.now_ms);
      if (!free_of_cost && (work.left_ms < kReturnFactor * overheads().restore_ms || !Rested(work))) continue;
      if (!free_of_cost && !Free(work) && end_ms > work.deadline_ms) continue;
      if (!free_of_cost && board_.FreeDevices() - DevicesOf(*work.shape) < quantum_ / kMsPerHour * kHeadroomPercent / 100) continue;
      if (StartReserved(work)) returned_.insert(work.id);
    }
  }

  // By how much it would end later over there: a restore, and what the machines' hazard adds to their price.
  int64_t DelayMs(const QueuedWork& work, const Offer& to, int64_t expected_price) const {
    const int64_t list_price = std::max<int64_t>(1, to.price_micros_per_hour * work.shape->nodes);
    return overheads().restore_ms + static_cast<int64_t>(static_cast<__int128>(work.left_ms) * (expected_price - list_price) / list_price);
  }

  // Dear machines are left for cheap ones.
  void Hop() {
    std::vector<const RunningWork*> bursts;
    for (const RunningWork& one : view_.running) {
      const bool works =
          !one.reserved() && !one.moving && one.started_ms < view_.now_ms && one.works_from_ms <= view_.now_ms && !returned_.contains(one.work.id);
      if (works && Rested(one.work)) bursts.push_back(&one);
    }
    std::sort(bursts.begin(), bursts.end(), [](const RunningWork* a, const RunningWork* b) { return a->work.id < b->work.id; });
    for (const RunningWork* one : bursts) {
      const QueuedWork& work = one->work;
      if (work.left_ms <= overheads().boot_ms) continue;
      const bool in_time = Free(work) || LaxityOf(work) >= 0;
      const Offer* to = in_time ? Cheapest(work, SpotSafe(work, false)) : nullptr;
      if (to == nullptr || OfferKey(to->provider, to->name) == one->offer) continue;
      const int64_t from_price = ExpectedPrice(one->offer, *work.shape), to_price = ExpectedPrice(*to, *work.shape);
      const int64_t there_ms = work.left_ms - overheads().boot_ms;
      const int64_t saves = PriceForMs(from_price, there_ms) - PriceForMs(to_price, there_ms);
      const int64_t costs = PriceForMs(to_price, overheads().boot_ms + overheads().restore_ms);
      if (saves <= kHopFactor * costs) continue;
      if (DelayMs(work, *to, to_price) > work.left_ms / 1000 * patience_.permille) continue;
      board_.TakeOffer(*work.shape, *to);
      decision_.starts.push_back({work.id, {}, {to->provider, to->name}, true});
    }
  }

  const View& view_;
  const Patience& patience_;
  Board board_;
  std::vector<Board::Release> releases_;
  int64_t quantum_ = 0;  // device-ms of the reserved nodes by which owners are told apart
  Decision decision_;
  std::optional<Hold> hold_;  // for head_
  const QueuedWork* head_ = nullptr;
  std::vector<const QueuedWork*> waiters_;
  std::set<TaskId> stopped_, returned_;
};

// Two decisions, one after the other, as one.
void Append(const Decision& next, Decision* all) {
  for (const TaskId& id : next.stops) {
    // What this same decision had started, and stops again, has not happened.
    const size_t before = all->starts.size();
    std::erase_if(all->starts, [&](const Start& start) { return start.task == id; });
    if (all->starts.size() == before) all->stops.push_back(id);
  }
  for (const Start& start : next.starts) {
    std::erase_if(all->starts, [&](const Start& earlier) { return earlier.task == start.task; });
    all->starts.push_back(start);
  }
  all->wake_ms = next.wake_ms;
}

}  // namespace

Decision Spillway::Decide(const View& view) const {
  Decision all;
  View now = view;
  // What makes way is served anew, and what starts changes what is worth moving: until nothing changes any more.
  for (int pass = 0; pass < kPassesMax; ++pass) {
    const Decision next = Pass(now, patience_).Run();
    Append(next, &all);
    if (next.empty()) break;
    now = After(now, next);
  }
  return all;
}

}  // namespace spillway::core::cluster
