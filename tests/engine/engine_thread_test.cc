// The engine with its threads: nothing waits for a real clock; every wait is for something that the threads do.
#include "scheduler/engine/engine_thread.h"

#include <atomic>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/status_matchers.h"
#include "scheduler/engine/verify.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/core/world.h"
#include "tests/support/fault_vfs.h"

namespace spillway::engine {
namespace {

using core::Box;
using core::Cpu;
using core::MakeJob;
using testing::FaultVfs;
using ::testing::HasSubstr;

// Counts, and waits for a count.
class Tally {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.SignalAll();
  }
  // False when it did not come within a minute: the test has failed.
  bool WaitFor(int64_t count) {
    MutexLock lock(&mutex_);
    for (int tries = 0; count_ < count && tries < 600; ++tries) changed_.WaitForMs(&mutex_, 100);
    return count_ >= count;
  }
  int64_t count() {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int64_t count_ = 0;
};

class Sinks : public SessionSink, public EffectSink {
 public:
  void Welcome(int64_t, const WelcomeOrder&) override { welcomes.Add(); }
  void Refuse(int64_t, const absl::Status&) override {}
  void Offer(int64_t, const OfferOrder&) override { offers.Add(); }
  void Stop(int64_t, const StopOrder&) override {}
  void Forget(int64_t, const ForgetOrder&) override {}
  void AckReports(int64_t, int64_t) override {}
  void AckRenewal(int64_t, int64_t) override { renewals.Add(); }
  void Close(int64_t, absl::string_view, absl::string_view, bool) override {}
  void Seal(const SealOrder&) override {}
  void Create(const CreateOrder&) override {}
  void Terminate(const TerminateOrder&) override {}
  void AskAbout(const std::string&) override {}

  Tally welcomes, offers, renewals;
};

core::Submit OneJob(const std::string& request_id) {
  core::Submit submit;
  submit.request_id = submit.request_digest = request_id;
  submit.jobs = {MakeJob(Cpu())};
  return submit;
}

class EngineThreadTest : public ::testing::Test {
 protected:
  void Open(bool on_faulty_disk = false) {
    store::SqliteOptions on;
    on.path = on_faulty_disk ? "scheduler.db" : ":memory:";
    if (on_faulty_disk) on.vfs = vfs_.name();
    ASSERT_OK_AND_ASSIGN(store_, store::SqliteStore::Open(on));
    options_.disk_retry_ms = 1;
    options_.engine.check_invariants_every = 1;
    options_.engine.snapshot_every = 10;
    thread_ = std::make_unique<EngineThread>(options_, store_.get(), &clock_, &sinks_, &sinks_);
    ASSERT_OK(thread_->Start());
  }
  void TearDown() override {
    thread_.reset();
    store_.reset();
  }

  FaultVfs vfs_{"engine-thread"};
  ManualClock clock_;
  Sinks sinks_;
  ThreadOptions options_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<EngineThread> thread_;
};

TEST_F(EngineThreadTest, ManyThreadsPostAndEveryoneIsAnsweredOnceAfterItsCommit) {
  std::atomic<int64_t> newest_committed = 0;
  std::atomic<int64_t> out_of_order = 0;
  options_.on_commit = [&](const store::Batch& batch) {
    if (batch.seq != newest_committed + 1) ++out_of_order;
    newest_committed = batch.seq;
  };
  Open();
  Tally answers;
  std::atomic<int> early = 0;
  Mutex mutex;
  std::set<JobId> ids;
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_OK(thread_->Post(OneJob(absl::StrCat(c, "-", i)), [&](absl::StatusOr<core::Reply> reply) {
          ASSERT_OK(reply);
          if (newest_committed == 0) ++early;
          {
            MutexLock lock(&mutex);
            ids.insert(reply->jobs.at(0));
          }
          answers.Add();
        }));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  ASSERT_TRUE(answers.WaitFor(400));
  thread_->Stop();
  EXPECT_EQ(answers.count(), 400);
  EXPECT_EQ(ids.size(), 400u);
  EXPECT_EQ(early, 0);
  EXPECT_EQ(out_of_order, 0);
  EXPECT_EQ(thread_->committed_seq(), newest_committed);
  EXPECT_EQ(store_->last_seq(), newest_committed);
  EXPECT_LT(newest_committed, 400);  // what waits together is written together
  ASSERT_OK(Verify(store_.get()));
}

TEST_F(EngineThreadTest, StopFinishesWhatWasTaken) {
  Open();
  Tally answers;
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(thread_->Post(OneJob(absl::StrCat(i)), [&](absl::StatusOr<core::Reply> reply) {
      ASSERT_OK(reply);
      answers.Add();
    }));
  }
  thread_->Stop();
  EXPECT_EQ(answers.count(), 50);
  EXPECT_THAT(thread_->Post(OneJob("late"), nullptr), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stopping")));
  EXPECT_THAT(thread_->Query([](const core::State&, const core::Soft&, int64_t) {}), StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  ASSERT_OK_AND_ASSIGN(const store::Loaded loaded, store_->Load());
  EXPECT_EQ(loaded.state.jobs.size(), 50u);
}

TEST_F(EngineThreadTest, QueriesSeeTheStateBetweenTurns) {
  Open();
  Tally answers;
  ASSERT_OK(thread_->Post(OneJob("one"), [&](absl::StatusOr<core::Reply>) { answers.Add(); }));
  ASSERT_TRUE(answers.WaitFor(1));
  size_t jobs = 0;
  ASSERT_OK(thread_->Query([&](const core::State& state, const core::Soft&, int64_t now_ms) {
    jobs = state.jobs.size();
    EXPECT_GE(now_ms, state.meta.now_ms);
  }));
  EXPECT_EQ(jobs, 1u);
}

TEST_F(EngineThreadTest, SessionsAreWelcomedOfferedAndRenewed) {
  Open();
  core::NodeHello hello;
  hello.name = "a";
  hello.provider = "static";
  hello.boot_id = "boot";
  hello.capacity = Box(4);
  ASSERT_OK(thread_->Hello(1, hello));
  ASSERT_TRUE(sinks_.welcomes.WaitFor(1));
  ASSERT_OK(thread_->Post(OneJob("one"), nullptr));
  ASSERT_TRUE(sinks_.offers.WaitFor(1));
  thread_->Heard(1, 1);
  ASSERT_TRUE(sinks_.renewals.WaitFor(1));
  thread_->Closed(1);
}

TEST_F(EngineThreadTest, AFullDiskRefusesAndHeals) {
  Open(true);
  Tally answers;
  ASSERT_OK(thread_->Post(OneJob("before"), [&](absl::StatusOr<core::Reply> reply) {
    EXPECT_OK(reply);
    answers.Add();
  }));
  ASSERT_TRUE(answers.WaitFor(1));
  vfs_.SetFull(true);
  // Taken before anyone knew: answered when there is room again.
  ASSERT_OK(thread_->Post(OneJob("during"), [&](absl::StatusOr<core::Reply> reply) {
    EXPECT_OK(reply);
    answers.Add();
  }));
  absl::Status refused;
  for (int tries = 0; tries < 600 && refused.ok(); ++tries) {
    // A turn of the engine between two tries.
    ASSERT_OK(thread_->Query([](const core::State&, const core::Soft&, int64_t) {}));
    if (thread_->counters().commits_refused == 0) {
      std::this_thread::yield();
      --tries;
      continue;
    }
    refused = thread_->Post(OneJob(absl::StrCat("refused-", tries)), nullptr);
  }
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk is full")));
  EXPECT_EQ(answers.count(), 1);
  vfs_.SetFull(false);
  ASSERT_TRUE(answers.WaitFor(2));
  thread_->Stop();
}

TEST_F(EngineThreadTest, StopDoesNotWaitForAFullDisk) {
  Open(true);
  vfs_.SetFull(true);
  Tally answers;
  ASSERT_OK(thread_->Post(OneJob("never"), [&](absl::StatusOr<core::Reply>) { answers.Add(); }));
  thread_->Stop();
  EXPECT_EQ(answers.count(), 0);
  vfs_.SetFull(false);
  ASSERT_OK_AND_ASSIGN(const store::Loaded loaded, store_->Load());
  EXPECT_EQ(loaded.last_seq, 0);
}

TEST_F(EngineThreadTest, AnUnknownDurabilityEndsItAllWithoutAReply) {
  Tally fatal, answers;
  absl::Status why;
  options_.on_fatal = [&](const absl::Status& status) { why = status, fatal.Add(); };
  Open(true);
  ASSERT_OK(thread_->Post(OneJob("before"), [&](absl::StatusOr<core::Reply>) { answers.Add(); }));
  ASSERT_TRUE(answers.WaitFor(1));
  thread_->Stop();
  thread_ = std::make_unique<EngineThread>(options_, store_.get(), &clock_, &sinks_, &sinks_);
  ASSERT_OK(thread_->Start());
  vfs_.FailAt(1, FaultVfs::Fault::kIoError);
  ASSERT_OK(thread_->Post(OneJob("after"), [&](absl::StatusOr<core::Reply>) { answers.Add(); }));
  ASSERT_TRUE(fatal.WaitFor(1));
  EXPECT_EQ(why.code(), absl::StatusCode::kInternal);
  thread_->Stop();
  EXPECT_EQ(answers.count(), 1);
}

TEST(TurnClockTest, RunsAtTheSteadyPaceAndNeverBack) {
  ManualClock clock(1'000'000, 50);
  TurnClock turns(&clock, 0);
  EXPECT_EQ(turns.NowMs(), 1'000'000);
  clock.AdvanceMs(500);
  EXPECT_EQ(turns.NowMs(), 1'000'500);
  clock.JumpUtcMs(60'000);  // behind UTC: forward at once
  EXPECT_EQ(turns.NowMs(), 1'060'500);
  clock.JumpUtcMs(-600'000);  // ahead: a tenth slow, not still
  EXPECT_EQ(turns.NowMs(), 1'060'500);
  clock.AdvanceMs(1'000);
  EXPECT_EQ(turns.NowMs(), 1'061'400);
  for (int i = 0; i < 1'000; ++i) {
    clock.AdvanceMs(1);
    turns.NowMs();
  }
  EXPECT_EQ(turns.NowMs(), 1'062'300);  // small steps lose nothing
  clock.AdvanceMs(10 * 600'000);
  EXPECT_EQ(turns.NowMs(), clock.NowUtcMs());  // caught up
}

TEST(TurnClockTest, BeginsNoEarlierThanTheStateHasSeen) {
  ManualClock clock(1'000'000, 0);
  TurnClock turns(&clock, 2'000'000);
  EXPECT_EQ(turns.NowMs(), 2'000'000);
  clock.AdvanceMs(10);
  EXPECT_EQ(turns.NowMs(), 2'000'009);
}

}  // namespace
}  // namespace spillway::engine
