// Job files on their way in: what is read, what is changed, what is refused where, what reaches the scheduler.
#include <stdlib.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/client/fake_api.h"

namespace spillway::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kNothing[] = "spillway: nothing was submitted; `last` still means an earlier job\n";

class SubmitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/spillway-test-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    folder_ = path;
    cli_.api.submit_response.add_job_ids(5);
  }
  void TearDown() override { ASSERT_OK(RemoveTree(folder_)); }
  std::string File(const std::string& name, const std::string& text) {
    EXPECT_OK(WriteFileAtomically(JoinPath(folder_, name), text));
    return JoinPath(folder_, name);
  }
  std::string folder_;
  Cli cli_;
};

TEST_F(SubmitTest, SubmitsAFile) {
  const std::string file = File("train.yaml", "name: bert\ncommand: [./train, --lr, 3e-4]\nworkdir: .\nresources: {gpu: {count: 2}}\n");
  EXPECT_EQ(cli_.Run({"submit", file}), 0) << cli_.err;
  EXPECT_EQ(cli_.out, "submitted 5 bert\n");
  ASSERT_EQ(cli_.api.submitted.specs_size(), 1);
  const v1::JobSpec& spec = cli_.api.submitted.specs(0);
  EXPECT_THAT(spec.command(), ElementsAre("./train", "--lr", "3e-4"));
  EXPECT_EQ(spec.workdir(), folder_) << "beside the file";
  EXPECT_EQ(spec.priority(), 50);
  EXPECT_EQ(cli_.api.submitted.request_id().size(), 36u) << "a fresh one, so that a doubled send makes no doubled job";
}

TEST_F(SubmitTest, SettingsAndRequestId) {
  const std::string file = File("a.yaml", "command: [x]\n");
  EXPECT_EQ(cli_.Run({"submit", "--set", "resources.gpu.count=4", file, "--set", "env.SEED=7", "--request-id", "nightly"}), 0) << cli_.err;
  EXPECT_EQ(cli_.api.submitted.specs(0).resources().gpu().count(), 4);
  EXPECT_EQ(cli_.api.submitted.specs(0).env().at("SEED"), "7");
  EXPECT_EQ(cli_.api.submitted.request_id(), "nightly");
  EXPECT_EQ(cli_.Run({"submit", "--set", "resources.gpu.cont=4", file}), 2);
  EXPECT_EQ(cli_.err, std::string("spillway: --set: resources.gpu.cont: unknown key, did you mean `count`?\n") + kNothing);
}

TEST_F(SubmitTest, ADeadlineCountsFromNow) {
  EXPECT_EQ(cli_.Run({"submit", "--deadline", "8h", "--expect", "3h", File("a.yaml", "command: [x]\n")}), 0) << cli_.err;
  const v1::LimitSpec& limits = cli_.api.submitted.specs(0).limits();
  EXPECT_EQ(limits.deadline_utc_ms(), kNowMs + 8 * 3'600'000);
  EXPECT_EQ(limits.expected_duration_ms(), 3 * 3'600'000);
}

TEST_F(SubmitTest, ReadsStandardInput) {
  cli_.in.str("script: echo hello\n");
  EXPECT_EQ(cli_.Run({"submit", "-"}), 0) << cli_.err;
  EXPECT_EQ(cli_.api.submitted.specs(0).script(), "echo hello");
  EXPECT_EQ(cli_.api.submitted.specs(0).name(), "script");
}

TEST_F(SubmitTest, EveryErrorOfEveryFileIsToldAndNothingIsSubmitted) {
  const std::string good = File("good.yaml", "command: [x]\n");
  const std::string one = File("one.yaml", "command: [x]\nresources:\n  gpu:\n    cont: 2\npriority: high\n");
  const std::string two = File("two.yaml", "command: [x]\n\nresources: {nodes: 300}\n");
  EXPECT_EQ(cli_.Run({"submit", good, one, two}), 2);
  EXPECT_EQ(cli_.err, "spillway: " + one + ":4: resources.gpu.cont: unknown key, did you mean `count`?\n" + "spillway: " + one +
                          ":5: priority: expected a whole number, got `high`\n" + "spillway: " + two + ":3: resources.nodes: 300 is outside 1 to 256\n" +
                          kNothing);
  EXPECT_THAT(cli_.api.calls, IsEmpty());
  EXPECT_THAT(cli_.out, IsEmpty());
}

TEST_F(SubmitTest, AMissingFileIsAnInvalidInput) {
  EXPECT_EQ(cli_.Run({"submit", "/nowhere/x.yaml"}), 2);
  EXPECT_EQ(cli_.err, std::string("spillway: /nowhere/x.yaml: there is no such file\n") + kNothing);
  EXPECT_EQ(cli_.Run({"submit", "/nowhere/train.sh"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("there is no such file; a command goes to `spillway run -- COMMAND...`"));
  EXPECT_EQ(cli_.Run({"submit", "--", "./train"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("`submit` takes job files; a command goes to `spillway run --detach -- COMMAND...`"));
}

TEST_F(SubmitTest, TheSchedulersObjectionsAreBroughtToTheirLines) {
  const std::string one = File("one.yaml", "command: [x]\nresources:\n  memory: 1GB\n");
  const std::string two = File("two.yaml", "command: [x]\nenv:\n  A: b\n");
  v1::FieldViolations violations;
  v1::FieldViolation* violation = violations.add_violations();
  violation->set_field("specs[0].resources.memory_bytes");
  violation->set_message("more than any node has");
  violation = violations.add_violations();
  violation->set_field("specs[1].env.A");
  violation->set_message("is odd");
  absl::Status status = absl::InvalidArgumentError("2 violations");
  AttachViolations(violations, &status);
  cli_.api.fail["Submit"] = status;
  EXPECT_EQ(cli_.Run({"submit", one, two}), 2);
  EXPECT_EQ(cli_.err, "spillway: " + one + ":3: resources.memory: more than any node has\nspillway: " + two + ":3: env.A: is odd\n" + kNothing);
}

TEST_F(SubmitTest, ARefusalOfOneJobNamesItsFile) {
  const std::string one = File("one.yaml", "command: [x]\n"), two = File("two.yaml", "command: [x]\n");
  cli_.api.fail["Submit"] = absl::FailedPreconditionError("jobs[1] never fits: needs 9 GPUs");
  EXPECT_EQ(cli_.Run({"submit", one, two}), 4);
  EXPECT_EQ(cli_.err, "spillway: " + two + ": the job never fits: needs 9 GPUs\n" + kNothing);
  EXPECT_EQ(cli_.Run({"run", "--detach", "--name", "n", "echo"}), 4);
  EXPECT_EQ(cli_.err, std::string("spillway: jobs[1] never fits: needs 9 GPUs\n") + kNothing) << "there is no such job here";
  cli_.api.fail["Submit"] = absl::InvalidArgumentError("jobs[0] never fits: needs 9 GPUs");
  EXPECT_EQ(cli_.Run({"run", "--detach", "true"}), 2);
  EXPECT_EQ(cli_.err, std::string("spillway: the job `true` never fits: needs 9 GPUs\n") + kNothing);
}

TEST_F(SubmitTest, OfASchedulerThatDoesNotAnswerNothingIsSaidAboutWhatItDid) {
  cli_.api.fail["Submit"] = absl::UnavailableError("gone");
  EXPECT_EQ(cli_.Run({"submit", File("a.yaml", "command: [x]\n")}), 5);
  EXPECT_EQ(cli_.err, "spillway: gone\n");
}

TEST_F(SubmitTest, JsonAndRepeatsAndWarnings) {
  const std::string file = File("a.yaml", "command: [x]\n");
  cli_.api.submit_response.set_repeated_request(true);
  cli_.api.submit_response.add_warnings("jobs[0]: fits no node that is there now");
  EXPECT_EQ(cli_.Run({"submit", file}), 0);
  EXPECT_EQ(cli_.err, "warning: " + file + ": fits no node that is there now\nspillway: this request id was answered before; nothing new was created\n");
  EXPECT_EQ(cli_.Run({"submit", file, "-o", "json"}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("\"job_ids\": [\n  \"5\"\n ]"));
}

TEST_F(SubmitTest, WaitExitsAsTheJobsEnd) {
  const std::string file = File("a.yaml", "name: a\ncommand: [x]\n");
  cli_.api.jobs[5] = MakeJob(5, "a", "QUEUED");
  cli_.api.later[5] = {MakeJob(5, "a", "ACTIVE"), MakeJob(5, "a", "SUCCEEDED")};
  EXPECT_EQ(cli_.Run({"submit", "--wait", file}), 0);
  EXPECT_THAT(cli_.err, HasSubstr("job 5 (a) SUCCEEDED"));
  v1::Job failed = MakeJob(5, "a", "FAILED");
  v1::Attempt* attempt = AddAttempt(&failed, "n1", v1::SPOT, v1::ENDED);
  attempt->set_end_cause(v1::USER_ERROR);
  attempt->set_detail("exit status 3");
  cli_.api.jobs[5] = failed;
  EXPECT_EQ(cli_.Run({"submit", "--wait", file}), 1);
  EXPECT_THAT(cli_.err, HasSubstr("job 5 (a) FAILED after 1 attempt: USER_ERROR (exit status 3)"));
}

TEST_F(SubmitTest, RunMakesAJobFromFlags) {
  cli_.environment["HF_HOME"] = "/data/hf";
  EXPECT_EQ(cli_.Run({"run",   "--detach", "--name",  "n",        "--cpus", "0.5",      "--memory",  "2GB",       "--gpus", "H100:2", "--env",
                      "A=b=c", "--env",    "HF_HOME", "--market", "spot",   "--market", "on_demand", "--workdir", "/data",  "--set",  "checkpoint.grace=5s",
                      "--",    "./train",  "--lr",    "3",        "--",     "x"}),
            0)
      << cli_.err;
  EXPECT_EQ(cli_.out, "submitted 5 n\n");
  const v1::JobSpec& spec = cli_.api.submitted.specs(0);
  EXPECT_THAT(spec.command(), ElementsAre("./train", "--lr", "3", "--", "x"));
  EXPECT_EQ(spec.resources().cpu_milli(), 500);
  EXPECT_EQ(spec.resources().memory_bytes(), 2LL << 30);
  EXPECT_EQ(spec.resources().gpu().count(), 2);
  EXPECT_THAT(spec.resources().gpu().model(), ElementsAre("H100"));
  EXPECT_EQ(spec.env().at("A"), "b=c");
  EXPECT_EQ(spec.env().at("HF_HOME"), "/data/hf");
  EXPECT_THAT(spec.placement().markets(), ElementsAre(v1::SPOT, v1::ON_DEMAND));
  EXPECT_EQ(spec.workdir(), "/data");
  EXPECT_EQ(spec.checkpoint().grace_ms(), 5000);
}

TEST_F(SubmitTest, AVariableThatIsSetToNothingIsTakenSo) {
  cli_.environment["EMPTY"] = "";
  EXPECT_EQ(cli_.Run({"run", "--detach", "--env", "EMPTY", "--", "x"}), 0) << cli_.err;
  ASSERT_TRUE(cli_.api.submitted.specs(0).env().contains("EMPTY"));
  EXPECT_EQ(cli_.api.submitted.specs(0).env().at("EMPTY"), "");
}

TEST_F(SubmitTest, AFolderWhoseNameIsNotUtf8IsNamedAndAFileOfThatNameIsRead) {
  ASSERT_OK(MakeDirectories(JoinPath(folder_, "caf\xe9")));
  const std::string file = File("caf\xe9/\xff.yaml", "command: [x]\nworkdir: .\n");
  EXPECT_EQ(cli_.Run({"submit", file}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("caf\\xe9/\\xff.yaml:2: workdir: `"));
  EXPECT_THAT(cli_.err, HasSubstr("is not UTF-8 text"));
  EXPECT_EQ(cli_.Run({"submit", File("caf\xe9/\xff.yaml", "command: [x]\n")}), 0) << cli_.err;
}

TEST_F(SubmitTest, RunRefusesBadFlagsByName) {
  EXPECT_EQ(cli_.Run({"run", "--detach"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("no command: write it after --"));
  EXPECT_EQ(cli_.Run({"run", "--memory", "2gb", "--", "x"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("spillway: --memory: resources.memory: '2gb' is not a size"));
  EXPECT_EQ(cli_.Run({"run", "--market", "ondemand", "--", "x"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("--market: placement.markets[0]: unknown value `ondemand`, did you mean `on_demand`?"));
  EXPECT_EQ(cli_.Run({"run", "--env", "SPILLWAY_X=1", "--", "x"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("env.SPILLWAY_X: names beginning with SPILLWAY_ are set by the scheduler"));
  EXPECT_EQ(cli_.Run({"run", "-o", "json", "--", "x"}), 2);
  EXPECT_EQ(cli_.Run({"run", "--env", "NO_SUCH", "--", "x"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("--env NO_SUCH: no such variable is set here; write NO_SUCH=VALUE, or export it first"));
  EXPECT_EQ(cli_.Run({"run", "--gpus", "H100", "--", "x"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("--gpus: resources.gpu: expected N or MODEL:N, such as 1 or H100:8"));
  cli_.environment["LATIN"] = "caf\xe9";
  EXPECT_EQ(cli_.Run({"run", "--env", "LATIN", "--", "x"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("env.LATIN: `caf\\xe9` is not UTF-8 text"));
  EXPECT_THAT(cli_.api.calls, IsEmpty());
}

TEST_F(SubmitTest, RunShowsTheLogAndExitsAsTheJobEnds) {
  v1::Job active = MakeJob(5, "echo", "ACTIVE");
  AddAttempt(&active, "n1", v1::RESERVED, v1::RUNNING);
  v1::Job done = active;
  done.set_state("SUCCEEDED");
  cli_.api.jobs[5] = MakeJob(5, "echo", "QUEUED");
  cli_.api.later[5] = {active, done};
  cli_.api.logs[1] = "hello\n";
  EXPECT_EQ(cli_.Run({"run", "echo", "hello"}), 0) << cli_.err;
  EXPECT_EQ(cli_.out, "hello\n");
  EXPECT_THAT(cli_.err, HasSubstr("attempt 5.0@1 on n1 (reserved)"));
  EXPECT_THAT(cli_.err, HasSubstr("job 5 (echo) SUCCEEDED after 1 attempt"));
}

}  // namespace
}  // namespace spillway::client
