// What the files of Admit share. Admit reads the state, never changes it: what a command does to a task in several steps is followed on a copy.
#pragma once

#include <map>

#include "absl/status/statusor.h"
#include "scheduler/core/core.h"

namespace spillway::core {

// Reasons that the state itself understands (everything else in a `reason` is for people).
inline constexpr char kReasonSilent[] = "silent";             // of ReleaseNode: fence by ending the machine, although attempts may live on it
inline constexpr char kReasonBootTimeout[] = "boot timeout";  // of ReleaseNode: the pool is avoided for a while

// An instance that ended may still be shown alive by a listing that is a little old; remembered for longer than any answer is under way.
inline constexpr int64_t kEndedInstanceKeptMs = 10 * kListingGraceMs;

inline std::string EndedInstanceKey(const std::string& provider, const std::string& instance_id) { return provider + "/" + instance_id; }

struct AdmitContext {
  const State& state;
  int64_t now_ms;
  const Policy& policy;
};
using Admitted = absl::StatusOr<Admission>;

// jobs
Admitted AdmitOne(const AdmitContext& context, const Submit& command);
Admitted AdmitOne(const AdmitContext& context, const Cancel& command);
Admitted AdmitOne(const AdmitContext& context, const Preempt& command);
Admitted AdmitOne(const AdmitContext& context, const Pause& command);
Admitted AdmitOne(const AdmitContext& context, const Resume& command);
Admitted AdmitOne(const AdmitContext& context, const Update& command);
Admitted AdmitOne(const AdmitContext& context, const SettleJob& command);
Admitted AdmitOne(const AdmitContext& context, const ForgetRequests& command);
Admitted AdmitOne(const AdmitContext& context, const SealResult& command);
// sessions
Admitted AdmitOne(const AdmitContext& context, const NodeHello& command);
Admitted AdmitOne(const AdmitContext& context, const NodeReports& command);
Admitted AdmitOne(const AdmitContext& context, const NodeNotice& command);
// providers
Admitted AdmitOne(const AdmitContext& context, const Configure& command);
Admitted AdmitOne(const AdmitContext& context, const Restore& command);
Admitted AdmitOne(const AdmitContext& context, const OffersListed& command);
Admitted AdmitOne(const AdmitContext& context, const InstanceCreated& command);
Admitted AdmitOne(const AdmitContext& context, const InstanceRefused& command);
Admitted AdmitOne(const AdmitContext& context, const InstanceListing& command);
Admitted AdmitOne(const AdmitContext& context, const InstanceGone& command);
// decisions
Admitted AdmitOne(const AdmitContext& context, const CordonNode& command);
Admitted AdmitOne(const AdmitContext& context, const DrainNode& command);
Admitted AdmitOne(const AdmitContext& context, const Place& command);
Admitted AdmitOne(const AdmitContext& context, const RequestNode& command);
Admitted AdmitOne(const AdmitContext& context, const ReleaseNode& command);
Admitted AdmitOne(const AdmitContext& context, const StopAttempt& command);
Admitted AdmitOne(const AdmitContext& context, const DeclareLost& command);
Admitted AdmitOne(const AdmitContext& context, const FenceAttempt& command);

// --- admit_holds.cc ---

// FAILED_PRECONDITION for a job that has ended, else NOT_FOUND.
absl::Status NoSuchJob(const State& state, JobId job);
// Whether the jobs of a submission may wait for each other as they say; INVALID_ARGUMENT where they do so in a circle.
absl::Status CheckNeeds(const Submit& command);
// What the job at `place` waits for: what is met already is left out, and what has failed already is worth a warning.
absl::Status TakeNeeds(const AdmitContext& context, const Submit& command, size_t place, Job* job, Reply* reply);

// --- attempt_end.cc ---

// Why an attempt ended, as known by whoever proved it.
struct End {
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  std::string detail;
  int64_t to_step = 0;
  bool nodes_own_word = false;  // the node that was offered the attempt says so
  NodeId cause_node = 0;        // of several members, whose end it was; 0: the first
  NodeId gone_node = 0;         // see AttemptEnded
  int64_t billed_until_ms = 0;
};
// The attempt's member on `node` is over. The last one ends the attempt; before that one that failed takes the others along. Requires that it lives there.
void EndMember(const AdmitContext& context, const Job& job, const Task& task, NodeId node, const End& end, std::vector<Event>* events);
// The members of all attempts living on the node are over.
void EndAllOn(const AdmitContext& context, NodeId node, const End& end, std::vector<Event>* events);
// The node's machine is gone by its provider's word, or can no longer run anything: its attempts end, then it does.
void EndNode(const AdmitContext& context, const Node& node, bool reclaimed, const std::string& reason, int64_t billed_micros, std::vector<Event>* events);

// Why an attempt lives: null when it does not.
const Attempt* FindAttempt(const State& state, AttemptId id);
// True when `stop` would end the attempt earlier than what is asked already.
bool Tightens(const std::optional<StopRequest>& asked, const StopRequest& stop);
absl::Status NoSuchNode(const State& state, NodeId node);
// Newer: a later attempt, or a later step of the same one.
bool Newer(const CheckpointRef& a, const CheckpointRef& b);

}  // namespace spillway::core
