#include "checkpoint/run_env.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

absl::StatusOr<RunEnv> From(const std::map<std::string, std::string>& variables) {
  return RunEnv::From([&](const char* name) -> const char* {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(RunEnv, ReadsWhatAnAttemptIsGiven) {
  ASSERT_OK_AND_ASSIGN(const RunEnv env, From({{"SPILLWAY_JOB_ID", "5"},
                                               {"SPILLWAY_TASK_INDEX", "17"},
                                               {"SPILLWAY_ATTEMPT", "3"},
                                               {"SPILLWAY_JOB_UID", "u"},
                                               {"SPILLWAY_CLUSTER", kCluster},
                                               {"SPILLWAY_CHECKPOINT_DIR", "/c"},
                                               {"SPILLWAY_RESUME_FROM", "/c/step"},
                                               {"SPILLWAY_SOCKET", "/s"},
                                               {"SPILLWAY_NOTICE_FILE", "/n"},
                                               {"SPILLWAY_DEADLINE", "2026-12-24T08:00:00Z"}}));
  EXPECT_TRUE(env.under_spillway);
  EXPECT_EQ(env.job_id, 5);
  EXPECT_EQ(env.task_index, 17);
  EXPECT_EQ(env.attempt, 3);
  EXPECT_EQ(env.job_uid, "u");
  EXPECT_EQ(env.resume_from, "/c/step");
  EXPECT_EQ(env.deadline_utc_ms, 1'798'099'200'000);
}

TEST(RunEnv, IsEmptyOutsideSpillway) {
  ASSERT_OK_AND_ASSIGN(const RunEnv env, From({}));
  EXPECT_FALSE(env.under_spillway);
  EXPECT_EQ(env.attempt, 1);
  EXPECT_EQ(env.checkpoint_dir, "");
  EXPECT_EQ(env.deadline_utc_ms, std::nullopt);
}

TEST(RunEnv, NamesTheVariableThatIsWrong) {
  EXPECT_THAT(From({{"SPILLWAY_ATTEMPT", "three"}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SPILLWAY_ATTEMPT=\"three\"")));
  EXPECT_THAT(From({{"SPILLWAY_ATTEMPT", "0"}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from 1")));
  EXPECT_THAT(From({{"SPILLWAY_DEADLINE", "soon"}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SPILLWAY_DEADLINE")));
}

// The supervisor's end of the socket.
class Listener {
 public:
  explicit Listener(const std::string& path) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << strerror(errno);
  }
  ~Listener() { close(fd_); }
  // "" when nothing waits.
  std::string Take() {
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
    return n < 0 ? "" : std::string(buffer, static_cast<size_t>(n));
  }

 private:
  int fd_;
};

class ReporterTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.path() + "/s"; }
  Reporter Open(std::function<void(int)> sleep_ms = [](int) {}) {
    Reporter::Options options{.tries = 5, .wait_ms = 10, .sleep_ms = std::move(sleep_ms)};
    auto reporter = Reporter::Open(Path(), options);
    EXPECT_OK(reporter);
    return *std::move(reporter);
  }
  TemporaryFolder folder_;
};

TEST_F(ReporterTest, SendsOneObjectAMessage) {
  Listener listener(Path());
  Reporter reporter = Open();
  reporter.Progress(120, 1000, {{"loss", 1.5}, {"broken", NAN}});
  EXPECT_OK(reporter.Checkpoint(100, "/c/step-000000000100", "ab", 4096));
  EXPECT_OK(reporter.Completed());
  EXPECT_EQ(Json::parse(listener.Take()), Json::parse(R"({"type":"progress","step":120,"total":1000,"metrics":{"loss":1.5}})"));
  EXPECT_EQ(Json::parse(listener.Take()), Json::parse(R"({"type":"checkpoint","step":100,"path":"/c/step-000000000100","manifest_sha256":"ab","bytes":4096})"));
  EXPECT_EQ(Json::parse(listener.Take()), Json::parse(R"({"type":"completed"})"));
  EXPECT_EQ(reporter.progress_dropped(), 0);
}

TEST_F(ReporterTest, DropsProgressRatherThanWait) {
  Listener listener(Path());
  Reporter reporter = Open([](int) { FAIL() << "progress must not wait"; });
  for (int step = 0; step < 100'000 && reporter.progress_dropped() < 3; ++step) reporter.Progress(step, 0);
  EXPECT_EQ(reporter.progress_dropped(), 3);
}

TEST_F(ReporterTest, KeepsTryingForACheckpoint) {
  auto listener = std::make_unique<Listener>(Path());
  int waits = 0;
  Reporter reporter = Open([&](int) {
    if (++waits == 3)
      while (!listener->Take().empty()) {
      }  // the supervisor catches up
  });
  while (reporter.progress_dropped() == 0) reporter.Progress(1, 0);
  EXPECT_OK(reporter.Checkpoint(1, "/c", "00", 1));
  EXPECT_EQ(waits, 3);
}

TEST_F(ReporterTest, GivesUpAfterItsTries) {
  int waits = 0;
  Reporter reporter = Open([&](int) { ++waits; });
  EXPECT_FALSE(reporter.Completed().ok());  // nobody has bound the path
  EXPECT_EQ(waits, 5);
}

TEST_F(ReporterTest, FindsASuccessorOnTheSamePath) {
  auto listener = std::make_unique<Listener>(Path());
  Reporter reporter = Open();
  EXPECT_OK(reporter.Completed());
  listener.reset();
  unlink(Path().c_str());
  listener = std::make_unique<Listener>(Path());
  EXPECT_OK(reporter.Completed());
  EXPECT_NE(listener->Take(), "");
}

TEST_F(ReporterTest, IsSilentWithoutASocketAndRefusesAnImpossibleOne) {
  ASSERT_OK_AND_ASSIGN(Reporter silent, Reporter::Open(""));
  silent.Progress(1, 2);
  EXPECT_OK(silent.Completed());
  EXPECT_EQ(silent.progress_dropped(), 0);
  EXPECT_THAT(Reporter::Open(std::string(200, 'x')).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("107 bytes")));
}

TEST(NoticeWatcher, SeesAndForgetsTheFile) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/notice";
  const NoticeWatcher watcher(path);
  EXPECT_EQ(watcher.Check(), std::nullopt);
  ASSERT_OK(WriteFileAtomically(path, R"({"reason":"preempted","deadline":"2026-12-24T08:00:00Z","seconds_left":29.5})"));
  const std::optional<Notice> notice = watcher.Check();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->reason, "preempted");
  EXPECT_EQ(notice->deadline_utc_ms, 1'798'099'200'000);
  EXPECT_EQ(notice->ms_left, 29'500);
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_EQ(watcher.Check(), std::nullopt);
  EXPECT_EQ(NoticeWatcher("").Check(), std::nullopt);
}

TEST(NoticeWatcher, TakesAnyFileForANotice) {
  for (const std::string text : {"", "soon", "[1]", "{\"reason\":7}", "{\"reason\":{\"a\":1}}", "{\"seconds_left\":1e400}", "\xff"}) {
    EXPECT_EQ(ParseNotice(text).reason, "unreadable") << text;
  }
  EXPECT_EQ(ParseNotice(std::string(1'000'000, '[')).reason, "unreadable");
  EXPECT_EQ(ParseNotice(R"({"reason":"x","seconds_left":-1})").ms_left, std::nullopt);
}

}  // namespace
}  // namespace spillway::checkpoint
