#include "worker/supervisor/event_queue.h"

#include <algorithm>

namespace spillway::supervisor {

uint64_t EventQueue::Push(frames::Event event) {
  event.number = ++last_;
  if (std::holds_alternative<frames::Progress>(event.what)) {
    uint64_t& progress = held_[event.attempt.key].progress;
    if (progress != 0) events_.erase(progress);
    progress = last_;
  } else if (std::holds_alternative<frames::Checkpoint>(event.what)) {
    auto& checkpoints = held_[event.attempt.key].checkpoints;
    if (checkpoints.size() == kCheckpointsMax) {
      events_.erase(checkpoints.front());
      checkpoints.pop_front();
    }
    checkpoints.push_back(last_);
  }
  events_.emplace(last_, std::move(event));
  return last_;
}

const frames::Event* EventQueue::After(uint64_t number) const {
  const auto it = events_.upper_bound(number);
  return it == events_.end() ? nullptr : &it->second;
}

std::vector<std::string> EventQueue::Ack(uint64_t number) {
  std::vector<std::string> ended;
  number = std::min(number, last_);
  while (!events_.empty() && events_.begin()->first <= number) {
    const frames::Event& event = events_.begin()->second;
    if (const auto held = held_.find(event.attempt.key); held != held_.end()) {
      if (held->second.progress == event.number) held->second.progress = 0;
      auto& checkpoints = held->second.checkpoints;
      if (!checkpoints.empty() && checkpoints.front() == event.number) checkpoints.pop_front();
      if (held->second.progress == 0 && checkpoints.empty()) held_.erase(held);
    }
    if (std::holds_alternative<frames::Exited>(event.what)) ended.push_back(event.attempt.key);
    events_.erase(events_.begin());
  }
  return ended;
}

}  // namespace spillway::supervisor
