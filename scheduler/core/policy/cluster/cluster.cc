#include "scheduler/core/policy/cluster/cluster.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"

namespace spillway::core::cluster {
namespace {

void Return(View* view, const RunningWork& work) {
  for (const Member& member : work.members) {
    for (ReservedNode& node : view->reserved) {
      if (node.node->id != member.node) continue;
      node.room.devices |= member.devices;
      node.room.cpu_milli += work.work.shape->cpu_milli;
      node.room.memory_bytes += work.work.shape->memory_bytes;
      node.room.disk_bytes += work.work.shape->disk_bytes;
    }
  }
}

void Occupy(View* view, const Shape& shape, const std::vector<Member>& members) {
  for (const Member& member : members) {
    const auto node = std::find_if(view->reserved.begin(), view->reserved.end(), [&](const ReservedNode& one) { return one.node->id == member.node; });
    CHECK(node != view->reserved.end()) << member.node;
    node->room.TakeDevices(shape, member.devices);
  }
}

void Draw(View* view, const Shape& shape, const OfferKey& key, int64_t sign) {
  for (OpenOffer& one : view->offers) {
    if (OfferKey(one.offer->provider, one.offer->name) == key && one.available >= 0) one.available -= sign * shape.nodes;
  }
}

// Takes a task off its machines; what it did stays done.
QueuedWork Stop(View* view, std::vector<RunningWork>::iterator one) {
  QueuedWork work = one->work;
  if (one->reserved()) {
    Return(view, *one);
  } else {
    Draw(view, *work.shape, one->offer, -1);
  }
  view->running.erase(one);
  work.queued_ms = view->now_ms;
  work.moved_ms = view->now_ms;
  return work;
}

}  // namespace

View After(const View& before, const Decision& decision) {
  View view = before;
  const auto running = [&](TaskId id) {
    return std::find_if(view.running.begin(), view.running.end(), [&](const RunningWork& one) { return one.work.id == id; });
  };
  for (const TaskId& id : decision.stops) view.waiting.push_back(Stop(&view, running(id)));
  // What moves makes room before anything takes it.
  for (const Start& start : decision.starts) {
    const auto one = running(start.task);
    if (one != view.running.end() && !start.beside) view.waiting.push_back(Stop(&view, one));
  }
  for (const Start& start : decision.starts) {
    if (start.beside) {
      const auto one = running(start.task);
      CHECK(one != view.running.end()) << start.task.ToString();
      one->moving = true;
      Draw(&view, *one->work.shape, start.offer, 1);
      continue;
    }
    const auto queued = std::find_if(view.waiting.begin(), view.waiting.end(), [&](const QueuedWork& work) { return work.id == start.task; });
    CHECK(queued != view.waiting.end()) << start.task.ToString();
    RunningWork one{*queued, start.members, start.offer, view.now_ms, view.now_ms, false};
    view.waiting.erase(queued);
    if (one.work.resumes) one.works_from_ms += view.overheads.restore_ms;
    if (one.reserved()) {
      Occupy(&view, *one.work.shape, one.members);
    } else {
      one.works_from_ms += view.overheads.boot_ms;
      Draw(&view, *one.work.shape, one.offer, 1);
    }
    view.running.push_back(std::move(one));
  }
  return view;
}

int64_t DevicesOf(const Shape& shape) { return std::max<int64_t>(1, shape.gpu_count * shape.nodes); }

int64_t NeedMs(const QueuedWork& work, const Overheads& overheads) { return work.left_ms + (work.resumes ? overheads.restore_ms : 0); }

int64_t ExpectedEndMs(const RunningWork& work, int64_t now_ms) { return std::max(now_ms, work.works_from_ms) + work.work.left_ms; }

bool CameBefore(const QueuedWork& a, const QueuedWork& b) { return std::tie(a.arrived_ms, a.id) < std::tie(b.arrived_ms, b.id); }

}  // namespace spillway::core::cluster
