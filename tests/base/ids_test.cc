#include "base/ids.h"

#include <set>

#include "base/status_matchers.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(IdsTest, WrittenFormsParseBack) {
  EXPECT_EQ((TaskId{5, 17}.ToString()), "5.17");
  EXPECT_EQ((AttemptId{5, 17, 3}.ToString()), "5.17@3");
  ASSERT_OK_AND_ASSIGN(const TaskId task, ParseTaskId("5.17"));
  EXPECT_EQ(task, (TaskId{5, 17}));
  ASSERT_OK_AND_ASSIGN(const AttemptId attempt, ParseAttemptId("5.17@3"));
  EXPECT_EQ(attempt, (AttemptId{5, 17, 3}));
  EXPECT_EQ(attempt.task(), task);
}

TEST(IdsTest, ShortFormsMeanTheFirstTaskAndNoAttempt) {
  ASSERT_OK_AND_ASSIGN(const TaskId task, ParseTaskId("5"));
  EXPECT_EQ(task, (TaskId{5, 0}));
  ASSERT_OK_AND_ASSIGN(const AttemptId attempt, ParseAttemptId("5.17"));
  EXPECT_EQ(attempt, (AttemptId{5, 17, 0}));
  ASSERT_OK_AND_ASSIGN(const AttemptId of_job, ParseAttemptId("5@2"));
  EXPECT_EQ(of_job, (AttemptId{5, 0, 2}));
}

TEST(IdsTest, TheLargestNumbersFit) {
  ASSERT_OK_AND_ASSIGN(const AttemptId id, ParseAttemptId("9223372036854775807.9223372036854775807@9223372036854775807"));
  EXPECT_EQ(id.job, INT64_MAX);
  EXPECT_EQ(id.index, INT64_MAX);
  EXPECT_EQ(id.number, INT64_MAX);
}

TEST(IdsTest, AnythingElseIsRefused) {
  for (const char* text : {"",
                           ".",
                           "@",
                           "0",
                           "0.1",
                           "-1",
                           "+1",
                           " 5",
                           "5 ",
                           "05",
                           "5.",
                           "5.01",
                           ".5",
                           "5.1.2",
                           "5.1@",
                           "5.1@1@2",
                           "x",
                           "5x",
                           "9223372036854775808",
                           "99999999999999999999",
                           "5.-1",
                           "1e3",
                           "0x5"}) {
    EXPECT_FALSE(ParseTaskId(text).ok()) << text;
    EXPECT_FALSE(ParseAttemptId(text).ok()) << text;
  }
  EXPECT_FALSE(ParseAttemptId("5.1@0").ok());  // 0 means none: it is never written
  EXPECT_FALSE(ParseAttemptId("5.1@01").ok());
  EXPECT_FALSE(ParseTaskId("5.1@1").ok());  // an attempt is not a task
}

TEST(IdsTest, TheErrorShowsTheTextAndTheForm) {
  EXPECT_THAT(ParseTaskId("5.\x1bq"), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'5.\\x1bq'"), HasSubstr("5.17"))));
  EXPECT_THAT(ParseAttemptId("five"), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'five'"), HasSubstr("5.17@3"))));
}

TEST(IdsTest, UuidsAreVersion4AndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = NewUuid();
    ASSERT_EQ(uuid.size(), 36u);
    for (size_t at = 0; at < uuid.size(); ++at) {
      const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
      const char c = uuid[at];
      ASSERT_TRUE(dash ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) << uuid;
    }
    ASSERT_EQ(uuid[14], '4') << uuid;
    ASSERT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
    ASSERT_TRUE(seen.insert(uuid).second) << uuid;
  }
}

TEST(IdsTest, TokensAre64HexDigitsAndDiffer) {
  const std::string token = NewToken();
  EXPECT_EQ(token.size(), 64u);
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(token, NewToken());
}

}  // namespace
}  // namespace spillway
