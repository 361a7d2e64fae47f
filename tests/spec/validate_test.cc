// Each rule a job must satisfy, with its message as people read it.
#include "spec/validate.h"

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status_matchers.h"
#include "base/units.h"
#include "checkpoint/key_source.h"

namespace spillway::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Good() {
  v1::JobSpec spec;
  spec.set_name("good");
  spec.add_command("/bin/true");
  return spec;
}

// The violations of Good() after `change`, as "path: message".
template <typename Change>
std::vector<std::string> After(Change change) {
  v1::JobSpec spec = Good();
  change(spec);
  std::vector<std::string> out;
  for (const Violation& violation : ValidateJobSpec(spec)) out.push_back(violation.field_path + ": " + violation.message);
  return out;
}

TEST(Validate, AcceptsAGoodJob) { EXPECT_THAT(ValidateJobSpec(Good()), IsEmpty()); }

TEST(Validate, ExactlyOneOfCommandAndScript) {
  EXPECT_THAT(After([](auto& s) { s.clear_command(); }), ElementsAre("command: is missing: a job needs exactly one of command and script"));
  EXPECT_THAT(After([](auto& s) { s.set_script("x"); }), ElementsAre("script: a job needs exactly one of command and script, and both are given"));
  EXPECT_THAT(After([](auto& s) {
                s.clear_command();
                s.set_script("echo");
              }),
              IsEmpty());
}

TEST(Validate, Names) {
  EXPECT_THAT(After([](auto& s) { s.set_name("Bert"); }), ElementsAre("name: `Bert` is not a name: a name is [a-z0-9][a-z0-9._-]*, at most 128 bytes"));
  EXPECT_EQ(After([](auto& s) { s.set_name("-a"); }).size(), 1u);
  EXPECT_EQ(After([](auto& s) { s.set_name(std::string(129, 'a')); }).size(), 1u);
  EXPECT_THAT(After([](auto& s) { s.set_name(std::string(128, 'a')); }), IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.set_name("1-9"); }), ElementsAre("name: `1-9` reads as an id, not as a name"));
  EXPECT_THAT(After([](auto& s) { s.set_name("last"); }), ElementsAre("name: `last` reads as an id, not as a name"));
  EXPECT_THAT(After([](auto& s) { s.set_name("7b-chat.v1_2"); }), IsEmpty());
}

TEST(Validate, CommandIsBounded) {
  EXPECT_THAT(After([](auto& s) {
                for (int i = 0; i < 4096; ++i) s.add_command("x");
              }),
              ElementsAre("command: has 4097 words; the most is 4096"));
  EXPECT_THAT(After([](auto& s) {
                for (int i = 0; i < 5; ++i) s.add_command(std::string(120'000, 'x'));
              }),
              ElementsAre("command: is 600015 bytes long; the most is 458752"));
  EXPECT_THAT(After([](auto& s) { s.add_command(std::string("a\0b", 3)); }), ElementsAre("command[1]: holds a NUL byte"));
  EXPECT_THAT(After([](auto& s) { s.set_command(0, ""); }), ElementsAre("command[0]: the program's name is empty"));
  EXPECT_THAT(After([](auto& s) { s.set_script(std::string(limits::kSpecBytesMax, 'x')); }).front(), ::testing::EndsWith("; the most is 1048576"));
}

TEST(Validate, WhatTheSystemWouldNotStartIsRefused) {
  const std::string longest(131'071, 'x');
  EXPECT_THAT(After([&](auto& s) { s.add_command(longest); }), IsEmpty());
  EXPECT_THAT(
      After([&](auto& s) { s.add_command(longest + "x"); }),
      ElementsAre("command[1]: is 131072 bytes long; the system starts no program with a string of more than 131071: put it into a file or into `script`"));
  EXPECT_THAT(After([&](auto& s) { (*s.mutable_env())["A"] = longest.substr(2); }), IsEmpty());
  EXPECT_THAT(After([&](auto& s) { (*s.mutable_env())["A"] = longest.substr(1); }), ElementsAre(HasSubstr("env.A: is 131072 bytes long; the system starts")));
  EXPECT_THAT(After([&](auto& s) {
                s.clear_command();
                s.set_script(longest + longest);
              }),
              IsEmpty())
      << "a script is a file";
  EXPECT_THAT(After([&](auto& s) {
                for (int i = 0; i < 10; ++i) (*s.mutable_env())[absl::StrCat("V", i)] = std::string(100'000, 'x');
              }),
              ElementsAre("env: and the command are 1000050 bytes together; the most is 458752"));
  EXPECT_THAT(After([&](auto& s) { s.set_workdir("/" + std::string(4095, 'x')); }), ElementsAre("workdir: is 4096 bytes long; a path has at most 4095"));
}

TEST(Validate, ARelativeProgramNeedsAWorkdir) {
  EXPECT_THAT(
      After([](auto& s) { s.set_command(0, "./train"); }),
      ElementsAre(
          "command[0]: `./train` is relative, but without `workdir` the job starts in an empty folder of its own: set workdir or write the whole path"));
  EXPECT_THAT(After([](auto& s) {
                s.set_command(0, "./train");
                s.set_workdir("/data");
              }),
              IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.set_command(0, "python3"); }), IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.set_workdir("data"); }), ElementsAre("workdir: `data` is not an absolute path (shipping a folder is not built yet)"));
}

TEST(Validate, Env) {
  EXPECT_THAT(After([](auto& s) { (*s.mutable_env())["SPILLWAY_JOB_ID"] = "1"; }),
              ElementsAre("env.SPILLWAY_JOB_ID: names beginning with SPILLWAY_ are set by the scheduler"));
  for (const char* name : {checkpoint::kKeyFileVariable, checkpoint::kKeyFdVariable, checkpoint::kKeyCommandVariable}) {
    EXPECT_THAT(After([&](auto& s) { (*s.mutable_env())[name] = "/1"; }), IsEmpty());
  }
  EXPECT_THAT(After([](auto& s) { (*s.mutable_env())["SPILLWAY_CHECKPOINT_KEY"] = "1"; }),
              ElementsAre("env.SPILLWAY_CHECKPOINT_KEY: names beginning with SPILLWAY_ are set by the scheduler"));
  // What a job is given is kept and shown: a key that stands there is refused without being repeated, and never kept.
  for (const char* name : {checkpoint::kKeyFileVariable, checkpoint::kKeyFdVariable, checkpoint::kKeyCommandVariable}) {
    EXPECT_THAT(
        After([&](auto& s) { (*s.mutable_env())[name] = std::string(32, 'a') + std::string(32, '7'); }),
        ElementsAre(absl::StrCat("env.", name, ": is the key itself, which would be kept with the job: put it into a file of mode 0600 and name that")));
  }
  EXPECT_THAT(
      After([](auto& s) { (*s.mutable_env())[checkpoint::kKeyFileVariable] = "training.key"; }),
      ElementsAre("env.SPILLWAY_CHECKPOINT_KEY_FILE: `training.key` is relative, but without `workdir` the job starts in an empty folder of its own: set "
                  "workdir or write the whole path"));
  EXPECT_THAT(After([](auto& s) {
                (*s.mutable_env())[checkpoint::kKeyFileVariable] = "training.key";
                s.set_workdir("/work");
              }),
              IsEmpty());
  EXPECT_THAT(After([](auto& s) { (*s.mutable_env())["1A"] = "1"; }), ElementsAre("env.1A: `1A` is not a name for a variable: [A-Za-z_][A-Za-z0-9_]*"));
  EXPECT_THAT(After([](auto& s) { (*s.mutable_env())["A=B"] = "1"; }), ElementsAre("env.A=B: `A=B` is not a name for a variable: [A-Za-z_][A-Za-z0-9_]*"));
  EXPECT_THAT(After([](auto& s) { (*s.mutable_env())["A"] = std::string("\0", 1); }), ElementsAre("env.A: holds a NUL byte"));
  EXPECT_THAT(After([](auto& s) {
                for (int i = 0; i < 961; ++i) (*s.mutable_env())["A" + std::to_string(i)] = "";
              }),
              ElementsAre("env: has 961 entries; the most is 960"));
  EXPECT_THAT(After([](auto& s) { (*s.mutable_env())["_a1"] = "any = text"; }), IsEmpty());
}

TEST(Validate, Resources) {
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->set_cpu_milli(-1); }), ElementsAre("resources.cpu_milli: -1 is negative"));
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->set_memory_bytes(-5); }), ElementsAre("resources.memory_bytes: -5 is negative"));
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->set_nodes(2); }), IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->set_nodes(257); }), ElementsAre("resources.nodes: 257 is outside 1 to 256"));
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->set_nodes(1); }), IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->mutable_gpu()->set_count(-2); }), ElementsAre("resources.gpu.count: -2 is outside 0 to 1024"));
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->mutable_gpu()->set_share("shared"); }),
              ElementsAre("resources.gpu.share: shared devices are not built yet: only exclusive"));
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->mutable_gpu()->set_share("exclusiv"); }),
              ElementsAre("resources.gpu.share: unknown value `exclusiv`, did you mean `exclusive`? (one of exclusive)"));
  EXPECT_THAT(After([](auto& s) { s.mutable_resources()->mutable_gpu()->add_model(""); }), ElementsAre("resources.gpu.model[0]: is empty"));
  EXPECT_THAT(After([](auto& s) {
                s.mutable_resources()->mutable_gpu()->mutable_memory()->set_min_bytes(2);
                s.mutable_resources()->mutable_gpu()->mutable_memory()->set_max_bytes(1);
              }),
              ElementsAre("resources.gpu.memory: the range ends before it begins"));
}

TEST(Validate, Placement) {
  EXPECT_THAT(After([](auto& s) {
                s.mutable_placement()->add_markets(v1::SPOT);
                s.mutable_placement()->add_markets(v1::SPOT);
              }),
              ElementsAre("placement.markets[1]: `spot` stands twice"));
  EXPECT_THAT(After([](auto& s) { s.mutable_placement()->add_markets(static_cast<v1::Market>(9)); }),
              ElementsAre("placement.markets[0]: is not a market: reserved, spot or on_demand"));
  EXPECT_THAT(After([](auto& s) {
                s.mutable_placement()->add_markets(v1::SPOT);
                s.mutable_placement()->set_interruptible(false);
              }),
              ElementsAre("placement.interruptible: a job that may not be interrupted never runs on spot, and spot is the only market allowed"));
  EXPECT_THAT(After([](auto& s) {
                s.mutable_placement()->add_markets(v1::SPOT);
                s.mutable_placement()->add_markets(v1::ON_DEMAND);
                s.mutable_placement()->set_interruptible(false);
              }),
              IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.mutable_placement()->set_max_price_micros_per_hour(-1); }),
              ElementsAre("placement.max_price_micros_per_hour: -1 is negative"));
  EXPECT_THAT(After([](auto& s) {
                s.mutable_placement()->add_zones("a");
                s.mutable_placement()->add_zones("a");
              }),
              ElementsAre("placement.zones[1]: `a` stands twice"));
}

TEST(Validate, ADeadlineAndWhatItIsPlannedByComeTogether) {
  const auto limits = [](int64_t deadline_ms, int64_t expected_ms) {
    return After([=](auto& s) {
      s.mutable_limits()->set_deadline_utc_ms(deadline_ms);
      s.mutable_limits()->set_expected_duration_ms(expected_ms);
    });
  };
  EXPECT_THAT(limits(1'798'099'200'000, 3'600'000), IsEmpty());
  EXPECT_THAT(limits(1'798'099'200'000, 0),
              ElementsAre("limits.deadline_utc_ms: needs limits.expected_duration: how long a task runs in all when nothing interrupts it"));
  EXPECT_THAT(limits(0, 3'600'000), ElementsAre("limits.expected_duration_ms: is what a deadline is planned by, and there is no limits.deadline"));
  EXPECT_THAT(limits(-1, 0), ElementsAre("limits.deadline_utc_ms: -1 is negative"));
  EXPECT_THAT(limits(1'798'099'200'000, kDurationMsMax + 1), ElementsAre("limits.expected_duration_ms: is longer than ten years"));
}

TEST(Validate, CheckpointRetryLimitsPriority) {
  v1::JobSpec spec = Good();
  spec.mutable_checkpoint()->set_signal("SIGTERN");
  EXPECT_THAT(
      ValidateJobSpec(spec),
      ElementsAre(Violation{"checkpoint.signal", "unknown value `SIGTERN`, did you mean `SIGTERM`? (one of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2)",
                            "SIGTERM"}));
  EXPECT_EQ(After([](auto& s) { s.mutable_checkpoint()->set_signal("SIGKILL"); }).size(), 1u);
  EXPECT_THAT(After([](auto& s) { s.mutable_checkpoint()->set_interval_ms(60'000); }),
              ElementsAre("checkpoint.interval_ms: intervals that the scheduler keeps are not built yet: only auto, the program decides"));
  EXPECT_THAT(After([](auto& s) { s.mutable_checkpoint()->set_grace_ms(-1); }), ElementsAre("checkpoint.grace_ms: -1 is negative"));
  EXPECT_THAT(After([](auto& s) { s.mutable_retry()->set_user_error(-2); }), ElementsAre("retry.user_error: -2 is less than -1"));
  EXPECT_THAT(After([](auto& s) { s.mutable_retry()->set_preempted(-1); }), IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.mutable_limits()->set_max_duration_ms(-1); }), ElementsAre("limits.max_duration_ms: -1 is negative"));
  // Nothing that is added up or handed on to a node may overflow there.
  for (const int64_t too_long : {kDurationMsMax + 1, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(After([&](auto& s) { s.mutable_limits()->set_max_duration_ms(too_long); }), ElementsAre("limits.max_duration_ms: is longer than ten years"));
    EXPECT_THAT(After([&](auto& s) { s.mutable_checkpoint()->set_grace_ms(too_long); }), ElementsAre("checkpoint.grace_ms: is longer than ten years"));
    EXPECT_THAT(After([&](auto& s) { s.mutable_placement()->set_max_silence_ms(too_long); }),
                ElementsAre("placement.max_silence_ms: is longer than ten years"));
  }
  EXPECT_THAT(After([](auto& s) { s.mutable_limits()->set_max_duration_ms(kDurationMsMax); }), IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.set_priority(101); }), ElementsAre("priority: 101 is outside 0 to 100"));
  EXPECT_THAT(After([](auto& s) { s.set_priority(0); }), IsEmpty());
}

TEST(Validate, JobsToWaitFor) {
  EXPECT_THAT(After([](auto& s) {
                s.add_after("12");
                s.add_after("prepare");
                s.add_after_any("7b-chat");
              }),
              IsEmpty());
  EXPECT_THAT(After([](auto& s) { s.add_after("5.17"); }), ElementsAre("after[0]: `5.17` is one task; a job is meant here: 5"));
  EXPECT_THAT(After([](auto& s) { s.add_after_ok("last"); }), ElementsAre("after_ok[0]: `last` is no job: write its number, such as 12, or its name"));
  EXPECT_THAT(After([](auto& s) { s.add_after_any("1-9"); }), ElementsAre("after_any[0]: `1-9` is no job: write its number, such as 12, or its name"));
  EXPECT_THAT(After([](auto& s) {
                s.add_after("12");
                s.add_after("12");
                s.add_after("");
              }),
              ElementsAre("after[1]: `12` stands twice", "after[2]: is empty"));
  EXPECT_THAT(After([](auto& s) {
                for (int i = 1; i <= 600; ++i) s.add_after(absl::StrCat(i)), s.add_after_any(absl::StrCat(i));
              }),
              ElementsAre("after: waits for 1200 jobs; the most is 1000"));
}

TEST(Validate, SecretsAreNames) {
  EXPECT_THAT(After([](auto& s) { s.add_secrets("HF_TOKEN"), s.add_secrets("_b2"); }), ElementsAre());
  EXPECT_THAT(After([](auto& s) { s.add_secrets("HF-TOKEN"), s.add_secrets("../x"), s.add_secrets(""), s.add_secrets("A"), s.add_secrets("A"); }),
              ElementsAre("secrets[0]: `HF-TOKEN` is not a name for a secret: [A-Za-z_][A-Za-z0-9_]*",
                          "secrets[1]: `../x` is not a name for a secret: [A-Za-z_][A-Za-z0-9_]*", "secrets[2]: is empty", "secrets[4]: `A` stands twice"));
  EXPECT_THAT(After([](auto& s) { s.add_secrets(std::string(65, 'A')); }), ElementsAre("secrets[0]: is 65 bytes long; the most is 64"));
  EXPECT_THAT(After([](auto& s) {
                for (int i = 0; i < 33; ++i) s.add_secrets(absl::StrCat("S", i));
              }),
              ElementsAre("secrets: has 33 names; the most is 32"));
}

TEST(Validate, RefusesWhatIsNotBuiltWhereverItStands) {
  EXPECT_THAT(After([](auto& s) {
                s.mutable_sweep()->set_method("grid");
                s.add_setup("pip install torch");
                s.mutable_limits()->set_budget_micros(5);
              }),
              ElementsAre("setup: setup commands are not built yet", "limits.budget_micros: budgets are not built yet", "sweep: sweeps are not built yet"));
}

TEST(Validate, AnArrayHasACountAndMayHaveALimit) {
  const auto array = [](std::optional<int64_t> count, std::optional<int64_t> parallel) {
    return After([&](auto& s) {
      s.mutable_array();
      if (count) s.mutable_array()->set_count(*count);
      if (parallel) s.mutable_array()->set_parallel(*parallel);
    });
  };
  EXPECT_THAT(array(1'000'000, 1), IsEmpty());
  EXPECT_THAT(array(1, 5), IsEmpty()) << "a limit above the count is none";
  EXPECT_THAT(array(std::nullopt, 5), ElementsAre("array.count: is missing: how many tasks, 1 to 1000000"));
  EXPECT_THAT(array(0, std::nullopt), ElementsAre("array.count: 0 is outside 1 to 1000000"));
  EXPECT_THAT(array(1'000'001, 0), ElementsAre("array.count: 1000001 is outside 1 to 1000000", "array.parallel: 0 is less than 1"));
}

TEST(Validate, IsBounded) {
  EXPECT_EQ(After([](auto& s) {
              for (int i = 0; i < 500; ++i) (*s.mutable_env())["-" + std::to_string(i)] = "";
            }).size(),
            kViolationsMax);
}

TEST(Validate, NormalizeNamesAJobAfterItsProgram) {
  const auto name = [](const std::string& program) {
    v1::JobSpec spec;
    spec.add_command(program);
    NormalizeJobSpec(&spec);
    EXPECT_THAT(JobNameProblem(spec.name()), IsEmpty()) << spec.name();
    return spec.name();
  };
  EXPECT_EQ(name("/usr/bin/Train.PY"), "train.py");
  EXPECT_EQ(name("./my tool"), "my-tool");
  EXPECT_EQ(name("__x"), "x");
  EXPECT_EQ(name("123"), "job");
  EXPECT_EQ(name("last"), "job");
  EXPECT_EQ(name("/"), "job");
  EXPECT_EQ(name(std::string(300, 'a')), std::string(128, 'a'));
  v1::JobSpec spec;
  spec.set_script("echo");
  NormalizeJobSpec(&spec);
  EXPECT_EQ(spec.name(), "script");
  EXPECT_EQ(spec.priority(), 50);
  spec.set_priority(0);
  NormalizeJobSpec(&spec);
  EXPECT_EQ(spec.priority(), 0);
}

TEST(Validate, RendersWithTheLinesOfTheFile) {
  v1::JobSpec spec;
  ASSERT_OK_AND_ASSIGN(const FieldLines lines, BindJobFile("name: a\nresources:\n  memory: 1GB\n  nodes: 257\n", "train.yaml", &spec));
  EXPECT_EQ(RenderViolations(ValidateJobSpec(spec), *v1::JobSpec::descriptor(), "train.yaml", lines),
            "train.yaml:1: command: is missing: a job needs exactly one of command and script\ntrain.yaml:4: resources.nodes: 257 is outside 1 to 256");
  EXPECT_EQ(RenderViolations({{"resources.memory_bytes", "too much", ""}}, *v1::JobSpec::descriptor(), "train.yaml", lines),
            "train.yaml:3: resources.memory: too much");
  EXPECT_EQ(RenderViolations({{"resources.memory_bytes", "too much", ""}}, *v1::JobSpec::descriptor(), "", lines), "resources.memory: too much");
}

TEST(Validate, ViolationsSurviveTheWire) {
  const std::vector<Violation> violations = {{"a.b", "message", "nearest"}, {"", "whole", ""}};
  EXPECT_EQ(FromProto(ToProto(violations)), violations);
}

}  // namespace
}  // namespace spillway::spec
