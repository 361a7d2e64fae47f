#include "scheduler/core/queue/queue.h"

#include "base/log.h"

namespace spillway::core {

Queue::Queue(const State& state) : state_(state) {
  for (const auto& [shape_id, keys] : state.index.queue_by_shape) Push(shape_id, {*keys.begin(), keys.begin(), keys.end()});
}

void Queue::Push(int64_t shape_id, const Head& head) {
  heads_[{head.key, shape_id}] = head;
  key_of_[shape_id] = head.key;
}

std::optional<QueuedTask> Queue::Next() {
  while (!heads_.empty()) {
    if (std::optional<QueuedTask> next = Take()) return next;
  }
  return std::nullopt;
}

std::optional<QueuedTask> Queue::Take() {
  const auto first = heads_.begin();
  const int64_t shape_id = first->first.second;
  Head head = first->second;
  heads_.erase(first);
  key_of_.erase(shape_id);

  QueuedTask next;
  next.id = head.key.task;
  const auto live = state_.jobs.find(next.id.job);
  CHECK(live != state_.jobs.end()) << next.id.ToString();
  next.job = &live->second.job;
  next.shape = &ShapeOf(state_, *next.job);
  next.task = FindTask(state_, next.id);
  const bool unstarted = next.task == nullptr;
  const bool left_out = unstarted && left_out_.contains(next.id.job);
  const TaskIndex after = NotSkippedFrom(*next.job, next.id.index + 1);
  if (unstarted && !left_out && after < next.job->task_count) {
    head.key.task.index = after;
    Push(shape_id, head);
  } else if (++head.at != head.end) {
    head.key = *head.at;
    Push(shape_id, head);
  }
  if (left_out) return std::nullopt;
  return next;
}

void Queue::Drop(int64_t shape_id) {
  const auto key = key_of_.find(shape_id);
  if (key == key_of_.end()) return;
  heads_.erase({key->second, shape_id});
  key_of_.erase(key);
}

}  // namespace spillway::core
