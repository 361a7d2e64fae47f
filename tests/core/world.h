// A small world around the pure core: commands are admitted and reduced one after the other, and every invariant is checked after every event.
// Owns a State, a Soft and a time that only the test moves. Never guesses: what a test wants to happen, it says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "scheduler/core/core.h"

namespace spillway::core {

inline constexpr int64_t kSecond = 1'000;
inline constexpr int64_t kMinute = 60 * kSecond;
inline constexpr int64_t kHour = 60 * kMinute;
inline constexpr int64_t kGiB = int64_t{1} << 30;

class World {
 public:
  State state;
  Soft soft;
  Policy policy;
  int64_t now_ms = 1'000'000'000;
  std::vector<Event> events;  // all of them, in order
  std::vector<int64_t> event_times;
  std::vector<Charge> charges;
  std::map<JobId, Job> ended_jobs;
  std::map<TaskId, Task> ended_tasks;
  std::map<NodeId, Node> gone_nodes;
  Changes changes;  // of the last command

  // Admits, reduces, checks. A refusal changes nothing.
  absl::StatusOr<Reply> Try(const Command& command);
  // The same where a refusal is a failure of the test.
  Reply Do(const Command& command);
  // Decide and admit everything it proposes; answers what it proposed.
  std::vector<Command> Turn();
  // Turns until nothing more is decided.
  void Settle() {
    while (!Turn().empty()) {
    }
  }

  // --- shorthands ---
  void Configure(std::vector<ProviderInfo> providers, std::vector<Reservation> reservations = {});
  JobId SubmitJob(const Shape& shape, int64_t priority = 50);
  Reply SubmitJobs(std::vector<NewJob> jobs, const std::string& request_id = "");
  // A static machine says hello, with a live session.
  NodeId Register(const std::string& name, const Capacity& capacity, const std::string& boot_id = "boot-1");
  // The machine of a REQUESTED node comes up and registers.
  void Boot(NodeId node, const std::string& boot_id = "boot-1");
  void Report(NodeId node, core::Report report);  // numbered here
  void Accept(AttemptId attempt);
  void Start(AttemptId attempt);  // accepts first where needed
  void Checkpoint(AttemptId attempt, int64_t step);
  void End(AttemptId attempt, EndCause cause, Initiator initiator = Initiator::kJob, const std::string& detail = "");
  void Seal(AttemptId attempt);
  void HearFromAll();  // every session speaks now
  void Advance(int64_t ms) { now_ms += ms; }

  const Task& task(TaskId id) const;  // living and begun
  const Node& node(NodeId id) const;
  AttemptId Living(TaskId id) const;  // number 0 when there is none
  NodeId NodeOf(AttemptId attempt) const;
  std::vector<NodeId> NodesIn(NodeState state) const;
};

NewJob MakeJob(const Shape& shape, int64_t priority = 50);
Shape Cpu(int64_t milli = 1000);
Shape Gpus(int64_t count, const std::string& model = "");
Capacity Box(int64_t cpus, int64_t gpus = 0, const std::string& model = "H100");
Offer MakeOffer(const std::string& provider, const std::string& name, Market market, int64_t price_micros_per_hour, const Capacity& capacity);
ProviderInfo Cloud(const std::string& name = "cloud", int64_t max_nodes = 10);

template <typename T>
std::vector<T> Only(const std::vector<Command>& commands) {
  std::vector<T> found;
  for (const Command& command : commands) {
    if (const T* one = std::get_if<T>(&command)) found.push_back(*one);
  }
  return found;
}

}  // namespace spillway::core
