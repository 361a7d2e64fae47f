// Results that cannot be written are an error; a reader that has gone is not.
#include "client/output.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <ostream>

#include "base/files.h"
#include "base/status_matchers.h"

namespace spillway::client {
namespace {

using ::testing::HasSubstr;

TEST(DescriptorBuffer, EverythingArrivesInOrder) {
  char path[] = "/tmp/spillway-output-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  DescriptorBuffer buffer(fd);
  std::ostream out(&buffer);
  std::string expected;
  for (int i = 0; i < 10'000; ++i) {
    out << "line " << i << '\n';
    expected += "line " + std::to_string(i) + "\n";
    if (i % 1000 == 0) out << std::flush;
  }
  const std::string block(100'000, 'x');
  out << block << std::flush;
  EXPECT_TRUE(out.good());
  EXPECT_OK(buffer.status());
  ASSERT_OK_AND_ASSIGN(const std::string written, ReadFile(path));
  EXPECT_EQ(written, expected + block);
  close(fd);
  unlink(path);
}

TEST(DescriptorBuffer, AFullDeviceIsSaid) {
  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  DescriptorBuffer buffer(fd);
  std::ostream out(&buffer);
  out << "a little";
  EXPECT_OK(buffer.status()) << "nothing was tried yet";
  out.flush();
  EXPECT_FALSE(out.good());
  EXPECT_THAT(buffer.status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the output could not be written: No space left on device")));
  close(fd);
}

TEST(DescriptorBuffer, AClosedDescriptorIsSaid) {
  const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  close(fd);
  DescriptorBuffer buffer(fd);
  std::ostream(&buffer) << "text" << std::flush;
  EXPECT_FALSE(buffer.status().ok());
}

TEST(DescriptorBuffer, AReaderThatHasGoneEndsTheOutputQuietly) {
  signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  DescriptorBuffer buffer(ends[1]);
  std::ostream out(&buffer);
  out << "text" << std::flush;
  EXPECT_FALSE(out.good());
  EXPECT_OK(buffer.status());
  close(ends[1]);
}

}  // namespace
}  // namespace spillway::client
