// Text for people, to the letter.
#include "client/render.h"

#include "base/status_matchers.h"
#include "spillway/v1/job_service.pb.h"

namespace spillway::client {
namespace {

using ::testing::HasSubstr;

TEST(Render, Durations) {
  for (const auto& [ms, text] : std::vector<std::pair<int64_t, std::string>>{{0, "0s"},
                                                                             {250, "250ms"},
                                                                             {1'000, "1s"},
                                                                             {1'500, "1.5s"},
                                                                             {45'900, "45s"},
                                                                             {125'000, "2m05s"},
                                                                             {4'320'000, "1h12m"},
                                                                             {273'600'000, "3d4h"},
                                                                             {-5'000, "-5s"}}) {
    EXPECT_EQ(HumanDuration(ms), text);
  }
  EXPECT_EQ(HumanAge(10'000, 4'000), "6s");
  EXPECT_EQ(HumanAge(10'000, 0), "");
  EXPECT_EQ(HumanAge(10'000, 20'000), "0s") << "clocks of two machines differ";
}

TEST(Render, Money) {
  for (const auto& [micros, text] : std::vector<std::pair<int64_t, std::string>>{{0, "0.00"},
                                                                                 {1, "<0.0001"},
                                                                                 {3'100, "0.0031"},
                                                                                 {120'000, "0.12"},
                                                                                 {12'340'000, "12.34"},
                                                                                 {1'005'000, "1.01"},
                                                                                 {999'999, "1.00"},
                                                                                 {-1'200'000, "-1.20"}}) {
    EXPECT_EQ(HumanMoney(micros), text);
  }
}

TEST(Render, TimesBarsProgress) {
  EXPECT_EQ(HumanTime(1'750'000'000'123), "2025-06-15 15:06:40Z");
  EXPECT_EQ(HumanTime(0), "");
  EXPECT_EQ(Bar(5, 10, 8), "[####----]");
  EXPECT_EQ(Bar(99, 10, 4), "[####]");
  EXPECT_EQ(Bar(INT64_MAX, INT64_MAX, 4), "[####]");
  EXPECT_EQ(Bar(5, 0, 8), "");
  EXPECT_EQ(HumanProgress(340, 1000), "340/1000 34%");
  EXPECT_EQ(HumanProgress(340, 0), "340");
  EXPECT_EQ(HumanProgress(0, 0), "");
}

TEST(Render, ResourcesAndAttempts) {
  v1::Resources resources;
  EXPECT_EQ(HumanResources(resources), "");
  resources.set_cpu_milli(2'000);
  resources.set_memory_bytes(8LL << 30);
  v1::Accelerator* accelerator = resources.add_accelerators();
  accelerator->set_model("simulated");
  accelerator->set_count(1);
  accelerator->set_memory_bytes(16LL << 30);
  EXPECT_EQ(HumanResources(resources), "2 cpus, 8GB, 1x simulated 16GB");
  resources.set_cpu_milli(500);
  EXPECT_THAT(HumanResources(resources), HasSubstr("0.50 cpus"));
  v1::AttemptKey key;
  EXPECT_EQ(HumanAttempt(key), "");
  key.set_job_id(5);
  EXPECT_EQ(HumanAttempt(key), "5");
  key.set_task_index(17);
  EXPECT_EQ(HumanAttempt(key), "5.17");
  key.set_attempt(3);
  EXPECT_EQ(HumanAttempt(key), "5.17@3");
}

TEST(Render, TablesAreAligned) {
  Table table({">ID", "NAME", "EMPTY", ">COST"});
  table.Add({"5", "bert", "", "1.20"});
  table.Add({"120", "\xe6\xba\xa2\xe6\xb4\xaa", "", "0.03"});
  EXPECT_EQ(table.Render(false), " ID  NAME  COST\n  5  bert  1.20\n120  \xe6\xba\xa2\xe6\xb4\xaa  0.03\n");
}

TEST(Render, ColoursOnlyWhereTheyAreWanted) {
  Table table({"STATE"});
  table.Add({{"FAILED", Colour::kRed}});
  EXPECT_EQ(table.Render(false), "STATE\nFAILED\n");
  EXPECT_EQ(table.Render(true), "\x1b[1mSTATE\x1b[0m\n\x1b[31mFAILED\x1b[0m\n");
  EXPECT_EQ(Paint("x", Colour::kNone, true), "x");
}

TEST(Render, HostileTextCannotReachTheTerminal) {
  Table table({"NAME"});
  table.Add({"a\x1b[2Jb\nc"});
  EXPECT_EQ(table.Render(true).find("\x1b[2J"), std::string::npos);
  EXPECT_THAT(table.Render(false), HasSubstr("\\x1b[2Jb\\x0ac"));
}

TEST(Render, JsonHasTheProtosNamesAndEveryField) {
  v1::ListCheckpointsRequest request;
  request.set_job_id(5);
  EXPECT_EQ(ToJson(request, true), "{\"job_id\":\"5\",\"task_index\":\"0\"}\n");
  EXPECT_EQ(ToJson(request), "{\n \"job_id\": \"5\",\n \"task_index\": \"0\"\n}\n");
}

}  // namespace
}  // namespace spillway::client
