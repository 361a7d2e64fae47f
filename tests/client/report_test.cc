// `spillway report` against a real datagram socket, as the supervisor makes one.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/client/fake_api.h"

namespace spillway::client {
namespace {

using ::testing::HasSubstr;

class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/spillway-test-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    folder_ = path;
    const std::string socket_path = JoinPath(folder_, "s");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ASSERT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    cli_.environment["SPILLWAY_SOCKET"] = socket_path;
    cli_.connect_error = absl::UnavailableError("report must not need the scheduler");
  }
  void TearDown() override {
    close(fd_);
    ASSERT_OK(RemoveTree(folder_));
  }
  std::string Received() {
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
    return n < 0 ? "nothing" : std::string(buffer, static_cast<size_t>(n));
  }
  std::string folder_;
  int fd_ = -1;
  Cli cli_;
};

TEST_F(ReportTest, SendsOneObjectAMessage) {
  EXPECT_EQ(cli_.Run({"report", "progress", "--step", "5", "--total", "10", "--metric", "loss=1.9", "--metric", "acc=-2e-1"}), 0) << cli_.err;
  EXPECT_EQ(Received(), R"({"metrics":{"acc":-0.2,"loss":1.9},"step":5,"total":10,"type":"progress"})");
  EXPECT_EQ(cli_.Run({"report", "progress", "--step", "0"}), 0);
  EXPECT_EQ(Received(), R"({"step":0,"type":"progress"})");
  EXPECT_EQ(cli_.Run({"report", "completed"}), 0);
  EXPECT_EQ(Received(), R"({"type":"completed"})");
  EXPECT_EQ(Received(), "nothing");
}

TEST_F(ReportTest, RefusesWhatMakesNoSense) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"report", "progress"},
                                                {"report", "progres", "--step", "1"},
                                                {"report", "progress", "--step", "1", "--total", "0"},
                                                {"report", "progress", "--step", "1", "--metric", "loss"},
                                                {"report", "progress", "--step", "1", "--metric", "loss=nan"},
                                                {"report", "completed", "--step", "1"}}) {
    EXPECT_EQ(cli_.Run(words), 2) << words.back();
  }
  EXPECT_EQ(Received(), "nothing");
  std::vector<std::string> words = {"report", "progress", "--step", "1", "--metric", std::string(20'000, 'x') + "=1"};
  EXPECT_EQ(cli_.Run(words), 2);
  EXPECT_THAT(cli_.err, HasSubstr("the most is 16384"));
}

TEST_F(ReportTest, SaysWhenThereIsNoJob) {
  cli_.environment.erase("SPILLWAY_SOCKET");
  EXPECT_EQ(cli_.Run({"report", "completed"}), 2);
  EXPECT_EQ(cli_.err, "spillway: SPILLWAY_SOCKET is not set: `report` is for use inside a job\n");
  cli_.environment["SPILLWAY_SOCKET"] = JoinPath(folder_, "gone");
  EXPECT_EQ(cli_.Run({"report", "completed"}), 5);
  EXPECT_THAT(cli_.err, HasSubstr("the attempt is over"));
}

}  // namespace
}  // namespace spillway::client
