#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "base/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

mode_t ModeOf(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

// Sets an environment variable and puts the old value back.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, std::optional<std::string> value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    Set(value);
  }
  ~ScopedEnv() { Set(old_); }

 private:
  void Set(const std::optional<std::string>& value) {
    if (value.has_value()) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(ErrnoStatusTest, CodesTellCallersWhatToDo) {
  const std::pair<int, absl::StatusCode> kCases[] = {{ENOENT, absl::StatusCode::kNotFound},
                                                     {EEXIST, absl::StatusCode::kAlreadyExists},
                                                     {EACCES, absl::StatusCode::kPermissionDenied},
                                                     {EPERM, absl::StatusCode::kPermissionDenied},
                                                     {ENOSPC, absl::StatusCode::kResourceExhausted},
                                                     {EDQUOT, absl::StatusCode::kResourceExhausted},
                                                     {EINVAL, absl::StatusCode::kInvalidArgument},
                                                     {ENAMETOOLONG, absl::StatusCode::kInvalidArgument},
                                                     {EAGAIN, absl::StatusCode::kUnavailable},
                                                     {ECONNREFUSED, absl::StatusCode::kUnavailable},
                                                     {ETIMEDOUT, absl::StatusCode::kUnavailable},
                                                     {EIO, absl::StatusCode::kInternal},
                                                     {99999, absl::StatusCode::kInternal}};
  for (const auto& [error, code] : kCases) EXPECT_EQ(ErrnoStatus(error, "x").code(), code) << error;
  EXPECT_EQ(ErrnoStatus(ENOSPC, "cannot write /a").message(), "cannot write /a: No space left on device");
  EXPECT_EQ(ErrnoStatus(99999, "x").message(), "x: errno 99999");
}

class FilesTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(FilesTest, WhatIsWrittenIsRead) {
  const std::string path = folder_.File("a");
  const std::string content = std::string("two\nlines\0", 10) + std::string(200'000, 'x');
  for (const auto write : {&WriteFileDurably, &WriteFileAtomically}) {
    ASSERT_OK(write(path, content, 0600));
    EXPECT_EQ(ModeOf(path), 0600u);
    ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(path));
    EXPECT_EQ(read, content);
    ASSERT_OK(write(path, "", 0644));
    EXPECT_EQ(ModeOf(path), 0644u);
    ASSERT_OK_AND_ASSIGN(const std::string empty, ReadFile(path));
    EXPECT_EQ(empty, "");
  }
  ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(folder_.path()));
  EXPECT_THAT(names, ElementsAre("a"));  // no temporary file stays
}

TEST_F(FilesTest, ReadingStopsAtTheLimit) {
  const std::string path = folder_.File("a");
  ASSERT_OK(WriteFileAtomically(path, std::string(10'000, 'x')));
  ASSERT_OK_AND_ASSIGN(const std::string exact, ReadFile(path, 10'000));
  EXPECT_EQ(exact.size(), 10'000u);
  EXPECT_THAT(ReadFile(path, 9'999), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is larger than 9999 bytes")));
  EXPECT_THAT(ReadFile("/dev/zero", 100'000), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/dev/zero is larger")));
}

TEST_F(FilesTest, FilesThatSayTheyAreEmptyAreReadToTheirEnd) {
  ASSERT_OK_AND_ASSIGN(const std::string status, ReadFile("/proc/self/status"));
  EXPECT_THAT(status, HasSubstr("VmRSS"));
}

TEST_F(FilesTest, ReadingErrorsNameThePath) {
  EXPECT_THAT(ReadFile(folder_.File("absent")), StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_.File("absent"))));
  EXPECT_THAT(ReadFile(folder_.path()), StatusIs(absl::StatusCode::kInternal, HasSubstr("Is a directory")));
}

TEST_F(FilesTest, AFailedWriteKeepsTheOldContentAndLeavesNoFile) {
  const std::string path = folder_.File("a");
  ASSERT_OK(WriteFileDurably(path, "old"));
  // A limit on the file size makes write(2) fail half-way, as a full disk does.
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteFileDurably(path, std::string(100'000, 'n'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, old_handler);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr(path)));
  ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(path));
  EXPECT_EQ(content, "old");
  ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(folder_.path()));
  EXPECT_THAT(names, ElementsAre("a"));
}

TEST_F(FilesTest, WritingToAnImpossiblePlaceIsAnError) {
  EXPECT_THAT(WriteFileDurably(folder_.File("no/such"), "x"), StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder_.File("no"))));
  ASSERT_OK(MakeDirectories(folder_.File("d")));
  EXPECT_FALSE(WriteFileDurably(folder_.File("d"), "x").ok());
  ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(folder_.path()));
  EXPECT_THAT(names, ElementsAre("d"));
}

TEST_F(FilesTest, FoldersAreMadeOnTheWay) {
  const std::string deep = folder_.File("a/b//c/");
  ASSERT_OK(MakeDirectories(deep, 0700));
  EXPECT_EQ(ModeOf(folder_.File("a")), 0700u);
  EXPECT_EQ(ModeOf(folder_.File("a/b/c")), 0700u);
  ASSERT_OK(MakeDirectories(deep));  // again
  ASSERT_OK(MakeDirectories("/"));
  ASSERT_OK(WriteFileAtomically(folder_.File("file"), ""));
  EXPECT_THAT(MakeDirectories(folder_.File("file")), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("file")));
  EXPECT_FALSE(MakeDirectories(folder_.File("file/x")).ok());
  EXPECT_FALSE(MakeDirectories("").ok());
}

TEST_F(FilesTest, ListingIsSortedAndComplete) {
  for (const char* name : {"b", "a", ".hidden", "c"}) ASSERT_OK(WriteFileAtomically(folder_.File(name), ""));
  ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(folder_.path()));
  EXPECT_THAT(names, ElementsAre(".hidden", "a", "b", "c"));
  EXPECT_THAT(ListDirectory(folder_.File("absent")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

TEST_F(FilesTest, RemovingATreeNeverFollowsLinks) {
  ASSERT_OK(MakeDirectories(folder_.File("keep")));
  ASSERT_OK(WriteFileAtomically(folder_.File("keep/file"), "precious"));
  ASSERT_OK(MakeDirectories(folder_.File("tree/inner")));
  ASSERT_OK(WriteFileAtomically(folder_.File("tree/inner/x"), ""));
  ASSERT_EQ(symlink(folder_.File("keep").c_str(), folder_.File("tree/inner/link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", folder_.File("tree/dangling").c_str()), 0);
  ASSERT_OK(RemoveTree(folder_.File("tree")));
  ASSERT_EQ(symlink(folder_.File("keep").c_str(), folder_.File("link").c_str()), 0);
  ASSERT_OK(RemoveTree(folder_.File("link/")));  // the link, not what it leads to
  ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(folder_.path()));
  EXPECT_THAT(names, ElementsAre("keep"));
  EXPECT_TRUE(PathExists(folder_.File("keep/file")));
}

TEST_F(FilesTest, RemovingTakesFilesAndWhatIsAbsent) {
  ASSERT_OK(RemoveTree(folder_.File("absent")));
  ASSERT_OK(WriteFileAtomically(folder_.File("file"), ""));
  ASSERT_OK(RemoveTree(folder_.File("file")));
  EXPECT_FALSE(PathExists(folder_.File("file")));
}

TEST_F(FilesTest, AFolderOfFilesGoesInBoundedTimeAndNothingBehindALinkDoes) {
  const std::string folder = folder_.File("values"), outside = folder_.File("outside");
  EXPECT_OK(RemoveFolderOfFiles(folder, 10)) << "absent";
  ASSERT_OK(MakeDirectories(folder, 0700));
  for (const char* name : {"a", "b", "c"}) ASSERT_OK(WriteFileAtomically(JoinPath(folder, name), "x", 0400));
  EXPECT_THAT(RemoveFolderOfFiles(folder, 2), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("more than 2 files")));
  EXPECT_THAT(*ListDirectory(folder), ::testing::SizeIs(1));
  EXPECT_OK(RemoveFolderOfFiles(folder, 10));
  EXPECT_FALSE(PathExists(folder));

  // Another put a folder there: the rest goes all the same.
  ASSERT_OK(MakeDirectories(JoinPath(folder, "inner"), 0700));
  ASSERT_OK(WriteFileAtomically(JoinPath(folder, "a"), "x", 0400));
  EXPECT_THAT(RemoveFolderOfFiles(folder, 10).message(), HasSubstr("inner"));
  EXPECT_THAT(*ListDirectory(folder), ElementsAre("inner"));

  // Or a link in place of the whole.
  ASSERT_OK(MakeDirectories(outside));
  ASSERT_OK(WriteFileAtomically(JoinPath(outside, "kept"), "x"));
  ASSERT_OK(RemoveTree(folder));
  ASSERT_EQ(symlink(outside.c_str(), folder.c_str()), 0);
  EXPECT_FALSE(RemoveFolderOfFiles(folder, 10).ok());
  EXPECT_TRUE(PathExists(JoinPath(outside, "kept")));
}

TEST_F(FilesTest, RemovingTheRootOrAboveIsRefused) {
  for (const char* path : {"", "/", "//", ".", "..", "a/..", "a/./"}) {
    EXPECT_THAT(RemoveTree(path), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("refusing"))) << path;
  }
}

TEST_F(FilesTest, ADeepTreeNeedsFewDescriptors) {
  // Deeper than paths may be long, and than descriptors may be many.
  ASSERT_OK(MakeDirectories(folder_.File("deep")));
  int at = open(folder_.File("deep").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int level = 0; level < 1'500; ++level) {
    ASSERT_EQ(mkdirat(at, "folder", 0755), 0);
    const int file = openat(at, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ASSERT_GE(file, 0);
    close(file);
    const int next = openat(at, "folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_GE(next, 0);
    close(at);
    at = next;
  }
  close(at);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {300, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_OK(RemoveTree(folder_.File("deep")));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(folder_.path()));
  EXPECT_THAT(names, IsEmpty());
}

TEST(PathsTest, Joining) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("a", "/b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(JoinPath("a", ""), "a");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
}

TEST(PathsTest, HomeIsExpandedOnlyWhereItIsMeant) {
  const ScopedEnv home("HOME", "/home/ada");
  EXPECT_EQ(ExpandHome("~/x"), "/home/ada/x");
  EXPECT_EQ(ExpandHome("~"), "/home/ada");
  EXPECT_EQ(ExpandHome("~ada/x"), "~ada/x");
  EXPECT_EQ(ExpandHome("a/~"), "a/~");
  EXPECT_EQ(ExpandHome(""), "");
}

TEST(PathsTest, WithoutHomeTheUserDatabaseKnows) {
  const ScopedEnv home("HOME", std::nullopt);
  EXPECT_EQ(ExpandHome("~/x").front(), '/');
}

TEST(PathsTest, Absolute) {
  EXPECT_EQ(AbsolutePath("/a//b/./c/"), "/a/b/c");
  EXPECT_EQ(AbsolutePath("/a/../b"), "/a/../b");  // a may be a link
  EXPECT_EQ(AbsolutePath("/"), "/");
  const std::string here = AbsolutePath(".");
  EXPECT_EQ(here.front(), '/');
  EXPECT_EQ(AbsolutePath("x/y"), JoinPath(here, "x/y"));
  EXPECT_EQ(AbsolutePath(""), here);
}

TEST(PathsTest, TheHomeOfSpillway) {
  const ScopedEnv home("HOME", "/home/ada");
  {
    const ScopedEnv own("SPILLWAY_HOME", "/srv/spillway");
    EXPECT_EQ(SpillwayHome(), "/srv/spillway");
  }
  {
    const ScopedEnv own("SPILLWAY_HOME", "~/elsewhere");
    EXPECT_EQ(SpillwayHome(), "/home/ada/elsewhere");
  }
  const ScopedEnv own("SPILLWAY_HOME", std::nullopt);
  EXPECT_EQ(SpillwayHome(), "/home/ada/.spillway");
}

}  // namespace
}  // namespace spillway
