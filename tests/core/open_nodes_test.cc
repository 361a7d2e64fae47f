// The open nodes of a cycle, against all nodes looked at one by one.
#include "scheduler/core/plan/open_nodes.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "scheduler/core/fit/fit.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using Free = OpenNodes::Free;

class OpenNodesTest : public ::testing::Test {
 protected:
  int64_t Up(int64_t most) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(most + 1)); }

  Shape AnyShape() {
    Shape shape;
    shape.gpu_count = Up(3);
    shape.cpu_milli = 500 * (1 + Up(8));
    shape.memory_bytes = Up(4) * kGiB;
    return shape;
  }

  World world_;
  std::mt19937_64 random_{1};
};

TEST_F(OpenNodesTest, TellEveryNodeWithRoomFullestFirst) {
  world_.Configure({});
  std::vector<NodeId> ids;
  for (int i = 0; i < 24; ++i) {
    Capacity capacity = Box(4 + 4 * (i % 2), 4 * (i % 3 == 0 ? 0 : 1), i % 5 == 0 ? "A100" : "H100");
    capacity.memory_bytes = 8 * kGiB;
    ids.push_back(world_.Register(absl::StrCat("n", i), capacity));
  }
  for (int i = 0; i < 12; ++i) world_.SubmitJob(AnyShape());
  world_.Settle();
  world_.Do(CordonNode{ids[3], true});

  for (int round = 0; round < 1'000; ++round) {
    OpenNodes open(world_.state);
    std::map<NodeId, Room> rooms;
    for (const auto& [id, node] : world_.state.nodes) {
      if (TakesWork(node)) rooms[id] = RoomOn(world_.state.index, node);
    }
    for (int64_t taken = Up(12); taken > 0; --taken) {
      const NodeId id = ids[static_cast<size_t>(Up(23))];
      const Shape shape = AnyShape();
      if (!rooms.contains(id) || !rooms[id].Holds(shape)) continue;
      EXPECT_EQ(open.Take(world_.node(id), shape), rooms[id].Take(shape));
    }
    const Shape shape = AnyShape();
    std::vector<Free> told, should;
    for (const auto& [kind, nodes] : world_.state.index.open) {
      const size_t from = told.size();
      if (Misfits(shape, kind) == 0) {
        open.Visit(kind, shape, [&](const Node& node) {
          EXPECT_EQ(open.RoomOf(node), rooms[node.id]);
          told.push_back(FreeOn(open.RoomOf(node), node.id));
          return false;
        });
      }
      EXPECT_TRUE(std::is_sorted(told.begin() + static_cast<std::ptrdiff_t>(from), told.end()));
    }
    for (const auto& [id, room] : rooms) {
      if (Misfits(shape, world_.node(id)) == 0 && room.free_devices() >= shape.gpu_count && room.cpu_milli >= shape.cpu_milli)
        should.push_back(FreeOn(room, id));
    }
    std::sort(told.begin(), told.end());
    std::sort(should.begin(), should.end());
    ASSERT_EQ(told, should) << "round " << round;
  }
}

TEST_F(OpenNodesTest, StopWhereTheVisitorHasEnough) {
  world_.Configure({});
  for (int i = 0; i < 3; ++i) world_.Register(absl::StrCat("n", i), Box(8));
  int visits = 0;
  OpenNodes(world_.state).Visit(world_.state.index.open.begin()->first, Cpu(), [&](const Node& node) { return ++visits == 2; });
  EXPECT_EQ(visits, 2);
}

}  // namespace
}  // namespace spillway::core
