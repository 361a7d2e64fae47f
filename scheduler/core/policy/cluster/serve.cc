#include "scheduler/core/policy/cluster/serve.h"

#include <optional>
#include <utility>

namespace spillway::core::cluster {
namespace {

bool Spill(const QueuedWork& work, Board* board, Decision* decision) {
  const std::vector<const OpenOffer*> open = board->Open(*work.shape);
  const Offer* offer = CheapestOf(open, Market::kSpot);
  if (offer == nullptr) offer = CheapestOf(open, Market::kOnDemand);
  if (offer == nullptr) return false;
  board->TakeOffer(*work.shape, *offer);
  decision->starts.push_back({work.id, {}, {offer->provider, offer->name}, false});
  return true;
}

}  // namespace

const Offer* CheapestOf(const std::vector<const OpenOffer*>& open, Market market) {
  const Offer* best = nullptr;
  for (const OpenOffer* one : open) {  // by name already
    const Offer* offer = one->offer;
    if (offer->market == market && (best == nullptr || offer->price_micros_per_hour < best->price_micros_per_hour)) best = offer;
  }
  return best;
}

std::vector<const QueuedWork*> Pointers(const std::vector<QueuedWork>& waiting) {
  std::vector<const QueuedWork*> pointers;
  for (const QueuedWork& work : waiting) pointers.push_back(&work);
  return pointers;
}

void Serve(const View& view, std::vector<const QueuedWork*> queue, Backfill backfill, std::vector<Board::Release> releases, Board* board, Decision* decision) {
  // Again as long as something starts: what was backfilled may change where the head will fit, and so what may be backfilled.
  for (bool started = true; started;) {
    started = false;
    std::optional<Hold> hold;
    std::vector<const QueuedWork*> rest;
    for (size_t i = 0; i < queue.size(); ++i) {
      const QueuedWork* work = queue[i];
      const std::optional<Members> members = board->Fit(*work->shape);
      const int64_t end_ms = view.now_ms + NeedMs(*work, view.overheads);
      if (members && (!hold || hold->Leaves(*work->shape, *members, end_ms))) {
        if (hold) hold->Take(*work->shape, *members, end_ms);
        board->Take(*work->shape, *members);
        releases.push_back({end_ms, work->id, work->shape, *members});
        decision->starts.push_back({work->id, *members, {}, false});
        started = true;
      } else if (Spill(*work, board, decision)) {
        started = true;
      } else if (backfill == Backfill::kNone) {
        return;
      } else {
        if (!hold && board->CouldEverFit(*work->shape)) hold.emplace(*board, releases, *work);
        rest.push_back(work);
      }
    }
    queue = std::move(rest);
  }
}

}  // namespace spillway::core::cluster
