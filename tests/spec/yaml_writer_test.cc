// What the writer writes binds to the same message again, for literal specs and for random ones full of awkward text.
#include <google/protobuf/util/message_differencer.h>

#include "base/rng.h"
#include "base/status_matchers.h"
#include "spec/yaml.h"

namespace spillway::spec {
namespace {

using google::protobuf::util::MessageDifferencer;

TEST(YamlWriter, WritesAJobAsAPersonWould) {
  v1::JobSpec spec;
  ASSERT_OK(BindJobFile(R"(name: bert
script: |
  echo a
    b
env: {B: "2", A: "x y"}
resources: {gpu: {model: [H100, A100], memory: 40GB.., count: 8}, cpus: 0.25, memory: 1536MB}
placement: {markets: [spot, on_demand], max_price: 3.50, interruptible: false}
checkpoint: {grace: 90s}
retry: {preempted: unlimited}
priority: 0
)",
                        "t", &spec));
  EXPECT_EQ(JobSpecToYaml(spec), R"(name: bert
script: |
  echo a
    b
env:
  A: "x y"
  B: 2
resources:
  gpu:
    model: [H100, A100]
    memory: 40GB..
    count: 8
  cpus: 0.25
  memory: 1536MB
placement:
  markets: [spot, on_demand]
  max_price: 3.50
  interruptible: false
checkpoint:
  grace: 1m30s
retry:
  preempted: unlimited
priority: 0
)");
}

TEST(YamlWriter, WritesAnEmptyMessageThatIsSet) {
  v1::JobSpec spec;
  spec.add_command("true");
  spec.mutable_resources()->mutable_gpu();
  EXPECT_EQ(JobSpecToYaml(spec), "command: [\"true\"]\nresources:\n  gpu: {}\n");
}

TEST(YamlWriter, WritesListsOfMessages) {
  v1::ServerConfig config;
  config.add_providers()->set_name("a");
  config.add_providers()->set_name("b");
  config.mutable_providers(1)->set_idle_release_ms(1500);
  v1::ServerConfig again;
  ASSERT_OK(BindYaml(MessageToYaml(config), "c", &again)) << MessageToYaml(config);
  EXPECT_TRUE(MessageDifferencer::Equals(config, again)) << MessageToYaml(config);
}

std::string AwkwardText(Rng& rng) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "Z",
                                                   "0",
                                                   "9",
                                                   " ",
                                                   "  ",
                                                   ":",
                                                   ": ",
                                                   " #",
                                                   "#",
                                                   "\n",
                                                   "\n\n",
                                                   "\t",
                                                   "\"",
                                                   "'",
                                                   "\\",
                                                   "-",
                                                   "- ",
                                                   "[",
                                                   "{",
                                                   "]",
                                                   "}",
                                                   "&",
                                                   "*",
                                                   "!",
                                                   "|",
                                                   ">",
                                                   "%",
                                                   "@",
                                                   "`",
                                                   ",",
                                                   "?",
                                                   "~",
                                                   "null",
                                                   "true",
                                                   "yes",
                                                   "010",
                                                   "1e3",
                                                   "=",
                                                   "<<",
                                                   "...",
                                                   "---",
                                                   "\x01",
                                                   "\x7f",
                                                   "\xe6\xba\xa2",
                                                   "\xc2\x85",
                                                   "\xe2\x80\xa8",
                                                   "\xef\xbb\xbf",
                                                   "\r"};
  std::string text;
  for (uint64_t i = 0, n = rng.Below(6); i < n; ++i) text += kPieces[rng.Below(kPieces.size())];
  return text;
}

TEST(YamlWriter, RoundTripsWhateverTheText) {
  Rng rng(7);
  for (int round = 0; round < 4000; ++round) {
    v1::JobSpec spec;
    spec.set_name(AwkwardText(rng));
    spec.set_script(AwkwardText(rng));
    for (uint64_t i = 0, n = rng.Below(4); i < n; ++i) spec.add_command(AwkwardText(rng));
    for (uint64_t i = 0, n = rng.Below(4); i < n; ++i) (*spec.mutable_env())[AwkwardText(rng)] = AwkwardText(rng);
    spec.mutable_resources()->set_cpu_milli(rng.Between(1, 5000));
    spec.mutable_resources()->set_memory_bytes(rng.Between(0, 1LL << 45));
    spec.mutable_resources()->mutable_gpu()->mutable_memory()->set_min_bytes(rng.Between(1, 1LL << 40));
    spec.mutable_placement()->set_max_price_micros_per_hour(rng.Between(0, 99'999'999));
    spec.mutable_checkpoint()->set_grace_ms(rng.Between(1, 999'999'999));
    if (rng.Chance(0.5)) spec.set_priority(static_cast<int>(rng.Between(0, 100)));
    if (rng.Chance(0.5)) spec.mutable_retry()->set_user_error(static_cast<int>(rng.Between(-1, 3)));
    const std::string yaml = JobSpecToYaml(spec);
    v1::JobSpec again;
    const auto bound = BindYaml(yaml, "t", &again);
    ASSERT_OK(bound) << yaml;
    ASSERT_TRUE(MessageDifferencer::Equals(spec, again)) << yaml << "\n---\n" << JobSpecToYaml(again);
  }
}

}  // namespace
}  // namespace spillway::spec
