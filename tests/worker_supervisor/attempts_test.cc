// What the supervisor does with one attempt, with real processes, under a cgroup and under a reaper.
#include <sys/stat.h>

#include "absl/strings/match.h"
#include "harness.h"

namespace spillway::supervisor {
namespace {

using frames::EndOf;
using testing::HasSubstr;

std::vector<std::string> Containments() {
  // The machine may have no writable cgroup v2: then "cgroup" cannot be tested there, and the supervisor says so when asked for it.
  SupervisorHarness probe("auto");
  const auto inventory = probe.Reconnect();
  if (inventory.containment == frames::Containment::kCgroup) return {"cgroup", "reaper"};
  return {"reaper"};
}

class AttemptTest : public testing::TestWithParam<std::string> {
 protected:
  SupervisorHarness node_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Containment, AttemptTest, testing::ValuesIn(Containments()), [](const auto& info) { return info.param; });

TEST_P(AttemptTest, RunsAndReportsExitCodeAndOutput) {
  node_.Run(node_.Shell("a", "echo out; echo err >&2; cat; exit 3"));
  const auto started = node_.Wait<frames::Started>("a");
  ASSERT_TRUE(started.has_value());
  EXPECT_GT(started->pid, 0);
  EXPECT_EQ(started->cgroup.empty(), GetParam() == "reaper");
  const auto facts = node_.WaitExit("a");
  EXPECT_TRUE(facts.exited);
  EXPECT_EQ(facts.exit_code, 3);
  EXPECT_EQ(node_.Log("a"), "out\nerr\n");
  EXPECT_EQ(facts.log_bytes, 8);
  EXPECT_GE(facts.ended_boottime_ms, facts.started_boottime_ms);
  EXPECT_GT(facts.memory_peak_bytes, 0);
  EXPECT_EQ(EndOf(facts).cause, EndCause::kUserError);
}

TEST_P(AttemptTest, InheritsNothing) {
  setenv("LEAKED", "1", 1);
  node_.Run(node_.Shell("a", "env | sort; trap; ulimit -n"));
  node_.WaitExit("a");
  const std::string log = node_.Log("a");
  EXPECT_THAT(log, testing::Not(HasSubstr("LEAKED")));
  EXPECT_THAT(log, HasSubstr("SPILLWAY_SOCKET=/"));
  EXPECT_THAT(log, HasSubstr("SPILLWAY_NOTICE_FILE=/"));
  EXPECT_THAT(log, HasSubstr("/cluster/a\n"));
  node_.Run(node_.Command("fds", {SupervisorHarness::Job(), "descriptors"}));
  node_.WaitExit("fds");
  EXPECT_EQ(node_.Log("fds"), "0\n1\n2\n");
}

TEST_P(AttemptTest, LongLogKeepsHeadAndTail) {
  auto start = node_.Shell("a", "i=0; while [ $i -lt 20000 ]; do echo \"line $i 0123456789012345678901234567890123456789\"; i=$((i+1)); done; printf END");
  start.log_bytes_max = 256 << 10;
  const int64_t limit = start.log_bytes_max;
  node_.Run(start);
  const auto facts = node_.WaitExit("a");
  EXPECT_GT(facts.log_bytes, 1'000'000);
  const std::string path = node_.Path("logs/a");
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, facts.log_bytes) << "offsets of the file are offsets of the output";
  EXPECT_LE(info.st_blocks * 512, limit + 64 * 1024);
  std::string text;
  int64_t offset = 0, left_out = 0;
  while (true) {
    ASSERT_OK_AND_ASSIGN(const LogChunk chunk, ReadAttemptLog(path, offset, 10'000, limit));
    if (chunk.next_offset == offset) break;
    offset = chunk.next_offset;
    left_out += chunk.left_out;
    text += chunk.text;
  }
  EXPECT_EQ(offset, facts.log_bytes);
  EXPECT_GT(left_out, facts.log_bytes - limit - 1);
  EXPECT_TRUE(absl::StartsWith(text, "line 0 "));
  EXPECT_TRUE(absl::EndsWith(text, "line 19999 0123456789012345678901234567890123456789\nEND"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(left_out, " bytes left out]\n")));
  EXPECT_EQ(text.find('\0'), std::string::npos);
}

TEST_P(AttemptTest, DaemonsDieWithTheJob) {
  node_.Run(node_.Shell("a", "$JOB daemon $DIR/d1; $JOB daemon $DIR/d2 bare; exit 0"));
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(facts.exit_code, 0);
  EXPECT_FALSE(node_.Alive("d1"));
  EXPECT_FALSE(node_.Alive("d2"));
  EXPECT_GE(facts.leftovers_killed, 2);
  EXPECT_EQ(EndOf(facts).cause, EndCause::kCompleted);
}

TEST_P(AttemptTest, OneTreeDoesNotHarmAnother) {
  node_.Run(node_.Shell("other", "$JOB daemon $DIR/other bare; exec sleep 1000"));
  ASSERT_TRUE(node_.WaitForFile("other"));
  node_.Run(node_.Shell("a", "$JOB daemon $DIR/mine bare; exit 0"));
  node_.WaitExit("a");
  EXPECT_FALSE(node_.Alive("mine"));
  EXPECT_TRUE(node_.Alive("other"));
}

TEST_P(AttemptTest, WhoIgnoresTheSignalIsKilledAtTheDeadline) {
  node_.Run(node_.Shell("a", "$JOB daemon $DIR/d; exec $JOB stubborn $DIR/ready"));
  ASSERT_TRUE(node_.WaitForFile("ready"));
  const int64_t asked = node_.Now();
  frames::Stop stop;
  stop.key = "cluster/a";
  stop.cause = EndCause::kPreempted;
  stop.initiator = Initiator::kScheduler;
  stop.detail = "for task 9.0";
  stop.grace_ms = 300;
  ASSERT_OK(node_.Answer(node_.client().Stop(stop)));
  const auto stopping = node_.Wait<frames::Stopping>("a");
  ASSERT_TRUE(stopping.has_value());
  EXPECT_EQ(stopping->reason, "preempted");
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(facts.signal, SIGKILL);
  EXPECT_TRUE(facts.killed);
  EXPECT_GE(facts.ended_boottime_ms, asked + 300);
  EXPECT_FALSE(node_.Alive("ready"));
  EXPECT_FALSE(node_.Alive("d"));
  EXPECT_EQ(EndOf(facts).cause, EndCause::kPreempted);
  EXPECT_THAT(EndOf(facts).detail, HasSubstr("for task 9.0"));
  EXPECT_THAT(node_.Log("a"), HasSubstr("[spillway] stopping (preempted: for task 9.0): SIGTERM now, SIGKILL in "));
}

TEST_P(AttemptTest, NoticeFileComesBeforeTheSignal) {
  node_.Run(node_.Shell("a",
                        "trap 'cp $SPILLWAY_NOTICE_FILE $DIR/seen; exit 0' TERM; test -e $SPILLWAY_NOTICE_FILE && exit 9; touch $DIR/ready;"
                        "while :; do sleep 0.01; done"));
  ASSERT_TRUE(node_.WaitForFile("ready"));
  frames::Stop stop;
  stop.key = "cluster/a";
  stop.cause = EndCause::kMoved;
  stop.reason = "moved";
  ASSERT_OK(node_.Answer(node_.client().Stop(stop)));
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(facts.exit_code, 0);
  EXPECT_TRUE(facts.stop_delivered);
  EXPECT_THAT(node_.Read("seen"), HasSubstr("\"reason\":\"moved\""));
  EXPECT_THAT(node_.Read("seen"), HasSubstr("\"deadline\":\"20"));
  EXPECT_EQ(EndOf(facts).cause, EndCause::kMoved) << "exit 0 after a stop proves nothing";
}

TEST_P(AttemptTest, TheWholeSessionGetsTheSignal) {
  // `set -m` gives the child a process group of its own; `wait` keeps the shell from ending first, which must not die of the signal before the child is ready.
  node_.Run(node_.Shell("a",
                        "trap : TERM; set -m; sh -c 'trap \"touch $DIR/child; exit 0\" TERM; touch $DIR/ready; while :; do sleep 0.01; done' &"
                        "wait; wait; exit 0"));
  ASSERT_TRUE(node_.WaitForFile("ready"));
  ASSERT_OK(node_.Answer(node_.client().Stop({"cluster/a"})));
  node_.WaitExit("a");
  EXPECT_TRUE(PathExists(node_.Path("child")));
}

TEST_P(AttemptTest, KillIsAtOnceAndTimeoutIsAStop) {
  node_.Run(node_.Shell("a", "exec $JOB stubborn $DIR/ready"));
  ASSERT_TRUE(node_.WaitForFile("ready"));
  ASSERT_OK(node_.Answer(node_.client().Kill({"cluster/a", EndCause::kCancelled, Initiator::kUser, "cancel --now"})));
  auto facts = node_.WaitExit("a");
  EXPECT_EQ(facts.signal, SIGKILL);
  EXPECT_EQ(EndOf(facts).cause, EndCause::kCancelled);
  EXPECT_EQ(EndOf(facts).initiator, Initiator::kUser);

  auto slow = node_.Shell("slow", "exec sleep 1000");
  slow.max_duration_ms = 50;
  node_.Run(slow);
  facts = node_.WaitExit("slow");
  EXPECT_EQ(facts.signal, SIGTERM);
  EXPECT_EQ(EndOf(facts).cause, EndCause::kTimeout);
  EXPECT_GE(facts.ended_boottime_ms - facts.started_boottime_ms, 50);
}

TEST_P(AttemptTest, WhatCannotBeLaunchedSaysWhy) {
  node_.Run(node_.Command("missing", {"no-such-program"}));
  auto facts = node_.WaitExit("missing");
  EXPECT_EQ(EndOf(facts).cause, EndCause::kLaunchFailed);
  EXPECT_EQ(EndOf(facts).initiator, Initiator::kJob);
  EXPECT_THAT(EndOf(facts).detail, HasSubstr("exec no-such-program: No such file"));
  EXPECT_THAT(node_.Log("missing"), HasSubstr("[spillway] not started: exec no-such-program"));

  auto start = node_.Command("folder", {"true"});
  start.cwd = node_.Path("nowhere");
  node_.Run(start);
  EXPECT_THAT(EndOf(node_.WaitExit("folder")).detail, HasSubstr("nowhere: No such file"));

  ASSERT_OK(WriteFileAtomically(node_.Path("text"), "echo hello\n", 0755));
  node_.Run(node_.Command("text", {node_.Path("text")}));
  EXPECT_THAT(EndOf(node_.WaitExit("text")).detail, HasSubstr("#!/bin/sh"));

  start = node_.Command("log", {"true"});
  start.log_path = node_.Path("text/log");
  node_.Run(start);
  facts = node_.WaitExit("log");
  EXPECT_EQ(EndOf(facts).cause, EndCause::kLaunchFailed);
  EXPECT_EQ(EndOf(facts).initiator, Initiator::kNode);
  EXPECT_FALSE(node_.WaitEvent([](const frames::Event& e) { return std::holds_alternative<frames::Started>(e.what); }, 0).has_value());
}

TEST_P(AttemptTest, ListensToTheJob) {
  node_.Run(
      node_.Shell("a", R"($JOB say '{"type":"progress","step":3,"total":9,"metrics":{"loss":0.5}}' '{"type":"checkpoint","step":3,"path":"step-3","bytes":7}';)"
                       R"($JOB say 'garbage' '{"type":"progres"}' '[1]' ''; $JOB say-large 20000;)"
                       R"($JOB say '{"type":"progress","step":9,"total":9}' '{"type":"completed"}')"));
  const auto checkpoint = node_.Wait<frames::Checkpoint>("a");
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->step, 3);
  EXPECT_EQ(checkpoint->path, "step-3");
  EXPECT_THAT(checkpoint->json, HasSubstr("\"bytes\":7"));
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(facts.exit_code, 0);
  EXPECT_EQ(facts.last_step, 9);
  EXPECT_EQ(facts.last_total, 9);
  EXPECT_EQ(facts.checkpoints, 1);
  EXPECT_EQ(facts.garbage_messages, 5);
  EXPECT_TRUE(facts.said_completed);
  const auto progress = node_.Wait<frames::Progress>("a");
  ASSERT_TRUE(progress.has_value());
  const std::string log = node_.Log("a");
  const size_t first = log.find("[spillway] ignored");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("[spillway] ignored", first + 1), std::string::npos) << "only once";
}

TEST_P(AttemptTest, ProgressIsCoalesced) {
  std::string messages;
  for (int i = 1; i <= 300; ++i) messages += absl::StrCat(" '{\"type\":\"progress\",\"step\":", i, "}'");
  node_.Run(node_.Shell("a", absl::StrCat("$JOB say", messages)));
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(facts.last_step, 300);
  int events = 0;
  int64_t last = 0;
  while (auto event = node_.WaitEvent([](const frames::Event& e) { return std::holds_alternative<frames::Progress>(e.what); }, 0)) {
    ++events;
    last = std::get<frames::Progress>(event->what).step;
  }
  EXPECT_LT(events, 100);
  EXPECT_EQ(last, 300) << "the newest is never lost";
}

// By the kernel where it can, else by the supervisor's look.
TEST_P(AttemptTest, MemoryLimitHolds) {
  const auto inventory = node_.Reconnect();
  auto start = node_.Command("a", {SupervisorHarness::Job(), "eat", absl::StrCat(128 << 20), "stay"});
  start.memory_bytes = 32 << 20;
  node_.Run(start);
  const auto started = node_.Wait<frames::Started>("a");
  ASSERT_TRUE(started.has_value());
  EXPECT_EQ(started->memory_enforced, inventory.memory_limits);
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(EndOf(facts).cause, EndCause::kOutOfMemory) << EndOf(facts).detail;
  // The next one in the same cgroup has no limit.
  node_.Run(node_.Command("b", {SupervisorHarness::Job(), "eat", absl::StrCat(64 << 20)}));
  EXPECT_EQ(EndOf(node_.WaitExit("b")).cause, EndCause::kCompleted);
}

TEST_P(AttemptTest, ProcessLimitHolds) {
  const auto inventory = node_.Reconnect();
  auto start = node_.Command("a", {SupervisorHarness::Job(), "multiply", "40"});
  start.pids_max = 20;
  node_.Run(start);
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(EndOf(facts).cause, EndCause::kUserError);
  EXPECT_THAT(EndOf(facts).detail, HasSubstr(inventory.pids_limits ? "exit code 3; it ran into its limit of processes" : "more than its 20"));
  EXPECT_EQ(facts.forks_refused > 0, inventory.pids_limits);
  start = node_.Command("b", {SupervisorHarness::Job(), "multiply", "20"});
  start.pids_max = 20;
  node_.Run(start);
  ASSERT_TRUE(node_.Wait<frames::Started>("b").has_value());
  EXPECT_OK(node_.Answer(node_.client().Kill({"cluster/b", EndCause::kCancelled, Initiator::kUser, ""})));
  EXPECT_EQ(EndOf(node_.WaitExit("b")).cause, EndCause::kCancelled);
}

TEST_P(AttemptTest, AKilledReaperLeavesNothing) {
  if (GetParam() != "reaper") return;
  node_.Run(node_.Shell("a", "$JOB daemon $DIR/d1; $JOB daemon $DIR/d2 bare; kill -9 $PPID; sleep 1000"));
  const auto facts = node_.WaitExit("a");
  EXPECT_FALSE(node_.Alive("d1"));
  EXPECT_FALSE(node_.Alive("d2"));
  EXPECT_EQ(EndOf(facts).cause, EndCause::kUserError);
}

TEST_P(AttemptTest, ManyAtOnce) {
  const int count = 60;
  for (int i = 0; i < count; ++i) ASSERT_OK(node_.client().Start(node_.Shell(absl::StrCat("t", i), absl::StrCat("echo ", i, "; exit ", i % 3))));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(node_.WaitExit(absl::StrCat("t", i)).exit_code, i % 3);
    EXPECT_EQ(node_.Log(absl::StrCat("t", i)), absl::StrCat(i, "\n"));
  }
}

}  // namespace
}  // namespace spillway::supervisor
