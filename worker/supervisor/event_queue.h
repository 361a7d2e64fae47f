// The events that the worker has not acknowledged, numbered. Pure.
// Bounded: an attempt holds at most one Progress (the newest), kCheckpointsMax Checkpoints (the newest; the worker's scan of manifests finds the
// rest) and one each of Started, Stopping, Exited. Full() tells when no further attempt may start, so that every end always has room.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/limits.h"
#include "worker/frames/frames.h"

namespace spillway::supervisor {

class EventQueue {
 public:
  static constexpr size_t kCheckpointsMax = 16;
  static constexpr size_t kEventsOfAttemptMax = kCheckpointsMax + 4;

  // Returns the event's number. An older Progress of the same attempt is replaced; its number is not used again.
  uint64_t Push(frames::Event event);
  // The first event after `number`, or nullptr.
  const frames::Event* After(uint64_t number) const;
  // Forgets events up to `number` (bounded by the last given out); returns the keys whose Exited was among them.
  std::vector<std::string> Ack(uint64_t number);

  // With `running` attempts alive that may each still add all of theirs: is there room for one more attempt?
  bool Full(size_t running) const { return events_.size() + (running + 1) * kEventsOfAttemptMax > limits::kSupervisorEventsMax; }
  size_t size() const { return events_.size(); }

 private:
  struct Held {
    uint64_t progress = 0;
    std::deque<uint64_t> checkpoints;
  };
  std::map<uint64_t, frames::Event> events_;
  std::map<std::string, Held> held_;  // by attempt key; only attempts with one of the two in events_
  uint64_t last_ = 0;
};

}  // namespace spillway::supervisor
