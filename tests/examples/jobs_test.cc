// The job files people start from bind and validate.
#include <map>

#include "base/files.h"
#include "base/status_matchers.h"
#include "examples/trainer/options.h"
#include "spec/validate.h"
#include "spec/yaml.h"

namespace spillway {
namespace {

TEST(JobFiles, BindValidateAndNameFlagsThatExist) {
  const std::string folder = JoinPath(getenv("SPILLWAY_SOURCE"), "examples/jobs");
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(folder));
  EXPECT_GE(names.size(), 3u);
  for (const std::string& name : names) {
    ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(JoinPath(folder, name)));
    v1::JobSpec spec;
    auto lines = spec::BindJobFile(text, name, &spec);
    ASSERT_OK(lines.status());
    if (!spec.workdir().empty()) spec.set_workdir(JoinPath(folder, spec.workdir()));  // as the client does
    spec::NormalizeJobSpec(&spec);
    EXPECT_EQ(spec::RenderViolations(spec::ValidateJobSpec(spec), *spec.GetDescriptor(), name, *lines), "") << name;
    EXPECT_EQ(spec.name() + ".yaml", name);
    if (spec.command(0) == "python3") {  // a program of ours beside the job files
      EXPECT_TRUE(PathExists(JoinPath(spec.workdir(), spec.command(1)))) << name;
      EXPECT_TRUE(PathExists(JoinPath(JoinPath(spec.workdir(), spec.env().at("PYTHONPATH")), "spillway"))) << name;
      continue;
    }
    ASSERT_EQ(spec.command(0), "spillway-train");
    EXPECT_OK(trainer::ParseOptions({spec.command().begin() + 1, spec.command().end()}).status()) << name;
  }
}

}  // namespace
}  // namespace spillway
