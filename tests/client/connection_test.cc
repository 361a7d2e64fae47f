// Where the scheduler is and which token opens it.
#include "client/connection.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <map>

#include "base/files.h"
#include "base/status_matchers.h"

namespace spillway::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/spillway-test-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    home_ = path;
    ASSERT_OK(MakeDirectories(JoinPath(home_, "run")));
    ASSERT_OK(MakeDirectories(JoinPath(home_, "tokens")));
  }
  void TearDown() override { ASSERT_OK(RemoveTree(home_)); }
  absl::StatusOr<Connection> Find(const std::string& flag = "") {
    return FindConnection(flag, home_, [this](const char* name) { return environment_[name]; });
  }
  std::string home_;
  std::map<std::string, std::string> environment_;
};

TEST_F(ConnectionTest, TheServerByFlagEnvironmentHomeDefault) {
  ASSERT_OK_AND_ASSIGN(Connection found, Find());
  EXPECT_EQ(found.server, "127.0.0.1:7070");
  EXPECT_EQ(found.token, "");
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "run/user.port"), "4321\n"));
  ASSERT_OK_AND_ASSIGN(found, Find());
  EXPECT_EQ(found.server, "127.0.0.1:4321");
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "run/user.port"), "127.0.0.2:4321\n"));
  ASSERT_OK_AND_ASSIGN(found, Find());
  EXPECT_EQ(found.server, "127.0.0.2:4321");
  environment_["SPILLWAY_SERVER"] = "a:1";
  ASSERT_OK_AND_ASSIGN(found, Find());
  EXPECT_EQ(found.server, "a:1");
  ASSERT_OK_AND_ASSIGN(found, Find("b:2"));
  EXPECT_EQ(found.server, "b:2");
}

TEST_F(ConnectionTest, AFileThatHoldsNoPortIsNamedWithWhatToDo) {
  const std::string path = JoinPath(home_, "run/user.port");
  for (const char* text : {"", "\n", "garbage", "0", "70707", "-1", "12x", ":4321", "127.0.0.1:", "127.0.0.1:0", "a b:1", "\x01\x02:7", "4321 4322"}) {
    ASSERT_OK(WriteFileAtomically(path, text));
    EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(path), HasSubstr("spillway down"), HasSubstr("--server")))) << text;
    EXPECT_OK(Find("127.0.0.1:9")) << "--server does without it";
  }
}

// A scheduler that is starting anew has no port yet: whoever listens at the default one is somebody else.
TEST_F(ConnectionTest, TheTokenOfAHomeGoesToNobodyElse) {
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "tokens/user"), "home-token\n", 0600));
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr(home_), HasSubstr("spillway up"))));
  ASSERT_OK_AND_ASSIGN(Connection found, Find("127.0.0.1:7070"));
  EXPECT_EQ(found.token, "home-token");
  environment_["SPILLWAY_TOKEN"] = "direct";
  ASSERT_OK_AND_ASSIGN(found, Find());
  EXPECT_EQ(found.server, "127.0.0.1:7070");
}

TEST_F(ConnectionTest, TheTokenByEnvironmentFileHome) {
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "run/user.port"), "4321\n"));
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "tokens/user"), "home-token\n", 0600));
  ASSERT_OK_AND_ASSIGN(Connection found, Find());
  EXPECT_EQ(found.token, "home-token");
  EXPECT_EQ(found.token_source, JoinPath(home_, "tokens/user"));
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "other"), "other-token", 0600));
  environment_["SPILLWAY_TOKEN_FILE"] = JoinPath(home_, "other");
  ASSERT_OK_AND_ASSIGN(found, Find());
  EXPECT_EQ(found.token, "other-token");
  environment_["SPILLWAY_TOKEN"] = "direct";
  ASSERT_OK_AND_ASSIGN(found, Find());
  EXPECT_EQ(found.token, "direct");
  EXPECT_EQ(found.token_source, "SPILLWAY_TOKEN");
}

TEST_F(ConnectionTest, ATokenFileOthersMayReadIsRefused) {
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "run/user.port"), "4321\n"));
  const std::string path = JoinPath(home_, "tokens/user");
  ASSERT_OK(WriteFileAtomically(path, "t\n", 0600));
  for (const mode_t mode : {0640, 0604, 0620, 0644}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("others may use it; run chmod 600 "))) << mode;
  }
  ASSERT_EQ(chmod(path.c_str(), 0400), 0);
  EXPECT_OK(Find());
}

TEST_F(ConnectionTest, ANamedTokenFileMustBeThereAndHoldOne) {
  environment_["SPILLWAY_TOKEN_FILE"] = JoinPath(home_, "missing");
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing")));
  environment_["SPILLWAY_TOKEN_FILE"] = home_;
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no file")));
  environment_["SPILLWAY_TOKEN_FILE"] = JoinPath(home_, "missing");
  ASSERT_OK(WriteFileAtomically(JoinPath(home_, "missing"), " \n", 0600));
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is empty")));
}

TEST_F(ConnectionTest, AFileThatHoldsNoTokenIsNamedWithWhatToDo) {
  const std::string path = JoinPath(home_, "tokens/user");
  const std::vector<std::string> contents = {"",
                                             " \n",
                                             "two words",
                                             "one\ntwo\n",
                                             std::string("a\0b", 3),
                                             "\x7f"
                                             "ELF",
                                             "\xc3\xa4"};
  for (const std::string& text : contents) {
    ASSERT_OK(WriteFileAtomically(path, text, 0600));
    EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(path), HasSubstr("a new one is made")))) << text;
  }
}

TEST(Connection, KnowsWhatCrossesNoNetwork) {
  EXPECT_TRUE(IsLoopback("127.0.0.1:7070"));
  EXPECT_TRUE(IsLoopback("localhost:1"));
  EXPECT_TRUE(IsLoopback("[::1]:1"));
  EXPECT_FALSE(IsLoopback("10.0.0.1:7070"));
  EXPECT_FALSE(IsLoopback("127.0.0.1.example.org:7070"));
  EXPECT_FALSE(IsLoopback("scheduler:7070"));
}

}  // namespace
}  // namespace spillway::client
