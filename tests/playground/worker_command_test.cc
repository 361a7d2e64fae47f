// What a machine runs and what it knows of the world.
#include "playground/worker_command.h"

#include <gmock/gmock.h>

#include "base/status_matchers.h"
#include "tests/playground/cloud_fixture.h"

namespace spillway::playground {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Instance AnInstance(std::vector<std::string> argv) {
  Instance instance;
  instance.id = "i-000003";
  instance.terms.spot = true;
  instance.terms.zone = "z1";
  instance.terms.region = "r1";
  instance.terms.gpus = {"H100", 8, 80LL << 30};
  instance.terms.cpus = 96;
  instance.terms.memory_bytes = 1LL << 40;
  instance.request.worker = {"127.0.0.1:7071", "/t/join", "node-3", "burst", std::move(argv), {{"X", "1"}, {"PATH", "/own"}}};
  return instance;
}

TEST(WorkerCommandTest, FillsInTheRequestsOwnArgv) {
  EXPECT_THAT(*WorkerArgv(AnInstance({"/bin/w", "--id={instance_id}", "{home}/x", "{market}", "{", "{}", "{\"json\": 1}"}), {"/h", "http://m", "/w"}),
              ElementsAre("/bin/w", "--id=i-000003", "/h/x", "spot", "{", "{}", "{\"json\": 1}"));
  EXPECT_THAT(WorkerArgv(AnInstance({"{instance}"}), {"/h", "http://m", "/w"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("instance_id")));
}

TEST(WorkerCommandTest, TheUsualWorkerIsToldWhereItIs) {
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> argv, WorkerArgv(AnInstance({}), {"/h", "http://m", "/w"}));
  EXPECT_EQ(argv[0], "/w");
  auto value = [&](const std::string& flag) {
    auto it = std::find(argv.begin(), argv.end(), flag);
    return it == argv.end() || it + 1 == argv.end() ? std::string("absent") : *(it + 1);
  };
  EXPECT_EQ(value("--server"), "127.0.0.1:7071");
  EXPECT_EQ(value("--token-file"), "/t/join");
  EXPECT_EQ(value("--node-name"), "node-3");
  EXPECT_EQ(value("--instance-id"), "i-000003");
  EXPECT_EQ(value("--metadata-url"), "http://m");
  EXPECT_EQ(value("--market"), "spot");
  EXPECT_EQ(value("--provider"), "burst");
  EXPECT_EQ(value("--notice-source"), "aws");
  EXPECT_EQ(value("--resources"), "cpus=96,memory=1099511627776B,gpu=H100:8:85899345920B:simulated");
}

TEST(WorkerCommandTest, AMachineInheritsNoSecrets) {
  EXPECT_THAT(WorkerEnvironment(AnInstance({}), {{"PATH", "/bin"}, {"LANG", "C"}, {"AWS_SECRET_ACCESS_KEY", "s"}}, "cloud/i-000003"),
              ElementsAre("LANG=C", "PATH=/own", "SPILLWAY_PLAYGROUND_INSTANCE=cloud/i-000003", "X=1"));
}

}  // namespace
}  // namespace spillway::playground
