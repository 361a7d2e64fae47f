// What an attempt's folder may hold: looked at, and where this machine allows it a file system of that size.
#include "worker/disk_quota.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "worker/disk_watch.h"

namespace spillway::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMib = 1 << 20;
const AttemptId kA{1, 0, 1};

class DiskQuota : public ::testing::Test {
 protected:
  DiskQuota() { EXPECT_OK(MakeDirectories(folder_, 0755)); }
  ~DiskQuota() override { EXPECT_OK(TakeDiskBack(folder_)); }

  // How many bytes could be written.
  int64_t Write(const std::string& name, int64_t bytes) {
    const int fd = open(JoinPath(folder_, name).c_str(), O_WRONLY | O_CREAT, 0644);
    const std::string block(1 << 16, 'x');
    int64_t written = 0;
    while (written < bytes) {
      const ssize_t n = write(fd, block.data(), block.size());
      if (n <= 0) break;
      written += n;
    }
    close(fd);
    return written;
  }

  TemporaryFolder root_;
  const std::string folder_ = JoinPath(root_.path(), "1.0@1");
};

TEST_F(DiskQuota, AFolderWithoutOneIsNeverFull) {
  EXPECT_FALSE(HasDiskQuota(folder_));
  Write("a", kMib);
  ASSERT_OK_AND_ASSIGN(const DiskUse use, LookAtDisk(folder_));
  EXPECT_EQ(use.limit_bytes, 0);
  EXPECT_FALSE(use.full);
}

TEST_F(DiskQuota, WhatIsHeldIsCountedOnceAndInFoldersToo) {
  ASSERT_OK(GiveDisk(folder_, 2 * kMib, false));
  EXPECT_TRUE(HasDiskQuota(folder_));
  Write("a", kMib);
  ASSERT_EQ(link(JoinPath(folder_, "a").c_str(), JoinPath(folder_, "b").c_str()), 0);
  ASSERT_EQ(symlink("/usr", JoinPath(folder_, "away").c_str()), 0);
  ASSERT_OK_AND_ASSIGN(DiskUse use, LookAtDisk(folder_));
  EXPECT_EQ(use.limit_bytes, 2 * kMib);
  EXPECT_GE(use.used_bytes, kMib);
  EXPECT_FALSE(use.full) << use.used_bytes;
  ASSERT_OK(MakeDirectories(JoinPath(folder_, "deep/er"), 0755));
  Write("deep/er/c", kMib);
  ASSERT_OK_AND_ASSIGN(use, LookAtDisk(folder_));
  EXPECT_TRUE(use.full) << use.used_bytes;
  EXPECT_FALSE(use.mounted);
}

TEST_F(DiskQuota, AQuotaThatMakesNoSenseIsSaid) {
  ASSERT_OK(WriteFileAtomically(folder_ + ".quota", "much\n"));
  EXPECT_THAT(LookAtDisk(folder_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(".quota")));
}

TEST_F(DiskQuota, TheWatchSaysItOnceAndRemembers) {
  std::vector<std::string> said;
  DiskWatch watch([&](const AttemptId& attempt, std::string detail) { said.push_back(absl::StrCat(attempt.ToString(), ": ", detail)); });
  ASSERT_OK(GiveDisk(folder_, kMib, false));
  watch.Add(kA, folder_);
  EXPECT_GT(watch.LookAtAll(), 0);
  EXPECT_THAT(said, IsEmpty());
  Write("a", 2 * kMib);
  watch.LookAtAll();
  watch.LookAtAll();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("1.0@1: its folder holds"));
  // What it held when it was killed counts, also when its last act was to tidy up.
  unlink(JoinPath(folder_, "a").c_str());
  bool own = false;
  EXPECT_THAT(watch.WhatIsFull(kA, folder_, "", &own), HasSubstr("(resources.disk) is full"));
  EXPECT_TRUE(own);
  watch.Remove(kA);
  EXPECT_EQ(watch.WhatIsFull(kA, folder_, folder_, &own), "");
  EXPECT_FALSE(own);
}

TEST_F(DiskQuota, AFileSystemOfItsOwnWhereThatIsAllowed) {
  const DiskLimits limits = ProbeDiskLimits(root_.path());
  if (!limits.mounts) {
    EXPECT_NE(limits.because, "");
    EXPECT_FALSE(GiveDisk(folder_, 8 * kMib, true).ok());
    return;
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
  ASSERT_OK(GiveDisk(folder_, 8 * kMib, true));
  ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(folder_));
  EXPECT_THAT(names, IsEmpty());
  struct stat info;
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0711u);
  EXPECT_GE(Write("a", 7 * kMib), 7 * kMib);
  ASSERT_OK_AND_ASSIGN(DiskUse use, LookAtDisk(folder_));
  EXPECT_TRUE(use.mounted);
  EXPECT_FALSE(use.full);
  EXPECT_LT(Write("b", 64 * kMib), 8 * kMib);
  ASSERT_OK_AND_ASSIGN(use, LookAtDisk(folder_));
  EXPECT_TRUE(use.full);
  ASSERT_OK(TakeDiskBack(folder_));
  EXPECT_FALSE(PathExists(JoinPath(folder_, "a")));
  ASSERT_OK_AND_ASSIGN(const auto left, ListDirectory(root_.path()));
  EXPECT_THAT(left, ::testing::ElementsAre("1.0@1"));
  EXPECT_OK(TakeDiskBack(folder_)) << "once more is no error";
}

}  // namespace
}  // namespace spillway::worker
