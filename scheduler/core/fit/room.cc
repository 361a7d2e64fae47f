#include "scheduler/core/fit/room.h"

#include <bit>

#include "base/log.h"

namespace spillway::core {

bool Room::Holds(const Shape& shape) const {
  return cpu_milli >= shape.cpu_milli && memory_bytes >= shape.memory_bytes && disk_bytes >= shape.disk_bytes && free_devices() >= shape.gpu_count;
}

uint64_t Room::Take(const Shape& shape) {
  uint64_t taken = 0, rest = devices;
  for (int64_t i = 0; i < shape.gpu_count; ++i) {
    CHECK(rest != 0);
    const uint64_t lowest = rest & (~rest + 1);
    taken |= lowest;
    rest ^= lowest;
  }
  TakeDevices(shape, taken);
  return taken;
}

void Room::TakeDevices(const Shape& shape, uint64_t taken) {
  CHECK((devices & taken) == taken) << devices << " " << taken;
  devices &= ~taken;
  cpu_milli -= shape.cpu_milli;
  memory_bytes -= shape.memory_bytes;
  disk_bytes -= shape.disk_bytes;
}

void Room::Give(const Shape& shape, uint64_t devices_back) {
  devices |= devices_back;
  cpu_milli += shape.cpu_milli;
  memory_bytes += shape.memory_bytes;
  disk_bytes += shape.disk_bytes;
}

int Room::free_devices() const { return std::popcount(devices); }

Room EmptyRoom(const Capacity& capacity) {
  Room room{capacity.cpu_milli, capacity.memory_bytes, capacity.disk_bytes, 0};
  room.devices = capacity.gpu_count >= 64 ? ~uint64_t{0} : (uint64_t{1} << capacity.gpu_count) - 1;
  return room;
}

Room RoomOn(const State::Indexes& index, const Node& node) {
  Room room = EmptyRoom(node.capacity);
  const auto found = index.taken.find(node.id);
  if (found == index.taken.end()) return room;
  const State::Indexes::Taken& taken = found->second;
  // A node that came back smaller than it was may be over-full: nothing more fits.
  room.devices &= ~taken.devices;
  room.cpu_milli -= taken.cpu_milli;
  room.memory_bytes -= taken.memory_bytes;
  room.disk_bytes -= taken.disk_bytes;
  return room;
}

bool TakesWork(const Node& node) { return node.state == NodeState::kReady && !node.cordoned && node.notice_deadline_ms == 0; }

State::Indexes::NodeKind KindOf(const Node& node) { return {node.market, node.price_micros_per_hour, node.capacity, node.provider, node.zone, node.region}; }

State::Indexes::FreeOn FreeOn(const Room& room, NodeId node) { return {room.free_devices(), room.cpu_milli, node}; }

}  // namespace spillway::core
