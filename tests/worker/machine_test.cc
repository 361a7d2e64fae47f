// What a machine has, detected and declared; the command line.
#include "worker/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "worker/flags.h"

namespace spillway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

devices::Detected FourDevices() {
  devices::Detected detected;
  detected.source = "nvml";
  const int64_t big = 80LL << 30, small = 16LL << 30;
  detected.devices = {
      {0, "H100", "NVIDIA H100", "u0", big}, {1, "T4", "Tesla T4", "u1", small}, {2, "H100", "NVIDIA H100", "u2", big}, {3, "H100", "NVIDIA H100", "u3", big}};
  return detected;
}

absl::StatusOr<Machine> Declared(const std::string& text, const devices::Detected& detected = {}) {
  auto machine = DetectMachine("/tmp", detected);
  if (!machine.ok()) return machine;
  return DeclareMachine(text, *std::move(machine), detected);
}

TEST(Machine, DetectsSomething) {
  ASSERT_OK_AND_ASSIGN(const Machine machine, DetectMachine("/tmp", {}));
  EXPECT_GE(machine.resources.cpu_milli, 1'000);
  EXPECT_GT(machine.resources.memory_bytes, 64LL << 20);
  EXPECT_GT(machine.resources.disk_bytes, 0);
  EXPECT_THAT(machine.resources.accelerators, IsEmpty());
  EXPECT_FALSE(machine.real_accelerators());
}

TEST(Machine, EqualDevicesAreOneEntryAndKeepTheirPlaces) {
  ASSERT_OK_AND_ASSIGN(const Machine machine, DetectMachine("/tmp", FourDevices()));
  EXPECT_THAT(machine.resources.accelerators, ElementsAre(Accelerator{"H100", 3, 80LL << 30, false}, Accelerator{"T4", 1, 16LL << 30, false}));
  EXPECT_THAT(machine.device_indices, ElementsAre(0, 2, 3, 1));
}

TEST(Machine, DeclaresOverWhatIsDetected) {
  ASSERT_OK_AND_ASSIGN(const Machine machine, Declared("cpus=0.5,memory=8GB,disk=50GB,gpu=A100:2:40GB:simulated"));
  EXPECT_EQ(machine.resources.cpu_milli, 500);
  EXPECT_EQ(machine.resources.memory_bytes, 8LL << 30);
  EXPECT_EQ(machine.resources.disk_bytes, 50LL << 30);
  EXPECT_THAT(machine.resources.accelerators, ElementsAre(Accelerator{"A100", 2, 40LL << 30, true}));
  EXPECT_FALSE(machine.real_accelerators());
}

TEST(Machine, RealDevicesMustBeThere) {
  ASSERT_OK_AND_ASSIGN(const Machine machine, Declared("gpu=H100:2:80GB", FourDevices()));
  EXPECT_THAT(machine.device_indices, ElementsAre(0, 2));
  EXPECT_THAT(Declared("gpu=H100:4:80GB", FourDevices()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("lacks 1 of 4 H100")));
  EXPECT_THAT(Declared("gpu=H200:1:80GB", FourDevices()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("it has H100")));
  EXPECT_THAT(Declared("gpu=H100:1:80GB"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(":simulated")));
  ASSERT_OK_AND_ASSIGN(const Machine none, Declared("gpu=none", FourDevices()));
  EXPECT_THAT(none.resources.accelerators, IsEmpty());
  EXPECT_THAT(none.device_indices, IsEmpty());
}

TEST(Machine, WrongDeclarationsAreNamed) {
  EXPECT_THAT(Declared("cpu=2"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean cpus?")));
  EXPECT_THAT(Declared("cpus=1,cpus=2"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cpus is given twice")));
  EXPECT_THAT(Declared("gpu=A\xff:1:1GB:simulated"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("printable ASCII")));
  EXPECT_THAT(Declared("cpus=-1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cpus=-1")));
  EXPECT_THAT(Declared("memory=much"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("memory=much")));
  EXPECT_THAT(Declared("gpu=2"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpu=MODEL:COUNT:MEMORY")));
  EXPECT_THAT(Declared("gpu=A:0:1GB"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 64")));
  EXPECT_THAT(Declared("gpu=A:1:1GB:simulatd"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'simulated'")));
  EXPECT_THAT(Declared("gpu=H100:1:80GB,gpu=A:1:1GB:simulated", FourDevices()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not go together")));
}

TEST(Devices, ModelsAreShort) {
  EXPECT_EQ(devices::ModelOf("NVIDIA H100 80GB HBM3"), "H100");
  EXPECT_EQ(devices::ModelOf("NVIDIA H200"), "H200");
  EXPECT_EQ(devices::ModelOf("NVIDIA A100-SXM4-80GB"), "A100");
  EXPECT_EQ(devices::ModelOf("Tesla T4"), "T4");
  EXPECT_EQ(devices::ModelOf("Tesla V100-PCIE-16GB"), "V100");
  EXPECT_EQ(devices::ModelOf("NVIDIA GeForce RTX 4090"), "RTX4090");
  EXPECT_EQ(devices::ModelOf("NVIDIA L40S"), "L40S");
  EXPECT_EQ(devices::ModelOf(""), "unknown");
}

TEST(Devices, AreFoundInProcWithoutTheLibrary) {
  char pattern[] = "/tmp/spillway-devices-test-XXXXXX";
  const std::string root = mkdtemp(pattern);
  ASSERT_OK(MakeDirectories(root + "/0000:3b:00.0"));
  ASSERT_OK(MakeDirectories(root + "/0000:1a:00.0"));
  ASSERT_OK(MakeDirectories(root + "/0000:5e:00.0"));  // says nothing
  ASSERT_OK(WriteFileAtomically(root + "/0000:3b:00.0/information", "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 42\nGPU UUID: \t GPU-2\n"));
  ASSERT_OK(WriteFileAtomically(root + "/0000:1a:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-1\n"));
  ASSERT_OK_AND_ASSIGN(const std::vector<devices::Device> found, devices::DetectByProc(root));
  (void)RemoveTree(root);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].model, "H100");
  EXPECT_EQ(found[0].uuid, "GPU-1");
  EXPECT_EQ(found[1].model, "A100");
  EXPECT_EQ(found[1].index, 1);
  EXPECT_FALSE(devices::DetectByProc(root).ok());
}

TEST(Devices, NvmlIsAskedAndASilentDeviceLeftOut) {
  ASSERT_OK_AND_ASSIGN(const std::vector<devices::Device> found, devices::DetectByNvml(FAKE_NVML));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].model, "H100");
  EXPECT_EQ(found[0].memory_bytes, 80LL << 30);
  EXPECT_EQ(found[1].model, "A100");
  EXPECT_EQ(found[1].index, 2);  // the one between does not answer, and keeps its index
  EXPECT_EQ(found[1].uuid, "GPU-2");
}

TEST(Devices, ALibraryThatIsNotThereOrIsNotNvmlIsSaid) {
  EXPECT_THAT(devices::DetectByNvml("libno-such-thing.so.1"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("libno-such-thing")));
  EXPECT_THAT(devices::DetectByNvml("libc.so.6"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lacks functions")));
}

absl::StatusOr<Flags> Parsed(const std::vector<std::string>& arguments) { return ParseFlags(arguments, "/nowhere/.spillway", "box"); }

TEST(Flags, HaveDefaults) {
  ASSERT_OK_AND_ASSIGN(const Flags flags, Parsed({}));
  EXPECT_EQ(flags.home, "/nowhere/.spillway/nodes/box");
  EXPECT_EQ(flags.server, "127.0.0.1:7071");
  EXPECT_EQ(flags.token_file, "");
  EXPECT_EQ(flags.node_name, "box");
  EXPECT_EQ(flags.provider, "static");
  EXPECT_EQ(flags.market, Market::kReserved);
  EXPECT_EQ(flags.node_lease_ms, 0);
  EXPECT_EQ(flags.notice_source, "none");
  EXPECT_EQ(flags.containment, "auto");
  EXPECT_EQ(flags.disk_quota, "auto");
  EXPECT_EQ(flags.pids_max, 32'768);
}

TEST(Flags, AreReadInBothForms) {
  ASSERT_OK_AND_ASSIGN(const Flags flags, Parsed({"--home=/h", "--server", "s:1", "--token-file=/t", "--node-name", "n", "--provider", "playground",
                                                  "--instance-id=i", "--market", "spot", "--zone=z", "--region=r", "--resources", "cpus=1",
                                                  "--notice-source=aws", "--metadata-url=http://127.0.0.1:9/x", "--max-lifetime=2h", "--stop-jobs-on-exit"}));
  EXPECT_EQ(flags.home + flags.server + flags.token_file + flags.node_name + flags.provider + flags.instance_id + flags.zone + flags.region,
            "/hs:1/tnplaygroundizr");
  EXPECT_EQ(flags.market, Market::kSpot);
  EXPECT_EQ(flags.max_lifetime_ms, 7'200'000);
  EXPECT_TRUE(flags.stop_jobs_on_exit);
  EXPECT_EQ(flags.node_lease_ms, 1'800'000);  // somebody pays for it
  EXPECT_EQ(flags.notice_every_ms, 200);
  EXPECT_EQ(flags.notice_margin_ms, 300);
}

TEST(Flags, WrongOnesAreNamed) {
  EXPECT_THAT(Parsed({"--nod-name", "x"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean --node-name?")));
  EXPECT_THAT(Parsed({"--home"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a value")));
  EXPECT_THAT(Parsed({"--stop-jobs-on-exit=yes"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes no value")));
  EXPECT_THAT(Parsed({"--server", "here"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")));
  EXPECT_THAT(Parsed({"--market", "spott"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SPOT")));
  EXPECT_THAT(Parsed({"--node-name", "a b"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--node-name")));
  EXPECT_THAT(Parsed({"--max-lifetime", "90"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--max-lifetime")));
  EXPECT_THAT(Parsed({"--notice-source", "azur"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean azure?")));
  EXPECT_THAT(Parsed({"--containment", "cgroups"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean cgroup?")));
  EXPECT_THAT(Parsed({"--disk-quota", "watched"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("auto, mount, watch")));
  for (const char* number : {"7", "32769", "64k", "-1"}) {
    EXPECT_THAT(Parsed({"--processes", number}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a number from 8 to 32768")));
  }
  EXPECT_EQ(Parsed({"--processes", "64"})->pids_max, 64);
  EXPECT_THAT(Parsed({"--notice-source", "file"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--metadata-url")));
  EXPECT_THAT(Parsed({"--metadata-url", "http://x"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--notice-source")));
}

}  // namespace
}  // namespace spillway::worker
