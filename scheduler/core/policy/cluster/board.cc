#include "scheduler/core/policy/cluster/board.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "scheduler/core/fit/fit.h"

namespace spillway::core::cluster {

Board::Board(const View& view) : offers_(view.offers) {
  for (const ReservedNode& one : view.reserved) slots_.push_back({one.node, one.room});
  std::sort(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.node->id < b.node->id; });
  std::sort(offers_.begin(), offers_.end(),
            [](const OpenOffer& a, const OpenOffer& b) { return std::tie(a.offer->provider, a.offer->name) < std::tie(b.offer->provider, b.offer->name); });
}

std::optional<Members> Board::Fit(const Shape& shape) const {
  std::vector<const Slot*> holding;
  for (const Slot& slot : slots_) {
    if (slot.room.Holds(shape) && Misfits(shape, *slot.node) == 0) holding.push_back(&slot);
  }
  if (static_cast<int64_t>(holding.size()) < shape.nodes) return std::nullopt;
  std::stable_sort(holding.begin(), holding.end(), [](const Slot* a, const Slot* b) {
    return std::tuple(a->room.free_devices(), a->room.cpu_milli) < std::tuple(b->room.free_devices(), b->room.cpu_milli);
  });
  Members members;
  for (int64_t i = 0; i < shape.nodes; ++i) {
    Room room = holding[static_cast<size_t>(i)]->room;
    members.push_back({holding[static_cast<size_t>(i)]->node->id, room.Take(shape), false});
  }
  return members;
}

const Board::Slot* Board::Find(NodeId node) const {
  const auto slot = std::lower_bound(slots_.begin(), slots_.end(), node, [](const Slot& one, NodeId id) { return one.node->id < id; });
  return slot == slots_.end() || slot->node->id != node ? nullptr : &*slot;
}

void Board::Take(const Shape& shape, const Members& members) {
  for (const Member& member : members) {
    Slot* slot = Find(member.node);
    CHECK(slot != nullptr) << member.node;
    slot->room.TakeDevices(shape, member.devices);
  }
}

void Board::Give(const Shape& shape, const Members& members) {
  for (const Member& member : members) {
    Slot* slot = Find(member.node);
    if (slot == nullptr) continue;  // the node takes no work any more
    slot->room.devices |= member.devices;
    slot->room.cpu_milli += shape.cpu_milli;
    slot->room.memory_bytes += shape.memory_bytes;
    slot->room.disk_bytes += shape.disk_bytes;
  }
}

bool Board::HasRoom(const Shape& shape, const Members& members) const {
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    const Slot* slot = Find(member.node);
    return slot != nullptr && slot->room.Holds(shape);
  });
}

void Board::TakeAny(const Shape& shape, const Members& members) {
  for (const Member& member : members) Find(member.node)->room.Take(shape);
}

int64_t Board::FreeDevices() const {
  int64_t free = 0;
  for (const Slot& slot : slots_) free += slot.room.free_devices();
  return free;
}

bool Board::CouldEverFit(const Shape& shape) const {
  return std::count_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return Misfits(shape, *slot.node) == 0; }) >= shape.nodes;
}

std::vector<const OpenOffer*> Board::Open(const Shape& shape) const {
  std::vector<const OpenOffer*> open;
  for (const OpenOffer& one : offers_) {
    if (one.offer->withdrawn || Misfits(shape, *one.offer) != 0 || (one.available >= 0 && one.available < shape.nodes)) continue;
    open.push_back(&one);
  }
  return open;
}

void Board::TakeOffer(const Shape& shape, const Offer& offer) {
  for (OpenOffer& one : offers_) {
    if (one.offer == &offer && one.available >= 0) one.available -= shape.nodes;
  }
}

std::vector<Board::Release> Board::Releases(const View& view) {
  std::vector<Release> releases;
  for (const RunningWork& one : view.running) {
    if (one.reserved()) releases.push_back({std::max(ExpectedEndMs(one, view.now_ms), view.now_ms + 1), one.work.id, one.work.shape, one.members});
  }
  std::sort(releases.begin(), releases.end(), [](const Release& a, const Release& b) { return std::tie(a.at_ms, a.task) < std::tie(b.at_ms, b.task); });
  return releases;
}

std::vector<const RunningWork*> MakeRoom(const Shape& shape, const std::vector<const RunningWork*>& candidates, Board board) {
  std::vector<const RunningWork*> stopped;
  for (const RunningWork* one : candidates) {
    if (board.Fit(shape)) break;
    board.Give(*one->work.shape, one->members);
    stopped.push_back(one);
  }
  if (!board.Fit(shape)) return {};
  for (size_t i = stopped.size(); i-- > 0;) {
    Board without = board;
    without.Take(*stopped[i]->work.shape, stopped[i]->members);
    if (!without.Fit(shape)) continue;
    board = std::move(without);
    stopped.erase(stopped.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return stopped;
}

std::vector<int64_t> ForecastStarts(const Board& board, const std::vector<Board::Release>& releases, const std::vector<const QueuedWork*>& queue,
                                    const Overheads& overheads, int64_t now_ms) {
  std::vector<int64_t> starts(queue.size(), kNever);
  Board then = board;
  std::vector<Board::Release> heap = releases;
  const auto later = [](const Board::Release& a, const Board::Release& b) { return std::tie(a.at_ms, a.task) > std::tie(b.at_ms, b.task); };
  std::make_heap(heap.begin(), heap.end(), later);
  size_t open = queue.size();
  for (int64_t at_ms = now_ms;;) {
    for (size_t i = 0; i < queue.size(); ++i) {
      if (starts[i] != kNever) continue;
      const std::optional<Members> members = then.Fit(*queue[i]->shape);
      if (!members) continue;
      starts[i] = at_ms;
      --open;
      then.Take(*queue[i]->shape, *members);
      heap.push_back({at_ms + NeedMs(*queue[i], overheads), queue[i]->id, queue[i]->shape, *members});
      std::push_heap(heap.begin(), heap.end(), later);
    }
    if (open == 0 || heap.empty()) return starts;
    at_ms = heap.front().at_ms;
    while (!heap.empty() && heap.front().at_ms == at_ms) {
      std::pop_heap(heap.begin(), heap.end(), later);
      then.Give(*heap.back().shape, heap.back().members);
      heap.pop_back();
    }
  }
}

Hold::Hold(const Board& board, std::vector<Board::Release> releases, const QueuedWork& head) {
  Board then = board;
  std::sort(releases.begin(), releases.end(),
            [](const Board::Release& a, const Board::Release& b) { return std::tie(a.at_ms, a.task) < std::tie(b.at_ms, b.task); });
  for (const Board::Release& release : releases) {
    then.Give(*release.shape, release.members);
    const std::optional<Members> members = then.Fit(*head.shape);
    if (!members) continue;
    at_ms_ = release.at_ms;
    then.Take(*head.shape, *members);
    then_ = std::move(then);
    return;
  }
}

bool Hold::Leaves(const Shape& shape, const Members& members, int64_t end_ms) const { return !ever() || end_ms <= at_ms_ || then_->HasRoom(shape, members); }

void Hold::Take(const Shape& shape, const Members& members, int64_t end_ms) {
  if (ever() && end_ms > at_ms_) then_->TakeAny(shape, members);
}

}  // namespace spillway::core::cluster
