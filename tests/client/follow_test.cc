// Waiting and following: nothing is missed between two looks, and time is the context's.
#include "client/follow.h"

#include "base/status_matchers.h"
#include "tests/client/fake_api.h"

namespace spillway::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Follow, WatchesFromBeforeTheLook) {
  Cli cli;
  cli.api.jobs[5] = MakeJob(5, "a", "QUEUED");
  cli.api.later[5] = {MakeJob(5, "a", "SUCCEEDED")};
  ASSERT_OK_AND_ASSIGN(const v1::Job job, WaitForEnd(cli.context, cli.api, 5, 0));
  EXPECT_EQ(job.state(), "SUCCEEDED");
  EXPECT_THAT(cli.api.calls, ElementsAre("List page_size: 1", "Get job_id: 5 tasks_max: 1", "Watch after_seq: 100 job_id: 5 follow: true", "List page_size: 1",
                                         "Get job_id: 5 tasks_max: 1"));
}

TEST(Follow, WaitEndsWithItsTime) {
  Cli cli;
  cli.api.jobs[5] = MakeJob(5, "a", "ACTIVE");
  EXPECT_EQ(cli.Run({"wait", "5", "--timeout", "90s"}), 4);
  EXPECT_EQ(cli.err, "spillway: job 5 (a) is still ACTIVE\n");
  EXPECT_EQ(cli.clock.NowUtcMs(), kNowMs + 90'000);
  EXPECT_EQ(cli.Run({"wait", "5", "--timeout", "90"}), 2);
}

TEST(Follow, WaitTellsTheWorst) {
  Cli cli;
  cli.api.jobs[5] = MakeJob(5, "a", "SUCCEEDED");
  cli.api.jobs[6] = MakeJob(6, "b", "CANCELLED");
  EXPECT_EQ(cli.Run({"wait", "5"}), 0);
  EXPECT_EQ(cli.Run({"wait", "5-6"}), 1);
  EXPECT_THAT(cli.err, HasSubstr("job 6 (b) CANCELLED"));
  EXPECT_EQ(cli.Run({"wait", "5", "77"}), 3);
  cli.api.fail["Watch"] = absl::UnavailableError("gone");
  cli.api.jobs[7] = MakeJob(7, "c", "ACTIVE");
  EXPECT_EQ(cli.Run({"wait", "7"}), 5);
}

TEST(Follow, FallingBehindIsNoError) {
  Cli cli;
  cli.api.jobs[5] = MakeJob(5, "a", "ACTIVE");
  cli.api.fail["Watch"] = absl::OutOfRangeError("list anew");
  int looks = 0;
  // The fake cannot end the job by itself here: the time does.
  cli.context.clock = &cli.clock;
  cli.api.clock = nullptr;
  struct Ticking final : Clock {
    int64_t now = 1;
    int64_t NowUtcMs() override { return now; }
    int64_t NowSteadyMs() override { return now += 1'000; }
  } ticking;
  cli.context.clock = &ticking;
  ASSERT_OK_AND_ASSIGN(const v1::Job job, WaitForEnd(cli.context, cli.api, 5, 10'000));
  EXPECT_EQ(job.state(), "ACTIVE");
  for (const std::string& call : cli.api.calls) looks += call == "Get job_id: 5 tasks_max: 1" ? 1 : 0;
  EXPECT_GT(looks, 1) << "it looked anew";
}

TEST(Follow, CopiesEveryAttemptUntilTheEnd) {
  Cli cli;
  v1::Job job = MakeJob(5, "a", "ACTIVE");
  AddAttempt(&job, "n1", v1::SPOT, v1::ENDED)->set_end_cause(v1::PREEMPTED);
  v1::Attempt* second = AddAttempt(&job, "n2", v1::ON_DEMAND, v1::RUNNING);
  second->set_from_step(340);
  cli.api.jobs[5] = job;
  v1::Job done = job;
  done.set_state("SUCCEEDED");
  cli.api.later[5] = {done};
  cli.api.logs = {{1, "one\n"}, {2, "two\n"}};
  EXPECT_EQ(cli.Run({"logs", "-f", "5", "--attempt", "all"}), 0) << cli.err;
  EXPECT_EQ(cli.out, "one\ntwo\n");
  EXPECT_EQ(cli.err, "spillway: attempt 5.0@1 on n1 (spot)\nspillway: attempt 5.0@2 on n2 (on_demand), from step 340\n");
  cli.api.jobs[5] = job;
  cli.api.later[5] = {done};
  EXPECT_EQ(cli.Run({"logs", "-f", "5"}), 0);
  EXPECT_EQ(cli.out, "two\n") << "from the newest attempt on";
}

TEST(Follow, LogsOfOneAttempt) {
  Cli cli;
  v1::Job job = MakeJob(5, "a", "SUCCEEDED");
  AddAttempt(&job, "n1", v1::SPOT, v1::ENDED);
  AddAttempt(&job, "n2", v1::SPOT, v1::ENDED);
  cli.api.jobs[5] = job;
  cli.api.logs = {{1, "one\n"}, {2, "two\n"}};
  EXPECT_EQ(cli.Run({"logs", "5"}), 0);
  EXPECT_EQ(cli.out, "two\n");
  EXPECT_EQ(cli.Run({"logs", "5", "--attempt", "1"}), 0);
  EXPECT_EQ(cli.out, "one\n");
  EXPECT_EQ(cli.Run({"logs", "5.0@1"}), 0);
  EXPECT_EQ(cli.out, "one\n");
  EXPECT_EQ(cli.Run({"logs", "5", "--attempt", "all"}), 0);
  EXPECT_EQ(cli.out, "==> 5.0@1 on n1 <==\none\n==> 5.0@2 on n2 <==\ntwo\n");
  EXPECT_EQ(cli.Run({"logs", "5", "--attempt", "9"}), 3);
  EXPECT_EQ(cli.Run({"logs", "5", "--attempt", "x"}), 2);
  EXPECT_EQ(cli.Run({"logs", "5.0@1", "--attempt", "2"}), 2);
  EXPECT_EQ(cli.Run({"logs", "5.3"}), 3);
  cli.api.jobs[6] = MakeJob(6, "b", "QUEUED");
  cli.api.jobs[6].mutable_tasks(0)->set_waiting("no node fits");
  EXPECT_EQ(cli.Run({"logs", "6"}), 0);
  EXPECT_EQ(cli.err, "spillway: 6.0 has not started yet: no node fits\n");
}

TEST(Follow, ALogDoesNotSteerATerminal) {
  Cli cli;
  v1::Job job = MakeJob(5, "a", "SUCCEEDED");
  AddAttempt(&job, "n1", v1::SPOT, v1::ENDED);
  cli.api.jobs[5] = job;
  cli.api.logs = {{1, "\x1b]0;mine\a\x1b[31mred\x1b[0m\n\xe4\xbb"}};
  EXPECT_EQ(cli.Run({"logs", "5"}), 0);
  EXPECT_EQ(cli.out, cli.api.logs[1]) << "a file or a pipe gets the bytes";
  cli.context.out_is_terminal = true;
  EXPECT_EQ(cli.Run({"logs", "5"}), 0);
  EXPECT_EQ(cli.out, "\\x1b]0;mine\\x07\x1b[31mred\x1b[0m\n\\xe4\\xbb");
}

TEST(Follow, Events) {
  Cli cli;
  v1::Event event;
  event.set_seq(7);
  event.set_utc_ms(kNowMs);
  event.set_kind("attempt_ended");
  event.mutable_attempt()->set_job_id(5);
  event.mutable_attempt()->set_attempt(2);
  event.set_node_name("n1");
  event.set_message("PREEMPTED by provider");
  cli.api.events = {event};
  cli.api.jobs[5] = MakeJob(5, "a", "ACTIVE");
  EXPECT_EQ(cli.Run({"events", "5"}), 0);
  EXPECT_EQ(cli.out, "7  2025-06-15 15:06:40Z  attempt_ended  5.0@2 n1  PREEMPTED by provider\n");
  EXPECT_EQ(cli.api.calls.back(), "Watch after_seq: -1 job_id: 5");
  EXPECT_EQ(cli.Run({"events", "-f", "-o", "json"}), 0);
  EXPECT_EQ(cli.api.calls.back(), "Watch follow: true");
  EXPECT_THAT(cli.out, HasSubstr("{\"seq\":\"7\","));
  EXPECT_EQ(cli.Run({"events", "--after", "6"}), 0);
  EXPECT_EQ(cli.api.calls.back(), "Watch after_seq: 6");
  EXPECT_EQ(cli.Run({"events", "-f", "--after", "0"}), 0);
  EXPECT_EQ(cli.api.calls.back(), "Watch after_seq: -1 follow: true") << "from the first that is kept, which is not: from now on";
  EXPECT_EQ(cli.Run({"events", "--after", "-3"}), 2);
}

}  // namespace
}  // namespace spillway::client
