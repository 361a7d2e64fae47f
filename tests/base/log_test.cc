#include "base/log.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogProgram("spillwayd");
    SetLogLevel(LogLevel::kInfo);
  }
  void TearDown() override { SetLogLevel(LogLevel::kInfo); }

  template <typename Body>
  std::string Captured(Body&& body) {
    ::testing::internal::CaptureStderr();
    body();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, ARecordHasTimeLevelProgramPlaceAndMessage) {
  const std::string line = Captured([] { LOG(INFO) << "listening on " << 7070; });
  // 2026-12-01T22:00:00.123Z I spillwayd log_test.cc:12] message
  EXPECT_THAT(line, MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+Z I spillwayd log_test\\.cc:[0-9]+\\] listening on 7070\n"));
  EXPECT_EQ(line.find(" I "), std::string("2026-12-01T22:00:00.123Z").size());  // columns line up
}

TEST_F(LogTest, LevelsBelowTheChosenAreSilent) {
  const auto all = [] {
    LOG(DEBUG) << "d";
    LOG(INFO) << "i";
    LOG(WARNING) << "w";
    LOG(ERROR) << "e";
  };
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  EXPECT_EQ(lines(Captured(all)), 3);
  SetLogLevel(LogLevel::kError);
  const std::string errors = Captured(all);
  EXPECT_EQ(lines(errors), 1);
  EXPECT_THAT(errors, HasSubstr("Z E spillwayd "));
  SetLogLevel(LogLevel::kDebug);
  EXPECT_EQ(lines(Captured(all)), 4);
}

TEST_F(LogTest, HostileTextStaysWithinItsLine) {
  const std::string line = Captured([] { LOG(INFO) << "name\n2026-12-01T22:00:00.123Z I spillwayd forged \x1b[2J"; });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("name\\x0a2026"));
  EXPECT_THAT(line, EndsWith("\\x1b[2J\n"));
}

TEST_F(LogTest, AnEndlessMessageIsCut) {
  const std::string line = Captured([] { LOG(INFO) << std::string(1 << 20, 'x'); });
  EXPECT_LT(line.size(), 20'000u);
  EXPECT_THAT(line, EndsWith("...\n"));
}

TEST_F(LogTest, LoggingLeavesErrnoAlone) {
  Captured([] {
    errno = ENOSPC;
    LOG(INFO) << "x";
    EXPECT_EQ(errno, ENOSPC);
  });
}

TEST_F(LogTest, ATrueCheckEvaluatesNoMessage) {
  int evaluated = 0;
  const auto message = [&] { return ++evaluated; };
  CHECK(2 > 1) << message();
  EXPECT_EQ(evaluated, 0);
}

TEST(LogDeathTest, ABrokenInvariantAbortsWithItsText) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(CHECK(1 > 2) << "counts " << 7, "F .*log_test\\.cc:[0-9]+\\] CHECK failed: 1 > 2 counts 7");
  EXPECT_DEATH(
      {
        SetLogLevel(LogLevel::kFatal);
        LOG(FATAL) << "the end";
      },
      "the end");
}

}  // namespace
}  // namespace spillway
