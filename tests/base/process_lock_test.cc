#include "base/process_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace spillway {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class ProcessLock : public ::testing::Test {
 protected:
  absl::StatusOr<int> Lock() const { return LockFile(path_, "somebody else is here"); }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("lock");
};

TEST_F(ProcessLock, WhoeverHasItIsNamed) {
  ASSERT_OK_AND_ASSIGN(const int held, Lock());
  EXPECT_THAT(Lock(), StatusIs(absl::StatusCode::kFailedPrecondition, absl::StrCat("somebody else is here (process ", getpid(), ")")));
  close(held);
  EXPECT_OK(Lock());
}

TEST_F(ProcessLock, ALongerNameOfAnEarlierHolderLeavesNothing) {
  ASSERT_OK(WriteFileAtomically(path_, "1234567890 12345678901234567890 and more\n"));
  ASSERT_OK(Lock());
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(path_));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(getpid(), " ")));
  EXPECT_THAT(text, Not(HasSubstr("more")));
}

TEST_F(ProcessLock, AFileThatCannotBeMadeIsSaid) {
  EXPECT_THAT(LockFile(folder_.File("absent/lock"), "taken"), StatusIs(absl::StatusCode::kNotFound, EndsWith("No such file or directory")));
}

// Killed between the fork and the exec of a child, the holder leaves its descriptor with the child for a moment.
TEST_F(ProcessLock, WhatAKilledHolderLeftToItsChildIsWaitedFor) {
  int hold[2], taken[2];
  ASSERT_EQ(pipe(hold), 0);
  ASSERT_EQ(pipe(taken), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    close(hold[1]);
    const absl::StatusOr<int> fd = LockFile(path_, "taken");
    char byte = 0;
    if (fork() == 0) _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);  // until the test closes its end
    _exit(fd.ok() && write(taken[1], "x", 1) == 1 ? 0 : 1);
  }
  close(hold[0]);
  close(taken[1]);
  int status = -1;
  ASSERT_EQ(waitpid(holder, &status, 0), holder);
  ASSERT_EQ(status, 0);
  char byte = 0;
  ASSERT_EQ(read(taken[0], &byte, 1), 1);
  close(taken[0]);
  std::future<absl::StatusOr<int>> next = std::async(std::launch::async, [this] { return Lock(); });
  EXPECT_EQ(next.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "the child has it still";
  close(hold[1]);
  EXPECT_OK(next.get());
}

}  // namespace
}  // namespace spillway
