#include "scheduler/core/plan/open_nodes.h"

#include <algorithm>

#include "base/log.h"

namespace spillway::core {
namespace {

using Free = OpenNodes::Free;

// The first from `at` on with enough of both: of those with as many devices the ones with too few cpus are passed over in one step.
std::set<Free>::const_iterator Enough(const std::set<Free>& nodes, std::set<Free>::const_iterator at, const Shape& shape) {
  while (at != nodes.end() && (at->devices < shape.gpu_count || at->cpu_milli < shape.cpu_milli)) {
    at = nodes.lower_bound({std::max(at->devices, shape.gpu_count), shape.cpu_milli, 0});
  }
  return at;
}

}  // namespace

Room OpenNodes::RoomOf(const Node& node) const {
  const auto taken = rooms_.find(node.id);
  return taken == rooms_.end() ? RoomOn(state_.index, node) : taken->second;
}

uint64_t OpenNodes::Take(const Node& node, const Shape& shape) {
  const auto kind = state_.index.open.find(KindOf(node));
  CHECK(kind != state_.index.open.end()) << "node " << node.id;
  std::set<Free>& taken = taken_[&kind->first];
  Room& room = rooms_.insert({node.id, RoomOn(state_.index, node)}).first->second;
  taken.erase(FreeOn(room, node.id));
  const uint64_t devices = room.Take(shape);
  taken.insert(FreeOn(room, node.id));
  return devices;
}

void OpenNodes::Visit(const Kind& kind, const Shape& shape, const std::function<bool(const Node&)>& visit) const {
  static const std::set<Free> kNone;
  const std::set<Free>& untouched = state_.index.open.at(kind);
  const auto found = taken_.find(&kind);
  const std::set<Free>& taken = found == taken_.end() ? kNone : found->second;
  auto from = Enough(untouched, untouched.begin(), shape), ours = Enough(taken, taken.begin(), shape);
  while (true) {
    while (from != untouched.end() && rooms_.contains(from->node)) from = Enough(untouched, std::next(from), shape);
    const bool is_untouched = from != untouched.end() && (ours == taken.end() || *from < *ours);
    if (!is_untouched && ours == taken.end()) return;
    auto& at = is_untouched ? from : ours;
    if (visit(state_.nodes.at(at->node))) return;
    at = Enough(is_untouched ? untouched : taken, std::next(at), shape);
  }
}

}  // namespace spillway::core
