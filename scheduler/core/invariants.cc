// What must hold after every turn. Names the first thing that does not.
#include <bit>

#include "absl/strings/str_cat.h"
#include "scheduler/core/core.h"
#include "scheduler/core/fit/room.h"
#include "scheduler/core/index.h"

namespace spillway::core {
namespace {

std::string BrokenAttempt(const State& state, const Job& job, const Task& task) {
  const Attempt& attempt = *task.attempt;
  const std::string id = absl::StrCat(task.id.ToString(), "@", attempt.number);
  if (attempt.number != task.attempts) return absl::StrCat(id, ": the living attempt is not the newest, ", task.attempts);
  if (attempt.state == AttemptState::kUnspecified || attempt.state == AttemptState::kEnded) return absl::StrCat(id, ": lives and is ", Name(attempt.state));
  if ((attempt.state == AttemptState::kStopping) != attempt.stop.has_value()) return absl::StrCat(id, ": STOPPING and a wish to stop go together");
  const Shape& shape = ShapeOf(state, job);
  if (static_cast<int64_t>(attempt.members.size()) != shape.nodes) return absl::StrCat(id, ": has ", attempt.members.size(), " members");
  std::set<NodeId> nodes;
  int64_t stopped = 0;
  for (const Member& member : attempt.members) {
    if (!nodes.insert(member.node).second) return absl::StrCat(id, ": has two members on node ", member.node);
    if (attempt.state == AttemptState::kOffered && member.started) return absl::StrCat(id, ": a member started before all had accepted");
    if (member.stopped) {
      ++stopped;
      continue;
    }
    const Node* node = FindNode(state, member.node);
    if (node == nullptr) return absl::StrCat(id, ": lives on node ", member.node, ", which does not");
    if (node->state != NodeState::kReady && node->state != NodeState::kDraining && node->state != NodeState::kReleasing) {
      return absl::StrCat(id, ": lives on node ", member.node, ", which is ", Name(node->state));
    }
    if (std::popcount(member.devices) != shape.gpu_count) return absl::StrCat(id, ": has ", std::popcount(member.devices), " devices, not ", shape.gpu_count);
    if (node->market == Market::kSpot && !shape.interruptible) return absl::StrCat(id, ": uninterruptible, and on spot");
  }
  if (stopped == shape.nodes) return absl::StrCat(id, ": lives and all its members have stopped");
  if ((stopped > 0) != (attempt.cause != EndCause::kUnspecified)) return absl::StrCat(id, ": an end of a member and its cause go together");
  return "";
}

std::string BrokenTask(const State& state, const Job& job, TaskIndex index, const Task& task) {
  const std::string id = task.id.ToString();
  if (task.id != TaskId{job.id, index}) return absl::StrCat("task ", id, " stands at ", job.id, ".", index);
  if (index >= job.next_index || Skipped(job, index)) return absl::StrCat("task ", id, " takes memory before it began");
  if (task.cancel_requested && task.state != TaskState::kActive) return absl::StrCat("task ", id, " was cancelled and is ", Name(task.state));
  if ((task.state == TaskState::kActive) != task.attempt.has_value())
    return absl::StrCat("task ", id, " is ", Name(task.state), task.attempt ? " with" : " without", " an attempt");
  if (task.state != TaskState::kQueued && task.state != TaskState::kHeld && task.state != TaskState::kActive)
    return absl::StrCat("task ", id, " has ended and is in memory");
  if ((task.state == TaskState::kHeld) != (task.hold != HoldReason::kUnspecified))
    return absl::StrCat("task ", id, " is ", Name(task.state), ", held by ", Name(task.hold));
  if (task.state == TaskState::kQueued && job.paused) return absl::StrCat("task ", id, " is QUEUED and its job is paused");
  if (task.state == TaskState::kHeld && !job.paused) return absl::StrCat("task ", id, " is HELD and its job is not paused");
  if (task.seal_owed != 0 && (task.state == TaskState::kActive || task.seal_owed != task.attempts))
    return absl::StrCat("task ", id, " owes the seal of ", task.seal_owed);
  for (const Attempt& past : task.history) {
    if (past.state != AttemptState::kEnded || past.number > task.attempts)
      return absl::StrCat("task ", id, " has a past attempt ", past.number, " that is ", Name(past.state));
  }
  if (task.checkpoint && task.checkpoint->attempt > task.attempts) return absl::StrCat("task ", id, " has a checkpoint of attempt ", task.checkpoint->attempt);
  return task.attempt ? BrokenAttempt(state, job, task) : "";
}

// The tasks that were cancelled before they began.
std::string BrokenSkips(const Job& job) {
  TaskIndex at = -1;
  int64_t count = 0;
  for (const TaskRange& range : job.skipped) {
    if (range.size() <= 0 || range.first <= at || range.end > job.task_count) return absl::StrCat("job ", job.id, " skips tasks out of order");
    if (range.first <= job.next_index && job.next_index < range.end) return absl::StrCat("job ", job.id, " goes on with a task that was cancelled");
    at = range.end;
    count += range.size();
  }
  return count > job.counts.cancelled ? absl::StrCat("job ", job.id, " has skipped ", count, " tasks and counts ", job.counts.cancelled, " as cancelled") : "";
}

std::string BrokenJob(const State& state, JobId id, const LiveJob& live) {
  const Job& job = live.job;
  if (job.id != id || id >= state.meta.next_job) return absl::StrCat("job ", job.id, " stands at ", id);
  if (!state.shapes.contains(job.shape_id)) return absl::StrCat("job ", id, " has the shape ", job.shape_id, ", which does not exist");
  TaskCounts seen;
  if (std::string broken = BrokenSkips(job); !broken.empty()) return broken;
  (HoldOf(job) == HoldReason::kUnspecified ? seen.queued : seen.held) = Unstarted(job);
  if (!job.needs.empty() && Begun(job) > 0) return absl::StrCat("job ", id, " began before what it waits for");
  for (const auto& [index, task] : live.tasks) {
    if (std::string broken = BrokenTask(state, job, index, task); !broken.empty()) return broken;
    ++(task.state == TaskState::kQueued ? seen.queued : task.state == TaskState::kHeld ? seen.held : seen.active);
  }
  const TaskCounts& counts = job.counts;
  if (seen.queued != counts.queued || seen.held != counts.held || seen.active != counts.active) return absl::StrCat("job ", id, " miscounts its living tasks");
  if (counts.queued + counts.held + counts.active + counts.succeeded + counts.failed + counts.cancelled != job.task_count) {
    return absl::StrCat("the counts of job ", id, " do not add up to ", job.task_count);
  }
  if (counts.queued + counts.held + counts.active == 0) return absl::StrCat("job ", id, " has ended and is in memory");
  if (job.cancel_requested && counts.queued + counts.held > 0) return absl::StrCat("job ", id, " is cancelled and has waiting tasks");
  return "";
}

std::string BrokenNode(const State& state, NodeId id, const Node& node) {
  if (node.id != id || id >= state.meta.next_node) return absl::StrCat("node ", node.id, " stands at ", id);
  if (node.state == NodeState::kUnspecified || node.state == NodeState::kReleased || node.state == NodeState::kLost) {
    return absl::StrCat("node ", id, " is ", Name(node.state), " and in memory");
  }
  const auto attempts = state.index.on_node.find(id);
  const bool works = attempts != state.index.on_node.end();
  if (works && node.idle_since_ms != 0) return absl::StrCat("node ", id, " counts as idle and is not");
  if (!works && node.idle_since_ms == 0 && node.state == NodeState::kReady) return absl::StrCat("node ", id, " is idle and does not say since when");
  if ((node.created_ms == 0) != (node.metered_ms == 0) || node.metered_ms < node.created_ms)
    return absl::StrCat("node ", id, " is metered to ", node.metered_ms, " and was created at ", node.created_ms);
  if (!works) return "";
  Room room = EmptyRoom(node.capacity);
  for (const AttemptId& attempt : attempts->second) {
    const Task* task = FindTask(state, attempt.task());
    if (task == nullptr || !task->attempt || task->attempt->number != attempt.number)
      return absl::StrCat("node ", id, " holds ", attempt.ToString(), ", which does not live");
    for (const Member& member : task->attempt->members) {
      if (member.node != id || member.stopped) continue;
      if ((member.devices & room.devices) != member.devices)
        return absl::StrCat("node ", id, ": a device of ", attempt.ToString(), " is taken twice or does not exist");
      room.TakeDevices(ShapeOf(state, *FindJob(state, attempt.job)), member.devices);
    }
  }
  if (room.cpu_milli < 0 || room.memory_bytes < 0 || room.disk_bytes < 0) return absl::StrCat("node ", id, " is over-full");
  return "";
}

// An index holds exactly what it is derived from.
std::string BrokenIndexes(const State& state) {
  const State::Indexes &is = state.index, should = MakeIndexes(state);
  if (is.on_node != should.on_node) return "index on_node is wrong";
  if (is.taken != should.taken) return "index taken is wrong";
  if (is.open != should.open) return "index open is wrong";
  if (is.queue != should.queue) return "index queue is wrong";
  if (is.queue_by_shape != should.queue_by_shape) return "index queue_by_shape is wrong";
  if (is.back_offs != should.back_offs) return "index back_offs is wrong";
  if (is.node_by_name != should.node_by_name) return "index node_by_name is wrong";
  if (is.node_by_instance != should.node_by_instance) return "index node_by_instance is wrong";
  if (is.shape_ids != should.shape_ids) return "index shape_ids is wrong";
  if (is.newest_by_name != should.newest_by_name) return "index newest_by_name is wrong";
  if (is.job_names != should.job_names) return "index job_names is wrong";
  if (is.requests_by_age != should.requests_by_age) return "index requests_by_age is wrong";
  if (is.deadlines != should.deadlines) return "index deadlines is wrong";
  if (is.needed_by != should.needed_by) return "index needed_by is wrong";
  if (is.settled != should.settled) return "index settled is wrong";
  if (is.active_priorities != should.active_priorities) return "index active_priorities is wrong";
  if (is.making_room != should.making_room) return "index making_room is wrong";
  if (is.gathering != should.gathering) return "index gathering is wrong";
  return "";
}

}  // namespace

std::string BrokenInvariant(const State& state) {
  for (const auto& [id, live] : state.jobs) {
    if (std::string broken = BrokenJob(state, id, live); !broken.empty()) return broken;
  }
  for (const auto& [id, node] : state.nodes) {
    if (std::string broken = BrokenNode(state, id, node); !broken.empty()) return broken;
  }
  for (const auto& [node, attempts] : state.index.on_node) {
    if (!state.nodes.contains(node)) return absl::StrCat("index on_node has node ", node, ", which does not live");
  }
  for (const auto& [id, shape] : state.shapes) {
    if (id >= state.meta.next_shape) return absl::StrCat("shape ", id, " was never given out");
  }
  return BrokenIndexes(state);
}

}  // namespace spillway::core
