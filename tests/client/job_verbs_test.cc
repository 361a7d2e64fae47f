// What people see of jobs, to the letter, from literal messages.
#include "base/status_matchers.h"
#include "tests/client/fake_api.h"

namespace spillway::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::Job PreemptedJob() {
  v1::Job job = MakeJob(5, "bert", "ACTIVE");
  v1::Attempt* first = AddAttempt(&job, "cloud-1", v1::SPOT, v1::ENDED);
  first->set_offered_utc_ms(kNowMs - 500'000);
  first->set_started_utc_ms(kNowMs - 490'000);
  first->set_ended_utc_ms(kNowMs - 190'000);
  first->set_to_step(355);
  first->set_saved_step(340);
  first->set_end_cause(v1::PREEMPTED);
  first->set_initiator(v1::BY_PROVIDER);
  first->set_detail("notice of 2m");
  v1::Attempt* second = AddAttempt(&job, "gpu-1", v1::RESERVED, v1::RUNNING);
  second->set_offered_utc_ms(kNowMs - 100'000);
  second->set_started_utc_ms(kNowMs - 90'000);
  second->set_from_step(340);
  second->set_to_step(500);
  second->set_placement_reason("the only reserved node that fits");
  v1::Task* task = job.mutable_tasks(0);
  task->set_state(v1::ACTIVE);
  task->mutable_progress()->set_step(500);
  task->mutable_progress()->set_total(1000);
  (*task->mutable_progress()->mutable_metrics())["loss"] = 1.9;
  v1::Checkpoint* checkpoint = task->mutable_checkpoint();
  checkpoint->mutable_attempt()->set_job_id(5);
  checkpoint->mutable_attempt()->set_attempt(1);
  checkpoint->set_step(340);
  checkpoint->set_bytes(3LL << 29);
  checkpoint->set_registered_utc_ms(kNowMs - 190'000);
  checkpoint->set_path("c/5/0/a1/step-340");
  checkpoint->set_sealed(true);
  job.set_cost_micros(123'400);
  return job;
}

TEST(Queue, ShowsWhereJobsRunAndWhyTheyWait) {
  Cli cli;
  cli.api.jobs[5] = PreemptedJob();
  v1::Job waiting = MakeJob(6, "big", "QUEUED");
  waiting.mutable_tasks(0)->set_waiting("needs 8 GPUs of one node; the largest has 4");
  cli.api.jobs[6] = waiting;
  EXPECT_EQ(cli.Run({"queue"}), 0);
  EXPECT_EQ(cli.out,
            "ID  NAME  STATE   PRIO  NODE   MARKET    PROGRESS      TRY     AGE    RAN    COST  WAITS FOR\n"
            " 5  bert  ACTIVE    50  gpu-1  reserved  500/1000 50%    2  10m00s  6m30s  0.1234\n"
            " 6  big   QUEUED    50                                      10m00s                 needs 8 GPUs of one node; the largest has 4\n");
  EXPECT_EQ(cli.api.calls.back(), "List page_size: 200 states: \"QUEUED\" states: \"HELD\" states: \"ACTIVE\" include_tasks: true");
  const std::string table = cli.out;
  EXPECT_EQ(cli.Run({"ps"}), 0);
  EXPECT_EQ(cli.out, table);
}

TEST(Queue, AllStatesLimitsAndEmptiness) {
  Cli cli;
  EXPECT_EQ(cli.Run({"queue"}), 0);
  EXPECT_EQ(cli.out, "no job waits or runs (--all shows the ended ones)\n");
  EXPECT_EQ(cli.Run({"queue", "--all", "-n", "7", "--name", "bert"}), 0);
  EXPECT_EQ(cli.out, "no jobs\n");
  EXPECT_EQ(cli.api.calls.back(), "List page_size: 7 name: \"bert\" newest_first: true include_tasks: true");
  EXPECT_EQ(cli.Run({"queue", "--state", "failed"}), 0);
  EXPECT_EQ(cli.api.calls.back(), "List page_size: 200 states: \"FAILED\" include_tasks: true");
  EXPECT_EQ(cli.Run({"queue", "--state", "FALED"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("did you mean FAILED?"));
  EXPECT_EQ(cli.Run({"queue", "-n", "0"}), 2);
  EXPECT_EQ(cli.Run({"queue", "--watch", "-o", "json"}), 2);
  cli.api.jobs[5] = PreemptedJob();
  EXPECT_EQ(cli.Run({"queue", "-o", "json"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("\"name\": \"bert\""));
  EXPECT_THAT(cli.out, HasSubstr("\"event_seq\": \"100\""));
}

TEST(Queue, WatchDrawsAnewUntilTheSchedulerIsGone) {
  Cli cli;
  cli.api.jobs[5] = PreemptedJob();
  cli.context.out_is_terminal = true;
  int rounds = 0;
  cli.context.sleep_ms = [&](int64_t) {
    if (++rounds == 2) cli.api.fail["List"] = absl::UnavailableError("gone");
  };
  EXPECT_EQ(cli.Run({"queue", "--watch"}), 5);
  EXPECT_EQ(rounds, 2);
  EXPECT_THAT(cli.out, HasSubstr("\x1b[H\x1b[J"));
  EXPECT_THAT(cli.out, HasSubstr("[########--------] 500/1000 50%"));
}

TEST(Describe, ShowsTheTimelineTheLossAndTheCheckpoint) {
  Cli cli;
  v1::Job job = PreemptedJob();
  job.set_uid("0000-1");
  job.set_owner("user");
  job.set_reserved_micros(400'000);
  job.mutable_spec()->set_name("bert");
  for (const char* word : {"./train", "--prompt", "it's \"new\"", "--lr", "3e-4"}) job.mutable_spec()->add_command(word);
  cli.api.jobs[5] = job;
  EXPECT_EQ(cli.Run({"describe", "5"}), 0);
  EXPECT_EQ(cli.out,
            "job 5  bert  ACTIVE\n"
            "  command     ./train --prompt 'it'\\''s \"new\"' --lr 3e-4\n"
            "  uid         0000-1\n"
            "  owner       user\n"
            "  priority    50\n"
            "  submitted   2025-06-15 14:56:40Z (10m00s ago)\n"
            "  cost        0.1234 so far, and 0.40 of reserved hours\n"
            "  progress    500/1000 50% [##########----------] loss=1.9\n"
            "  checkpoint  step 340, 1.5GB, by 5.0@1, 3m10s ago, sealed, c/5/0/a1/step-340\n"
            "\n"
            "TRY  NODE     MARKET    OFFERED                 RAN  STEPS    END                    SAVED  LOST  DETAIL\n"
            " @1  cloud-1  spot      2025-06-15 14:58:20Z  5m00s  0-355    PREEMPTED by provider    340    15  notice of 2m\n"
            " @2  gpu-1    reserved  2025-06-15 15:05:00Z  1m30s  340-500  RUNNING\n"
            "  there because: the only reserved node that fits\n"
            "\n"
            "job file\n"
            "  name: bert\n"
            "  command: [./train, \"--prompt\", \"it's \\\"new\\\"\", \"--lr\", 3e-4]\n");
  EXPECT_EQ(cli.Run({"describe", "bert", "-o", "json"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("\"end_cause\": \"PREEMPTED\""));
  EXPECT_EQ(cli.Run({"describe", "99"}), 3);
  EXPECT_EQ(cli.Run({"describe", "5", "6"}), 2);
}

v1::Job ArrayJob() {
  v1::Job job = MakeJob(7, "sweep", "ACTIVE");
  job.set_task_count(1'000);
  job.set_parallel(50);
  job.mutable_counts()->set_queued(812);
  job.mutable_counts()->set_active(50);
  job.mutable_counts()->set_succeeded(136);
  job.mutable_counts()->set_failed(2);
  job.mutable_tasks(0)->set_state(v1::SUCCEEDED);
  AddAttempt(&job, "n1", v1::RESERVED, v1::ENDED)->set_end_cause(v1::COMPLETED);
  v1::Task* second = job.add_tasks();
  second->set_job_id(7);
  second->set_task_index(1);
  second->set_state(v1::QUEUED);
  second->set_waiting("50 tasks of its job are active");
  return job;
}

TEST(Array, IsCountedInOneRowAndItsTasksAreListed) {
  Cli cli;
  cli.api.jobs[7] = ArrayJob();
  EXPECT_EQ(cli.Run({"queue"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("138/1000 13%  812 queued, 50 active, 136 succeeded, 2 failed"));
  EXPECT_EQ(cli.Run({"queue", "--tasks", "7"}), 0) << cli.err;
  EXPECT_EQ(cli.out,
            "TASK  STATE      NODE  MARKET    TRY  END        WAITS FOR\n"
            " 7.0  SUCCEEDED  n1    reserved    1  COMPLETED\n"
            " 7.1  QUEUED                                     50 tasks of its job are active\n");
  EXPECT_EQ(cli.Run({"queue", "--tasks", "7", "-n", "1"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("... and more; --limit shows more than 1"));
  EXPECT_EQ(cli.Run({"queue", "--tasks", "7.1-1"}), 0);
  EXPECT_THAT(cli.out, Not(HasSubstr("7.0")));
  EXPECT_EQ(cli.Run({"queue", "--tasks", "7"}), 0);
  const std::string both = cli.out;
  for (const char* tasks : {"7.1,1,0-1", "7.0-9223372036854775807"}) {  // each once, however they are named
    cli.api.calls.clear();
    EXPECT_EQ(cli.Run({"queue", "--tasks", tasks}), 0) << cli.err;
    EXPECT_EQ(cli.out, both);
    for (const std::string& call : cli.api.calls) EXPECT_THAT(call, HasSubstr("page_size"));
  }
  EXPECT_EQ(cli.Run({"describe", "7"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("tasks       1000: 812 queued, 50 active, 136 succeeded, 2 failed; at most 50 at once\n"));
  EXPECT_THAT(cli.out, HasSubstr("... and 998 more: spillway queue --tasks 7.2-999\n"));
  EXPECT_EQ(cli.Run({"describe", "7.1"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("task 7.1  QUEUED\n"));
  EXPECT_THAT(cli.out, Not(HasSubstr("7.0")));
}

TEST(Deadline, AnUpdateTakesATimeOrHowLongFromNow) {
  Cli cli;
  cli.api.jobs[5] = ArrayJob();
  EXPECT_EQ(cli.Run({"update", "5", "--deadline", "6h"}), 0) << cli.err;
  EXPECT_EQ(cli.api.calls.back(), absl::StrCat("Update job_id: 5 deadline_utc_ms: ", kNowMs + 6 * 3'600'000));
  EXPECT_EQ(cli.Run({"update", "5", "--deadline", "2026-12-24T08:00:00Z"}), 0) << cli.err;
  EXPECT_EQ(cli.api.calls.back(), "Update job_id: 5 deadline_utc_ms: 1798099200000");
  EXPECT_EQ(cli.Run({"update", "5", "--deadline", "tomorrow"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("--deadline: `tomorrow` is neither a time such as 2026-12-24T08:00:00Z nor a duration from now on such as 6h"));
}

TEST(Deadline, SlackIsShownAndHowALateOneWillBe) {
  Cli cli;
  v1::Job job;
  job.set_job_id(5);
  job.set_name("train");
  job.set_state("QUEUED");
  job.set_task_count(1);
  job.set_deadline_utc_ms(kNowMs + 6 * 3'600'000);
  v1::Task* task = job.add_tasks();
  task->set_job_id(5);
  task->set_state(v1::QUEUED);
  task->set_slack_ms(40 * 60'000);
  cli.api.jobs[5] = job;
  EXPECT_EQ(cli.Run({"describe", "5"}), 0) << cli.err;
  EXPECT_THAT(cli.out, HasSubstr("(in 6h00m), slack 40m00s\n"));
  task = cli.api.jobs[5].mutable_tasks(0);
  task->set_slack_ms(-40 * 60'000);
  EXPECT_EQ(cli.Run({"describe", "5"}), 0);
  EXPECT_THAT(cli.out, HasSubstr(", ends 40m00s too late\n"));
  cli.api.jobs[5].set_state("SUCCEEDED");
  cli.api.jobs[5].set_ended_utc_ms(kNowMs + 5 * 3'600'000);
  EXPECT_EQ(cli.Run({"describe", "5"}), 0);
  EXPECT_THAT(cli.out, HasSubstr(": met, 1h00m before\n"));
}

TEST(Array, SomeTasksAreCancelledInOneCallAJob) {
  Cli cli;
  cli.api.jobs[7] = ArrayJob();
  EXPECT_EQ(cli.Run({"cancel", "7.17", "7.100-199"}), 0) << cli.err;
  EXPECT_EQ(cli.api.calls.back(), "Cancel job_id: 7 tasks { first: 17 last: 17 } tasks { first: 100 last: 199 }");
  EXPECT_EQ(cli.Run({"cancel", "7.17"}), 0);
  EXPECT_EQ(cli.out, "7.17: cancelled\n");
  EXPECT_EQ(cli.Run({"update", "7", "--parallel", "20"}), 0);
  EXPECT_EQ(cli.api.calls.back(), "Update job_id: 7 parallel: 20");
  EXPECT_EQ(cli.Run({"update", "7", "--parallel", "0"}), 2);
}

TEST(Array, OneTaskIsWaitedFor) {
  Cli cli;
  cli.api.jobs[7] = ArrayJob();
  EXPECT_EQ(cli.Run({"wait", "7.0"}), 0) << cli.err;
  EXPECT_EQ(cli.err, "spillway: task 7.0 SUCCEEDED\n");
  EXPECT_EQ(cli.Run({"wait", "7.0-1", "--timeout", "10s"}), 4);
  v1::Job later = ArrayJob();
  later.mutable_tasks(1)->set_state(v1::CANCELLED_STATE);
  cli.api.later[7] = {later};
  EXPECT_EQ(cli.Run({"wait", "7.0-1"}), 1);
  EXPECT_EQ(cli.err, "spillway: 7.0-1: 1 succeeded, 1 cancelled\n");
}

TEST(Describe, APartThatIsNotThereIsNotFound) {
  Cli cli;
  cli.api.jobs[5] = PreemptedJob();
  for (const char* there : {"5", "5.0", "5.0@1", "5.0@2"}) EXPECT_EQ(cli.Run({"describe", there}), 0) << there;
  EXPECT_EQ(cli.Run({"describe", "5.1"}), 3);
  EXPECT_THAT(cli.err, HasSubstr("job 5 has no task 1; its only task is 5.0"));
  EXPECT_EQ(cli.Run({"describe", "5.0@3"}), 3);
  EXPECT_THAT(cli.err, HasSubstr("task 5.0 has no attempt 3; the newest is 5.0@2"));
  cli.api.jobs[6] = MakeJob(6, "ended-before-it-began", "CANCELLED");
  cli.api.jobs[6].clear_tasks();
  EXPECT_EQ(cli.Run({"describe", "6"}), 0);
}

TEST(Describe, WaitingAndBackOff) {
  Cli cli;
  v1::Job job = MakeJob(6, "a", "QUEUED");
  job.mutable_tasks(0)->set_waiting("after a failure");
  job.mutable_tasks(0)->set_not_before_utc_ms(kNowMs + 30'000);
  cli.api.jobs[6] = job;
  EXPECT_EQ(cli.Run({"describe", "6"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("  waits for   after a failure\n  not before  2025-06-15 15:07:10Z (in 30s)\n"));
  EXPECT_THAT(cli.out, Not(HasSubstr("TRY")));
}

TEST(Explain, ShowsReasonsAndWhatWouldHelp) {
  Cli cli;
  cli.api.explain.set_state(v1::QUEUED);
  cli.api.explain.set_summary("no node fits");
  v1::Reason* reason = cli.api.explain.add_reasons();
  reason->set_code("NO_NODE_FITS");
  reason->set_message("needs 8 GPUs; the largest node has 4");
  reason->set_unblocks("resources.gpu.count: 4");
  EXPECT_EQ(cli.Run({"explain", "5.2"}), 0);
  EXPECT_EQ(cli.out, "5.2  QUEUED  no node fits\n  NO_NODE_FITS: needs 8 GPUs; the largest node has 4\n      would help: resources.gpu.count: 4\n");
  EXPECT_THAT(cli.api.calls, ElementsAre("Explain job_id: 5 task_index: 2"));
  for (const std::vector<std::string>& line :
       std::vector<std::vector<std::string>>{{"explain", "5.2@1"}, {"preempt", "5.2@1"}, {"events", "5.2@1"}, {"checkpoints", "list", "5.2@1"}}) {
    EXPECT_EQ(cli.Run(line), 2);
    EXPECT_THAT(cli.err, HasSubstr("`5.2@1` is an attempt; a task is meant here: 5.2")) << "another may run by now";
  }
  EXPECT_THAT(cli.api.calls, ::testing::SizeIs(1));
  cli.api.explain.set_summary("needs 8 GPUs; the largest node has 4");
  EXPECT_EQ(cli.Run({"explain", "5.2"}), 0);
  EXPECT_EQ(cli.out, "5.2  QUEUED\n  NO_NODE_FITS: needs 8 GPUs; the largest node has 4\n      would help: resources.gpu.count: 4\n") << "said once";
}

TEST(Cancel, OneNowAndManyWithFailures) {
  Cli cli;
  cli.api.jobs[5] = MakeJob(5, "a", "ACTIVE");
  EXPECT_EQ(cli.Run({"cancel", "--now", "--reason", "wrong data", "5"}), 0);
  EXPECT_THAT(cli.api.calls, ElementsAre("Cancel job_id: 5 now: true reason: \"wrong data\""));
  EXPECT_EQ(cli.out, "job 5: cancelled\n");
  EXPECT_EQ(cli.Run({"cancel", "4-5", "--yes"}), 3);
  EXPECT_EQ(cli.err, "spillway: job 4: there is no such job\n");
  EXPECT_EQ(cli.out, "job 5: cancelled\n") << "the others all the same";
  cli.context.yes = false;
  EXPECT_EQ(cli.Run({"cancel", "nope"}), 3);
  cli.api.jobs.clear();
  EXPECT_EQ(cli.Run({"cancel", "all"}), 0);
  EXPECT_EQ(cli.err, "spillway: no job waits or runs\n");
}

TEST(Pause, ResumeAndUpdateOneOrManyJobs) {
  Cli cli;
  cli.api.jobs[5] = MakeJob(5, "a", "ACTIVE");
  cli.api.jobs[6] = MakeJob(6, "b", "QUEUED");
  EXPECT_EQ(cli.Run({"pause", "5"}), 0);
  EXPECT_EQ(cli.out, "job 5: paused\n");
  cli.api.acted.set_message("resumed; it waits for job 4");
  EXPECT_EQ(cli.Run({"resume", "5-6"}), 0);
  EXPECT_EQ(cli.out, "job 5: resumed; it waits for job 4\njob 6: resumed; it waits for job 4\n") << "in the scheduler's words";
  EXPECT_EQ(cli.Run({"update", "5", "--priority", "0"}), 0);
  EXPECT_EQ(cli.out, "job 5: updated\n");
  EXPECT_THAT(cli.api.calls, ElementsAre("Pause job_id: 5", "Resume job_id: 5", "Resume job_id: 6", "Update job_id: 5 priority: 0"));
  EXPECT_EQ(cli.Run({"update", "5"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("nothing to change: give --priority"));
  EXPECT_EQ(cli.Run({"update", "5", "--priority", "101"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("--priority: 101 is outside 0 to 100"));
  EXPECT_EQ(cli.Run({"pause", "all"}), 2) << "several jobs are not stopped unasked";
  EXPECT_THAT(cli.err, HasSubstr("Pause 2 jobs? Say --yes."));
  cli.api.fail["Pause"] = absl::FailedPreconditionError("job 6 has ended");
  EXPECT_EQ(cli.Run({"pause", "6"}), 4);
  EXPECT_EQ(cli.err, "spillway: job 6 has ended\n");
}

TEST(Describe, SaysThatAJobIsPausedAndWhyOneNeverRan) {
  Cli cli;
  v1::Job job = MakeJob(6, "a", "HELD");
  job.set_paused(true);
  job.mutable_tasks(0)->set_hold_reason(v1::PAUSED);
  job.mutable_tasks(0)->set_waiting("paused by the user");
  cli.api.jobs[6] = job;
  EXPECT_EQ(cli.Run({"describe", "6"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("  paused      until `spillway resume 6`\n"));
  EXPECT_EQ(cli.Run({"queue"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("HELD paused"));
  job = MakeJob(6, "a", "FAILED");
  job.set_end_cause(v1::DEPENDENCY_FAILED);
  job.set_end_detail("job 5, which it needs, ended FAILED");
  cli.api.jobs[6] = job;
  EXPECT_EQ(cli.Run({"describe", "6"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("  because     DEPENDENCY_FAILED: job 5, which it needs, ended FAILED\n"));
  EXPECT_EQ(cli.Run({"wait", "6"}), 1);
  EXPECT_EQ(cli.err, "spillway: job 6 (a) FAILED: DEPENDENCY_FAILED (job 5, which it needs, ended FAILED)\n");
}

TEST(Preempt, GraceAndTask) {
  Cli cli;
  EXPECT_EQ(cli.Run({"preempt", "5", "--grace", "2m"}), 0);
  EXPECT_THAT(cli.api.calls, ElementsAre("Preempt job_id: 5 grace_ms: 120000"));
  EXPECT_EQ(cli.Run({"preempt", "5", "--grace", "2"}), 2);
  EXPECT_EQ(cli.Run({"preempt", "5", "--grace", "0"}), 2);
  EXPECT_EQ(cli.api.calls.size(), 1u);
}

TEST(Checkpoints, List) {
  Cli cli;
  EXPECT_EQ(cli.Run({"checkpoints", "list", "5"}), 0);
  EXPECT_EQ(cli.out, "no checkpoint is registered\n");
  *cli.api.checkpoints.add_checkpoints() = PreemptedJob().tasks(0).checkpoint();
  EXPECT_EQ(cli.Run({"checkpoints", "list", "5"}), 0);
  EXPECT_EQ(cli.out,
            "STEP   SIZE  ATTEMPT  REGISTERED            BY    PATH\n"
            " 340  1.5GB  5.0@1    2025-06-15 15:03:30Z  seal  c/5/0/a1/step-340\n");
}

TEST(Names, OfOtherPeopleCannotHarmTheTerminal) {
  Cli cli;
  v1::Job job = PreemptedJob();
  job.mutable_tasks(0)->mutable_attempts(0)->set_detail("\x1b[2J\x07");
  job.mutable_tasks(0)->set_waiting("\x1b]0;x\x07");
  cli.api.jobs[5] = job;
  for (const std::vector<std::string>& words : {std::vector<std::string>{"queue"}, {"describe", "5"}}) {
    EXPECT_EQ(cli.Run(words), 0);
    EXPECT_EQ(cli.out.find('\x1b'), std::string::npos);
    EXPECT_EQ(cli.out.find('\x07'), std::string::npos);
  }
}

}  // namespace
}  // namespace spillway::client
