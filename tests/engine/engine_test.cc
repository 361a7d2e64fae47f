// What leaves the engine, and when: nothing before the commit it rests on, renewals at once, everything owed again after a restart.
#include "scheduler/engine/engine.h"

#include "base/limits.h"
#include "tests/engine/harness.h"

namespace spillway::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Kind = core::Report::Kind;

TEST(EngineTest, AReplyWaitsForItsCommit) {
  Harness h;
  h.Configure({});
  int answers = 0;
  ASSERT_OK(h.engine->Post(Harness::OneJob(Cpu()), [&](absl::StatusOr<core::Reply> reply) {
    ASSERT_OK(reply);
    ++answers;
  }));
  EXPECT_EQ(answers, 0);
  ASSERT_TRUE(h.Step());
  EXPECT_EQ(answers, 0);
  h.CommitOne();
  EXPECT_EQ(answers, 1);
  h.Run();
  EXPECT_EQ(answers, 1);
}

TEST(EngineTest, SubmitDecideAndOfferShareOneCommitAndTheOfferWaitsForIt) {
  Harness h;
  h.Configure({});
  h.Register(1, "a", Box(4));
  h.Said();
  const int64_t seq = h.engine->last_seq();
  ASSERT_OK(h.engine->Post(Harness::OneJob(Cpu()), nullptr));
  ASSERT_TRUE(h.Step());
  EXPECT_THAT(h.Said(), IsEmpty());
  h.CommitOne();
  EXPECT_THAT(h.Said(), ElementsAre("offer 1 1.0@1"));
  EXPECT_EQ(h.engine->last_seq(), seq + 1);
  h.Run();
  EXPECT_THAT(h.Said(), IsEmpty());  // once a session
  ASSERT_EQ(h.offers.size(), 1u);
  EXPECT_EQ(h.offers[0].checkpoint_dir, "cluster/1/0/a1");
  EXPECT_EQ(h.offers[0].log_path, "1/0/a1.log");
}

TEST(EngineTest, TheMembersOfAGangAreToldToStartWhenAllHaveAccepted) {
  Harness h;
  h.Configure({});
  h.Register(1, "a", Box(4));
  h.Register(2, "b", Box(4));
  core::Shape shape = Cpu();
  shape.nodes = 2;
  h.SubmitJob(shape);
  h.Said();
  ASSERT_EQ(h.offers.size(), 2u);
  EXPECT_EQ(h.offers[0].rank, 0);
  EXPECT_EQ(h.offers[1].rank, 1);
  EXPECT_EQ(h.offers[1].log_path, "1/0/a1.1.log");
  EXPECT_EQ(h.offers[0].checkpoint_dir, h.offers[1].checkpoint_dir);
  EXPECT_THAT(h.offers[0].node_names, ElementsAre("a", "b"));
  const AttemptId attempt{1, 0, 1};
  const auto accepted = [&](int64_t session, const std::string& rendezvous) {
    core::Report report;
    report.seq = 1;
    report.attempt = attempt;
    report.rendezvous = rendezvous;
    h.engine->Reports(session, {report});
    h.Run();
  };
  accepted(2, "");
  EXPECT_THAT(h.Said(), ::testing::Not(::testing::Contains("offer 2 1.0@1")));
  accepted(1, "host:4242");
  EXPECT_THAT(h.Said(), ::testing::IsSupersetOf({"offer 1 1.0@1", "offer 2 1.0@1"}));
  ASSERT_EQ(h.offers.size(), 4u);
  EXPECT_EQ(h.offers[2].rendezvous, "host:4242");
  EXPECT_EQ(h.offers[3].rendezvous, "host:4242");
  // A worker that comes back and still waits is told again.
  core::NodeHello hello = Harness::HelloOf("b", Box(4));
  hello.inventory.push_back({attempt, AttemptState::kStarting});
  ASSERT_OK(h.engine->Hello(3, hello));
  h.Run();
  ASSERT_EQ(h.welcomes[3].offers.size(), 1u);
  EXPECT_EQ(h.welcomes[3].offers[0].rendezvous, "host:4242");
}

TEST(EngineTest, ARefusalIsAnsweredWithoutABatchYetAfterWhatItRestsOn) {
  Harness h;
  h.Configure({});
  EXPECT_THAT(h.Do(core::Cancel{.job = 7}), StatusIs(absl::StatusCode::kNotFound, ::testing::_));

  ASSERT_OK(h.engine->Post(Harness::OneJob(Cpu()), nullptr));
  ASSERT_TRUE(h.Step());
  int answers = 0;
  ASSERT_OK(h.engine->Post(core::Cancel{.job = 7}, [&](absl::StatusOr<core::Reply>) { ++answers; }));
  while (h.Step()) {
  }
  EXPECT_EQ(answers, 0);  // a state that was not durable said no
  while (!h.batches.empty()) h.CommitOne();
  EXPECT_EQ(answers, 1);
}

TEST(EngineTest, AWelcomeWaitsForTheCommitAndCarriesWhatIsWanted) {
  Harness h;
  h.Configure({});
  h.SubmitJob(Gpus(2));
  ASSERT_OK(h.engine->Hello(1, Harness::HelloOf("a", Box(4, 2))));
  ASSERT_TRUE(h.Step());
  EXPECT_THAT(h.Said(), IsEmpty());
  h.CommitOne();
  // The hello, the decision and the offer were one turn: the Welcome has it all.
  EXPECT_THAT(h.Said(), ElementsAre("welcome 1"));
  const WelcomeOrder& welcome = h.welcomes[1];
  EXPECT_EQ(welcome.cluster_uuid, "cluster");
  EXPECT_EQ(welcome.lease_ms, limits::kLeaseMs);
  EXPECT_THAT(welcome.wanted, ElementsAre(AttemptId{1, 0, 1}));
  ASSERT_EQ(welcome.offers.size(), 1u);
  EXPECT_THAT(welcome.offers[0].devices, ElementsAre(0, 1));
  h.Run();
  EXPECT_THAT(h.Said(), IsEmpty());
}

TEST(EngineTest, ANewSessionReplacesTheOldOneAndIsOfferedWhatItLacks) {
  Harness h;
  h.Configure({});
  h.Register(1, "a", Box(4));
  const JobId job = h.SubmitJob(Cpu()), other = h.SubmitJob(Cpu());
  h.Said();
  core::NodeHello hello = Harness::HelloOf("a", Box(4));
  hello.inventory = {{{other, 0, 1}, AttemptState::kStarting}};
  ASSERT_OK(h.engine->Hello(2, hello));
  h.Run();
  EXPECT_THAT(h.Said(), ElementsAre("close 1 REPLACED come back", "welcome 2"));
  EXPECT_THAT(h.welcomes[2].wanted, ElementsAre(AttemptId{job, 0, 1}, AttemptId{other, 0, 1}));
  ASSERT_EQ(h.welcomes[2].offers.size(), 1u);
  EXPECT_EQ(h.welcomes[2].offers[0].attempt, (AttemptId{job, 0, 1}));
  // The old session's words count no more.
  h.engine->Heard(1, 9);
  h.engine->Reports(1, {h.Said({job, 0, 1}, Kind::kAccepted, 1)});
  h.Run();
  EXPECT_THAT(h.Said(), IsEmpty());
  EXPECT_EQ(h.Living({job, 0})->state, AttemptState::kOffered);
}

// A worker killed between accepting an attempt and starting it: the next one gets the same attempt again, not a new one.
TEST(EngineTest, WhatWasAcceptedAndForgottenBeforeItStartedIsOfferedAgain) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  const JobId accepted = h.SubmitJob(Cpu()), runs = h.SubmitJob(Cpu());
  h.engine->Reports(1,
                    {h.Said({accepted, 0, 1}, Kind::kAccepted, node), h.Said({runs, 0, 1}, Kind::kAccepted, node), h.Said({runs, 0, 1}, Kind::kStarted, node)});
  h.Run();
  ASSERT_EQ(h.Living({accepted, 0})->state, AttemptState::kStarting);
  ASSERT_OK(h.engine->Hello(2, Harness::HelloOf("a", Box(4))));
  h.Run();
  EXPECT_THAT(h.welcomes[2].wanted, ElementsAre(AttemptId{accepted, 0, 1}, AttemptId{runs, 0, 1}));
  // What had started and is not there is no mere forgetting: the node says that it is lost.
  ASSERT_EQ(h.welcomes[2].offers.size(), 1u);
  EXPECT_EQ(h.welcomes[2].offers[0].attempt, (AttemptId{accepted, 0, 1}));
  h.engine->Reports(2, {h.Said({accepted, 0, 1}, Kind::kAccepted, node), h.Said({accepted, 0, 1}, Kind::kStarted, node)});
  h.Run();
  EXPECT_EQ(h.Living({accepted, 0})->state, AttemptState::kRunning);
  EXPECT_EQ(h.Living({accepted, 0})->number, 1);
}

TEST(EngineTest, AnotherMachineOfTheSameNameIsRefusedWhileTheFirstSpeaks) {
  Harness h;
  h.Configure({});
  h.Register(1, "a", Box(4));
  ASSERT_OK(h.engine->Hello(2, Harness::HelloOf("a", Box(4), "boot-2")));
  h.Run();
  EXPECT_THAT(h.refused[2], StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("live session")));
  // Its connection may hang on when the machine has long been silent.
  h.Pass(limits::kSilenceMs + kSecond);
  ASSERT_OK(h.engine->Hello(3, Harness::HelloOf("a", Box(4), "boot-2")));
  h.Run();
  EXPECT_THAT(h.log, Contains("close 1 REPLACED come back"));
  EXPECT_EQ(h.welcomes.count(3), 1u);
}

TEST(EngineTest, RenewalsAreAckedAtOnceEvenWhileACommitIsInFlight) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  h.Said();
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(h.engine->Post(Harness::OneJob(Cpu()), nullptr));
    h.Step();
  }
  h.now_ms += 5 * kSecond;
  h.engine->Heard(1, 1);
  h.engine->Heard(1, 2);
  h.Step();
  EXPECT_THAT(h.Said(), ElementsAre("ack renewal 1 2"));
  EXPECT_EQ(h.engine->soft().leases.at(node).lease_end_ms, h.now_ms + limits::kLeaseMs);
}

TEST(EngineTest, ARenewalBeforeTheWelcomeIsAckedAfterIt) {
  Harness h;
  h.Configure({});
  h.Said();
  ASSERT_OK(h.engine->Hello(1, Harness::HelloOf("a", Box(4))));
  h.engine->Heard(1, 1);
  ASSERT_TRUE(h.Step());
  EXPECT_THAT(h.Said(), IsEmpty());
  h.CommitOne();
  EXPECT_THAT(h.Said(), ElementsAre("welcome 1", "ack renewal 1 1"));
}

TEST(EngineTest, ReportsAreAckedAfterTheCommitAndEndedAttemptsForgotten) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  const JobId job = h.SubmitJob(Cpu());
  const AttemptId attempt{job, 0, 1};
  h.Said();
  core::Report ended = h.Said(attempt, Kind::kAccepted, node);
  std::vector<core::Report> reports = {ended, h.Said(attempt, Kind::kStarted, node), h.Said(attempt, Kind::kEnded, node)};
  reports[2].cause = EndCause::kCompleted;
  reports[2].initiator = Initiator::kJob;
  h.engine->Reports(1, reports);
  ASSERT_TRUE(h.Step());
  EXPECT_THAT(h.Said(), IsEmpty());
  h.CommitOne();
  EXPECT_THAT(h.Said(), ElementsAre("ack reports 1 3", "forget 1 1.0@1"));
  EXPECT_THAT(h.engine->state().jobs, IsEmpty());

  // The same again after a lost ack: acked again, nothing changes.
  h.engine->Reports(1, reports);
  EXPECT_FALSE(h.Step());
  EXPECT_THAT(h.Said(), ElementsAre("ack reports 1 3", "forget 1 1.0@1"));
}

TEST(EngineTest, AGapInTheReportsEndsTheSession) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  h.Said();
  core::Report report = h.Said({1, 0, 1}, Kind::kAccepted, node);
  report.seq = 5;
  h.engine->Reports(1, {report});
  h.Run();
  EXPECT_THAT(h.Said(), ElementsAre("close 1 RESTART come back"));
  EXPECT_EQ(h.engine->soft().leases.at(node).session, 0);
}

TEST(EngineTest, AStopIsSaidOnceAndAgainWhenTighter) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  const JobId job = h.SubmitJob(Cpu());
  h.engine->Reports(1, {h.Said({job, 0, 1}, Kind::kAccepted, node), h.Said({job, 0, 1}, Kind::kStarted, node)});
  h.Run();
  h.Said();
  ASSERT_OK(h.Do(core::Cancel{.job = job}));
  EXPECT_EQ(h.Count("stop 1 1.0@1"), 1);
  EXPECT_GT(h.stops.back().stop.grace_ms, 0);
  ASSERT_OK(h.Do(core::Cancel{.job = job, .now = true}));
  EXPECT_EQ(h.Count("stop 1 1.0@1"), 2);
  EXPECT_EQ(h.stops.back().stop.grace_ms, 0);
  // A new session hears it in its Welcome.
  core::NodeHello hello = Harness::HelloOf("a", Box(4));
  hello.inventory = {{{job, 0, 1}, AttemptState::kRunning}};
  ASSERT_OK(h.engine->Hello(2, hello));
  h.Run();
  ASSERT_EQ(h.welcomes[2].stops.size(), 1u);
  EXPECT_EQ(h.Count("stop 2 1.0@1"), 0);
}

TEST(EngineTest, ASilentStaticNodeIsLostWhenItsLeaseHasLapsedAndNotBefore) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  const JobId job = h.SubmitJob(Cpu());
  h.engine->Reports(1, {h.Said({job, 0, 1}, Kind::kAccepted, node), h.Said({job, 0, 1}, Kind::kStarted, node)});
  h.Run();
  h.engine->Progressed(1, {job, 0, 1}, {.step = 17, .total = 100});
  h.engine->Closed(1);
  h.Pass(limits::kLeaseMs + limits::kLeaseGraceMs - kSecond);
  EXPECT_NE(core::FindNode(h.engine->state(), node), nullptr);
  EXPECT_EQ(h.LivingId({job, 0}).number, 1);
  h.Pass(2 * kSecond);
  EXPECT_EQ(core::FindNode(h.engine->state(), node), nullptr);
  EXPECT_EQ(h.engine->counters().leases_restarted, 1);  // the start alone: time that passes at its pace is no stall
  // The end is sealed before anything else is offered.
  ASSERT_EQ(h.seals.size(), 1u);
  EXPECT_EQ(h.seals[0].checkpoint_dir, "cluster/1/0/a1");
  EXPECT_EQ(core::FindTask(h.engine->state(), {job, 0})->history.back().to_step, 17) << "as far as was heard";
  h.Register(2, "b", Box(4));
  h.renewing = {2};
  h.Pass(5 * kMinute);
  EXPECT_EQ(h.LivingId({job, 0}).number, 0);
  ASSERT_OK(h.Do(core::SealResult{.attempt = {job, 0, 1}}));
  EXPECT_EQ(h.LivingId({job, 0}).number, 2);
}

TEST(EngineTest, ALostNodeThatComesBackIsANewNodeOnWhichNothingIsWanted) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  const JobId job = h.SubmitJob(Cpu());
  h.engine->Reports(1, {h.Said({job, 0, 1}, Kind::kAccepted, node)});
  h.Run();
  h.Said();
  h.Pass(limits::kLeaseMs + limits::kLeaseGraceMs + kSecond);
  EXPECT_THAT(h.Said(), Contains("close 1 LOST come back"));
  core::NodeHello hello = Harness::HelloOf("a", Box(4));
  hello.inventory = {{{job, 0, 1}, AttemptState::kRunning}};
  ASSERT_OK(h.engine->Hello(2, hello));
  h.Run();
  EXPECT_NE(h.welcomes[2].node, node);
  EXPECT_THAT(h.welcomes[2].wanted, Not(Contains(AttemptId{job, 0, 1})));
}

TEST(EngineTest, AnEngineThatStoodStillLongerThanARenewalRestartsAllLeases) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  const int64_t before = h.engine->counters().leases_restarted;
  h.now_ms += limits::kLeaseMs + kMinute;  // the process was stopped
  h.Run();
  EXPECT_EQ(h.engine->counters().leases_restarted, before + 1);
  ASSERT_NE(core::FindNode(h.engine->state(), node), nullptr);
  EXPECT_EQ(h.engine->soft().leases.at(node).lease_end_ms, h.now_ms + limits::kLeaseMs);
  EXPECT_EQ(h.engine->soft().leases.at(node).session, 1);
  h.engine->Heard(1, 5);
  h.Run();
  EXPECT_THAT(h.log, Contains("ack renewal 1 5"));
}

TEST(EngineTest, RenewalsThatWaitedAreTakenBeforeAnythingExpires) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  h.renewing = {1};
  h.Pass(30 * kMinute);
  EXPECT_NE(core::FindNode(h.engine->state(), node), nullptr);
}

// A job for which the cloud made an instance, that said hello by session 1: what it said.
core::NodeHello RunOnCloud(Harness* h) {
  h->Configure({core::Cloud()});
  EXPECT_OK(h->Do(core::OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 3'000'000, Box(8, 1))}}));
  h->SubmitJob(Gpus(1));
  EXPECT_EQ(h->creates.size(), 1u);
  EXPECT_OK(h->Do(core::InstanceCreated{h->creates.at(0).node.id, "i-1"}));
  core::NodeHello hello = Harness::HelloOf(h->creates[0].node.name, Box(8, 1));
  hello.provider = "cloud";
  hello.instance_id = "i-1";
  EXPECT_OK(h->engine->Hello(1, hello));
  h->Run();
  return hello;
}

TEST(EngineTest, AProviderIsAskedAboutItsSilentNodes) {
  Harness h;
  RunOnCloud(&h);
  EXPECT_EQ(h.creates[0].client_token, absl::StrCat("cluster-", h.creates[0].node.id));
  EXPECT_EQ(h.creates[0].offer.name, "od");
  const NodeId node = h.creates[0].node.id;
  h.engine->Closed(1);
  h.Said();
  h.Pass(limits::kSilenceMs - kSecond);
  EXPECT_EQ(h.Count("ask about cloud"), 0);
  h.Pass(2 * kSecond);
  EXPECT_GE(h.Count("ask about cloud"), 1);
  // And the machine is ended: its provider's word frees the job for another.
  EXPECT_EQ(h.Count(absl::StrCat("terminate ", node)), 1);
  EXPECT_EQ(h.terminates.back().instance_id, "i-1");
  ASSERT_OK(h.Do(core::InstanceGone{.node = node, .reason = "terminated"}));
  EXPECT_EQ(core::FindNode(h.engine->state(), node), nullptr);
}

// A listing may be a little older than an instance. How much time has passed since it was made, a clock that was set does not tell.
TEST(EngineTest, AClockThatWasSetMakesNoInstanceOld) {
  Harness h;
  const core::NodeHello hello = RunOnCloud(&h);
  const NodeId node = h.creates[0].node.id;
  const auto list = [&] {
    ASSERT_OK(h.Do(core::InstanceListing{"cloud", h.now_ms, {}}));
    h.Run();
  };
  h.now_ms += 2 * kMinute;  // set forward, or the scheduler stood still
  list();
  EXPECT_NE(core::FindNode(h.engine->state(), node), nullptr);
  // The same over a restart.
  h.now_ms += 2 * kMinute;
  h.Restart();
  list();
  EXPECT_NE(core::FindNode(h.engine->state(), node), nullptr);
  ASSERT_OK(h.engine->Hello(2, hello));
  h.renewing = {2};
  h.Pass(core::kListingGraceMs);
  list();
  EXPECT_NE(core::FindNode(h.engine->state(), node), nullptr);
  h.Pass(kSecond);
  list();
  EXPECT_EQ(core::FindNode(h.engine->state(), node), nullptr) << "now it must have been listed";
}

TEST(EngineTest, AFencedAttemptIsStoppedWhereItMayStillRun) {
  Harness h;
  h.Configure({});
  h.Register(1, "a", Box(4));
  core::Submit submit = Harness::OneJob(Cpu());
  submit.jobs[0].max_silence_ms = 90 * kSecond;
  ASSERT_OK(h.Do(submit));
  h.Pass(20 * kSecond);
  h.Said();
  h.Pass(80 * kSecond);  // nothing heard, the session hangs on
  EXPECT_NE(h.LivingId({1, 0}).number, 1);
  EXPECT_THAT(h.log, Contains("stop 1 1.0@1"));
  EXPECT_EQ(h.stops.back().stop.cause, EndCause::kFenced);
}

TEST(EngineTest, AtMostSoManyBatchesAreInFlightAndTheRestBecomesOne) {
  Harness h;
  h.Configure({});
  int made = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(h.engine->Post(Harness::OneJob(Cpu()), nullptr));
    made += h.Step();
  }
  EXPECT_EQ(made, 2);
  EXPECT_FALSE(h.engine->HasInput());  // only a commit can move things on
  h.CommitOne();
  EXPECT_TRUE(h.engine->HasInput());
  ASSERT_TRUE(h.Step());
  EXPECT_GE(h.batches.back().jobs.size(), 18u);
}

TEST(EngineTest, AFullMailboxRefuses) {
  Harness h;
  for (size_t i = 0; i < limits::kMailboxMax; ++i) ASSERT_OK(h.engine->Post(core::Cancel{}, nullptr));
  EXPECT_THAT(h.engine->Post(core::Cancel{}, nullptr), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_THAT(h.engine->Hello(1, {}), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  h.Run();
  EXPECT_OK(h.engine->Post(core::Cancel{}, nullptr));
}

TEST(EngineTest, AFullDiskRefusesNewJobsKeepsRenewingAndHeals) {
  Harness h;
  h.Configure({});
  h.Register(1, "a", Box(4));
  int answers = 0;
  const auto count = [&](absl::StatusOr<core::Reply> reply) {
    ASSERT_OK(reply);
    ++answers;
  };
  ASSERT_OK(h.engine->Post(Harness::OneJob(Cpu(), "one"), count));
  ASSERT_TRUE(h.Step());
  h.engine->CommitRefused(h.batches.front().seq, absl::ResourceExhaustedError("database or disk is full"));
  EXPECT_THAT(h.engine->Post(Harness::OneJob(Cpu()), count), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk is full")));
  h.Said();
  h.engine->Heard(1, 3);
  h.Step();
  EXPECT_THAT(h.Said(), ElementsAre("ack renewal 1 3"));
  EXPECT_EQ(answers, 0);
  // There is room again: the same batch is written, its replies go out.
  h.CommitOne();
  EXPECT_EQ(answers, 1);
  EXPECT_OK(h.Do(Harness::OneJob(Cpu())));
  // Room only because the reserve was given up: reports land, jobs do not.
  h.engine->SetDiskLow(true);
  EXPECT_THAT(h.Do(Harness::OneJob(Cpu())), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("nearly full")));
  EXPECT_OK(h.Do(core::Cancel{.job = 1}));
  h.engine->SetDiskLow(false);
  EXPECT_OK(h.Do(Harness::OneJob(Cpu())));
}

TEST(EngineTest, AfterARestartEverythingOwedIsOwedAgain) {
  Harness h;
  h.Configure({core::Cloud()});
  ASSERT_OK(h.Do(core::OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 3'000'000, Box(8, 1))}}));
  const NodeId node = h.Register(1, "a", Box(4));
  const JobId runs = h.SubmitJob(Cpu());
  const JobId waits = h.SubmitJob(Gpus(1));
  const JobId sealed = h.SubmitJob(Cpu());
  h.engine->Reports(1, {h.Said({sealed, 0, 1}, Kind::kAccepted, node), h.Said({sealed, 0, 1}, Kind::kStarted, node)});
  h.Run();
  ASSERT_OK(h.Do(core::Preempt{{sealed, 0}, 1000}));
  core::Report ended = h.Said({sealed, 0, 1}, Kind::kEnded, node);
  ended.cause = EndCause::kPreempted;
  ended.initiator = Initiator::kUser;
  h.engine->Reports(1, {ended});
  h.Run();
  ASSERT_EQ(h.creates.size(), 1u);
  ASSERT_EQ(h.seals.size(), 1u);
  h.Said();

  h.Restart();
  h.Run();
  EXPECT_THAT(h.Said(), ElementsAre("seal 3.0@1", absl::StrCat("create ", h.creates[0].node.id)));
  EXPECT_EQ(h.creates[1].client_token, h.creates[0].client_token);
  // The node's session is gone with the process; its Welcome carries the offer.
  ASSERT_OK(h.engine->Hello(11, Harness::HelloOf("a", Box(4))));
  h.Run();
  EXPECT_THAT(h.welcomes[11].wanted, ElementsAre(AttemptId{runs, 0, 1}));
  EXPECT_EQ(h.welcomes[11].offers.size(), 1u);
  EXPECT_EQ(h.welcomes[11].report_ack, 3);
  EXPECT_EQ(h.LivingId({waits, 0}).number, 0);
}

TEST(EngineTest, EffectsAreRederivedNowAndThen) {
  Options options;
  options.rederive_effects_every = 5;
  Harness h(options);
  h.Configure({core::Cloud()});
  ASSERT_OK(h.Do(core::OffersListed{"cloud", {MakeOffer("cloud", "od", Market::kOnDemand, 3'000'000, Box(8, 1))}}));
  h.Register(1, "a", Box(64));
  h.SubmitJob(Gpus(1));
  ASSERT_EQ(h.creates.size(), 1u);
  for (int i = 0; i < 10; ++i) h.SubmitJob(Cpu(1'000 + i));
  EXPECT_GE(h.creates.size(), 2u);
  EXPECT_LE(h.creates.size(), 4u);
  EXPECT_EQ(h.creates.front().node.id, h.creates.back().node.id);
}

TEST(EngineTest, ProgressIsKeptForWhatLivesOnTheNodeThatSaysIt) {
  Harness h;
  h.Configure({});
  const NodeId node = h.Register(1, "a", Box(4));
  h.Register(2, "b", Box(4));
  const JobId job = h.SubmitJob(Cpu());
  const AttemptId attempt{job, 0, 1};
  const int64_t mine = h.Living({job, 0})->members[0].node == node ? 1 : 2, other = 3 - mine;
  h.engine->Progressed(other, attempt, {.step = 5});
  EXPECT_EQ(h.engine->soft().progress.count(attempt), 0u);
  h.engine->Progressed(mine, attempt, {.step = 5, .total = 10});
  ASSERT_EQ(h.engine->soft().progress.count(attempt), 1u);
  EXPECT_EQ(h.engine->soft().progress.at(attempt).step, 5);
  const NodeId on = h.Living({job, 0})->members[0].node;
  core::Report ended = h.Said(attempt, Kind::kEnded, on);
  ended.cause = EndCause::kCompleted;
  h.engine->Reports(mine, {ended});
  h.Run();
  EXPECT_EQ(h.engine->soft().progress.count(attempt), 0u);
}

TEST(EngineTest, TimeNeverDecreases) {
  Harness h;
  h.Configure({});
  h.now_ms += 5'000;
  h.SubmitJob(Cpu());
  const int64_t then = h.engine->state().meta.now_ms;
  h.now_ms -= 60'000;
  h.SubmitJob(Cpu());
  EXPECT_GE(h.engine->state().meta.now_ms, then);
  h.Restart();
  h.SubmitJob(Cpu());
  EXPECT_GE(h.engine->state().meta.now_ms, then);
}

}  // namespace
}  // namespace spillway::engine
