// A decision while it is being made: what is free, what was taken and given back by it so far, and when the rest comes free by what is predicted.
// Owns the arithmetic of capacity over time; prefers nothing.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/core/policy/cluster/cluster.h"

namespace spillway::core::cluster {

using Members = std::vector<Member>;

class Board {
 public:
  explicit Board(const View& view);

  // Reserved nodes for all members or nothing: one node a member, the fullest that hold it, so that whole nodes stay free.
  std::optional<Members> Fit(const Shape& shape) const;
  void Take(const Shape& shape, const Members& members);
  void Give(const Shape& shape, const Members& members);
  // The same by count: whether the members' nodes have that much free, whichever devices it is; and taking any of them.
  bool HasRoom(const Shape& shape, const Members& members) const;
  void TakeAny(const Shape& shape, const Members& members);
  // Whether the reserved nodes could hold it if nothing else ran.
  int64_t FreeDevices() const;
  bool CouldEverFit(const Shape& shape) const;

  // The offers that would take all members now.
  std::vector<const OpenOffer*> Open(const Shape& shape) const;
  void TakeOffer(const Shape& shape, const Offer& offer);

  // The board as it will be when what runs on reserved nodes has ended up to then.
  struct Release {
    int64_t at_ms = 0;
    TaskId task;
    const Shape* shape = nullptr;
    Members members;
  };
  // Sorted by (at, task). What has overrun its prediction counts as ending a moment from now.
  static std::vector<Release> Releases(const View& view);

 private:
  struct Slot {
    const Node* node;
    Room room;
  };
  const Slot* Find(NodeId node) const;
  Slot* Find(NodeId node) { return const_cast<Slot*>(static_cast<const Board*>(this)->Find(node)); }

  std::vector<Slot> slots_;        // by node id
  std::vector<OpenOffer> offers_;  // by key
};

// Which of `candidates`, preferred ones first, would make room for a task if they made way, and none in vain; empty where even all of them would not do.
std::vector<const RunningWork*> MakeRoom(const Shape& shape, const std::vector<const RunningWork*>& candidates, Board board);

// When each of `queue` would start on reserved nodes if they were served in that order, each as soon as it fits; kNever where it never would.
std::vector<int64_t> ForecastStarts(const Board& board, const std::vector<Board::Release>& releases, const std::vector<const QueuedWork*>& queue,
                                    const Overheads& overheads, int64_t now_ms);

// A place kept for one task that does not fit yet (EASY backfill): its start by what is predicted, and what may run until then without delaying it.
class Hold {
 public:
  Hold(const Board& board, std::vector<Board::Release> releases, const QueuedWork& head);
  bool ever() const { return at_ms_ != kNever; }
  int64_t at_ms() const { return at_ms_; }
  // Whether a task that took these members now and ends at end_ms would leave the head its place.
  bool Leaves(const Shape& shape, const Members& members, int64_t end_ms) const;
  // It was started there after all.
  void Take(const Shape& shape, const Members& members, int64_t end_ms);

 private:
  int64_t at_ms_ = kNever;
  std::optional<Board> then_;  // when the head starts, with the head in its place
};

}  // namespace spillway::core::cluster
