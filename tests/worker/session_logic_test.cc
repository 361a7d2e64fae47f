// The session: connecting, leases, report numbers over reconnects and restarts, notices, leaving.
#include "worker/session_logic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/rig.h"

namespace spillway::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const AttemptId kA{1, 0, 1}, kB{2, 0, 1};

std::vector<int64_t> Seqs(const std::vector<Report>& reports) {
  std::vector<int64_t> seqs;
  for (const Report& report : reports) seqs.push_back(report.seq);
  return seqs;
}

TEST(SessionLogic, ConnectsOnlyOnceTheSupervisorIsKnown) {
  Rig rig;
  EXPECT_THAT(rig.After(100'000), IsEmpty());
  rig.Do(rig.Empty());
  EXPECT_EQ(rig.logic.NextWakeMs(), rig.now);
  const Hello hello = rig.Reconnect();
  EXPECT_EQ(hello.node_name, "n1");
  EXPECT_EQ(hello.boot_id, "boot-1");
  EXPECT_EQ(hello.isolation, "cgroup2; memory: watched; processes: watched; disk: watched");
  EXPECT_EQ(hello.cluster_uuid, "");
  EXPECT_THAT(hello.inventory, IsEmpty());
}

TEST(SessionLogic, SaysWhatHoldsItsAttemptsAndTheirLimits) {
  SessionConfig config = Rig::Config();
  config.disk_limits = "mount";
  Rig rig({}, config);
  frames::Inventory inventory = rig.Empty();
  inventory.memory_limits = inventory.pids_limits = true;
  rig.Do(inventory);
  EXPECT_EQ(rig.Reconnect().isolation, "cgroup2; memory: cgroup; processes: cgroup; disk: mount");
  Rig poor;
  inventory = poor.Empty();
  inventory.containment = frames::Containment::kReaper;
  inventory.reaper_because = "no cgroup2 mount";
  poor.Do(inventory);
  EXPECT_EQ(poor.Reconnect().isolation, "reaper (no cgroup2 mount); memory: watched; processes: watched; disk: watched");
}

TEST(SessionLogic, TheWelcomeIsKeptAndGivesALease) {
  Rig rig;
  rig.Do(rig.Empty());
  rig.Reconnect();
  const int64_t hello_at = rig.now;
  rig.now += 3'000;
  const std::vector<Output> out = rig.Greet();
  ASSERT_THAT(All<SaveNode>(out), SizeIs(1));
  EXPECT_EQ(All<SaveNode>(out)[0].cluster_uuid, "c1");
  EXPECT_EQ(All<SaveNode>(out)[0].store_url, "file:/store");
  ASSERT_THAT(All<RenewLease>(out), SizeIs(1));
  EXPECT_EQ(All<RenewLease>(out)[0].renew.lease_end_boottime_ms, hello_at + kLease);
  EXPECT_EQ(All<RenewLease>(out)[0].renew.lease_ms, kLease);
  EXPECT_TRUE(rig.logic.in_session());
}

TEST(SessionLogic, RenewsAndTellsTheSupervisorWhenTheLeaseMoves) {
  Rig rig;
  rig.Join();
  rig.now = rig.logic.NextWakeMs();
  const int64_t sent_at = rig.now;
  const std::vector<SendFrame> sent = All<SendFrame>(rig.Do(Tick{}));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].frame.renewal, 1);
  rig.now += 900;
  SchedulerFrame ack;
  ack.renewal_ack = 1;
  const std::vector<RenewLease> renewed = All<RenewLease>(rig.Receive(ack));
  ASSERT_THAT(renewed, SizeIs(1));
  EXPECT_EQ(renewed[0].renew.lease_end_boottime_ms, sent_at + kLease);
  EXPECT_THAT(All<RenewLease>(rig.Receive(ack)), IsEmpty());  // repeated
}

TEST(SessionLogic, ReconnectsWithBackOffThatGrowsAndIsBounded) {
  Rig rig;
  rig.Do(rig.Empty());
  int64_t last = 0;
  for (int i = 0; i < 12; ++i) {
    rig.now = std::max(rig.now, rig.logic.NextWakeMs());
    const std::vector<Connect> connects = All<Connect>(rig.Do(Tick{}));
    ASSERT_THAT(connects, SizeIs(1));
    rig.Do(Disconnected{connects[0].session, "refused"});
    last = rig.logic.NextWakeMs() - rig.now;
    const int64_t full = std::min<int64_t>(250LL << i, 5'000);
    EXPECT_GE(last, full / 2);
    EXPECT_LE(last, full);
  }
}

TEST(SessionLogic, ALongOutageFillsNoLog) {
  Rig rig;
  rig.Do(rig.Empty());
  size_t lines = 0;
  const int64_t until = rig.now + 3'600'000;
  while (rig.now < until) {
    rig.now = std::max(rig.now, rig.logic.NextWakeMs());
    for (const Connect& connect : All<Connect>(rig.Do(Tick{}))) lines += All<LogLine>(rig.Do(Disconnected{connect.session, "refused"})).size();
  }
  EXPECT_GE(lines, 30u);
  EXPECT_LE(lines, 61u);
}

TEST(SessionLogic, AStableSessionStartsTheBackOffAnew) {
  Rig rig;
  rig.Do(rig.Empty());
  for (int i = 0; i < 8; ++i) {
    rig.Reconnect();
    rig.Do(Disconnected{rig.session, "refused"});
  }
  rig.Reconnect();
  rig.Greet();
  rig.After(11'000);
  rig.Do(Disconnected{rig.session, "restart"});
  EXPECT_LE(rig.logic.NextWakeMs() - rig.now, 250);
}

TEST(SessionLogic, InputsOfAnEarlierSessionAreIgnored) {
  Rig rig;
  rig.Join();
  const int64_t old = rig.session;
  rig.Do(Disconnected{old, "cut"});
  rig.Reconnect();
  rig.Greet();
  SchedulerFrame frame;
  frame.stops.push_back({kA, EndCause::kCancelled, Initiator::kUser, 0, ""});
  EXPECT_THAT(rig.Do(FrameReceived{old, frame}), IsEmpty());
  EXPECT_THAT(All<Disconnect>(rig.Do(Disconnected{old, "late"})), IsEmpty());
  EXPECT_TRUE(rig.logic.in_session());
}

TEST(SessionLogic, ASessionWithoutWelcomeOrRenewalAcksIsGivenUp) {
  Rig rig;
  rig.Do(rig.Empty());
  rig.Reconnect();
  EXPECT_THAT(All<Disconnect>(rig.After(19'999)), IsEmpty());
  EXPECT_THAT(All<Disconnect>(rig.After(1)), SizeIs(1));
  rig.Reconnect();
  rig.Greet();
  EXPECT_THAT(All<Disconnect>(rig.After(29'000)), IsEmpty());
  const std::vector<Disconnect> cut = All<Disconnect>(rig.After(1'000));
  ASSERT_THAT(cut, SizeIs(1));
  EXPECT_THAT(cut[0].why, HasSubstr("no renewal was acknowledged for 30s"));
}

TEST(SessionLogic, AShortLeaseIsNotWaitedAway) {
  Rig rig;
  rig.Do(rig.Empty());
  rig.Reconnect();
  Welcome welcome = Rig::WelcomeOf();
  welcome.lease_ms = 40'000;
  welcome.renew_every_ms = 2'000;
  rig.Greet(welcome);
  EXPECT_THAT(All<Disconnect>(rig.After(9'999)), IsEmpty());
  EXPECT_THAT(All<Disconnect>(rig.After(1)), SizeIs(1)) << "a quarter of the lease, and most of it is left for a new session";
}

TEST(SessionLogic, AWelcomeOfAnotherClusterIsRefused) {
  SessionConfig config = Rig::Config();
  config.node.cluster_uuid = "c0";
  config.node.node_id = 3;
  Rig rig({}, config);
  rig.Do(rig.Empty());
  const Hello hello = rig.Reconnect();
  EXPECT_EQ(hello.cluster_uuid, "c0");
  EXPECT_EQ(hello.node_id, 3);
  const std::vector<Output> out = rig.Greet();
  EXPECT_THAT(All<Disconnect>(out), SizeIs(1));
  EXPECT_THAT(All<RenewLease>(out), IsEmpty());
  EXPECT_THAT(All<SaveNode>(out), IsEmpty());
}

TEST(SessionLogic, AnEarlierIncarnationThanOneThatWasServedIsRefused) {
  SessionConfig config = Rig::Config();
  config.incarnation = 2;
  Rig rig({}, config);
  rig.Do(rig.Empty());
  rig.Reconnect();
  Welcome earlier = Rig::WelcomeOf();
  earlier.incarnation = 1;
  std::vector<Output> out = rig.Greet(earlier);
  EXPECT_THAT(All<Disconnect>(out), SizeIs(1));
  EXPECT_THAT(All<RenewLease>(out), IsEmpty());
  rig.Reconnect();
  Welcome later = Rig::WelcomeOf();
  later.incarnation = 3;
  out = rig.Greet(later);
  ASSERT_THAT(All<SaveNode>(out), SizeIs(1));
  EXPECT_EQ(All<SaveNode>(out)[0].incarnation, 3);
}

TEST(SessionLogic, ReportsAreSavedBeforeTheyAreSentAndSentAgainUntilAcked) {
  Rig rig;
  rig.Join();
  std::vector<Output> out = rig.Offered(kA);
  size_t saved = 99, sent = 99;
  for (size_t i = 0; i < out.size(); ++i) {
    if (std::holds_alternative<SaveReports>(out[i])) saved = i;
    if (std::holds_alternative<SendFrame>(out[i])) sent = i;
  }
  EXPECT_LT(saved, sent);
  ASSERT_LT(sent, 99u);
  rig.Event(kA, frames::Started{});
  rig.Do(Disconnected{rig.session, "cut"});
  rig.Reconnect();
  Welcome welcome = Rig::WelcomeOf();
  welcome.report_ack = 1;
  welcome.wanted = {kA};
  out = rig.Greet(welcome);
  EXPECT_THAT(Seqs(ReportsIn(out)), ElementsAre(2));
  EXPECT_EQ(ReportsIn(out)[0].kind, Report::Kind::kStarted);
  EXPECT_THAT(All<SaveReports>(out), IsEmpty());
  ASSERT_THAT(All<SaveReportAck>(out), SizeIs(1));
  EXPECT_EQ(All<SaveReportAck>(out)[0].seq, 1);
  rig.Acked(2);
  EXPECT_TRUE(rig.logic.reports().empty());
}

TEST(SessionLogic, UnackedReportsGoOutAgainInALongQuietSession) {
  Rig rig;
  rig.Join();
  rig.Offered(kA);
  std::vector<Report> again;
  for (int i = 0; i < 40; ++i) {
    const std::vector<Output> out = rig.After(1'000);
    for (const SendFrame& send : All<SendFrame>(out)) {
      if (send.frame.renewal == 0) continue;
      SchedulerFrame ack;
      ack.renewal_ack = send.frame.renewal;
      rig.Receive(ack);
    }
    for (const Report& report : ReportsIn(out)) again.push_back(report);
  }
  EXPECT_THAT(Seqs(again), ElementsAre(1));
}

TEST(SessionLogic, WhatHappensWhileCutOffIsNumberedAfterTheWelcome) {
  Rig rig;
  rig.Join();
  rig.Offered(kA);
  rig.Event(kA, frames::Started{});
  rig.Acked(2);
  rig.Do(Disconnected{rig.session, "cut"});
  std::vector<Output> out = rig.Exits(kA, Rig::Code(0));
  EXPECT_THAT(All<SaveReports>(out), IsEmpty());
  EXPECT_THAT(All<AckEvents>(out), IsEmpty());  // the supervisor keeps it until it is saved
  EXPECT_THAT(rig.Reconnect().inventory, ElementsAre(InventoryItem{kA, AttemptState::kEnded}));
  Welcome welcome = Rig::WelcomeOf();
  welcome.report_ack = 2;
  welcome.wanted = {kA};
  out = rig.Greet(welcome);
  ASSERT_THAT(Seqs(ReportsIn(out)), ElementsAre(3));
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kCompleted);
  ASSERT_THAT(All<AckEvents>(out), SizeIs(1));
  EXPECT_EQ(All<AckEvents>(out)[0].number, rig.events);
}

TEST(SessionLogic, ARestartedWorkerTakesItsAttemptsAndReportsUpAgain) {
  SavedReports saved{"boot-1", 2, {}};
  Report ended;
  ended.seq = 3;
  ended.attempt = kB;
  ended.kind = Report::Kind::kEnded;
  ended.end.cause = EndCause::kUserError;
  saved.unacked.push_back(ended);
  SessionConfig config = Rig::Config();
  config.node.cluster_uuid = kCluster;
  Rig rig(saved, config);
  frames::Inventory inventory = rig.Empty();
  frames::InventoryItem item;
  item.attempt = {"c1/1.0@1", kA};
  item.state = AttemptState::kRunning;
  item.tag = EncodeTag(OfferOf(kA));
  item.progress.step = 41;
  inventory.items.push_back(item);
  inventory.lease_end_boottime_ms = rig.now + 300'000;
  rig.Do(inventory);
  const Hello hello = rig.Reconnect();
  EXPECT_EQ(hello.boot_id, "boot-1");
  EXPECT_THAT(hello.inventory, ElementsAre(InventoryItem{kA, AttemptState::kRunning}, InventoryItem{kB, AttemptState::kEnded}));
  Welcome welcome = Rig::WelcomeOf();
  welcome.report_ack = 2;
  welcome.wanted = {kA, kB};
  std::vector<Output> out = rig.Greet(welcome);
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  EXPECT_THAT(All<KillAttempt>(out), IsEmpty());
  EXPECT_THAT(Seqs(ReportsIn(out)), ElementsAre(3));
  EXPECT_EQ(ReportsIn(out)[0], ended);
  out = rig.Event(kA, frames::Exited{Rig::Code(0)});
  ASSERT_THAT(All<ScanCheckpoints>(out), SizeIs(1));  // it knows where from the tag
  EXPECT_EQ(All<ScanCheckpoints>(out)[0].checkpoint_dir, "c1/1/0/a1");
}

TEST(SessionLogic, ANewSupervisorMeansANewBootAndNumbersFromOne) {
  Rig rig;
  rig.Join();
  rig.Offered(kA);
  rig.Event(kA, frames::Started{});
  rig.Acked(2);
  frames::Inventory inventory = rig.Empty("boot-2");
  frames::InventoryItem item;
  item.attempt = {"c1/1.0@1", kA};
  item.state = AttemptState::kEnded;
  inventory.items.push_back(item);
  std::vector<Output> out = rig.Do(inventory);
  EXPECT_THAT(All<Disconnect>(out), SizeIs(1));
  rig.events = 0;
  frames::ExitFacts lost;
  lost.supervisor_lost = true;
  rig.Exits(kA, lost);
  EXPECT_EQ(rig.Reconnect().boot_id, "boot-2");
  Welcome welcome = Rig::WelcomeOf();
  welcome.wanted = {kA};
  out = rig.Greet(welcome);
  ASSERT_THAT(Seqs(ReportsIn(out)), ElementsAre(1));
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kNodeLost);
}

TEST(SessionLogic, ProgressIsTheNewestAndSeldom) {
  Rig rig;
  rig.Join();
  rig.Offered(kA);
  rig.Event(kA, frames::Started{});
  rig.now += 1'000;
  std::vector<int64_t> steps;
  const auto count = [&](const std::vector<Output>& out) {
    for (const SendFrame& send : All<SendFrame>(out)) {
      for (const ProgressReport& progress : send.frame.progress) steps.push_back(progress.step);
    }
  };
  for (int64_t step = 1; step <= 100; ++step) {
    count(rig.Event(kA, frames::Progress{step, 100, {{"loss", 1.5}}}));
    rig.now += 10;
  }
  EXPECT_THAT(steps, ElementsAre(1, 51));  // at 0 and 500 ms
  rig.now = rig.logic.NextWakeMs();
  count(rig.Do(Tick{}));
  EXPECT_THAT(steps, ElementsAre(1, 51, 100));
}

TEST(SessionLogic, ANoticeIsAppliedWithoutAScheduler) {
  Rig rig;
  rig.Do(rig.Empty());
  std::vector<Output> out = rig.Do(LocalNotice{120'000, "aws", false});
  ASSERT_THAT(All<NoticeAttempts>(out), SizeIs(1));
  EXPECT_EQ(All<NoticeAttempts>(out)[0].notice.deadline_boottime_ms, rig.now + 120'000);
  EXPECT_EQ(All<NoticeAttempts>(out)[0].notice.initiator, Initiator::kProvider);
  rig.now += 20'000;
  EXPECT_THAT(rig.Do(LocalNotice{100'000, "aws", false}), IsEmpty());  // the same, told again
  rig.Reconnect();
  const std::vector<SendFrame> sent = All<SendFrame>(rig.Greet());
  ASSERT_THAT(sent, SizeIs(1));
  ASSERT_TRUE(sent[0].frame.notice.has_value());
  EXPECT_EQ(sent[0].frame.notice->in_ms, 100'000);
  EXPECT_EQ(sent[0].frame.notice->source, "aws");
  EXPECT_FALSE(sent[0].frame.notice->advisory);
  EXPECT_THAT(All<NoticeAttempts>(rig.Do(LocalNotice{30'000, "aws", false})), SizeIs(1));  // sooner than thought
}

TEST(SessionLogic, OffersUnderANoticeAreAnsweredPreempted) {
  Rig rig;
  rig.Join();
  rig.Do(LocalNotice{30'000, "file", false});
  const std::vector<Output> out = rig.Offered(kA);
  EXPECT_THAT(All<StartAttempt>(out), IsEmpty());
  ASSERT_THAT(ReportsIn(out), SizeIs(1));
  EXPECT_EQ(ReportsIn(out)[0].end.cause, EndCause::kPreempted);
  EXPECT_EQ(ReportsIn(out)[0].end.initiator, Initiator::kProvider);
  rig.After(30'000 + 120'000);  // the machine is still here
  rig.Reconnect();
  rig.Greet();
  EXPECT_THAT(All<StartAttempt>(rig.Offered(kB)), SizeIs(1));
}

TEST(SessionLogic, AdviceIsPassedOnOnceAndStopsNothing) {
  Rig rig;
  rig.Join();
  const std::vector<Output> out = rig.Do(LocalNotice{0, "aws", true});
  EXPECT_THAT(All<NoticeAttempts>(out), IsEmpty());
  ASSERT_THAT(All<SendFrame>(out), SizeIs(1));
  EXPECT_TRUE(All<SendFrame>(out)[0].frame.notice->advisory);
  EXPECT_THAT(rig.Do(LocalNotice{0, "aws", true}), IsEmpty());
  EXPECT_THAT(All<StartAttempt>(rig.Offered(kA)), SizeIs(1));
}

TEST(SessionLogic, AGoodbyeForGoodEndsTheAttemptsAndTheWorker) {
  Rig rig;
  rig.Join();
  rig.Offered(kA);
  rig.Event(kA, frames::Started{});
  SchedulerFrame frame;
  frame.goodbye = Goodbye{"RELEASED", "not needed", false};
  std::vector<Output> out = rig.Receive(frame);
  ASSERT_THAT(All<StopAttempt>(out), SizeIs(1));
  EXPECT_EQ(All<StopAttempt>(out)[0].stop.cause, EndCause::kFenced);
  EXPECT_THAT(All<Exit>(out), IsEmpty());
  EXPECT_THAT(All<Connect>(rig.After(60'000)), IsEmpty());  // it does not come back
  frames::ExitFacts facts;
  facts.signal = 15;
  out = rig.Event(kA, frames::Exited{facts});
  EXPECT_THAT(All<ScanCheckpoints>(out), IsEmpty());
  ASSERT_THAT(All<Exit>(out), SizeIs(1));
  EXPECT_EQ(All<Exit>(out)[0].code, 0);
  EXPECT_TRUE(All<Exit>(out)[0].shutdown_supervisor);
  ASSERT_THAT(All<AckEvents>(out), SizeIs(1));  // so that the supervisor may leave
  EXPECT_EQ(All<AckEvents>(out)[0].number, rig.events);
  EXPECT_THAT(rig.After(1), IsEmpty());
}

TEST(SessionLogic, AGoodbyeForNowComesBack) {
  Rig rig;
  rig.Join();
  SchedulerFrame frame;
  frame.goodbye = Goodbye{"SHUTDOWN", "", true};
  EXPECT_THAT(All<Exit>(rig.Receive(frame)), IsEmpty());
  EXPECT_LE(rig.logic.NextWakeMs(), rig.now + 250);
  rig.Reconnect();
  frame.goodbye = Goodbye{"REPLACED", "", true};
  rig.Receive(frame);
  EXPECT_GE(rig.logic.NextWakeMs(), rig.now + 5'000);
}

TEST(SessionLogic, AnInstanceWithoutASchedulerEndsItself) {
  SessionConfig config = Rig::Config();
  config.node_lease_ms = 1'800'000;
  Rig rig({}, config);
  rig.Join();
  rig.After(5'000);
  rig.Do(Disconnected{rig.session, "gone"});
  bool left = false;
  const int64_t until = 1'000'000 + 1'800'000;
  while (!left && rig.now < until + 1'000'000) {
    rig.now = std::max(rig.now, rig.logic.NextWakeMs());
    const std::vector<Output> out = rig.Do(Tick{});
    for (const Connect& connect : All<Connect>(out)) rig.Do(Disconnected{connect.session, "refused"});
    left = !All<Exit>(out).empty();
  }
  EXPECT_TRUE(left);
  EXPECT_EQ(rig.now, until);  // 30 minutes after the welcome
}

TEST(SessionLogic, DrainAndExitWaitsForTheEndsToBeDurable) {
  Rig rig;
  rig.Join();
  rig.Offered(kA);
  rig.Event(kA, frames::Started{});
  std::vector<Output> out = rig.Do(DrainAndExit{30'000});
  ASSERT_THAT(All<NoticeAttempts>(out), SizeIs(1));
  EXPECT_EQ(All<NoticeAttempts>(out)[0].notice.initiator, Initiator::kNode);
  ASSERT_THAT(All<SendFrame>(out), SizeIs(1));
  EXPECT_EQ(All<SendFrame>(out)[0].frame.notice->source, "shutdown");
  rig.now += 2'000;
  frames::ExitFacts facts;
  facts.signal = 15;
  facts.stop_cause = EndCause::kPreempted;
  facts.stop_initiator = Initiator::kNode;
  facts.stop_delivered = true;
  EXPECT_THAT(All<Exit>(rig.Exits(kA, facts)), IsEmpty());
  EXPECT_THAT(All<Exit>(rig.Acked(2)), IsEmpty());
  out = rig.Acked(3);
  ASSERT_THAT(All<Exit>(out), SizeIs(1));
  EXPECT_TRUE(All<Exit>(out)[0].shutdown_supervisor);
}

TEST(SessionLogic, DrainAndExitDoesNotWaitForEver) {
  Rig rig;
  rig.Join();
  rig.Offered(kA);
  rig.Do(DrainAndExit{30'000});
  EXPECT_THAT(All<Exit>(rig.After(39'999)), IsEmpty());
  const std::vector<Exit> exits = All<Exit>(rig.After(1));
  ASSERT_THAT(exits, SizeIs(1));
  EXPECT_FALSE(exits[0].shutdown_supervisor);  // it still owns an attempt
}

}  // namespace
}  // namespace spillway::worker
