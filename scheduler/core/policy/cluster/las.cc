#include "scheduler/core/policy/cluster/las.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "scheduler/core/policy/cluster/serve.h"

namespace spillway::core::cluster {
namespace {

constexpr int64_t kFirstQueue = 3'600'000;  // device-ms

int Level(const QueuedWork& work) { return work.attained < kFirstQueue ? 0 : 1; }

}  // namespace

Decision Las::Decide(const View& view) const {
  const auto before = [](const QueuedWork* a, const QueuedWork* b) {
    const int la = Level(*a), lb = Level(*b);
    return la != lb ? la < lb : CameBefore(*a, *b);
  };
  std::vector<const QueuedWork*> queue = Pointers(view.waiting);
  std::sort(queue.begin(), queue.end(), before);
  std::vector<const RunningWork*> second;
  for (const RunningWork& one : view.running) {
    if (one.reserved() && Level(one.work) == 1) second.push_back(&one);
  }
  std::sort(second.begin(), second.end(),
            [](const RunningWork* a, const RunningWork* b) { return std::tuple(-a->work.attained, a->work.id) < std::tuple(-b->work.attained, b->work.id); });

  Board board(view);
  Decision decision;
  std::vector<Board::Release> releases = Board::Releases(view);
  std::vector<const QueuedWork*> rest;
  for (const QueuedWork* work : queue) {
    std::optional<Members> members = Level(*work) == 0 ? board.Fit(*work->shape) : std::nullopt;
    if (Level(*work) == 0 && !members) {
      for (const RunningWork* one : MakeRoom(*work->shape, second, board)) {
        board.Give(*one->work.shape, one->members);
        decision.stops.push_back(one->work.id);
        rest.push_back(&one->work);
        std::erase(second, one);
        std::erase_if(releases, [&](const Board::Release& release) { return release.task == one->work.id; });
      }
      members = board.Fit(*work->shape);
    }
    if (!members) {
      rest.push_back(work);
      continue;
    }
    board.Take(*work->shape, *members);
    releases.push_back({view.now_ms + NeedMs(*work, view.overheads), work->id, work->shape, *members});
    decision.starts.push_back({work->id, *members, {}, false});
  }
  std::sort(rest.begin(), rest.end(), before);
  Serve(view, rest, Backfill::kEasy, std::move(releases), &board, &decision);
  return decision;
}

}  // namespace spillway::core::cluster
