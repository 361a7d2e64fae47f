// What is free on a node, and taking a share of it. Owns the arithmetic of free capacity and the choice of devices; never looks at constraints.
#pragma once

#include <cstdint>

#include "scheduler/core/model.h"

namespace spillway::core {

struct Room {
  int64_t cpu_milli = 0, memory_bytes = 0, disk_bytes = 0;
  uint64_t devices = 0;  // bit i: device i is free

  bool Holds(const Shape& shape) const;
  // Takes the lowest free devices and returns them. Requires Holds(shape).
  uint64_t Take(const Shape& shape);
  // Requires that the devices are free.
  void TakeDevices(const Shape& shape, uint64_t taken);
  // The other way: a share comes back. Requires that its devices are taken.
  void Give(const Shape& shape, uint64_t devices_back);
  int free_devices() const;
  bool operator==(const Room&) const = default;
};

Room EmptyRoom(const Capacity& capacity);
// Capacity minus the shapes of the attempts that live there.
Room RoomOn(const State::Indexes& index, const Node& node);

// READY, not cordoned, no notice: it may be given work (as far as the state knows).
bool TakesWork(const Node& node);
State::Indexes::NodeKind KindOf(const Node& node);
State::Indexes::FreeOn FreeOn(const Room& room, NodeId node);

}  // namespace spillway::core
