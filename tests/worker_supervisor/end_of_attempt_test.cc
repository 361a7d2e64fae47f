// The precedence of DESIGN "End of an attempt" as a table.
#include "worker/frames/end_of_attempt.h"

#include <gtest/gtest.h>

#include <functional>

namespace spillway::frames {
namespace {

struct Row {
  const char* name;
  std::function<void(ExitFacts&)> set;
  EndCause cause;
  Initiator initiator;
  const char* detail;  // must occur in the detail
};

void Exit(ExitFacts& f, int64_t code) {
  f.exited = true;
  f.exit_code = code;
}
void Signal(ExitFacts& f, int64_t signal) { f.signal = signal; }
void Stop(ExitFacts& f, EndCause cause, Initiator initiator, bool delivered = true) {
  f.stop_cause = cause;
  f.stop_initiator = initiator;
  f.stop_detail = "asked to";
  f.stop_delivered = delivered;
}
void Progress(ExitFacts& f, int64_t step, int64_t total) {
  f.has_progress = true;
  f.last_step = step;
  f.last_total = total;
}
void Saved(ExitFacts& f, int64_t step) {
  f.checkpoints = 1;
  f.last_checkpoint_step = step;
}

using C = EndCause;
using I = Initiator;

const Row kRows[] = {
    {"exit 0", [](ExitFacts& f) { Exit(f, 0); }, C::kCompleted, I::kJob, ""},
    {"exit 1", [](ExitFacts& f) { Exit(f, 1); }, C::kUserError, I::kJob, "exit code 1"},
    {"segfault", [](ExitFacts& f) { Signal(f, 11); }, C::kUserError, I::kJob, "killed by SIGSEGV"},
    {"a real-time signal", [](ExitFacts& f) { Signal(f, 40); }, C::kUserError, I::kJob, "signal 40"},
    {"85 with a new checkpoint", [](ExitFacts& f) { Exit(f, 85), Saved(f, 7); }, C::kCheckpointed, I::kJob, "step 7"},
    {"85 without", [](ExitFacts& f) { Exit(f, 85); }, C::kUserError, I::kJob, "without a new checkpoint"},

    {"launch failed, job's fault", [](ExitFacts& f) { f.launch_errno = 2, f.launch_error = "exec ./x", f.launch_error_is_jobs = true; }, C::kLaunchFailed,
     I::kJob, "exec ./x"},
    {"launch failed, node's fault", [](ExitFacts& f) { f.launch_errno = 11, f.launch_error = "clone"; }, C::kLaunchFailed, I::kNode, "clone"},
    {"launch failed beats a stop", [](ExitFacts& f) { f.launch_errno = 2, Stop(f, C::kCancelled, I::kUser); }, C::kLaunchFailed, I::kNode, ""},
    {"supervisor lost", [](ExitFacts& f) { f.supervisor_lost = true; }, C::kNodeLost, I::kNode, "supervisor restarted"},

    {"lapsed lease beats exit 0", [](ExitFacts& f) { Exit(f, 0), f.said_completed = true, f.lease_lapsed = true; }, C::kFenced, I::kNode, "lease lapsed"},
    {"lapsed lease beats a stop", [](ExitFacts& f) { Signal(f, 9), Stop(f, C::kCancelled, I::kUser), f.lease_lapsed = true; }, C::kFenced, I::kNode, ""},
    {"killed for the lease before it lapsed", [](ExitFacts& f) { Signal(f, 9), Stop(f, C::kFenced, I::kNode), f.killed = true; }, C::kFenced, I::kNode,
     "grace"},
    {"done while the lease ran out", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kFenced, I::kNode), f.said_completed = true; }, C::kCompleted, I::kJob, ""},

    {"preempted, exit 0, nothing said", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kPreempted, I::kScheduler); }, C::kPreempted, I::kScheduler, "asked to"},
    {"preempted, saved", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kPreempted, I::kProvider), Saved(f, 12); }, C::kPreempted, I::kProvider, "saved at step 12"},
    {"preempted, exit 85", [](ExitFacts& f) { Exit(f, 85), Stop(f, C::kPreempted, I::kProvider), Saved(f, 12); }, C::kPreempted, I::kProvider, "step 12"},
    {"preempted, died by SIGTERM", [](ExitFacts& f) { Signal(f, 15), Stop(f, C::kMoved, I::kScheduler); }, C::kMoved, I::kScheduler, "SIGTERM"},
    {"preempted, exit 0, said completed", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kPreempted, I::kScheduler), f.said_completed = true; }, C::kCompleted,
     I::kJob, ""},
    {"preempted, exit 0 at the last step", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kPreempted, I::kScheduler), Progress(f, 9, 9); }, C::kCompleted, I::kJob,
     ""},
    {"preempted, exit 0 one step short", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kPreempted, I::kScheduler), Progress(f, 8, 9); }, C::kPreempted,
     I::kScheduler, ""},
    {"step 0 of 0 proves nothing", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kPreempted, I::kScheduler), Progress(f, 0, 0); }, C::kPreempted, I::kScheduler,
     ""},
    {"said completed, then failed under the stop", [](ExitFacts& f) { Exit(f, 1), Stop(f, C::kPreempted, I::kScheduler), f.said_completed = true; },
     C::kPreempted, I::kScheduler, ""},
    {"timeout", [](ExitFacts& f) { Signal(f, 9), Stop(f, C::kTimeout, I::kJob), f.killed = true; }, C::kTimeout, I::kJob, "grace was over"},
    {"a stop that came too late", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kCancelled, I::kUser, false); }, C::kCompleted, I::kJob, ""},
    {"a stop that came too late, exit 3", [](ExitFacts& f) { Exit(f, 3), Stop(f, C::kCancelled, I::kUser, false); }, C::kUserError, I::kJob, "exit code 3"},
    {"a stop beats out of memory", [](ExitFacts& f) { Signal(f, 9), Stop(f, C::kCancelled, I::kUser), f.out_of_memory = true; }, C::kCancelled, I::kUser, ""},

    {"a withdrawn request, exit 0, nothing said", [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kFenced, I::kNode), f.stop_withdrawn = true; }, C::kPreempted,
     I::kNode, "withdrawn"},
    {"a withdrawn request, exit 0 with proof",
     [](ExitFacts& f) { Exit(f, 0), Stop(f, C::kFenced, I::kNode), f.stop_withdrawn = true, f.said_completed = true; }, C::kCompleted, I::kJob, ""},
    {"a withdrawn request, exit 85 saved", [](ExitFacts& f) { Exit(f, 85), Stop(f, C::kFenced, I::kNode), f.stop_withdrawn = true, Saved(f, 3); },
     C::kCheckpointed, I::kJob, ""},
    {"a withdrawn request, crash", [](ExitFacts& f) { Signal(f, 11), Stop(f, C::kFenced, I::kNode), f.stop_withdrawn = true; }, C::kUserError, I::kJob, ""},

    {"out of memory", [](ExitFacts& f) { Signal(f, 9), f.out_of_memory = true; }, C::kOutOfMemory, I::kJob, "SIGKILL"},
    {"a child out of memory, the job failed", [](ExitFacts& f) { Exit(f, 1), f.out_of_memory = true; }, C::kOutOfMemory, I::kJob, "exit code 1"},
    {"its disk was full", [](ExitFacts& f) { Exit(f, 1), f.disk_full = "its disk is full", f.disk_full_is_jobs = true; }, C::kDiskFull, I::kJob,
     "its disk is full: exit code 1"},
    {"the machine's disk was full", [](ExitFacts& f) { Signal(f, 6), Saved(f, 4), f.disk_full = "the machine's is full"; }, C::kDiskFull, I::kNode,
     "SIGABRT, saved at step 4"},
    {"the disk was full, and it got over it", [](ExitFacts& f) { Exit(f, 0), f.disk_full = "full"; }, C::kCompleted, I::kJob, ""},
    {"the disk was full, 85 without", [](ExitFacts& f) { Exit(f, 85), f.disk_full = "full"; }, C::kDiskFull, I::kNode, "exit code 85"},
    {"the disk was full, 85 with a new checkpoint", [](ExitFacts& f) { Exit(f, 85), Saved(f, 7), f.disk_full = "full"; }, C::kCheckpointed, I::kJob, ""},
    {"a stop beats a full disk", [](ExitFacts& f) { Exit(f, 1), Stop(f, C::kCancelled, I::kUser), f.disk_full = "full"; }, C::kCancelled, I::kUser, ""},
    {"no more processes", [](ExitFacts& f) { Exit(f, 1), f.forks_refused = 4; }, C::kUserError, I::kJob, "limit of processes"},

    {"a child out of memory, the job got over it", [](ExitFacts& f) { Exit(f, 0), f.out_of_memory = true; }, C::kCompleted, I::kJob, ""},
};

TEST(EndOfAttempt, Precedence) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    ExitFacts facts;
    row.set(facts);
    const End end = EndOf(facts);
    EXPECT_EQ(Name(end.cause), Name(row.cause));
    EXPECT_EQ(Name(end.initiator), Name(row.initiator));
    EXPECT_NE(end.detail.find(row.detail), std::string::npos) << end.detail;
  }
}

TEST(AttemptWords, NamesAndNumbers) {
  EXPECT_EQ(Name(EndCause::kFenced), "FENCED");
  EXPECT_EQ(static_cast<int>(EndCause::kFenced), 19);
  EXPECT_EQ(LowerName(Market::kOnDemand), "on_demand");
  EXPECT_EQ(Name(static_cast<EndCause>(77)), "INVALID");
  EXPECT_EQ(ParseWord<Market>("on_demand").value(), Market::kOnDemand);
  const auto wrong = ParseWord<NodeState>("REDDY");
  EXPECT_NE(wrong.status().message().find("READY"), absl::string_view::npos);
  EXPECT_FALSE(ParseWord<Initiator>("UNSPECIFIED").ok());
  EXPECT_EQ(WordFromNumber<TaskState>(-1), TaskState::kUnspecified);
  EXPECT_EQ(WordFromNumber<TaskState>(6), TaskState::kCancelled);
}

}  // namespace
}  // namespace spillway::frames
