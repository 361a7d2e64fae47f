// The real spillway-worker and spillway-supervisor against a double of the scheduler, with real jobs: processes that are killed, schedulers that
// go away, machines that are taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/attempt_log.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_env.h"
#include "spillway/v1/job_spec.pb.h"
#include "tests/worker/scheduler_double.h"

namespace spillway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const AttemptId kA{1, 0, 1}, kB{2, 0, 1};

class WorkerProcess : public ::testing::Test {
 protected:
  WorkerProcess() {
    char folder[] = "/tmp/spillway-wk-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    EXPECT_OK(WriteFileAtomically(Path("token"), "secret-token\n", 0600));
    scheduler_ = std::make_unique<SchedulerDouble>("file:" + Path("store"));
  }
  ~WorkerProcess() override {
    KillWorker(SIGKILL);
    // By its own number; twice means: and your attempts, now.
    const pid_t supervisor = SupervisorPid();
    if (supervisor > 0) {
      const int64_t ticks = ProcessStartTicks(supervisor).value_or(0);
      kill(supervisor, SIGTERM);
      kill(supervisor, SIGTERM);
      Until([&] { return !ProcessAlive(supervisor, ticks); });
    }
    scheduler_->Stop();
    EXPECT_EQ(scheduler_->broken, "");
    if (HasFailure()) std::cerr << ReadFile(Path("worker.log")).value_or("no worker.log") << "\n";
    (void)RemoveTree(folder_);
  }

  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }

  bool Until(const std::function<bool()>& condition) {
    RealClock clock;
    for (const int64_t deadline = clock.NowSteadyMs() + 30'000; clock.NowSteadyMs() < deadline; usleep(5'000)) {
      if (condition()) return true;
    }
    return condition();
  }

  void StartWorker(std::vector<std::string> more = {}) {
    SpawnOptions spawn;
    spawn.argv = {absl::StrCat(getenv("SPILLWAY_BIN"), "/spillway-worker"),
                  "--home",
                  Path("home"),
                  "--server",
                  absl::StrCat("127.0.0.1:", scheduler_->port()),
                  "--token-file",
                  Path("token"),
                  "--node-name",
                  "n1",
                  "--zone",
                  "z1",
                  "--resources",
                  "cpus=2,memory=1GB,gpu=A100:2:40GB:simulated"};
    spawn.argv.insert(spawn.argv.end(), more.begin(), more.end());
    spawn.stdout_path = spawn.stderr_path = Path("worker.log");
    spawn.die_with_parent = true;
    ASSERT_OK_AND_ASSIGN(worker_, Spawn(spawn));
  }
  // The exit code, or -signal.
  int WaitWorker() {
    int status = 0;
    if (!Until([&] { return waitpid(worker_, &status, WNOHANG) == worker_; })) return -1000;
    worker_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void KillWorker(int signal) {
    if (worker_ <= 0) return;
    kill(worker_, signal);
    (void)WaitWorker();
  }
  pid_t SupervisorPid() {
    const auto text = ReadFile(Path("home/supervisor.pid"), 100);
    int pid = 0;
    return text.ok() && absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &pid) && kill(pid, 0) == 0 ? pid : 0;
  }

  void Begin(std::vector<std::string> more = {}) {
    scheduler_->Start();
    StartWorker(std::move(more));
    ASSERT_TRUE(scheduler_->WaitFor([](const SchedulerDouble& heard) { return !heard.hellos.empty(); }));
  }

  static std::string CheckpointDir(const AttemptId& attempt) {
    return absl::StrCat(SchedulerDouble::kClusterUuid, "/", attempt.job, "/", attempt.index, "/a", attempt.number);
  }
  static Offer OfferOf(const AttemptId& attempt, const std::string& spec) {
    Offer offer;
    offer.attempt = attempt;
    const Sha256Digest digest = Sha256Of(spec);
    offer.spec_digest.assign(digest.begin(), digest.end());
    offer.job_uid = "job-uid";
    offer.job_name = "job";
    offer.checkpoint_dir = CheckpointDir(attempt);
    offer.log_path = absl::StrCat(attempt.job, "/", attempt.index, "/a", attempt.number, ".log");
    return offer;
  }
  void OfferScript(const AttemptId& attempt, const std::string& script) {
    v1::JobSpec spec;
    spec.set_script(script);
    const std::string bytes = spec.SerializeAsString();
    scheduler_->Offer(OfferOf(attempt, bytes), bytes);
  }
  // Runs until the file `go-JOB` appears.
  void OfferWaiting(const AttemptId& attempt, const std::string& then = "echo went; exit 0") {
    OfferScript(attempt, absl::StrCat("echo socket=$SPILLWAY_SOCKET dir=$SPILLWAY_CHECKPOINT_DIR\nwhile [ ! -e ", Path(absl::StrCat("go-", attempt.job)),
                                      " ]; do sleep 0.02; done\n", then, "\n"));
  }
  void Go(const AttemptId& attempt) { ASSERT_OK(WriteFileAtomically(Path(absl::StrCat("go-", attempt.job)), "")); }
  std::string Log(const AttemptId& attempt) {
    const auto chunk = ReadAttemptLog(Path(absl::StrCat("store/logs/", attempt.job, "/", attempt.index, "/a", attempt.number, ".log")), 0, 1 << 20);
    return chunk.ok() ? chunk->text : chunk.status().ToString();
  }
  // The value of `name=` in the first line of the log, once it is there.
  std::string Said(const AttemptId& attempt, const std::string& name) {
    std::string value;
    Until([&] {
      const std::string text = Log(attempt);
      if (text.find('\n') == std::string::npos) return false;
      for (absl::string_view word : absl::StrSplit(text.substr(0, text.find('\n')), ' ')) {
        if (absl::ConsumePrefix(&word, name + "=")) value = std::string(word);
      }
      return true;
    });
    return value;
  }
  Report Wait(const AttemptId& attempt, Report::Kind kind) { return scheduler_->WaitForReport(attempt, kind); }
  EndFacts WaitEnd(const AttemptId& attempt) { return Wait(attempt, Report::Kind::kEnded).end; }
  std::vector<int> KindsOf(const AttemptId& attempt) {
    std::vector<int> kinds;
    scheduler_->WaitFor([&](const SchedulerDouble& heard) {
      for (const Report& report : heard.reports) {
        if (report.attempt == attempt) kinds.push_back(static_cast<int>(report.kind));
      }
      return true;
    });
    return kinds;
  }

  std::string folder_;
  pid_t worker_ = 0;
  std::unique_ptr<SchedulerDouble> scheduler_;
};

TEST_F(WorkerProcess, RunsAJobAndItsLogArrivesInTheStore) {
  Begin();
  const Hello hello = scheduler_->hellos[0];
  EXPECT_EQ(hello.node_name, "n1");
  EXPECT_EQ(hello.provider, "static");
  EXPECT_EQ(hello.zone, "z1");
  EXPECT_EQ(hello.resources.cpu_milli, 2'000);
  EXPECT_THAT(hello.resources.accelerators, ElementsAre(Accelerator{"A100", 2, 40LL << 30, true}));
  EXPECT_FALSE(hello.boot_id.empty());
  EXPECT_THAT(scheduler_->authorizations, ElementsAre("Bearer secret-token"));
  OfferScript(kA, "echo hello from $SPILLWAY_JOB_ID.$SPILLWAY_TASK_INDEX@$SPILLWAY_ATTEMPT on $SPILLWAY_NODE_LIST; pwd; ls -d $SPILLWAY_CHECKPOINT_DIR");
  const EndFacts end = WaitEnd(kA);
  EXPECT_EQ(end.cause, EndCause::kCompleted);
  EXPECT_THAT(KindsOf(kA), ElementsAre(1, 2, 4));
  EXPECT_EQ(Log(kA), absl::StrCat("hello from 1.0@1 on n1\n", Path("home/attempts/1.0@1"), "\n", Path("store/checkpoints/"), CheckpointDir(kA), "\n"));
  EXPECT_EQ(end.log_bytes, static_cast<int64_t>(Log(kA).size()));
  EXPECT_TRUE(Until([&] { return !PathExists(Path("home/attempts/1.0@1")); }));                     // cleaned up once durable
  EXPECT_TRUE(Until([&] { return !PathExists(Path("store/checkpoints/" + CheckpointDir(kA))); }));  // it was empty
  EXPECT_TRUE(scheduler_->WaitFor([](const SchedulerDouble& heard) { return heard.renewals >= 2; }));
}

TEST_F(WorkerProcess, FailuresAreToldApart) {
  Begin();
  OfferScript(kA, "echo no >&2; exit 3");
  EndFacts end = WaitEnd(kA);
  EXPECT_EQ(end.cause, EndCause::kUserError);
  EXPECT_THAT(end.detail, HasSubstr("exit code 3"));
  v1::JobSpec spec;
  spec.add_command("no-such-program");
  std::string bytes = spec.SerializeAsString();
  scheduler_->Offer(OfferOf(kB, bytes), bytes);
  end = WaitEnd(kB);
  EXPECT_EQ(end.cause, EndCause::kLaunchFailed);
  EXPECT_EQ(end.initiator, Initiator::kJob);
  EXPECT_THAT(end.detail, HasSubstr("no-such-program"));
  Offer hostile = OfferOf({3, 0, 1}, bytes);
  hostile.log_path = "../../outside.log";
  scheduler_->Offer(hostile, bytes);
  EXPECT_EQ(WaitEnd({3, 0, 1}).cause, EndCause::kStagingFailed);
}

TEST_F(WorkerProcess, AKilledWorkerIsReplacedAndTheJobDoesNotNotice) {
  Begin();
  OfferWaiting(kA);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  const pid_t supervisor = SupervisorPid();
  KillWorker(SIGKILL);
  StartWorker();
  ASSERT_TRUE(scheduler_->WaitFor([](const SchedulerDouble& heard) { return heard.hellos.size() == 2; }));
  EXPECT_EQ(scheduler_->hellos[1].boot_id, scheduler_->hellos[0].boot_id);
  EXPECT_THAT(scheduler_->hellos[1].inventory, ElementsAre(InventoryItem{kA, AttemptState::kRunning}));
  EXPECT_EQ(scheduler_->hellos[1].node_id, 7);
  EXPECT_EQ(scheduler_->hellos[1].cluster_uuid, SchedulerDouble::kClusterUuid);
  EXPECT_EQ(SupervisorPid(), supervisor);
  Go(kA);
  const Report ended = Wait(kA, Report::Kind::kEnded);
  EXPECT_EQ(ended.end.cause, EndCause::kCompleted);
  EXPECT_GE(ended.seq, 3);  // 4 when the kill fell between writing a report and acking its event: a report may come twice
  EXPECT_LE(ended.seq, 4);
  EXPECT_THAT(Log(kA), HasSubstr("went"));
}

TEST_F(WorkerProcess, ReportsThatWereNotAckedOutliveTheWorker) {
  scheduler_->ack_reports = false;
  Begin();
  OfferScript(kA, "exit 0");
  ASSERT_EQ(Wait(kA, Report::Kind::kEnded).seq, 3);
  KillWorker(SIGKILL);
  StartWorker();
  // All three again, with the same numbers and the same content: the double would say `broken` otherwise.
  EXPECT_TRUE(scheduler_->WaitFor([](const SchedulerDouble& heard) { return heard.hellos.size() == 2 && heard.repeated == 3; }));
  EXPECT_THAT(scheduler_->hellos[1].inventory, ElementsAre(InventoryItem{kA, AttemptState::kEnded}));
  EXPECT_THAT(scheduler_->reports, ::testing::SizeIs(3));
}

TEST_F(WorkerProcess, ASchedulerThatGoesAwayDisturbsNothing) {
  Begin();
  OfferWaiting(kA);
  OfferWaiting(kB);
  ASSERT_NE(Wait(kB, Report::Kind::kStarted).seq, 0);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  scheduler_->Stop();
  Go(kA);  // it ends while nobody listens
  ASSERT_TRUE(Until([&] { return Log(kA).find("went") != std::string::npos; }));
  scheduler_->Start();
  EXPECT_EQ(WaitEnd(kA).cause, EndCause::kCompleted);
  Go(kB);
  EXPECT_EQ(WaitEnd(kB).cause, EndCause::kCompleted);
}

TEST_F(WorkerProcess, AStopIsPoliteThenFinal) {
  Begin();
  OfferWaiting(kA);
  OfferScript(kB, "trap '' TERM\necho deaf\nwhile true; do sleep 0.02; done\n");
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  ASSERT_TRUE(Until([&] { return Log(kB) == "deaf\n"; }));
  SchedulerFrame frame;
  frame.stops.push_back({kA, EndCause::kCancelled, Initiator::kUser, 20'000, "asked"});
  frame.stops.push_back({kB, EndCause::kPreempted, Initiator::kScheduler, 200, "needed elsewhere"});
  frame.stops.push_back({{9, 0, 1}, EndCause::kMoved, Initiator::kScheduler, 0, ""});
  scheduler_->Send(frame);
  EndFacts end = WaitEnd(kA);
  EXPECT_EQ(end.cause, EndCause::kCancelled);
  EXPECT_EQ(end.initiator, Initiator::kUser);
  end = WaitEnd(kB);
  EXPECT_EQ(end.cause, EndCause::kPreempted);
  EXPECT_THAT(end.detail, HasSubstr("SIGKILL"));
  EXPECT_EQ(WaitEnd({9, 0, 1}).cause, EndCause::kMoved);  // never seen here
}

TEST_F(WorkerProcess, CheckpointsAndProgressAreReportedAndLiesAreNot) {
  Begin();
  OfferWaiting(kA, "exit 85");
  const std::string socket = Said(kA, "socket"), dir = Said(kA, "dir");
  ASSERT_FALSE(socket.empty());
  // This test is the training program.
  checkpoint::WriterOptions options;
  options.directory = dir;
  options.job_uid = "job-uid";
  ASSERT_OK_AND_ASSIGN(checkpoint::Writer writer, checkpoint::Writer::Open(options));
  ASSERT_OK_AND_ASSIGN(checkpoint::Reporter reporter, checkpoint::Reporter::Open(socket));
  reporter.Progress(10, 100, {{"loss", 2.5}});
  EXPECT_TRUE(scheduler_->WaitFor([](const SchedulerDouble& heard) { return !heard.progress.empty() && heard.progress[0].step == 10; }));
  ASSERT_OK_AND_ASSIGN(const checkpoint::CommittedCheckpoint first, writer.Save(10, {}));
  ASSERT_OK(reporter.Checkpoint(5, "/etc", "00", 1));  // a lie
  ASSERT_OK(reporter.Checkpoint(first.step, first.path, first.manifest_sha256, first.bytes));
  const Report report = Wait(kA, Report::Kind::kCheckpoint);
  EXPECT_EQ(report.checkpoint, (CheckpointFound{10, CheckpointDir(kA) + "/step-000000000010", first.manifest_sha256, first.bytes}));
  ASSERT_OK(writer.Save(20, {}).status());  // committed, never reported
  Go(kA);
  const EndFacts end = WaitEnd(kA);
  EXPECT_EQ(end.cause, EndCause::kCheckpointed);
  EXPECT_EQ(end.last_step, 10);
  EXPECT_EQ(end.total_steps, 100);
  EXPECT_THAT(KindsOf(kA), ElementsAre(1, 2, 3, 3, 4));
  ASSERT_OK_AND_ASSIGN(const std::string log, ReadFile(Path("worker.log")));
  EXPECT_THAT(log, HasSubstr("'/etc' is not a step directory"));
  EXPECT_TRUE(PathExists(first.path));  // whoever cleans up leaves it
}

TEST_F(WorkerProcess, ANoticeStopsTheJobsAndIsPassedOn) {
  Begin({"--notice-source", "file", "--metadata-url", Path("notice"), "--notice-every", "20ms", "--notice-margin", "100ms"});
  OfferWaiting(kA);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  ASSERT_OK(WriteFileAtomically(Path("notice"), "{\"lead_ms\": 5000}"));
  EXPECT_TRUE(scheduler_->WaitFor([](const SchedulerDouble& heard) { return heard.notices.size() == 1; }));
  EXPECT_EQ(scheduler_->notices[0].source, "file");
  const EndFacts end = WaitEnd(kA);
  EXPECT_EQ(end.cause, EndCause::kPreempted);
  EXPECT_EQ(end.initiator, Initiator::kProvider);
  OfferScript(kB, "exit 0");
  EXPECT_EQ(WaitEnd(kB).cause, EndCause::kPreempted);
  EXPECT_THAT(KindsOf(kB), ElementsAre(4));  // never started
}

TEST_F(WorkerProcess, ALeaseThatIsNotRenewedEndsTheJobInTime) {
  scheduler_->welcome.lease_ms = 2'000;
  scheduler_->welcome.renew_every_ms = 200;
  Begin();
  OfferWaiting(kA);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  scheduler_->Stop();
  RealClock clock;
  const int64_t from = clock.NowSteadyMs();
  ASSERT_TRUE(Until([&] { return ReadFile(Path("worker.log")).value_or("").find("1.0@1 ended") != std::string::npos; }));
  EXPECT_LT(clock.NowSteadyMs() - from, 15'000);
  scheduler_->Start();
  const EndFacts end = WaitEnd(kA);
  EXPECT_EQ(end.cause, EndCause::kFenced);
  EXPECT_EQ(end.initiator, Initiator::kNode);
}

TEST_F(WorkerProcess, ASupervisorThatDiesTakesItsJobsAlongAndIsReplaced) {
  Begin();
  OfferWaiting(kA);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  ASSERT_EQ(kill(SupervisorPid(), SIGKILL), 0);
  EXPECT_EQ(WaitEnd(kA).cause, EndCause::kNodeLost);
  ASSERT_GE(scheduler_->Sessions(), 2u);
  EXPECT_NE(scheduler_->hellos.back().boot_id, scheduler_->hellos[0].boot_id);
  OfferScript(kB, "exit 0");
  EXPECT_EQ(WaitEnd(kB).cause, EndCause::kCompleted);
}

TEST_F(WorkerProcess, AGoodbyeForGoodEndsEverything) {
  Begin();
  OfferWaiting(kA);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  const pid_t supervisor = SupervisorPid();
  ASSERT_GT(supervisor, 0);
  const int64_t ticks = ProcessStartTicks(supervisor).value_or(0);
  SchedulerFrame frame;
  frame.goodbye = Goodbye{"RELEASED", "not needed any more", false};
  scheduler_->Send(frame);
  EXPECT_EQ(WaitWorker(), 0);
  EXPECT_TRUE(Until([&] { return !ProcessAlive(supervisor, ticks); }));
}

TEST_F(WorkerProcess, SigtermDetaches) {
  Begin();
  OfferWaiting(kA);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  ASSERT_EQ(kill(worker_, SIGTERM), 0);
  EXPECT_EQ(WaitWorker(), 0);
  EXPECT_NE(SupervisorPid(), 0);
  StartWorker();
  Go(kA);
  EXPECT_EQ(WaitEnd(kA).cause, EndCause::kCompleted);
}

TEST_F(WorkerProcess, SigtermDrainsWhenToldTo) {
  Begin({"--stop-jobs-on-exit"});
  OfferWaiting(kA);
  ASSERT_NE(Wait(kA, Report::Kind::kStarted).seq, 0);
  const pid_t supervisor = SupervisorPid();
  const int64_t ticks = ProcessStartTicks(supervisor).value_or(0);
  ASSERT_EQ(kill(worker_, SIGTERM), 0);
  EXPECT_EQ(WaitWorker(), 0);
  const EndFacts end = WaitEnd(kA);
  EXPECT_EQ(end.cause, EndCause::kPreempted);
  EXPECT_EQ(end.initiator, Initiator::kNode);
  EXPECT_TRUE(scheduler_->WaitFor([](const SchedulerDouble& heard) { return heard.notices.size() == 1 && heard.notices[0].source == "shutdown"; }));
  EXPECT_TRUE(Until([&] { return !ProcessAlive(supervisor, ticks); }));
}

TEST_F(WorkerProcess, TwoWorkersDoNotShareAHome) {
  Begin();
  const pid_t first = worker_;
  StartWorker();
  EXPECT_EQ(WaitWorker(), 3);
  worker_ = first;
  ASSERT_OK_AND_ASSIGN(const std::string log, ReadFile(Path("worker.log")));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("another worker has ", Path("home"), " (process ", first, ")")));
}

}  // namespace
}  // namespace spillway::worker
