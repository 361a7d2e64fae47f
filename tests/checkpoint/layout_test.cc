#include "checkpoint/layout.h"

#include <algorithm>

#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

TEST(Layout, BuildsThePathsOfAnAttemptAndAStep) {
  ASSERT_OK_AND_ASSIGN(const std::string attempt, AttemptDirectory("/store/checkpoints", kCluster, {5, 17, 3}));
  EXPECT_EQ(attempt, std::string("/store/checkpoints/") + kCluster + "/5/17/a3");
  EXPECT_EQ(StepDirectory(attempt, 120), attempt + "/step-000000000120");
  EXPECT_EQ(RankFileName(7), "rank-00007.bin");
}

TEST(Layout, ParsingUndoesBuilding) {
  for (const std::string root : {"/store", "/", "relative/root", ""}) {
    ASSERT_OK_AND_ASSIGN(const std::string attempt, AttemptDirectory(root, kCluster, {9'000'000'000, 0, 12}));
    ASSERT_OK_AND_ASSIGN(const StepPlace place, ParseStepDirectory(StepDirectory(attempt, kStepMax)));
    EXPECT_EQ(place.attempt.root, root);
    EXPECT_EQ(place.attempt.cluster, kCluster);
    EXPECT_EQ(place.attempt.attempt, (AttemptId{9'000'000'000, 0, 12}));
    EXPECT_EQ(place.step, kStepMax);
  }
}

TEST(Layout, NamesSortByStep) {
  std::vector<std::string> names = {StepName(1000), StepName(2), StepName(kStepMax), StepName(0), StepName(999)};
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{StepName(0), StepName(2), StepName(999), StepName(1000), StepName(kStepMax)}));
}

TEST(Layout, HasOneSpellingForEverything) {
  for (const char* name : {"step-120", "step-0000000000120", "step-00000000012x", "step--00000000012", "step-+00000000012", "Step-000000000120",
                           "step-000000000120 ", " step-000000000120", "step-", ""}) {
    EXPECT_THAT(ParseStepName(name), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step-000000000120"))) << name;
  }
  for (const char* name : {"a", "a0", "a01", "a-1", "a+1", "b1", "a1x", "1", "a99999999999999999999"}) EXPECT_FALSE(ParseAttemptName(name).ok()) << name;
  for (const char* name : {"rank-0.bin", "rank-000000.bin", "rank-0000x.bin", "rank-00000.bin.tmp", "rank-00000"}) {
    EXPECT_FALSE(ParseRankFileName(name).ok()) << name;
  }
}

TEST(Layout, RefusesPathsOutsideIt) {
  const std::string c = kCluster;
  for (const std::string& path : {"/r/" + c + "/5/0", "/r/" + c + "/05/0/a1", "/r/" + c + "/0/0/a1", "/r/" + c + "/5/-1/a1", "/r/" + c + "/5/0/a1/x",
                                  "/r/" + c + "/5/../a1", std::string("/r/not-a-uuid/5/0/a1"), "/r/" + c + "/5//a1", std::string("a1"), std::string()}) {
    EXPECT_THAT(ParseAttemptDirectory(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("<cluster uuid>"))) << path;
  }
  EXPECT_FALSE(AttemptDirectory("/r", "../../etc", {5, 0, 1}).ok());
  EXPECT_FALSE(AttemptDirectory("/r", kCluster, {0, 0, 1}).ok());
  EXPECT_FALSE(AttemptDirectory("/r", kCluster, {5, -1, 1}).ok());
  EXPECT_FALSE(AttemptDirectory("/r", kCluster, {5, 0, 0}).ok());
}

TEST(Layout, TakesPathsApart) {
  EXPECT_EQ(ParentOf("/a/b/"), "/a");
  EXPECT_EQ(ParentOf("/a"), "/");
  EXPECT_EQ(ParentOf("a"), ".");
  EXPECT_EQ(NameOf("/a/b//"), "b");
  EXPECT_EQ(NameOf("b"), "b");
}

}  // namespace
}  // namespace spillway::checkpoint
