#include "scheduler/auth/token.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "scheduler/rpc/server.h"
#include "tests/support/temporary_folder.h"

namespace spillway::auth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TokenGuard, OnlyTheWholeHeaderOpens) {
  const TokenGuard guard("a-secret-of-some-length");
  EXPECT_OK(guard.Check("Bearer a-secret-of-some-length"));
  for (const char* wrong : {"a-secret-of-some-length", "bearer a-secret-of-some-length", "Bearer a-secret-of-some-lengtH", "Bearer a-secret-of-some-lengt",
                            "Bearer a-secret-of-some-length ", "Basic a-secret-of-some-length", "Bearer "}) {
    EXPECT_THAT(guard.Check(wrong), StatusIs(absl::StatusCode::kUnauthenticated, AllOf(HasSubstr("wrong token"), Not(HasSubstr("secret"))))) << wrong;
  }
  EXPECT_THAT(guard.Check(""), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("no token")));
}

TEST(TokenFile, IsMadeOnceForItsOwnerAlone) {
  TemporaryFolder folder;
  const std::string path = folder.File("user");
  ASSERT_OK_AND_ASSIGN(const std::string token, LoadOrCreateToken(path));
  EXPECT_GE(token.size(), 64u);
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_OK_AND_ASSIGN(const std::string again, LoadOrCreateToken(path));
  EXPECT_EQ(again, token);
  ASSERT_OK_AND_ASSIGN(const std::string other, LoadOrCreateToken(folder.File("worker")));
  EXPECT_NE(other, token);
}

TEST(TokenFile, ThatOthersCanReadOrThatIsTooShortIsRefusedByName) {
  TemporaryFolder folder;
  ASSERT_OK(WriteFileAtomically(folder.File("open"), "0123456789abcdef0123456789abcdef\n", 0644));
  EXPECT_THAT(LoadOrCreateToken(folder.File("open")),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(absl::StrCat("chmod 600 ", folder.File("open")))));
  ASSERT_OK(WriteFileAtomically(folder.File("short"), "hunter2\n", 0600));
  EXPECT_THAT(LoadOrCreateToken(folder.File("short")),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(folder.File("short")), Not(HasSubstr("hunter2")))));
}

TEST(Listening, OnLoopbackOnlyWhileThereIsNoTls) {
  for (const char* good : {"127.0.0.1:7070", "127.1.2.3:0", "localhost:1", "[::1]:7070"}) EXPECT_OK(rpc::CheckLoopback(good));
  for (const char* bad : {"0.0.0.0:7070", "192.168.1.2:7070", "[::]:7070", "example.com:7070", "127.evil.example:7070", "128.0.0.1:7070"}) {
    EXPECT_THAT(rpc::CheckLoopback(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("TLS"))) << bad;
  }
  EXPECT_THAT(rpc::CheckLoopback("127.0.0.1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")));
}

}  // namespace
}  // namespace spillway::auth
