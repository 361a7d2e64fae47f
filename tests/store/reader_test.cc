#include "scheduler/store/reader.h"

#include "base/status_matchers.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/support/made_up_turns.h"
#include "tests/support/temporary_folder.h"

namespace spillway::store {
namespace {

using ::spillway::testing::MadeUpTurns;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SqliteOptions options;
    options.path = folder_.File("db");
    options.ballast_bytes = 0;
    options.keep_batches_min = 5;
    options.synchronous = false;  // durability is tested elsewhere
    ASSERT_OK_AND_ASSIGN(store_, SqliteStore::Open(options));
    for (int i = 0; i < 20; ++i) ASSERT_OK(store_->Commit(turns_.Next()));
    ASSERT_OK_AND_ASSIGN(reader_, Reader::Open(folder_.File("db")));
  }

  std::vector<JobId> Ids(const JobFilter& filter) {
    const auto jobs = reader_->ListJobs(filter);
    EXPECT_OK(jobs);
    std::vector<JobId> ids;
    for (const core::Job& job : *jobs) ids.push_back(job.id);
    return ids;
  }

  TemporaryFolder folder_;
  MadeUpTurns turns_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<Reader> reader_;
};

TEST_F(ReaderTest, JobsLiveAndEnded) {
  ASSERT_OK_AND_ASSIGN(const core::Job ended, reader_->GetJob(3));
  EXPECT_GT(ended.ended_ms, 0);
  ASSERT_OK_AND_ASSIGN(const core::Job live, reader_->GetJob(20));
  EXPECT_EQ(live.ended_ms, 0);
  EXPECT_THAT(reader_->GetJob(21), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 21")));
  ASSERT_OK_AND_ASSIGN(const core::Job newest, reader_->GetNewestJobNamed("odd"));
  EXPECT_EQ(newest.id, 19);
  EXPECT_THAT(reader_->GetNewestJobNamed("nobody"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody")));
}

TEST_F(ReaderTest, TasksOfEndedJobsAreThere) {
  ASSERT_OK_AND_ASSIGN(const std::vector<core::Task> tasks, reader_->ListTasks(*reader_->GetJob(3)));
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[1].state, TaskState::kSucceeded);
  ASSERT_OK_AND_ASSIGN(const std::vector<core::Task> second, reader_->ListTasks(*reader_->GetJob(3), 1));
  EXPECT_EQ(second.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const core::Task task, reader_->GetTask({20, 1}));
  EXPECT_EQ(task.state, TaskState::kActive);
  EXPECT_THAT(reader_->GetTask({20, 2}), StatusIs(absl::StatusCode::kNotFound, "job 20 has no task 2; its tasks are 0 to 1"));
}

TEST_F(ReaderTest, PagesOfJobsInBothDirections) {
  EXPECT_THAT(Ids({.limit = 3}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Ids({.after = 3, .limit = 3}), ElementsAre(4, 5, 6));
  EXPECT_THAT(Ids({.after = 19, .limit = 3}), ElementsAre(20));
  EXPECT_THAT(Ids({.newest_first = true, .limit = 2}), ElementsAre(20, 19));
  EXPECT_THAT(Ids({.newest_first = true, .after = 2, .limit = 2}), ElementsAre(1));
}

TEST_F(ReaderTest, FiltersByStateAndName) {
  EXPECT_THAT(Ids({.states = {TaskState::kActive}}), ElementsAre(18, 19, 20));
  EXPECT_THAT(Ids({.states = {TaskState::kActive, TaskState::kSucceeded}, .newest_first = true, .limit = 5}), ElementsAre(20, 19, 18, 17, 16));
  EXPECT_THAT(Ids({.states = {TaskState::kActive, TaskState::kActive}, .after = 18}), ElementsAre(19, 20));
  EXPECT_THAT(Ids({.states = {TaskState::kFailed}}), ElementsAre());
  EXPECT_THAT(Ids({.name = "even", .limit = 2}), ElementsAre(2, 4));
  EXPECT_THAT(Ids({.states = {TaskState::kActive}, .name = "even"}), ElementsAre(18, 20));
}

TEST_F(ReaderTest, SpecsCheckpointsNodesOffers) {
  ASSERT_OK_AND_ASSIGN(const core::Job job, reader_->GetJob(3));
  ASSERT_OK_AND_ASSIGN(const std::string spec, reader_->GetSpec(job.spec_digest));
  EXPECT_EQ(spec, "spec of job 3");
  EXPECT_THAT(reader_->GetSpec("nonsense"), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  ASSERT_OK_AND_ASSIGN(const auto checkpoints, reader_->ListCheckpoints({3, 0}));
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].path, "c/3");
  ASSERT_OK_AND_ASSIGN(const auto living, reader_->ListNodes(false));
  ASSERT_EQ(living.size(), 3u);
  EXPECT_EQ(living[0].id, 20);
  ASSERT_OK_AND_ASSIGN(const auto all, reader_->ListNodes(true, 18, 2));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].id, 17);
  EXPECT_EQ(all[0].state, NodeState::kReleased);
  ASSERT_OK_AND_ASSIGN(const auto offers, reader_->ListOffers("p"));
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_EQ(offers[0].refusals, 20);
}

TEST_F(ReaderTest, ChargesAndTheirSums) {
  ASSERT_OK_AND_ASSIGN(const auto page, reader_->ListCharges({.after = 5, .limit = 2}));
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].id, 6);
  ASSERT_OK_AND_ASSIGN(const auto of_job, reader_->ListCharges({.job = 7}));
  ASSERT_EQ(of_job.size(), 1u);
  EXPECT_EQ(of_job[0].amount_micros, 70);
  ASSERT_OK_AND_ASSIGN(const auto of_both, reader_->ListCharges({.job = 7, .node = 8}));
  EXPECT_TRUE(of_both.empty());
  ASSERT_OK_AND_ASSIGN(const auto all, reader_->SumCharges(0, 0));
  EXPECT_EQ(all.size(), 20u);
  ASSERT_OK_AND_ASSIGN(const auto some, reader_->SumCharges(2'000, 4'000));
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].job, 2);
  EXPECT_EQ(some[0].job_name, "even");
  EXPECT_EQ(some[0].amount_micros, 20);
  EXPECT_EQ(some[0].duration_ms, 500);
}

TEST_F(ReaderTest, EventsAfterATurn) {
  ASSERT_OK_AND_ASSIGN(const int64_t newest, reader_->NewestSeq());
  EXPECT_EQ(newest, 20);
  ASSERT_OK_AND_ASSIGN(const auto events, reader_->Events(17));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].seq, 18);
  EXPECT_EQ(events[0].now_ms, 18'000);
  ASSERT_EQ(events[0].events.size(), 2u);
  EXPECT_EQ(std::get<core::JobSubmitted>(events[0].events[0]).job.id, 18);
  ASSERT_OK_AND_ASSIGN(const auto none, reader_->Events(20));
  EXPECT_TRUE(none.empty());
  ASSERT_OK_AND_ASSIGN(const auto two, reader_->Events(0, 2));
  EXPECT_EQ(two.size(), 2u);
}

TEST_F(ReaderTest, EventsNoLongerKeptAreOutOfRange) {
  for (int i = 0; i < 2; ++i) {
    Batch batch = turns_.Next();
    batch.snapshot = EncodeState(turns_.state());
    ASSERT_OK(store_->Commit(batch));
  }
  ASSERT_OK(store_->Maintain());
  ASSERT_OK_AND_ASSIGN(const int64_t pruned, reader_->PrunedSeq());
  EXPECT_EQ(pruned, 17);
  EXPECT_THAT(reader_->Events(16), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("17 are no longer kept")));
  EXPECT_OK(reader_->Events(17));
}

TEST_F(ReaderTest, SeesOnlyWhatIsCommittedWhileTheWriterGoesOn) {
  ASSERT_OK(store_->Commit(turns_.Next()));
  ASSERT_OK_AND_ASSIGN(const core::Job job, reader_->GetJob(21));
  EXPECT_EQ(job.counts.active, 2);
  ASSERT_OK_AND_ASSIGN(const core::Job ended, reader_->GetJob(18));
  EXPECT_GT(ended.ended_ms, 0);
}

TEST(ReaderOpenTest, NeedsADatabase) {
  TemporaryFolder folder;
  EXPECT_FALSE(Reader::Open(folder.File("nothing")).ok());
}

}  // namespace
}  // namespace spillway::store
