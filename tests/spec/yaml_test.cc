// Job files as people write them, and each thing the binder refuses, message by message.
#include "spec/yaml.h"

#include "base/status_matchers.h"
#include "spec/fields.h"
#include "spillway/v1/worker_service.pb.h"

namespace spillway::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view text) {
  v1::JobSpec spec;
  spec.set_name("untouched");
  const std::string before = spec.DebugString();
  const auto lines = BindJobFile(text, "train.yaml", &spec);
  EXPECT_FALSE(lines.ok()) << text;
  EXPECT_EQ(spec.DebugString(), before) << "a refused file must change nothing";
  return lines.ok() ? "" : std::string(lines.status().message());
}

v1::JobSpec Bind(absl::string_view text) {
  v1::JobSpec spec;
  const auto lines = BindJobFile(text, "train.yaml", &spec);
  EXPECT_OK(lines) << text;
  return spec;
}

TEST(Yaml, BindsAWholeJobFile) {
  const v1::JobSpec spec = Bind(R"(
name: bert-base
command: ["./train", "--lr", 3e-4, --seed, 010]
env: {MODEL: bert, EMPTY: "", YES: yes}
workdir: /data/bert
resources: {gpu: {model: [H100, A100], memory: 40GB.., count: 8, share: exclusive}, cpus: 0.5, memory: 128GB, nodes: 1, disk: 1.5TB}
placement: {markets: [reserved, spot, on_demand], regions: cn-north-1, max_price: 3.50, interruptible: false, max_silence: 90s}
checkpoint: {interval: auto, signal: SIGUSR1, grace: 2m30s}
retry: {preempted: unlimited, node_fault: 5, user_error: 0}
limits: {max_duration: 10h}
priority: 0
)");
  EXPECT_EQ(spec.name(), "bert-base");
  EXPECT_THAT(spec.command(), ElementsAre("./train", "--lr", "3e-4", "--seed", "010"));
  EXPECT_EQ(spec.env().at("MODEL"), "bert");
  EXPECT_EQ(spec.env().at("EMPTY"), "");
  EXPECT_EQ(spec.env().at("YES"), "yes");
  EXPECT_THAT(spec.resources().gpu().model(), ElementsAre("H100", "A100"));
  EXPECT_EQ(spec.resources().gpu().memory().min_bytes(), 40LL << 30);
  EXPECT_EQ(spec.resources().gpu().memory().max_bytes(), 0);
  EXPECT_EQ(spec.resources().gpu().count(), 8);
  EXPECT_EQ(spec.resources().cpu_milli(), 500);
  EXPECT_EQ(spec.resources().memory_bytes(), 128LL << 30);
  EXPECT_EQ(spec.resources().disk_bytes(), 3LL << 39);
  EXPECT_THAT(spec.placement().markets(), ElementsAre(v1::RESERVED, v1::SPOT, v1::ON_DEMAND));
  EXPECT_THAT(spec.placement().regions(), ElementsAre("cn-north-1"));
  EXPECT_EQ(spec.placement().max_price_micros_per_hour(), 3'500'000);
  EXPECT_TRUE(spec.placement().has_interruptible());
  EXPECT_FALSE(spec.placement().interruptible());
  EXPECT_EQ(spec.placement().max_silence_ms(), 90'000);
  EXPECT_EQ(spec.checkpoint().interval_ms(), 0);
  EXPECT_EQ(spec.checkpoint().grace_ms(), 150'000);
  EXPECT_EQ(spec.retry().preempted(), -1);
  EXPECT_TRUE(spec.retry().has_user_error());
  EXPECT_EQ(spec.limits().max_duration_ms(), 36'000'000);
  EXPECT_TRUE(spec.has_priority());
  EXPECT_EQ(spec.priority(), 0);
}

TEST(Yaml, WhatIsNotWrittenStaysUnset) {
  const v1::JobSpec spec = Bind("command: [true]\nresources: {gpu: {}}\n");
  EXPECT_FALSE(spec.has_priority());
  EXPECT_FALSE(spec.has_retry());
  EXPECT_FALSE(spec.placement().has_interruptible());
  EXPECT_TRUE(spec.resources().has_gpu());
}

TEST(Yaml, KeepsAScriptAsWritten) { EXPECT_EQ(Bind("script: |\n  set -x\n  echo \"$HOME\" ${A:-b}\n").script(), "set -x\necho \"$HOME\" ${A:-b}\n"); }

TEST(Yaml, NamesUnknownKeysWithTheNearest) {
  EXPECT_EQ(ErrorOf("name: a\ncommand: [x]\nresources:\n  cpus: 1\n  memory: 1GB\n  gpu:\n    cont: 2\n"),
            "train.yaml:7: resources.gpu.cont: unknown key, did you mean `count`?");
  EXPECT_EQ(ErrorOf("comand: [x]\n"), "train.yaml:1: comand: unknown key, did you mean `command`?");
  EXPECT_EQ(ErrorOf("resources: {memory_bytes: 5}\n"), "train.yaml:1: resources.memory_bytes: unknown key, did you mean `memory`?");
  // What other schedulers call it, and what stands one level below.
  EXPECT_EQ(ErrorOf("resources: {accelerators: {H100: 8}}\n"), "train.yaml:1: resources.accelerators: unknown key, did you mean `gpu`?");
  EXPECT_EQ(ErrorOf("accelerators: 2\n"), "train.yaml:1: accelerators: unknown key, did you mean `resources.gpu`?");
  EXPECT_EQ(ErrorOf("cpus: 2\n"), "train.yaml:1: cpus: unknown key, did you mean `resources.cpus`?");
  EXPECT_EQ(ErrorOf("timeout: 2h\n"), "train.yaml:1: timeout: unknown key, did you mean `limits.max_duration`?");
  EXPECT_EQ(ErrorOf("retry: {zzzzzzzzzzzz: 5}\n"), "train.yaml:1: retry.zzzzzzzzzzzz: unknown key; the keys here are preempted, node_fault, user_error");
}

TEST(Yaml, RefusesDoubledKeys) {
  EXPECT_EQ(ErrorOf("name: a\ncommand: [x]\nname: b\n"), "train.yaml:3: name: given twice (first on line 1)");
  EXPECT_EQ(ErrorOf("env:\n  A: 1\n  B: 2\n  A: 3\n"), "train.yaml:4: env.A: given twice (first on line 2)");
}

TEST(Yaml, SaysWhatWasExpectedAndWhatStandsThere) {
  EXPECT_EQ(ErrorOf("name: [a]\n"), "train.yaml:1: name: expected text, got a list");
  EXPECT_EQ(ErrorOf("name:\n"), "train.yaml:1: name: expected text, got nothing (write \"\" for empty text)");
  EXPECT_EQ(ErrorOf("priority: high\n"), "train.yaml:1: priority: expected a whole number, got `high`");
  EXPECT_EQ(ErrorOf("priority: \"5\"\n"), "train.yaml:1: priority: expected a whole number, got the text \"5\"");
  EXPECT_EQ(ErrorOf("priority: 1.5\n"), "train.yaml:1: priority: expected a whole number, got `1.5`");
  EXPECT_EQ(ErrorOf("priority: 0x10\n"), "train.yaml:1: priority: expected a whole number, got `0x10`");
  EXPECT_EQ(ErrorOf("placement:\n  interruptible: yes\n"), "train.yaml:2: placement.interruptible: expected true or false, got `yes`");
  EXPECT_EQ(ErrorOf("env: [A]\n"), "train.yaml:1: env: expected a map of names to values, got a list");
  EXPECT_EQ(ErrorOf("env: {A: {}}\n"), "train.yaml:1: env.A: expected text, got a map");
  EXPECT_EQ(ErrorOf("command: [a, [b]]\n"), "train.yaml:1: command[1]: expected text, got a list");
  EXPECT_EQ(ErrorOf("retry: 5\n"), "train.yaml:1: retry: expected a map with the keys preempted, node_fault, user_error, got `5`");
  EXPECT_EQ(ErrorOf("retry:\n"), "train.yaml:1: retry: expected a map with the keys preempted, node_fault, user_error, got nothing");
  EXPECT_EQ(ErrorOf("resources: {memory: [1GB]}\n"), "train.yaml:1: resources.memory: expected a size such as 512MB or 24GB, got a list");
  EXPECT_THAT(ErrorOf("- a\n- b\n"), HasSubstr("train.yaml:1: expected a map with the keys name, command, "));
  EXPECT_THAT(ErrorOf("just text\n"), HasSubstr("got `just text`"));
  EXPECT_EQ(ErrorOf(""), "train.yaml: the file is empty");
}

TEST(Yaml, RefusesNumbersThatCouldBeReadTwoWays) {
  EXPECT_EQ(ErrorOf("priority: 010\n"), "train.yaml:1: priority: `010` begins with 0, which some read as octal: write it without");
  EXPECT_THAT(ErrorOf("resources: {cpus: 010}\n"), HasSubstr("begins with 0"));
  EXPECT_THAT(ErrorOf("checkpoint: {grace: 090s}\n"), HasSubstr("begins with 0"));
}

TEST(Yaml, RefusesUnitsThatAreMissingOrWrong) {
  EXPECT_EQ(ErrorOf("checkpoint: {grace: 90}\n"), "train.yaml:1: checkpoint.grace: '90' is not a duration: the unit is missing; write 90s, 15m, 2h30m");
  for (const char* key : {"resources: {memory: 16}\n", "resources: {disk: 16}\n", "resources: {gpu: {memory: 16}}\n"}) {
    EXPECT_THAT(ErrorOf(key), HasSubstr("'16' is not a size: the unit is missing; write 16GB")) << key;
  }
  EXPECT_EQ(Bind("resources: {memory: 0}\n").resources().memory_bytes(), 0);
  EXPECT_THAT(ErrorOf("resources: {memory: 24gb}\n"), HasSubstr("resources.memory: '24gb' is not a size: unknown unit 'gb', did you mean GB?"));
  EXPECT_THAT(ErrorOf("placement: {max_price: -3}\n"), HasSubstr("train.yaml:1: placement.max_price: "));
  EXPECT_EQ(ErrorOf("retry: {preempted: forever}\n"), "train.yaml:1: retry.preempted: expected unlimited or a count, got `forever`");
  EXPECT_EQ(ErrorOf("retry: {preempted: -1}\n"), "train.yaml:1: retry.preempted: expected unlimited or a count, got `-1`");
  EXPECT_EQ(ErrorOf("resources: {cpus: 0.0005}\n"), "train.yaml:1: resources.cpus: `0.0005` is finer than a thousandth of a core");
  EXPECT_EQ(ErrorOf("resources: {gpu: {count: 3000000000}}\n"),
            "train.yaml:1: resources.gpu.count: `3000000000` does not fit: the range is -2147483648 to 2147483647");
}

TEST(Yaml, RefusesAZeroThatWouldMeanTheDefault) {
  EXPECT_EQ(ErrorOf("resources: {gpu: {count: 0}}\n"), "train.yaml:1: resources.gpu.count: 0 is not a value here; leave the key out for the default (1)");
  EXPECT_EQ(ErrorOf("checkpoint: {grace: 0s}\n"), "train.yaml:1: checkpoint.grace: 0 is not a value here; leave the key out for the default (30s)");
  // Where nothing written means no limit, a limit of nothing is not the same.
  EXPECT_EQ(ErrorOf("placement: {max_price: 0}\n"), "train.yaml:1: placement.max_price: 0 is not a value here; leave the key out for the default (no limit)");
  EXPECT_THAT(ErrorOf("placement: {max_silence: 0s}\n"), HasSubstr("placement.max_silence: 0 is not a value here"));
  EXPECT_THAT(ErrorOf("limits: {max_duration: 0}\n"), HasSubstr("limits.max_duration: 0 is not a value here"));
}

TEST(Yaml, RefusesUnknownWordsWithTheNearest) {
  EXPECT_EQ(ErrorOf("placement:\n  markets:\n    - spot\n    - ondemand\n"),
            "train.yaml:4: placement.markets[1]: unknown value `ondemand`, did you mean `on_demand`? (one of reserved, spot, on_demand)");
  EXPECT_THAT(ErrorOf("placement: {markets: SPOT}\n"), HasSubstr("unknown value `SPOT`, did you mean `spot`?"));
  EXPECT_THAT(ErrorOf("placement: {markets: market_unspecified}\n"), HasSubstr("unknown value"));
}

TEST(Yaml, RefusesWhatIsNotBuiltByName) {
  EXPECT_EQ(ErrorOf("command: [x]\nsweep: {method: grid}\n"), "train.yaml:2: sweep: sweeps are not built yet");
  EXPECT_EQ(ErrorOf("limits: {budget: \"120.00\"}\n"), "train.yaml:1: limits.budget: budgets are not built yet");
  EXPECT_EQ(ErrorOf("placement: {return_to_reserved: true}\n"),
            "train.yaml:1: placement.return_to_reserved: moves of a burst job back to reserved capacity are not built yet");
}

TEST(Yaml, ReportsEveryErrorUpToABound) {
  EXPECT_EQ(ErrorOf("nam: a\npriority: x\n"), "train.yaml:1: nam: unknown key, did you mean `name`?\ntrain.yaml:2: priority: expected a whole number, got `x`");
  std::string many = "env:\n";
  for (int i = 0; i < 30; ++i) many += "  A" + std::to_string(i) + ": []\n";
  EXPECT_THAT(ErrorOf(many), HasSubstr("train.yaml: and 10 more errors"));
}

TEST(Yaml, RefusesACommandLineInOneWord) {
  EXPECT_EQ(ErrorOf("command: ./train --lr 3\n"),
            "train.yaml:1: command: is one word with spaces; write a list such as [\"./train\", \"--lr\", \"3e-4\"], or put shell text under `script`");
  EXPECT_THAT(Bind("command: ./train\n").command(), ElementsAre("./train"));
  EXPECT_THAT(Bind("command: [\"/opt/my tools/train\"]\n").command(), ElementsAre("/opt/my tools/train"));
}

TEST(Yaml, ReadsRangesOfMemory) {
  const auto range = [](absl::string_view text) {
    const v1::JobSpec spec = Bind("resources: {gpu: {memory: " + std::string(text) + "}}\n");
    const v1::ByteRange& memory = spec.resources().gpu().memory();
    return std::pair(memory.min_bytes() >> 30, memory.max_bytes() >> 30);
  };
  EXPECT_EQ(range("40GB.."), std::pair(40L, 0L));
  EXPECT_EQ(range("..80GB"), std::pair(0L, 80L));
  EXPECT_EQ(range("16GB..40GB"), std::pair(16L, 40L));
  EXPECT_EQ(range("80GB"), std::pair(80L, 80L));
  EXPECT_EQ(range("{min: 1GB, max: 2GB}"), std::pair(1L, 2L));
  EXPECT_THAT(ErrorOf("resources: {gpu: {memory: 40GB..16GB}}\n"), HasSubstr("the range `40GB..16GB` ends before it begins"));
  EXPECT_THAT(ErrorOf("resources: {gpu: {memory: \"..\"}}\n"), HasSubstr("expected a size or a range such as"));
  EXPECT_THAT(ErrorOf("resources: {gpu: {memory: big}}\n"), HasSubstr("got `big`"));
}

TEST(Yaml, KnowsWhereEachFieldWasWritten) {
  v1::JobSpec spec;
  ASSERT_OK_AND_ASSIGN(const FieldLines lines, BindJobFile("name: a\ncommand:\n  - x\n  - y\nresources:\n  memory: 1GB\nenv:\n  A: b\n", "t", &spec));
  EXPECT_EQ(lines.Find("name"), 1);
  EXPECT_EQ(lines.Find("command[1]"), 4);
  EXPECT_EQ(lines.Find("resources.memory_bytes"), 6);
  EXPECT_EQ(lines.Find("env.A"), 8);
  EXPECT_EQ(lines.Find("resources.gpu.count"), 5) << "the nearest enclosing one";
  EXPECT_EQ(lines.Find("script"), 1) << "the document";
  EXPECT_EQ(YamlPathOf(*v1::JobSpec::descriptor(), "resources.memory_bytes"), "resources.memory");
  EXPECT_EQ(YamlPathOf(*v1::JobSpec::descriptor(), "env.A.B"), "env.A.B");
  EXPECT_EQ(YamlPathOf(*v1::ServerConfig::descriptor(), "providers[2].idle_release_ms"), "providers[2].idle_release");
}

// The forms that `run --gpus` takes stand in a file too.
TEST(Yaml, GpusInShort) {
  EXPECT_EQ(Bind("command: [x]\nresources: {gpu: 2}\n").resources().gpu().count(), 2);
  const v1::JobSpec eight = Bind("command: [x]\nresources: {gpu: \"H100:8\"}\n");
  EXPECT_EQ(eight.resources().gpu().count(), 8);
  EXPECT_THAT(eight.resources().gpu().model(), ElementsAre("H100"));
  EXPECT_EQ(Bind("command: [x]\nresources: {gpu: H100:8}\n").resources().gpu().count(), 8);
  v1::JobSpec spec = Bind("command: [x]\nresources: {gpu: {model: [A100, H100], memory: 40GB.., count: 1}}\n");
  ASSERT_OK(BindSetting("resources.gpu=4", &spec));
  EXPECT_EQ(spec.resources().gpu().count(), 4);
  EXPECT_EQ(spec.resources().gpu().model_size(), 2) << "only the count was said";
  ASSERT_OK(BindSetting("resources.gpu=T4:1", &spec));
  EXPECT_THAT(spec.resources().gpu().model(), ElementsAre("T4"));
  for (const char* bad : {"H100", "H100:", ":8", "H100:0", "H100:x", "0", "H100:-1", "1.5"}) {
    EXPECT_EQ(
        ErrorOf(absl::StrCat("resources: {gpu: \"", bad, "\"}\n")),
        absl::StrCat(
            "train.yaml:1: resources.gpu: expected N or MODEL:N, such as 1 or H100:8, or a map with the keys model, memory, count, share, got the text \"", bad,
            "\""))
        << bad;
  }
}

TEST(Yaml, SettingsGoOverTheFile) {
  v1::JobSpec spec = Bind("name: a\ncommand: [x, y]\nenv: {A: 1, B: 2}\nresources: {gpu: {count: 1}}\n");
  ASSERT_OK(BindSetting("resources.gpu.count=4", &spec));
  ASSERT_OK(BindSetting("env.A=b: c=d", &spec));
  ASSERT_OK(BindSetting("env.C=", &spec));
  ASSERT_OK(BindSetting("command=[z]", &spec));
  ASSERT_OK(BindSetting("checkpoint.grace=5s", &spec));
  EXPECT_EQ(spec.resources().gpu().count(), 4);
  EXPECT_EQ(spec.env().at("A"), "b: c=d");
  EXPECT_EQ(spec.env().at("B"), "2");
  EXPECT_EQ(spec.env().at("C"), "");
  EXPECT_EQ(spec.env().size(), 3u);
  EXPECT_THAT(spec.command(), ElementsAre("z"));
  EXPECT_EQ(spec.checkpoint().grace_ms(), 5000);
  const size_t before = spec.ByteSizeLong();
  EXPECT_THAT(BindSetting("resources.gpu.cont=2", &spec),
              StatusIs(absl::StatusCode::kInvalidArgument, "--set: resources.gpu.cont: unknown key, did you mean `count`?"));
  ASSERT_OK(BindSetting("array.count=2", &spec));
  EXPECT_EQ(spec.array().count(), 2);
  spec.clear_array();
  EXPECT_THAT(BindSetting("sweep.method=grid", &spec), StatusIs(absl::StatusCode::kInvalidArgument, "--set: sweep: sweeps are not built yet"));
  EXPECT_THAT(BindSetting("nothing", &spec), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected KEY=VALUE")));
  EXPECT_THAT(BindSetting("=3", &spec), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected KEY=VALUE")));
  EXPECT_EQ(spec.ByteSizeLong(), before);
}

TEST(Yaml, BindsAConfiguration) {
  v1::ServerConfig config;
  ASSERT_OK(BindYaml(R"(
listen: {user: "127.0.0.1:0"}
providers:
  - {name: cloud, kind: playground, url: "http://127.0.0.1:9000", idle_release: 5s}
  - name: here
    kind: local
    nodes: 2
    resources: {cpus: 2, memory: 8GB, accelerators: [{model: simulated, count: 1, memory: 16GB, simulated: true}]}
reservations:
  - {name: base, nodes: [n1, n2], price_per_hour: 1.20, from: 2026-01-01T00:00:00Z}
lease: {duration: 30s, renew_every: 1s, silence: 5s}
)",
                     "config.yaml", &config));
  EXPECT_EQ(config.providers(0).idle_release_ms(), 5000);
  EXPECT_EQ(config.providers(1).resources().cpu_milli(), 2000);
  EXPECT_EQ(config.providers(1).resources().accelerators(0).memory_bytes(), 16LL << 30);
  EXPECT_TRUE(config.providers(1).resources().accelerators(0).simulated());
  EXPECT_EQ(config.reservations(0).price_micros_per_hour(), 1'200'000);
  EXPECT_EQ(config.reservations(0).from_utc_ms(), 1767225600000);
  EXPECT_EQ(config.lease().lease_ms(), 30'000);
  EXPECT_THAT(BindYaml("providers:\n  - kind: local\n    nods: 1\n", "config.yaml", &config),
              StatusIs(absl::StatusCode::kInvalidArgument, "config.yaml:3: providers[0].nods: unknown key, did you mean `nodes`?"));
}

// The binder is for any message; fields no job file has are covered here.
TEST(Yaml, BindsFloatsAndRefusesBytes) {
  v1::ProgressReport report;
  ASSERT_OK(BindYaml("metrics: {loss: 1.5}\nstep: 3\n", "p", &report));
  EXPECT_EQ(report.metrics().at("loss"), 1.5);
  EXPECT_THAT(BindYaml("metrics: {loss: .inf}\n", "p", &report), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a number, got `.inf`")));
  v1::SpecData data;
  EXPECT_THAT(BindYaml("digest: abc\n", "p", &data), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("raw bytes cannot be written")));
}

}  // namespace
}  // namespace spillway::spec
