// The configuration's rules, each broken once.
#include "base/status_matchers.h"
#include "spec/validate.h"

namespace spillway::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Problems(absl::string_view yaml) {
  v1::ServerConfig config;
  const auto lines = BindYaml(yaml, "config.yaml", &config);
  EXPECT_OK(lines);
  std::vector<std::string> out;
  for (const Violation& violation : ValidateServerConfig(config)) out.push_back(violation.field_path + ": " + violation.message);
  return out;
}

TEST(ValidateConfig, AcceptsTheEmptyAndTheUsual) {
  EXPECT_THAT(ValidateServerConfig(v1::ServerConfig()), IsEmpty());
  EXPECT_THAT(Problems("listen: {user: \"127.0.0.1:0\", worker: \"[::1]:7071\"}\nstore: file:/var/spillway\nproviders: [{name: cloud, kind: playground, url: "
                       "\"http://127.0.0.1:1\"}]\n"
                       "reservations: [{name: a, nodes: [n1]}]\nlease: {duration: 10s, renew_every: 500ms, silence: 2s}\n"),
              IsEmpty());
}

TEST(ValidateConfig, Addresses) {
  EXPECT_THAT(Problems("listen: {user: localhost}\n"), ElementsAre("listen.user: `localhost` is not HOST:PORT, such as 127.0.0.1:7070"));
  EXPECT_EQ(Problems("listen: {http: \"a:70000\"}\n").size(), 1u);
  EXPECT_EQ(Problems("listen: {http: \":1\"}\n").size(), 1u);
  EXPECT_THAT(Problems("store: s3://bucket\n"), ElementsAre("store: `s3://bucket` is not file:/ABSOLUTE/PATH, the only kind of store built yet"));
}

TEST(ValidateConfig, Providers) {
  EXPECT_THAT(Problems("providers: [{kind: static}]\n"), ElementsAre("providers[0].name: is missing"));
  EXPECT_THAT(Problems("providers: [{name: a, kind: playgrund}]\n"),
              ElementsAre("providers[0].kind: unknown value `playgrund`, did you mean `playground`? (one of static, local, playground)"));
  EXPECT_THAT(Problems("providers: [{name: a}]\n"), ElementsAre("providers[0].kind: is missing: static, local or playground"));
  EXPECT_THAT(Problems("providers: [{name: a, kind: static}, {name: a, kind: local}]\n"), ElementsAre("providers[1].name: `a` stands twice"));
  EXPECT_THAT(Problems("providers: [{name: a, kind: playground}]\n"), ElementsAre("providers[0].url: is missing: a playground is reached by http://HOST:PORT"));
  EXPECT_THAT(Problems("providers: [{name: a, kind: local, url: \"http://x\"}]\n"), ElementsAre("providers[0].url: means nothing to a provider of kind local"));
  EXPECT_THAT(Problems("providers: [{name: a, kind: static, nodes: 2}]\n"),
              ElementsAre("providers[0].nodes: only a provider of kind local keeps a number of nodes"));
  EXPECT_THAT(Problems("providers: [{name: a, kind: local, resources: {accelerators: [{count: 1}]}}]\n"),
              ElementsAre("providers[0].resources.accelerators[0].model: is missing"));
}

TEST(ValidateConfig, Reservations) {
  EXPECT_THAT(Problems("reservations: [{name: a}]\n"), ElementsAre("reservations[0].nodes: is empty: a reservation names the static nodes it pays for"));
  EXPECT_THAT(Problems("reservations: [{name: a, nodes: [n]}, {name: b, nodes: [n]}]\n"),
              ElementsAre("reservations[1].nodes[0]: `n` is in the reservation `a` at the same time"));
  EXPECT_THAT(Problems("reservations:\n  - {name: a, nodes: [n], to: 2026-01-01T00:00:00Z}\n  - {name: b, nodes: [n], from: 2026-01-01T00:00:00Z}\n"),
              IsEmpty());
  EXPECT_THAT(Problems("reservations: [{name: a, nodes: [n], from: \"2026-02-01T00:00:00Z\", to: \"2026-01-01T00:00:00Z\"}]\n"),
              ElementsAre("reservations[0].to_utc_ms: is not after `from`"));
}

TEST(ValidateConfig, LeasePartsAreInOrder) {
  EXPECT_THAT(Problems("lease: {renew_every: 40s}\n"),
              ElementsAre("lease.silence_ms: is 1m, less than two renewals (one every 40s): a single late one would look like silence"));
  EXPECT_THAT(Problems("lease: {duration: 30s}\n"), ElementsAre("lease.lease_ms: is 30s, shorter than the silence of 1m that starts fencing"));
}

}  // namespace
}  // namespace spillway::spec
