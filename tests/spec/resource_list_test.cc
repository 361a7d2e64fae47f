// What a node declares on the command line: every form, and every refusal with the part and the way out.
#include "spec/resource_list.h"

#include "base/status_matchers.h"

namespace spillway::spec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ResourceList, EveryForm) {
  ASSERT_OK_AND_ASSIGN(const ResourceList list, ParseResourceList("cpus=2.5,memory=8GB,disk=50GB,gpu=H100:2:80GB:simulated,gpu=A100:1:40GB:simulated"));
  EXPECT_EQ(list.cpu_milli, 2'500);
  EXPECT_EQ(list.memory_bytes, 8LL << 30);
  EXPECT_EQ(list.disk_bytes, 50LL << 30);
  ASSERT_EQ(list.gpus.size(), 2u);
  EXPECT_EQ(list.gpus[0].model, "H100");
  EXPECT_EQ(list.gpus[0].count, 2);
  EXPECT_EQ(list.gpus[0].memory_bytes, 80LL << 30);
  EXPECT_TRUE(list.gpus[0].simulated);
  ASSERT_OK_AND_ASSIGN(const ResourceList none, ParseResourceList("gpu=none"));
  EXPECT_TRUE(none.gpu_named && none.gpus.empty());
  EXPECT_FALSE(none.cpu_milli.has_value() || none.memory_bytes.has_value() || none.disk_bytes.has_value());
  ASSERT_OK_AND_ASSIGN(const ResourceList least, ParseResourceList("cpus=0.001,memory=1MB,disk=0,gpu=x:1:0"));
  EXPECT_EQ(least.cpu_milli, 1);
  EXPECT_EQ(least.disk_bytes, 0);
}

TEST(ResourceList, RefusalsNameThePartAndTheWayOut) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"cpu=2", "'cpu=2': no resource is called 'cpu'; did you mean cpus? (cpus, memory, disk, gpu)"},
      {"cpus=1,cpus=2", "'cpus=2': cpus is given twice"},
      {"memory=1GB,disk=1GB,memory=1GB", "'memory=1GB': memory is given twice"},
      {"disk=1GB,disk=1GB", "disk is given twice"},
      {"cpus=0", "a node without cores runs nothing; the least is cpus=0.001"},
      {"cpus=0.0001", "finer than a thousandth of a core; the least is cpus=0.001"},
      {"cpus=-1", "write a number of cores, such as 16 or 0.5"},
      {"cpus=1e3", "write a number of cores"},
      {"cpus=nan", "write a number of cores"},
      {"cpus=100001", "write a number of cores"},
      {"cpus", "'cpus': write a number of cores"},
      {"memory=0", "0B is less than 1MB; write the unit, such as 512MB or 8GB, or leave it out"},
      {"memory=8", "the unit is missing; write 8GB"},
      {"memory=8B", "8B is less than 1MB; write the unit"},
      {"memory=8gb", "'memory=8gb'"},
      {"disk=5", "the unit is missing; write 5GB"},
      {"gpu=2", "write gpu=MODEL:COUNT:MEMORY"},
      {"gpu=H100:0:80GB", "the count must be 1 to 64"},
      {"gpu=H100:65:80GB", "the count must be 1 to 64"},
      {"gpu=H100:1:80", "the unit is missing; write 80GB"},
      {"gpu=H100:1:80GB:real", "only 'simulated' may stand"},
      {"gpu=H100:1:80GB,gpu=A100:1:40GB:simulated", "do not go together"},
      {"gpu=none,gpu=A100:1:40GB", "gpu=none stands alone"},
      {"gpu=A100:1:40GB,gpu=none", "gpu=none stands alone"},
      {"gpu=none,gpu=none", "gpu=none stands alone"},
      {"gpu=H\xff:1:80GB", "'gpu=H\\xff:1:80GB': a model is printable ASCII without spaces"},
      {"gpu=H 100:1:80GB", "a model is printable ASCII"},
      {"gpu=" + std::string(200, 'x') + ":1:80GB", "at most 128 bytes"},
      {"cpus=1,", "a part of the list is empty"},
      {"", "the list is empty"}};
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(ParseResourceList(text), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("--resources: "), HasSubstr(words)))) << text;
  }
  EXPECT_THAT(ParseResourceList("cpu=2", "/home/x/resources"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/home/x/resources: 'cpu=2'")));
}

}  // namespace
}  // namespace spillway::spec
