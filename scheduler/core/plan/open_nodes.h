// The machines that may be given work, as one cycle finds and leaves them: by kind, and the fullest of each kind first, so that a cycle looks neither at those
// that have no room nor at every one of a kind that does not fit. Owns what the cycle has taken of them; never says which one a task should get.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "scheduler/core/fit/room.h"
#include "scheduler/core/model.h"

namespace spillway::core {

class OpenNodes {
 public:
  using Kind = State::Indexes::NodeKind;
  using Free = State::Indexes::FreeOn;

  explicit OpenNodes(const State& state) : state_(state) {}
  bool empty() const { return state_.index.open.empty(); }

  Room RoomOf(const Node& node) const;
  // Requires that the room holds the shape; the devices that it gets.
  uint64_t Take(const Node& node, const Shape& shape);

  // Every node of a kind whose devices and cpus are enough for the shape, fullest first, until `visit` answers true. `kind` is one of State::Indexes::open.
  // Nothing is taken meanwhile.
  void Visit(const Kind& kind, const Shape& shape, const std::function<bool(const Node&)>& visit) const;

 private:
  const State& state_;
  std::map<NodeId, Room> rooms_;                 // of nodes that the cycle has taken something of
  std::map<const Kind*, std::set<Free>> taken_;  // the same nodes, as they are now; never iterated over the kinds
};

}  // namespace spillway::core
