// The thread that looks: what it passes on, that it survives a source that fails, that it stops when told.
#include "worker/preemption/notice_poller.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/status_matchers.h"
#include "tests/worker_preemption/metadata_server.h"

namespace spillway::preemption {
namespace {

// Gives the readings of a script, one a look, and the last one ever after.
class ScriptedSource final : public NoticeSource {
 public:
  explicit ScriptedSource(std::vector<absl::StatusOr<Reading>> script) : script_(std::move(script)) {}
  const std::string& name() const override { return name_; }
  ProviderLead lead() const override { return {120'000, 30'000}; }
  absl::StatusOr<Reading> Poll() override {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t at = std::min(looks_++, script_.size() - 1);
    changed_.notify_all();
    return script_[at];
  }
  absl::Status Acknowledge() override { return absl::UnavailableError("not now"); }
  // False when that many looks do not come in time.
  bool WaitForLooks(size_t looks) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return looks_ >= looks; });
  }

 private:
  const std::string name_ = "script";
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::vector<absl::StatusOr<Reading>> script_;
  size_t looks_ = 0;
};

Reading Of(Reading::Kind kind) {
  Reading reading;
  reading.kind = kind;
  return reading;
}

class NoticePollerTest : public ::testing::Test {
 protected:
  NoticePoller& Poll(std::vector<absl::StatusOr<Reading>> script) {
    auto source = std::make_unique<ScriptedSource>(std::move(script));
    source_ = source.get();
    PollerOptions options;
    options.period_ms = 1;
    poller_ = std::make_unique<NoticePoller>(std::move(source), &clock_, options, [this](const Notice& notice) {
      std::lock_guard<std::mutex> lock(mutex_);
      notices_.push_back(notice);
    });
    poller_->Start();
    return *poller_;
  }
  std::vector<Notice> notices() {
    std::lock_guard<std::mutex> lock(mutex_);
    return notices_;
  }

  RealClock clock_;
  ScriptedSource* source_ = nullptr;
  std::mutex mutex_;
  std::vector<Notice> notices_;
  std::unique_ptr<NoticePoller> poller_;
};

TEST_F(NoticePollerTest, PassesOnWhatIsNewAndNothingTwice) {
  NoticePoller& poller = Poll({Of(Reading::Kind::kNone), absl::UnavailableError("away"), Of(Reading::Kind::kAdvisory), Of(Reading::Kind::kAdvisory),
                               absl::UnavailableError("away"), Of(Reading::Kind::kNotice)});
  const int64_t before_ms = clock_.NowSteadyMs();
  ASSERT_TRUE(source_->WaitForLooks(12));
  poller.Stop();
  const std::vector<Notice> passed = notices();
  ASSERT_EQ(passed.size(), 2u);
  EXPECT_EQ(passed[0].kind, NoticeKind::kAdvisory);
  EXPECT_EQ(passed[1].kind, NoticeKind::kNotice);
  EXPECT_EQ(passed[1].source, "script");
  EXPECT_EQ(passed[1].left_ms, 108'000);
  EXPECT_GE(passed[1].deadline_steady_ms, before_ms + 108'000);
  EXPECT_EQ(poller.state(), NoticeTracker::State::kNotice);
  EXPECT_OK(poller.last_status());
  poller.BeginDraining();
  EXPECT_EQ(poller.state(), NoticeTracker::State::kDraining);
}

TEST_F(NoticePollerTest, SaysThatTheSourceCannotBeReached) {
  NoticePoller& poller = Poll({absl::UnavailableError("away")});
  ASSERT_TRUE(source_->WaitForLooks(3));
  poller.Stop();
  EXPECT_THAT(poller.last_status(), StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("away")));
  EXPECT_EQ(poller.state(), NoticeTracker::State::kNone);
  EXPECT_TRUE(notices().empty());
  EXPECT_THAT(poller.Acknowledge(), StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("not now")));
}

TEST_F(NoticePollerTest, StopsAtOnceHoweverLongThePeriod) {
  auto source = std::make_unique<ScriptedSource>(std::vector<absl::StatusOr<Reading>>{Of(Reading::Kind::kNone)});
  ScriptedSource* watched = source.get();
  PollerOptions options;
  options.period_ms = 3'600'000;
  NoticePoller poller(std::move(source), &clock_, options, [](const Notice&) {});
  poller.Start();
  ASSERT_TRUE(watched->WaitForLooks(1));
  poller.Stop();  // an hour would run into the test's time limit
  poller.Stop();
}

TEST(NoticePollerHttpTest, HearsOfANoticeOverHttp) {
  bool announced = false;
  MetadataServer server([&](const httplib::Request& request, httplib::Response& response) {
    response.status = request.method == "PUT" ? 200 : 404;
    std::string body = request.method == "PUT" ? "t" : "";
    if (announced && request.path == "/latest/meta-data/spot/instance-action") {
      response.status = 200;
      body = R"({"action":"terminate","time":"2000-01-01T00:00:00.000Z"})";
    }
    response.set_content(body, "text/plain");
  });
  SourceOptions source;
  source.base_url = server.url();
  RealClock clock;
  PollerOptions options;
  options.period_ms = 1;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Notice> notices;
  NoticePoller poller(*MakeNoticeSource("aws", source), &clock, options, [&](const Notice& notice) {
    std::lock_guard<std::mutex> lock(mutex);
    notices.push_back(notice);
    changed.notify_all();
  });
  poller.Start();
  while (server.asked().size() < 4) std::this_thread::yield();
  EXPECT_EQ(poller.state(), NoticeTracker::State::kNone);
  server.Change([&] { announced = true; });
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return !notices.empty(); }));
  EXPECT_EQ(notices[0].left_ms, 0);
  EXPECT_THAT(notices[0].raw, ::testing::HasSubstr("terminate"));
  lock.unlock();
  poller.Stop();
}

}  // namespace
}  // namespace spillway::preemption
