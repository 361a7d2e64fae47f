// The queue in the order in which tasks are served: (-priority, queued since, job, index), merged over the shapes, so that everything of a shape that cannot be
// served now is left out in one step. Jobs that stand in the index with one key for all their unstarted tasks are told task by task. Reads only.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "scheduler/core/model.h"

namespace spillway::core {

struct QueuedTask {
  TaskId id;
  const Job* job = nullptr;
  const Task* task = nullptr;  // null: it never ran
  const Shape* shape = nullptr;

  bool sealing() const { return task != nullptr && task->seal_owed != 0; }
  bool backs_off(int64_t now_ms) const { return task != nullptr && task->not_before_ms > now_ms; }
  NodeId avoid_node() const { return task == nullptr ? 0 : task->avoid_node; }
};

class Queue {
 public:
  explicit Queue(const State& state);
  std::optional<QueuedTask> Next();
  // Nothing of this shape is told any more.
  void Drop(int64_t shape_id);
  // Nothing more is told of the job's tasks that never began: a step, however many there are.
  void LeaveOutUnstarted(JobId job) { left_out_.insert(job); }

 private:
  using Key = State::Indexes::QueueKey;
  struct Head {
    Key key;  // of the task that is next; its index may lie past the key in the index
    std::set<Key>::const_iterator at, end;
  };
  void Push(int64_t shape_id, const Head& head);
  std::optional<QueuedTask> Take();  // nullopt: it was left out

  const State& state_;
  std::map<std::pair<Key, int64_t>, Head> heads_;  // (next key, shape): one a shape
  std::map<int64_t, Key> key_of_;
  std::set<JobId> left_out_;
};

}  // namespace spillway::core
