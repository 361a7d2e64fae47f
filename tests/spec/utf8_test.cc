// Which text is UTF-8, and where in a message text is that is not.
#include "spec/utf8.h"

#include "base/status_matchers.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::spec {
namespace {

using ::testing::IsEmpty;

TEST(Utf8, WhatIsAndWhatIsNot) {
  for (const char* good : {"", "abc", "\xc3\xa9", "\xe4\xb8\xad\xe6\x96\x87", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  EXPECT_TRUE(IsUtf8(absl::string_view("a\0b", 3)));
  const std::vector<std::pair<std::string, size_t>> bad = {
      {"\xff", 0},    {"ab\x80", 2}, {"\xc3", 0}, {"\xc0\xaf", 0}, {"\xe0\x80\xaf", 0}, {"\xed\xa0\x80", 0}, {"x\xf4\x90\x80\x80", 1}, {"\xf0\x8f\xbf\xbf", 0},
      {"\xe4\xb8", 0}};
  for (const auto& [text, at] : bad) EXPECT_EQ(FirstBadUtf8(text), at) << at;
}

TEST(Utf8, EveryTextOfAMessageIsLookedAt) {
  v1::JobSpec spec;
  spec.set_name("fine");
  spec.add_command("fine");
  (*spec.mutable_env())["A"] = "fine";
  EXPECT_THAT(Utf8Violations(spec), IsEmpty());
  spec.add_command("\xff");
  (*spec.mutable_env())["B"] = "x\xfe";
  (*spec.mutable_env())["C\xfd"] = "fine";
  spec.set_workdir("/caf\xe9");
  spec.mutable_resources()->mutable_gpu()->add_model("H\xfc");
  std::vector<std::string> paths;
  for (const Violation& violation : Utf8Violations(spec)) {
    paths.push_back(violation.field_path);
    EXPECT_THAT(violation.message, ::testing::HasSubstr("is not UTF-8 text"));
  }
  EXPECT_THAT(paths, ::testing::UnorderedElementsAre("command[1]", "env.B", "env", "workdir", "resources.gpu.model[0]"));
}

}  // namespace
}  // namespace spillway::spec
