#include "scheduler/core/policy/cluster/easy.h"

#include <algorithm>

#include "scheduler/core/policy/cluster/serve.h"

namespace spillway::core::cluster {

Decision Easy::Decide(const View& view) const {
  std::vector<const QueuedWork*> queue = Pointers(view.waiting);
  std::sort(queue.begin(), queue.end(), [](const QueuedWork* a, const QueuedWork* b) { return CameBefore(*a, *b); });
  Board board(view);
  Decision decision;
  Serve(view, queue, Backfill::kEasy, Board::Releases(view), &board, &decision);
  return decision;
}

}  // namespace spillway::core::cluster
