// Written numbers at their edges: what fits exactly is taken and written back, everything else is refused.
#include "spec/scalar.h"

#include "base/status_matchers.h"
#include "spec/signals.h"
#include "spec/yaml.h"

namespace spillway::spec {
namespace {

using ::testing::HasSubstr;

TEST(Scalar, ByteRanges) {
  for (const char* text : {"40GB..", "..80GB", "16GB..40GB", "80GB", "1B..", "1537KB"}) {
    ASSERT_OK_AND_ASSIGN(const ByteRangeValue range, ParseByteRange(text));
    EXPECT_EQ(FormatByteRange(range), text);
  }
  for (const char* text : {"", "..", "0GB..", "1GB...2GB", "1GB..2GB..3GB", "-1GB", "GB"}) EXPECT_FALSE(ParseByteRange(text).ok()) << text;
  for (const char* text : {"80", "80..", "..80", "40GB..80"}) {
    EXPECT_THAT(ParseByteRange(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the unit is missing; write 80GB"))) << text;
  }
}

TEST(Scalar, IntegersAtTheirEdges) {
  v1::AttemptKey key;
  const auto bind = [&](const std::string& value) { return BindYaml("attempt: " + value + "\n", "t", &key).status(); };
  EXPECT_OK(bind("9223372036854775807"));
  EXPECT_EQ(key.attempt(), INT64_MAX);
  EXPECT_OK(bind("-9223372036854775808"));
  EXPECT_EQ(key.attempt(), INT64_MIN);
  EXPECT_THAT(bind("9223372036854775808"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not fit")));
  for (const char* text : {"1_000", "1e3", "+5", "5.", "-", "0o17", "\"1,000\"", "five"}) EXPECT_FALSE(bind(text).ok()) << text;
}

TEST(Scalar, CoresInThousandths) {
  v1::JobSpec spec;
  for (const auto& [text, milli] : {std::pair{"16", 16000}, {"0.5", 500}, {"0.125", 125}, {"2.50", 2500}}) {
    ASSERT_OK(BindSetting(std::string("resources.cpus=") + text, &spec));
    EXPECT_EQ(spec.resources().cpu_milli(), milli) << text;
  }
  EXPECT_FALSE(BindSetting("resources.cpus=-1", &spec).ok());
  EXPECT_FALSE(BindSetting("resources.cpus=two", &spec).ok());
  EXPECT_FALSE(BindSetting("resources.cpus=0", &spec).ok()) << "it would mean the default of 1";
}

TEST(Signals, KnowsTheOnesAProgramCanHandle) {
  EXPECT_EQ(SignalNumber("SIGTERM"), 15);
  EXPECT_EQ(SignalNumber("SIGUSR1"), 10);
  EXPECT_FALSE(SignalNumber("SIGKILL").has_value());
  EXPECT_FALSE(SignalNumber("sigterm").has_value());
  for (const std::string& name : SignalNames()) EXPECT_TRUE(SignalNumber(name).has_value()) << name;
}

}  // namespace
}  // namespace spillway::spec
