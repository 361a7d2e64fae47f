// Attempts: offers, stops, ends, checkpoints, what a welcome wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/rig.h"
#include "worker/session_logic.h"

namespace spillway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const AttemptId kA1{1, 0, 1}, kA2{1, 0, 2}, kB{2, 0, 1};

std::vector<Report::Kind> Kinds(const std::vector<Report>& reports) {
  std::vector<Report::Kind> kinds;
  for (const Report& report : reports) kinds.push_back(report.kind);
  return kinds;
}

TEST(Attempts, AnOfferIsAcceptedAndStartedOnce) {
  Rig rig;
  rig.Join();
  std::vector<Output> out = rig.Offered(kA1);
  ASSERT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StartAttempt>(out)[0].key, "c1/1.0@1");
  EXPECT_EQ(*All<StartAttempt>(out)[0].spec, "spec");
  EXPECT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kAccepted));
  out = rig.Offered(kA1);
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_THAT(ReportsIn(out), IsEmpty());  // the answer is on its way
  rig.Event(kA1, frames::Started{});
  rig.Acked(2);
  out = rig.Offered(kA1);
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kAccepted, Report::Kind::kStarted));
}

// --- gangs ---

Offer MemberOf(int64_t rank, const std::string& rendezvous = "") {
  Offer offer = OfferOf(kA1);
  offer.rank = rank;
  offer.members = 2;
  offer.node_list = "n1,n2";
  offer.rendezvous = rendezvous;
  return offer;
}

std::vector<Output> Offers(Rig* rig, const Offer& offer) {
  SchedulerFrame frame;
  frame.specs.push_back({SpecDigest("spec"), "spec"});
  frame.offers.push_back(offer);
  return rig->Receive(std::move(frame));
}

TEST(Gangs, AMemberAcceptsAndStartsOnlyWhenItIsTold) {
  Rig rig;
  rig.Join();
  std::vector<Output> out = Offers(&rig, MemberOf(1));
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_THAT(All<ReserveRendezvous>(out), IsEmpty()) << "that is for member 0";
  EXPECT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kAccepted));
  rig.Acked(1);
  out = Offers(&rig, MemberOf(1));
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kAccepted));
  out = Offers(&rig, MemberOf(1, "n1:4242"));
  ASSERT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StartAttempt>(out)[0].offer, MemberOf(1, "n1:4242"));
  out = Offers(&rig, MemberOf(1, "n1:4242"));
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty()) << "once";
}

TEST(Gangs, MemberNoughtSaysWhereItListensBeforeAnythingElse) {
  Rig rig;
  rig.Join();
  std::vector<Output> out = Offers(&rig, MemberOf(0));
  EXPECT_THAT(All<ReserveRendezvous>(out), SizeIs(1));
  EXPECT_THAT(ReportsIn(out), IsEmpty());
  EXPECT_THAT(ReportsIn(Offers(&rig, MemberOf(0))), IsEmpty());
  out = rig.Do(RendezvousReserved{kA1, "n1:4242"});
  ASSERT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kAccepted));
  EXPECT_EQ(ReportsIn(out)[0].rendezvous, "n1:4242");
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_THAT(All<StartAttempt>(Offers(&rig, MemberOf(0, "n1:4242"))), SizeIs(1));
}

TEST(Gangs, WithoutAPortItIsRefused) {
  Rig rig;
  rig.Join();
  Offers(&rig, MemberOf(0));
  const std::vector<Output> out = rig.Do(RendezvousReserved{kA1, ""});
  ASSERT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kEnded));
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kLaunchFailed);
  EXPECT_EQ(ReportsIn(out)[0].end.initiator, Initiator::kNode);
}

TEST(Gangs, AMemberThatWaitsIsStoppedAtOnce) {
  Rig rig;
  rig.Join();
  Offers(&rig, MemberOf(1));
  const std::vector<Output> out = rig.StopOf(kA1, EndCause::kPeerFailed);
  ASSERT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kEnded));
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kPeerFailed);
  EXPECT_THAT(All<StartAttempt>(Offers(&rig, MemberOf(1, "n1:4242"))), IsEmpty());
}

TEST(Gangs, AWorkerThatForgotItsMemberStartsItWhenItIsTold) {
  Rig rig;
  rig.Join();
  const std::vector<Output> out = Offers(&rig, MemberOf(0, "elsewhere:1"));
  EXPECT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kAccepted));
}

TEST(Gangs, TheDirectoryThatTheMembersShareIsNotRemovedByOneOfThem) {
  Rig rig;
  rig.Join();
  Offers(&rig, MemberOf(1, "n1:4242"));
  rig.Event(kA1, frames::Started{});
  rig.Exits(kA1, Rig::Code(0));
  const std::vector<CleanUp> cleaned = All<CleanUp>(rig.Acked(3));
  ASSERT_THAT(cleaned, SizeIs(1));
  EXPECT_EQ(cleaned[0].checkpoint_dir, "");
}

TEST(Attempts, ARepeatedOfferOfAnEndedAttemptIsAnsweredWithItsEnd) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Exits(kA1, Rig::Code(3));
  rig.Acked(2);
  std::vector<Output> out = rig.Offered(kA1);
  ASSERT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kEnded));
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kUserError);
  rig.Acked(3);
  SchedulerFrame frame;
  frame.forget = {kA1};
  rig.Receive(frame);
  out = rig.Offered(kA1);  // even forgotten it does not run twice
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kFenced);
}

TEST(Attempts, AStaleOfferIsFenced) {
  Rig rig;
  rig.Join();
  rig.Offered(kA2);
  const std::vector<Output> out = rig.Offered(kA1);
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  ASSERT_THAT(ReportsIn(out), SizeIs(1));
  EXPECT_EQ(ReportsIn(out)[0].attempt, kA1);
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kFenced);
}

TEST(Attempts, ANewerAttemptWaitsUntilTheOlderIsGone) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Started{});
  std::vector<Output> out = rig.Offered(kA2);
  ASSERT_THAT(All<KillAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<KillAttempt>(out)[0].kill.key, "c1/1.0@1");
  EXPECT_EQ(All<KillAttempt>(out)[0].kill.cause, EndCause::kFenced);
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  frames::ExitFacts facts;
  facts.signal = 9;
  out = rig.Event(kA1, frames::Exited{facts});
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  out = rig.Do(ScanResult{kA1, {}, ""});
  ASSERT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StartAttempt>(out)[0].offer.attempt, kA2);
}

TEST(Attempts, DevicesAreWaitedForUntilWhoHoldsThemIsGone) {
  Rig rig;
  rig.Join();
  Offer first = OfferOf(kA1), second = OfferOf(kB);
  first.devices = {0, 1};
  second.devices = {1, 2};
  SchedulerFrame frame;
  frame.specs = {{SpecDigest("spec"), "spec"}};
  frame.offers = {first};
  EXPECT_THAT(All<StartAttempt>(rig.Receive(frame)), SizeIs(1));
  rig.Event(kA1, frames::Started{});
  // Given up while the node was silent: a new session wants only the other, on one of its devices.
  rig.Do(Disconnected{rig.session, "cut"});
  rig.Reconnect();
  Welcome welcome = Rig::WelcomeOf();
  welcome.wanted = {kB};
  welcome.offers = {second};
  welcome.specs = {{SpecDigest("spec"), "spec"}};
  std::vector<Output> out = rig.Greet(welcome);
  EXPECT_THAT(All<KillAttempt>(out), SizeIs(1));
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  frames::ExitFacts facts;
  facts.signal = 9;
  rig.Event(kA1, frames::Exited{facts});
  out = rig.Do(ScanResult{kA1, {}, ""});
  ASSERT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StartAttempt>(out)[0].offer.attempt, kB);
}

TEST(Attempts, NothingStartsWithoutALease) {
  Rig rig;
  rig.Join();
  rig.now += kLease - 60'000;  // nothing was renewed
  std::vector<Output> out = rig.Offered(kA1);
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kAccepted));
  rig.Do(Disconnected{rig.session, "cut"});
  EXPECT_THAT(rig.Reconnect().inventory, ElementsAre(InventoryItem{kA1, AttemptState::kStarting}));
  Welcome welcome = Rig::WelcomeOf();
  welcome.wanted = {kA1};
  EXPECT_THAT(All<StartAttempt>(rig.Greet(welcome)), SizeIs(1));
}

TEST(Attempts, AMissingSpecStartsTheSessionAnewAndInAWelcomeIsAnError) {
  Rig rig;
  rig.Join();
  SchedulerFrame frame;
  frame.offers.push_back(OfferOf(kA1));
  EXPECT_THAT(All<Disconnect>(rig.Receive(frame)), SizeIs(1));
  rig.Reconnect();
  Welcome welcome = Rig::WelcomeOf();
  welcome.wanted = {kA1};
  welcome.offers = {OfferOf(kA1)};
  const std::vector<Report> reports = ReportsIn(rig.Greet(welcome));
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].end.cause, EndCause::kStagingFailed);
}

TEST(Attempts, ASpecWithAWrongDigestIsNotTaken) {
  Rig rig;
  rig.Join();
  SchedulerFrame frame;
  frame.specs.push_back({SpecDigest("spec"), "something else"});
  frame.offers.push_back(OfferOf(kA1));
  EXPECT_THAT(All<StartAttempt>(rig.Receive(frame)), IsEmpty());
}

TEST(Attempts, SpecsAreBounded) {
  SessionConfig config = Rig::Config();
  config.specs_bytes_max = 100;
  Rig rig({}, config);
  rig.Join();
  rig.Offered(kA1, std::string(80, 'a'));
  rig.Offered(kB, std::string(80, 'b'));  // pushes the first out; its attempt has what it needs
  SchedulerFrame frame;
  frame.offers.push_back(OfferOf({3, 0, 1}, std::string(80, 'a')));
  EXPECT_THAT(All<Disconnect>(rig.Receive(frame)), SizeIs(1));
}

TEST(Attempts, TooManyAreRefused) {
  SessionConfig config = Rig::Config();
  config.attempts_max = 1;
  Rig rig({}, config);
  rig.Join();
  rig.Offered(kA1);
  const std::vector<Report> reports = ReportsIn(rig.Offered(kB));
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].end.cause, EndCause::kLaunchFailed);
  EXPECT_EQ(reports[0].end.initiator, Initiator::kNode);
}

TEST(Attempts, AStopGoesToTheSupervisorAndItsCauseIsReported) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Started{});
  std::vector<Output> out = rig.StopOf(kA1, EndCause::kCancelled, 5'000);
  ASSERT_THAT(All<StopAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StopAttempt>(out)[0].stop.grace_ms, 5'000);
  EXPECT_EQ(All<StopAttempt>(out)[0].stop.initiator, Initiator::kUser);
  EXPECT_EQ(All<StopAttempt>(out)[0].stop.reason, "cancelled");
  frames::ExitFacts facts;
  facts.signal = 15;
  facts.stop_cause = EndCause::kCancelled;
  facts.stop_initiator = Initiator::kUser;
  facts.stop_delivered = true;
  facts.started_boottime_ms = 10;
  facts.ended_boottime_ms = 2'010;
  const std::vector<Report> reports = ReportsIn(rig.Exits(kA1, facts));
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].end.cause, EndCause::kCancelled);
  EXPECT_EQ(reports[0].end.run_ms, 2'000);
}

TEST(Attempts, AStopOfAnUnknownAttemptIsAnsweredWithItsCause) {
  Rig rig;
  rig.Join();
  std::vector<Output> out = rig.StopOf(kA1, EndCause::kMoved);
  ASSERT_THAT(ReportsIn(out), SizeIs(1));
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kMoved);
  EXPECT_THAT(ReportsIn(rig.StopOf(kA1, EndCause::kMoved)), IsEmpty());  // the answer is on its way
  EXPECT_THAT(All<StartAttempt>(rig.Offered(kA1)), IsEmpty());           // an offer that was overtaken by its stop
}

TEST(Attempts, WhatIsGivenUpWhileItIsStagedIsNeverStarted) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  EXPECT_EQ(rig.logic.InsteadOfStart(kA1), std::nullopt);
  // A newer attempt ends its authority while its files are fetched.
  EXPECT_THAT(All<StartAttempt>(rig.Offered(kA2)), IsEmpty());
  const auto refused = rig.logic.InsteadOfStart(kA1);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->cause, EndCause::kFenced);
  const std::vector<Output> out = rig.Do(*refused);
  EXPECT_EQ(ReportsIn(out).front().end.cause, EndCause::kFenced);
  ASSERT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StartAttempt>(out)[0].offer.attempt, kA2);
  // And so does a stop.
  rig.StopOf(kA2, EndCause::kCancelled);
  ASSERT_TRUE(rig.logic.InsteadOfStart(kA2).has_value());
  EXPECT_EQ(rig.logic.InsteadOfStart(kA2)->cause, EndCause::kCancelled);
}

TEST(Attempts, StagingThatFailsEndsTheAttempt) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  const std::vector<Report> reports = ReportsIn(rig.Do(StartRefused{kA1, EndCause::kStagingFailed, Initiator::kJob, "workdir /nowhere does not exist"}));
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].end.cause, EndCause::kStagingFailed);
  EXPECT_EQ(rig.logic.living_attempts(), 0u);
}

TEST(Attempts, CheckpointsAreReportedOnceTheyAreChecked) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Started{});
  std::vector<Output> out = rig.Event(kA1, frames::Checkpoint{100, "/store/checkpoints/c1/1/0/a1/step-100", "{}"});
  ASSERT_THAT(All<CheckCheckpoint>(out), SizeIs(1));
  EXPECT_EQ(All<CheckCheckpoint>(out)[0].checkpoint_dir, "c1/1/0/a1");
  EXPECT_THAT(ReportsIn(out), IsEmpty());
  EXPECT_THAT(All<AckEvents>(out), IsEmpty());
  const CheckpointFound found{100, "c1/1/0/a1/step-100", "abcd", 4096};
  out = rig.Do(CheckpointChecked{kA1, rig.events, true, found, ""});
  ASSERT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kCheckpoint));
  EXPECT_EQ(ReportsIn(out)[0].checkpoint, found);
  EXPECT_EQ(All<AckEvents>(out).back().number, rig.events);
}

TEST(Attempts, AHostileCheckpointIsIgnoredWithALogLine) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Started{});
  rig.Event(kA1, frames::Checkpoint{100, "/etc", "{}"});
  const std::vector<Output> out = rig.Do(CheckpointChecked{kA1, rig.events, false, {}, "/etc lies outside of the attempt's directory\n\x1b[31m"});
  EXPECT_THAT(ReportsIn(out), IsEmpty());
  ASSERT_THAT(All<LogLine>(out), SizeIs(1));
  EXPECT_THAT(All<LogLine>(out)[0].text, HasSubstr("outside"));
  EXPECT_EQ(All<LogLine>(out)[0].text.find('\x1b'), std::string::npos);
  EXPECT_EQ(All<AckEvents>(out).back().number, rig.events);
}

TEST(Attempts, AnEndComesAfterTheCheckpointsThatNobodyReported) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Started{});
  rig.Event(kA1, frames::Checkpoint{100, "p", "{}"});
  rig.Do(CheckpointChecked{kA1, rig.events, true, {100, "c1/1/0/a1/step-100", "aa", 1}, ""});
  std::vector<Output> out = rig.Event(kA1, frames::Exited{Rig::Code(85)});
  ASSERT_THAT(All<ScanCheckpoints>(out), SizeIs(1));
  EXPECT_THAT(ReportsIn(out), IsEmpty());
  EXPECT_THAT(All<AckEvents>(out), IsEmpty());
  out = rig.Do(ScanResult{kA1, {{300, "c1/1/0/a1/step-300", "cc", 3}, {200, "c1/1/0/a1/step-200", "bb", 2}, {100, "c1/1/0/a1/step-100", "aa", 1}}, ""});
  const std::vector<Report> reports = ReportsIn(out);
  ASSERT_THAT(Kinds(reports), ElementsAre(Report::Kind::kCheckpoint, Report::Kind::kCheckpoint, Report::Kind::kEnded));
  EXPECT_EQ(reports[0].checkpoint.step, 200);
  EXPECT_EQ(reports[1].checkpoint.step, 300);
  EXPECT_EQ(reports[2].end.cause, EndCause::kCheckpointed);
  EXPECT_THAT(reports[2].end.detail, HasSubstr("300"));
  EXPECT_EQ(All<AckEvents>(out).back().number, rig.events);
}

TEST(Attempts, Exit85WithNothingInTheStoreIsAUserErrorWhateverTheJobSaid) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  frames::ExitFacts facts = Rig::Code(85);
  facts.checkpoints = 3;
  facts.last_checkpoint_step = 9;
  const std::vector<Report> reports = ReportsIn(rig.Exits(kA1, facts));
  EXPECT_EQ(reports.back().end.cause, EndCause::kUserError);
}

TEST(Attempts, AStoreThatDoesNotAnswerDelaysNoEnd) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Exited{Rig::Code(0)});
  const std::vector<Output> out = rig.Do(ScanResult{kA1, {}, "input/output error"});
  EXPECT_THAT(Kinds(ReportsIn(out)), ElementsAre(Report::Kind::kEnded));
}

TEST(Attempts, AFullDiskIsWhatAFailedJobDiedOf) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Exited{Rig::Code(1)});
  const std::vector<Report> reports = ReportsIn(rig.Do(ScanResult{kA1, {}, "", "its disk is full", true}));
  ASSERT_THAT(Kinds(reports), ElementsAre(Report::Kind::kEnded));
  EXPECT_EQ(reports[0].end.cause, EndCause::kDiskFull);
  EXPECT_EQ(reports[0].end.initiator, Initiator::kJob);
}

TEST(Attempts, WhoHoldsMoreThanItsQuotaIsKilledForIt) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Started{});
  const std::vector<KillAttempt> kills = All<KillAttempt>(rig.Do(DiskOver{kA1, "holds 3 GB, more than its 2 GB"}));
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills[0].kill.cause, EndCause::kDiskFull);
  EXPECT_EQ(kills[0].kill.initiator, Initiator::kJob);
  EXPECT_EQ(kills[0].kill.detail, "holds 3 GB, more than its 2 GB");
  EXPECT_THAT(All<KillAttempt>(rig.Do(DiskOver{{9, 9, 9}, "unknown"})), IsEmpty());
}

TEST(Attempts, ADurableEndIsCleanedUpOnce) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Exits(kA1, Rig::Code(0));
  EXPECT_THAT(All<CleanUp>(rig.Acked(1)), IsEmpty());
  const std::vector<CleanUp> cleanups = All<CleanUp>(rig.Acked(2));
  ASSERT_THAT(cleanups, SizeIs(1));
  EXPECT_EQ(cleanups[0].attempt, kA1);
  EXPECT_THAT(All<CleanUp>(rig.Acked(2)), IsEmpty());
}

TEST(Attempts, WhatAWelcomeDoesNotWantIsKilled) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Offered(kB);
  rig.Event(kA1, frames::Started{});
  rig.Do(Disconnected{rig.session, "cut"});
  rig.Reconnect();
  Welcome welcome = Rig::WelcomeOf();
  welcome.wanted = {kB};
  const std::vector<Output> out = rig.Greet(welcome);
  ASSERT_THAT(All<KillAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<KillAttempt>(out)[0].kill.key, "c1/1.0@1");
  EXPECT_EQ(All<KillAttempt>(out)[0].kill.cause, EndCause::kFenced);
}

TEST(Attempts, WhatAWelcomeWantsAndNobodyKnowsIsLost) {
  Rig rig;
  rig.Do(rig.Empty());
  rig.Reconnect();
  Welcome welcome = Rig::WelcomeOf();
  welcome.wanted = {kA1, kB};
  welcome.specs = {{SpecDigest("spec"), "spec"}};
  welcome.offers = {OfferOf(kB)};
  const std::vector<Output> out = rig.Greet(welcome);
  ASSERT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StartAttempt>(out)[0].offer.attempt, kB);
  const std::vector<Report> reports = ReportsIn(out);
  ASSERT_THAT(Kinds(reports), ElementsAre(Report::Kind::kEnded, Report::Kind::kAccepted));
  EXPECT_EQ(reports[0].attempt, kA1);
  EXPECT_EQ(reports[0].end.cause, EndCause::kNodeLost);
}

TEST(Attempts, ASupervisorThatLostTheSocketHearsTheCommandsAgain) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Offered(kB);
  rig.Event(kB, frames::Started{});
  rig.StopOf(kB, EndCause::kCancelled, 1'000);
  frames::Inventory inventory = rig.Empty();  // same boot: START of A was lost, B is there
  frames::InventoryItem item;
  item.attempt = {"c1/2.0@1", kB};
  item.state = AttemptState::kRunning;
  inventory.items.push_back(item);
  const std::vector<Output> out = rig.Do(inventory);
  ASSERT_THAT(All<StartAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StartAttempt>(out)[0].offer.attempt, kA1);
  ASSERT_THAT(All<StopAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StopAttempt>(out)[0].stop.key, "c1/2.0@1");
  ASSERT_THAT(All<RenewLease>(out), SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<RenewLease>(out.front()));  // before anything is started
}

TEST(Attempts, WhatANewSupervisorDoesNotKnowIsLost) {
  Rig rig;
  rig.Join();
  rig.Offered(kA1);
  rig.Event(kA1, frames::Started{});
  rig.Do(rig.Empty("boot-2"));
  EXPECT_EQ(rig.logic.living_attempts(), 0u);
  EXPECT_THAT(rig.Reconnect().inventory, ElementsAre(InventoryItem{kA1, AttemptState::kEnded}));
}

TEST(Attempts, OfAnotherClusterAreKilledAndNotReported) {
  Rig rig;
  rig.Join();
  frames::Inventory inventory = rig.Empty();
  frames::InventoryItem item;
  item.attempt = {"c9/4.0@1", {4, 0, 1}};
  inventory.items.push_back(item);
  const std::vector<Output> out = rig.Do(inventory);
  ASSERT_THAT(All<KillAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<KillAttempt>(out)[0].kill.key, "c9/4.0@1");
  EXPECT_EQ(rig.logic.living_attempts(), 0u);
}

TEST(Tag, SurvivesTheSupervisorAndBadBytesAreHarmless) {
  Offer offer = OfferOf(kA2);
  offer.spec_digest.clear();  // not part of it
  offer.devices = {0, 3};
  offer.resume_from = "c1/1/0/a1/step-1";
  offer.resume_step = 1;
  EXPECT_EQ(DecodeTag(EncodeTag(offer)), offer);
  EXPECT_EQ(DecodeTag(""), Offer{});
  EXPECT_EQ(DecodeTag("[1,2"), Offer{});
  EXPECT_EQ(DecodeTag(R"({"job_uid":7,"devices":"x","checkpoint_dir":"d"})").checkpoint_dir, "d");
}

}  // namespace
}  // namespace spillway::worker
