#include "scheduler/core/policy/cluster/laxity.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/policy/cluster/serve.h"

namespace spillway::core::cluster {

int64_t LaxityMs(const QueuedWork& work, const Overheads& overheads, int64_t now_ms) {
  return work.deadline_ms == 0 ? kNever : work.deadline_ms - now_ms - NeedMs(work, overheads);
}

Decision Laxity::Decide(const View& view) const {
  const auto key = [&](const QueuedWork* work) {
    const int64_t laxity_ms = LaxityMs(*work, view.overheads, view.now_ms);
    return laxity_ms < 0 ? kNever : laxity_ms;
  };
  std::vector<const QueuedWork*> queue = Pointers(view.waiting);
  std::sort(queue.begin(), queue.end(), [&](const QueuedWork* a, const QueuedWork* b) {
    const int64_t ka = key(a), kb = key(b);
    return ka != kb ? ka < kb : CameBefore(*a, *b);
  });
  Board board(view);
  Decision decision;
  Serve(view, queue, Backfill::kEasy, Board::Releases(view), &board, &decision);
  return decision;
}

}  // namespace spillway::core::cluster
