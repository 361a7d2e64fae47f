// Streams to users: events as they are committed, logs as they are written; and that neither outlives its reader or its server.
#include <fcntl.h>
#include <unistd.h>

#include "base/attempt_log.h"
#include "scheduler/engine/resolve.h"
#include "scheduler/rpc/log_follower.h"
#include "tests/rpc/harness.h"

namespace spillway::rpc {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

class StreamsTest : public ::testing::Test {
 protected:
  struct Watcher {
    Watcher(const Daemon& daemon, int64_t after_seq, bool follow, int64_t job = 0) {
      v1::WatchRequest request;
      request.set_after_seq(after_seq);
      request.set_follow(follow);
      request.set_job_id(job);
      stream = daemon.jobs->Watch(call, request);
    }
    // The next event of this kind; an empty one when the stream ended first.
    v1::Event Next(const std::string& kind) {
      v1::Event event;
      while (stream->Read(&event)) {
        if (event.kind() == kind) return event;
      }
      return v1::Event();
    }
    absl::Status End() {
      v1::Event event;
      while (stream->Read(&event)) ++rest;
      return StatusOf(stream->Finish());
    }
    Call call;
    std::unique_ptr<grpc::ClientReader<v1::Event>> stream;
    int rest = 0;
  };
  // All the text, in order; the status of the end in `status`.
  std::string ReadLog(v1::AttemptKey attempt, bool follow, absl::Status* status, int64_t offset = 0) {
    v1::StreamLogsRequest request;
    *request.mutable_attempt() = attempt;
    request.set_follow(follow);
    request.set_offset(offset);
    Call call;
    auto stream = daemon->jobs->StreamLogs(call, request);
    v1::LogChunk chunk;
    std::string text;
    while (stream->Read(&chunk)) {
      EXPECT_LE(chunk.data().size(), 64u << 10);
      text += chunk.data();
    }
    *status = StatusOf(stream->Finish());
    return text;
  }
  static v1::AttemptKey Key(int64_t job, int64_t attempt = 0) {
    v1::AttemptKey key;
    key.set_job_id(job);
    key.set_attempt(attempt);
    return key;
  }
  void Append(const std::string& relative, const std::string& text) {
    const std::string path = daemon->LogFile(relative);
    ASSERT_OK(MakeDirectories(path.substr(0, path.rfind('/'))));
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(fd);
  }

  TemporaryFolder folder;
  std::unique_ptr<Daemon> daemon = std::make_unique<Daemon>(folder.path());
};

TEST_F(StreamsTest, EventsFromTheBeginningThenTheEnd) {
  Submit(*daemon, {MakeSpec("a"), MakeSpec("b")});
  Watcher watcher(*daemon, -1, false);
  EXPECT_THAT(watcher.Next("job_submitted").message(), HasSubstr("job 1 (a)"));
  const v1::Event second = watcher.Next("job_submitted");
  EXPECT_EQ(second.attempt().job_id(), 2);
  EXPECT_GT(second.seq(), 0);
  EXPECT_OK(watcher.End());
}

TEST_F(StreamsTest, EventsFromNowOnAsTheyAreCommitted) {
  Submit(*daemon, {MakeSpec("before")});
  Watcher watcher(*daemon, 0, true);
  // When the stream has begun only it can say: until then, more is submitted.
  std::atomic<bool> heard = false;
  std::thread submitter([&] {
    while (!heard) Submit(*daemon, {MakeSpec("after")});
  });
  const v1::Event event = watcher.Next("job_submitted");
  heard = true;
  submitter.join();
  EXPECT_GT(event.attempt().job_id(), 1) << "from now on, not from the beginning";
  watcher.call.context.TryCancel();
  EXPECT_THAT(watcher.End(), StatusIs(Code::kCancelled, ::testing::_));
}

TEST_F(StreamsTest, EventsOfOneJobAlone) {
  Submit(*daemon, {MakeSpec("a"), MakeSpec("b"), MakeSpec("c")});
  v1::CancelRequest cancel;
  cancel.set_job_id(3);
  v1::JobActionResponse acted;
  Call call;
  ASSERT_OK(StatusOf(daemon->jobs->Cancel(call, cancel, &acted)));
  Watcher watcher(*daemon, -1, false, 3);
  EXPECT_EQ(watcher.Next("job_submitted").attempt().job_id(), 3);
  EXPECT_EQ(watcher.Next("job_cancel_requested").attempt().job_id(), 3);
  EXPECT_OK(watcher.End());
}

TEST_F(StreamsTest, AListAndAWatchFromItsPositionMissNothing) {
  Submit(*daemon, {MakeSpec("a")});
  v1::ListJobsResponse listed;
  Call call;
  ASSERT_OK(StatusOf(daemon->jobs->List(call, {}, &listed)));
  Submit(*daemon, {MakeSpec("b")});
  Watcher watcher(*daemon, listed.event_seq(), true);
  EXPECT_EQ(watcher.Next("job_submitted").attempt().job_id(), 2);
}

TEST_F(StreamsTest, AWatcherBehindTheOldestKeptOrAheadOfTheNewestMustListAnew) {
  daemon.reset();
  Daemon::Options options;
  options.engine.snapshot_every = 2;
  options.keep_batches_min = 1;
  daemon = std::make_unique<Daemon>(folder.path(), options);
  ASSERT_TRUE(Eventually([&] {
    Submit(*daemon, {MakeSpec()});
    return daemon->reader->PrunedSeq().value() > 3;
  }));
  Watcher behind(*daemon, 1, true);
  EXPECT_THAT(behind.End(), StatusIs(Code::kOutOfRange, HasSubstr("list anew")));
  Watcher ahead(*daemon, 1'000'000, true);
  EXPECT_THAT(ahead.End(), StatusIs(Code::kOutOfRange, HasSubstr("list anew")));
  Watcher oldest(*daemon, -1, false);
  EXPECT_NE(oldest.Next("job_submitted").message(), "");
  EXPECT_OK(oldest.End());
}

TEST_F(StreamsTest, ALongRecordIsReadInPieces) {
  for (int round = 0; round < 3; ++round) {
    std::vector<v1::JobSpec> specs(4'000, MakeSpec());
    Submit(*daemon, std::move(specs));
  }
  for (int i = 0; i < 40; ++i) Submit(*daemon, {MakeSpec()});
  Watcher watcher(*daemon, -1, false);
  EXPECT_OK(watcher.End());
  EXPECT_EQ(watcher.rest, 12'040);
}

TEST_F(StreamsTest, AServerWithFollowersStops) {
  Watcher watcher(*daemon, 0, true);
  Submit(*daemon, {MakeSpec()});
  std::thread follower([&] {
    absl::Status status;
    ReadLog(Key(1), true, &status);
    EXPECT_FALSE(status.ok());
  });
  daemon->Stop();
  follower.join();
  EXPECT_FALSE(watcher.End().ok());
}

TEST_F(StreamsTest, ALogIsFollowedFromBeforeItsAttemptBeganUntilAfterItEnded) {
  WorkerClient worker(*daemon);
  worker.Open();
  std::string text;
  absl::Status status;
  Submit(*daemon, {MakeSpec()});
  std::thread follower([&] { text = ReadLog(Key(1), true, &status); });
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.offers.empty(); }));
  const v1::SchedulerFrame::Offer offer = worker.offers[0];
  EXPECT_EQ(offer.log_path(), engine::LogPath({1, 0, 1}, 0)) << "the worker writes where the follower reads";
  ASSERT_TRUE(worker.Accept(offer.attempt()));
  ASSERT_TRUE(worker.Start(offer.attempt()));
  Append(offer.log_path(), "one\n");
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 2; }));
  Append(offer.log_path(), std::string(300'000, 'x') + "\n");
  Append(offer.log_path(), "last\n");
  ASSERT_TRUE(worker.EndAttempt(offer.attempt(), v1::COMPLETED));
  follower.join();
  EXPECT_OK(status);
  EXPECT_EQ(text, "one\n" + std::string(300'000, 'x') + "\nlast\n");

  EXPECT_EQ(ReadLog(Key(1, 1), false, &status, 300'005), "last\n");
  EXPECT_OK(status);
  EXPECT_EQ(ReadLog(Key(1), false, &status, 1'000'000), "");
  EXPECT_OK(status);
  ReadLog(Key(1, 2), false, &status);
  EXPECT_THAT(status, StatusIs(Code::kNotFound, HasSubstr("the last one is 1")));
}

TEST_F(StreamsTest, AGapInALogIsOneLine) {
  WorkerClient worker(*daemon);
  worker.Open();
  Submit(*daemon, {MakeSpec()});
  ASSERT_TRUE(worker.ReadUntil([&] { return !worker.offers.empty(); }));
  ASSERT_TRUE(worker.Accept(worker.offers[0].attempt()));
  ASSERT_TRUE(worker.EndAttempt(worker.offers[0].attempt(), v1::COMPLETED));
  ASSERT_TRUE(worker.ReadUntil([&] { return worker.report_ack == 2; }));
  // As the supervisor leaves it (base/attempt_log.h): a head, a marker in a hole, a tail.
  const std::string path = daemon->LogFile("1/0/a1.log");
  const int64_t head = LogHeadBytes(limits::kLogBytesMax), left_out = 5LL << 30;
  Append("1/0/a1.log", "begin\n");
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const std::string marker = LogGapMarker(left_out), tail = "the end\n";
  ASSERT_EQ(pwrite(fd, marker.data(), marker.size(), head), static_cast<ssize_t>(marker.size()));
  ASSERT_EQ(pwrite(fd, tail.data(), tail.size(), head + left_out), static_cast<ssize_t>(tail.size()));
  close(fd);
  absl::Status status;
  const std::string text = ReadLog(Key(1), false, &status, head - 10);
  EXPECT_OK(status);
  EXPECT_EQ(text, std::string(10, '\0') + marker + tail) << "not five gigabytes of zeros";
}

TEST_F(StreamsTest, AnAttemptThatIsNotThereIsSaidPlainly) {
  Submit(*daemon, {MakeSpec()});
  absl::Status status;
  ReadLog(Key(1), false, &status);
  EXPECT_THAT(status, StatusIs(Code::kFailedPrecondition, HasSubstr("has not run yet")));
  ReadLog(Key(7), true, &status);
  EXPECT_THAT(status, StatusIs(Code::kNotFound, HasSubstr("job 7")));
  v1::AttemptKey key = Key(1);
  key.set_task_index(4);
  ReadLog(key, true, &status);
  EXPECT_THAT(status, StatusIs(Code::kNotFound, HasSubstr("no task 4")));
  ReadLog(Key(1, -1), false, &status);
  EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, HasSubstr("negative")));
  ReadLog(Key(1), false, &status, -5);
  EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, HasSubstr("offset")));
  v1::CancelRequest cancel;
  cancel.set_job_id(1);
  v1::JobActionResponse acted;
  Call call;
  ASSERT_OK(StatusOf(daemon->jobs->Cancel(call, cancel, &acted)));
  ReadLog(Key(1), true, &status);
  EXPECT_THAT(status, StatusIs(Code::kNotFound, HasSubstr("ended before it ran")));
}

}  // namespace
}  // namespace spillway::rpc
