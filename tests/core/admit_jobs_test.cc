// What users ask about jobs: every refusal, and what an accepted command leads to.
#include "base/limits.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class AdmitJobs : public ::testing::Test {
 protected:
  AdmitJobs() {
    world_.Configure({Cloud()});
    node_ = world_.Register("rack-1", Box(8, 2));
  }
  absl::StatusOr<Reply> Submit(NewJob job) { return world_.Try(core::Submit{"", "d", {job}}); }
  JobId Running() {
    const JobId job = world_.SubmitJob(Gpus(1));
    world_.Turn();
    world_.Start(world_.Living({job, 0}));
    return job;
  }
  World world_;
  NodeId node_;
};

TEST_F(AdmitJobs, RefusesBadJobsNamingTheField) {
  const auto with = [](auto change) {
    NewJob job = MakeJob(Cpu());
    change(&job);
    return job;
  };
  const struct {
    NewJob job;
    const char* says;
  } rows[] = {
      {with([](NewJob* job) { job->uid.clear(); }), "jobs[0].uid"},
      {with([](NewJob* job) { job->name = std::string(500, 'x'); }), "jobs[0].name"},
      {with([](NewJob* job) { job->spec_digest = "short"; }), "spec_digest: must have 32 bytes"},
      {with([](NewJob* job) { job->task_count = 0; }), "array.count: must be 1 to 1000000"},
      {with([](NewJob* job) { job->task_count = 10'000'000; }), "array.count: must be 1 to 1000000"},
      {with([](NewJob* job) { job->shape.nodes = 257; }), "resources.nodes: must be 1 to 256, not 257"},
      {with([](NewJob* job) { job->shape.gpu_count = 65; }), "gpu.count"},
      {with([](NewJob* job) { job->shape.memory_bytes = -1; }), "must not be negative"},
      {with([](NewJob* job) { job->shape.max_price_micros_per_hour = -1; }), "max_price"},
      {with([](NewJob* job) { job->grace_ms = -1; }), "a duration is negative"},
      {with([](NewJob* job) { job->retry.user_error = -2; }), "retry"},
  };
  for (const auto& row : rows) EXPECT_THAT(Submit(row.job), StatusIs(Code::kInvalidArgument, HasSubstr(row.says)));
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {}}), StatusIs(Code::kInvalidArgument, HasSubstr("at least one")));
  EXPECT_THAT(world_.Try(core::Submit{std::string(limits::kRequestIdBytesMax + 1, 'x'), "d", {MakeJob(Cpu())}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("request_id")));
  EXPECT_EQ(world_.state.meta.next_job, 1);
}

TEST_F(AdmitJobs, OneBadJobRefusesTheWholeSubmission) {
  NewJob bad = MakeJob(Cpu());
  bad.uid.clear();
  EXPECT_THAT(world_.Try(core::Submit{"", "d", {MakeJob(Cpu()), bad}}), StatusIs(Code::kInvalidArgument, HasSubstr("jobs[1]")));
  EXPECT_THAT(world_.state.jobs, IsEmpty());
}

TEST_F(AdmitJobs, EqualShapesAreStoredOnce) {
  const Reply reply = world_.SubmitJobs({MakeJob(Gpus(1)), MakeJob(Cpu()), MakeJob(Gpus(1))});
  EXPECT_THAT(reply.jobs, ElementsAre(1, 2, 3));
  EXPECT_THAT(world_.state.shapes, SizeIs(2));
  EXPECT_EQ(world_.state.jobs.at(1).job.shape_id, world_.state.jobs.at(3).job.shape_id);
  world_.SubmitJob(Cpu());
  EXPECT_THAT(world_.state.shapes, SizeIs(2));
}

TEST_F(AdmitJobs, SameRequestIdGetsTheFirstAnswerForADay) {
  EXPECT_THAT(world_.SubmitJobs({MakeJob(Cpu()), MakeJob(Cpu())}, "r1").jobs, ElementsAre(1, 2));
  const Reply again = world_.SubmitJobs({MakeJob(Cpu()), MakeJob(Cpu())}, "r1");
  EXPECT_THAT(again.jobs, ElementsAre(1, 2));
  EXPECT_TRUE(again.repeated);
  EXPECT_TRUE(world_.changes.Empty());
  EXPECT_THAT(world_.Try(core::Submit{"r1", "other", {MakeJob(Cpu())}}), StatusIs(Code::kAlreadyExists, AllOf(HasSubstr("r1"), HasSubstr("1, 2"))));
  world_.Advance(limits::kRequestIdTtlMs);
  EXPECT_THAT(world_.SubmitJobs({MakeJob(Cpu())}, "r1").jobs, ElementsAre(3));
}

TEST_F(AdmitJobs, OldRequestIdsAreForgotten) {
  world_.SubmitJobs({MakeJob(Cpu())}, "r1");
  world_.Advance(limits::kRequestIdTtlMs);
  world_.HearFromAll();
  EXPECT_THAT(Only<ForgetRequests>(Decide(world_.state, world_.soft, world_.policy, world_.now_ms)), IsEmpty());
  world_.Advance(1);
  EXPECT_THAT(Only<ForgetRequests>(world_.Turn()), SizeIs(1));
  EXPECT_THAT(world_.state.requests, IsEmpty());
}

TEST_F(AdmitJobs, NeverFitsNamesTheNeedAndTheNearest) {
  EXPECT_THAT(Submit(MakeJob(Gpus(4, "A100"))), IsOk()) << "the cloud has not listed its offers yet";
  world_.Do(OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 1'000'000, Box(8, 1, "A100"))}});
  EXPECT_THAT(Submit(MakeJob(Gpus(4, "A100"))),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("never fits"), HasSubstr("4 x A100"), HasSubstr("offer cloud/od has 1 GPU, 4 needed"))));
  EXPECT_THAT(Submit(MakeJob(Gpus(2, "h100"))), IsOk()) << "models are compared without case";
  Shape picky = Gpus(1);
  picky.interruptible = false;
  picky.markets = {Market::kSpot};
  EXPECT_THAT(Submit(MakeJob(picky)), StatusIs(Code::kInvalidArgument, HasSubstr("never fits")));
}

TEST_F(AdmitJobs, OtherGpusAreNearerThanNone) {
  World other;
  other.Configure({Cloud()});
  other.Register("bare", Box(64));
  other.Do(OffersListed{"cloud", {MakeOffer("cloud", "h100", Market::kOnDemand, 1'000'000, Box(8, 1, "H100"))}});
  Shape shape = Gpus(1, "A100");
  shape.gpu_memory_bytes_max = 1;
  EXPECT_THAT(other.Try(core::Submit{"", "d", {MakeJob(shape)}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("nearest: offer cloud/h100 its GPUs are H100, not A100")));
}

TEST_F(AdmitJobs, WithNothingKnownItIsAcceptedWithAWarning) {
  World empty;
  const Reply reply = empty.SubmitJobs({MakeJob(Gpus(64))});
  EXPECT_THAT(reply.warnings, ElementsAre(HasSubstr("nothing known yet")));
  EXPECT_EQ(empty.state.jobs.at(1).job.counts.queued, 1);
}

TEST_F(AdmitJobs, UnsetGraceIsTheDefault) {
  const JobId job = world_.SubmitJob(Cpu());
  EXPECT_EQ(world_.state.jobs.at(job).job.grace_ms, limits::kStopGraceMs);
}

TEST_F(AdmitJobs, TasksThatNeverRanTakeNoMemory) {
  NewJob array = MakeJob(Cpu());
  array.task_count = 1'000;
  const JobId job = world_.SubmitJobs({array}).jobs.front();
  EXPECT_THAT(world_.state.jobs.at(job).tasks, IsEmpty());
  EXPECT_THAT(world_.state.index.queue, SizeIs(1));
  EXPECT_THAT(Only<Place>(world_.Turn()), SizeIs(8)) << "as many as the node has cpus";
  EXPECT_THAT(world_.state.jobs.at(job).tasks, SizeIs(8));
  EXPECT_EQ(world_.state.jobs.at(job).job.next_index, 8);
  EXPECT_EQ(GetTask(world_.state, {job, 999})->state, TaskState::kQueued);
  EXPECT_EQ(GetTask(world_.state, {job, 1'000}), std::nullopt);
  world_.End(world_.Living({job, 3}), EndCause::kCompleted);
  EXPECT_THAT(Only<Place>(world_.Turn()), SizeIs(1));
  EXPECT_EQ(world_.Living({job, 8}).number, 1);
}

TEST_F(AdmitJobs, CancelOfWaitingTasksEndsThemAtOnce) {
  NewJob array = MakeJob(Gpus(1));
  array.task_count = 5;
  const JobId job = world_.SubmitJobs({array}).jobs.front();
  world_.Turn();
  const Reply reply = world_.Do(Cancel{job, false, "enough"});
  EXPECT_EQ(reply.affected, 5);
  EXPECT_THAT(reply.message, HasSubstr("stopping within its grace of 30s")) << "two of them run";
  const Job& live = world_.state.jobs.at(job).job;
  EXPECT_EQ(live.counts.cancelled, 3);
  EXPECT_EQ(live.counts.active, 2);
  EXPECT_EQ(live.skipped, (std::vector<TaskRange>{{2, 5}})) << "without rows";
  EXPECT_THAT(world_.ended_tasks, IsEmpty());
  EXPECT_THAT(world_.state.index.queue, IsEmpty());
  world_.End(world_.Living({job, 0}), EndCause::kCancelled, Initiator::kUser);
  world_.End(world_.Living({job, 1}), EndCause::kCompleted);
  EXPECT_EQ(world_.ended_jobs[job].counts.succeeded, 1) << "it finished before the signal reached it";
  EXPECT_EQ(world_.ended_jobs[job].counts.cancelled, 4);
}

TEST_F(AdmitJobs, CancelNowTightensAndNothingLoosens) {
  const JobId job = Running();
  world_.Do(Cancel{job, false, "first"});
  const StopRequest first = *world_.task({job, 0}).attempt->stop;
  EXPECT_EQ(first.grace_ms, limits::kStopGraceMs);
  world_.Advance(kSecond);
  EXPECT_EQ(world_.Do(Cancel{job, true, "now"}).message, "being cancelled: killed at once");
  const StopRequest now = *world_.task({job, 0}).attempt->stop;
  EXPECT_EQ(now.grace_ms, 0);
  EXPECT_EQ(now.reason, "first") << "the first wish stays, only its time shrinks";
  EXPECT_EQ(world_.Do(Cancel{job, false, "again"}).message, "is being cancelled already");
  EXPECT_TRUE(world_.changes.Empty());
}

TEST_F(AdmitJobs, CancelTellsNeverWasFromHasEnded) {
  EXPECT_THAT(world_.Try(Cancel{99}), StatusIs(Code::kNotFound, HasSubstr("no job 99")));
  const JobId job = world_.SubmitJob(Cpu());
  EXPECT_EQ(world_.Do(Cancel{job}).message, "") << "it has ended";
  EXPECT_THAT(world_.Try(Cancel{job}), StatusIs(Code::kFailedPrecondition, HasSubstr("has ended")));
}

TEST_F(AdmitJobs, PreemptNeedsSomethingThatRuns) {
  EXPECT_THAT(world_.Try(Preempt{{99, 0}}), StatusIs(Code::kNotFound, HasSubstr("no job 99")));
  const JobId job = world_.SubmitJob(Gpus(1));
  EXPECT_THAT(world_.Try(Preempt{{job, 7}}), StatusIs(Code::kNotFound, HasSubstr("no task")));
  EXPECT_THAT(world_.Try(Preempt{{job, 0}}), StatusIs(Code::kFailedPrecondition, HasSubstr("not running")));
  world_.Turn();
  EXPECT_THAT(world_.Try(Preempt{{job, 0}}), StatusIs(Code::kFailedPrecondition, HasSubstr("OFFERED")));
  const AttemptId one = world_.Living({job, 0});
  world_.Start(one);
  EXPECT_EQ(world_.Do(Preempt{{job, 0}, 5'000}).affected, 1);
  EXPECT_EQ(world_.task({job, 0}).attempt->stop->grace_ms, 5'000);
  world_.End(one, EndCause::kPreempted, Initiator::kUser);
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.state, TaskState::kQueued);
  EXPECT_EQ(task.preempted, 0);
  EXPECT_EQ(task.not_before_ms, 0);
  EXPECT_EQ(task.seal_owed, 1);
}

// --- the seal ---

TEST_F(AdmitJobs, SealRegistersWhatTheNodeCouldNotReport) {
  const JobId job = Running();
  world_.Checkpoint({job, 0, 1}, 10);
  world_.End({job, 0, 1}, EndCause::kPreempted, Initiator::kProvider);
  world_.Do(SealResult{{job, 0, 1}, CheckpointRef{1, 25, "a1/step-25", "ff", 9, 0, false}, 0});
  const Task& task = world_.task({job, 0});
  EXPECT_EQ(task.seal_owed, 0);
  EXPECT_EQ(task.checkpoint->step, 25);
  EXPECT_TRUE(task.checkpoint->sealed);
  EXPECT_EQ(task.history.back().saved_step, 25);
  world_.Do(SealResult{{job, 0, 1}, CheckpointRef{1, 99, "late", "ff", 9, 0, false}, 0});
  EXPECT_TRUE(world_.changes.Empty()) << "what is written after the seal is never read";
}

TEST_F(AdmitJobs, SealGivesUpADamagedCheckpointForTheOneBefore) {
  const JobId job = Running();
  world_.Checkpoint({job, 0, 1}, 10);
  world_.End({job, 0, 1}, EndCause::kPreempted, Initiator::kProvider);
  world_.Seal({job, 0, 1});
  EXPECT_EQ(world_.task({job, 0}).checkpoint->step, 10) << "an empty answer without damage takes nothing away";
  world_.Turn();
  world_.Start({job, 0, 2});
  world_.Checkpoint({job, 0, 2}, 20);
  world_.Checkpoint({job, 0, 2}, 30);
  world_.End({job, 0, 2}, EndCause::kPreempted, Initiator::kProvider);
  world_.Do(SealResult{{job, 0, 2}, CheckpointRef{2, 20, "a2/step-20", "ab", 9, 0, false}, 1});
  EXPECT_EQ(world_.task({job, 0}).checkpoint->step, 20);
  world_.Turn();
  world_.Start({job, 0, 3});
  world_.Checkpoint({job, 0, 3}, 40);
  world_.End({job, 0, 3}, EndCause::kPreempted, Initiator::kProvider);
  world_.Do(SealResult{{job, 0, 3}, std::nullopt, 1});
  EXPECT_EQ(world_.task({job, 0}).checkpoint->path, "a2/step-20") << "nothing of the attempt itself is whole";
}

TEST_F(AdmitJobs, SealOfAForeignCheckpointIsRefused) {
  const JobId job = Running();
  world_.End({job, 0, 1}, EndCause::kPreempted, Initiator::kProvider);
  EXPECT_THAT(world_.Try(SealResult{{job, 0, 1}, CheckpointRef{2, 1, "x", "", 0, 0, false}, 0}), StatusIs(Code::kInvalidArgument, HasSubstr("attempt 2")));
  world_.Do(SealResult{{77, 0, 1}, std::nullopt, 0});
  EXPECT_TRUE(world_.changes.Empty());
}

TEST_F(AdmitJobs, NamesFindTheNewestLivingJob) {
  const JobId first = world_.SubmitJob(Cpu()), second = world_.SubmitJob(Cpu()), third = world_.SubmitJob(Cpu());
  EXPECT_EQ(world_.state.index.newest_by_name.at("job"), third);
  world_.Do(Cancel{third});
  world_.Do(Cancel{first});
  EXPECT_EQ(world_.state.index.newest_by_name.at("job"), second);
  world_.Do(Cancel{second});
  EXPECT_THAT(world_.state.index.newest_by_name, IsEmpty());
}

}  // namespace
}  // namespace spillway::core
