// What the supervisor does for a whole node: workers that come and go, its own death, the lease, notices, refusals, hostile peers.
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "absl/strings/match.h"
#include "harness.h"

namespace spillway::supervisor {
namespace {

using frames::EndOf;
using testing::HasSubstr;

class NodeTest : public testing::TestWithParam<std::string> {
 protected:
  SupervisorHarness node_{GetParam()};
  // A lease that ends `ms` from now, and whose offsets scale with it.
  int64_t Renew(int64_t ms) {
    const int64_t end = node_.Now() + ms;
    EXPECT_OK(node_.client().Renew({end, ms}));
    return end;
  }
};
INSTANTIATE_TEST_SUITE_P(Containment, NodeTest, testing::Values("auto", "reaper"), [](const auto& info) { return info.param; });

TEST_P(NodeTest, AWorkerComesBackAndFindsItsAttempts) {
  auto start = node_.Shell("a", "touch $DIR/ready; until test -e $DIR/go; do sleep 0.01; done; exit 4");
  start.tag = std::string("devices 0,1\0x", 13);
  node_.Run(start);
  node_.Run(node_.Shell("b", "exit 5"));
  ASSERT_TRUE(node_.WaitForFile("ready"));
  EXPECT_EQ(node_.WaitExit("b").exit_code, 5);
  const int64_t pid = node_.pid();

  node_.NewClient();  // the new worker saw nothing of that
  EXPECT_EQ(node_.pid(), pid) << "the supervisor outlives its worker";
  const auto inventory = node_.List();
  ASSERT_EQ(inventory.items.size(), 2u);
  EXPECT_EQ(inventory.items[0].attempt.key, "cluster/a");
  EXPECT_EQ(inventory.items[0].state, AttemptState::kRunning);
  EXPECT_EQ(inventory.items[0].tag, start.tag);
  EXPECT_EQ(inventory.items[0].log_path, start.log_path);
  EXPECT_GT(inventory.items[0].pid, 0);
  EXPECT_EQ(inventory.items[1].state, AttemptState::kEnded);
  EXPECT_EQ(node_.WaitExit("b").exit_code, 5) << "not acknowledged, so it comes again";

  ASSERT_OK(WriteFileAtomically(node_.Path("go"), ""));
  EXPECT_EQ(node_.WaitExit("a").exit_code, 4);
  ASSERT_OK(node_.client().Ack(node_.last_number()));
  EXPECT_TRUE(node_.List().items.empty());
  node_.NewClient();
  EXPECT_FALSE(node_.WaitEvent([](const frames::Event&) { return true; }, 0).has_value()) << "what was acknowledged never comes again";
  ASSERT_OK(node_.Answer(node_.client().Shutdown()));
  EXPECT_THAT(node_.LastWord(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

TEST_P(NodeTest, ItsOwnDeathLeavesNothingBehind) {
  node_.Run(node_.Shell("a", "$JOB daemon $DIR/d; exec $JOB stubborn $DIR/main"));
  node_.Run(node_.Shell("ended", "exit 6"));
  node_.Run(node_.Shell("acked", "exit 0"));
  ASSERT_TRUE(node_.WaitForFile("main"));
  ASSERT_TRUE(node_.WaitForFile("d"));
  EXPECT_EQ(node_.WaitExit("ended").exit_code, 6);
  node_.WaitExit("acked");
  const int64_t before = node_.pid();
  node_.KillSupervisor();
  EXPECT_THAT(node_.LastWord(), StatusIs(absl::StatusCode::kUnavailable, testing::_));

  const auto inventory = node_.Reconnect();  // starts the successor
  EXPECT_NE(inventory.pid, before);
  EXPECT_EQ(inventory.items.size(), 3u);
  EXPECT_FALSE(node_.Alive("main"));
  EXPECT_FALSE(node_.Alive("d"));
  const auto lost = EndOf(node_.WaitExit("a"));
  EXPECT_EQ(lost.cause, EndCause::kNodeLost);
  EXPECT_EQ(lost.initiator, Initiator::kNode);
  EXPECT_EQ(lost.detail, "supervisor restarted");
  EXPECT_EQ(node_.WaitExit("ended").exit_code, 6) << "an end that was known stays known";
  EXPECT_THAT(node_.Answer(node_.client().Start(node_.Shell("ended", "exit 0"))), StatusIs(absl::StatusCode::kAlreadyExists, testing::_));

  // The second successor owes the same until it is acknowledged, and then nothing.
  node_.KillSupervisor();
  EXPECT_THAT(node_.LastWord(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_EQ(node_.Reconnect().items.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto event = node_.WaitEvent([](const frames::Event&) { return true; });
    ASSERT_TRUE(event.has_value());
    ASSERT_OK(node_.client().Ack(event->number));
  }
  EXPECT_TRUE(node_.List().items.empty());
  node_.KillSupervisor();
  EXPECT_THAT(node_.LastWord(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_TRUE(node_.Reconnect().items.empty());
  node_.Run(node_.Shell("again", "exit 0"));
  EXPECT_EQ(node_.WaitExit("again").exit_code, 0);
}

TEST_P(NodeTest, AnEndedLeaseKillsWithoutAnyWorker) {
  Renew(600'000);
  auto start = node_.Shell("bound", "trap 'cp $SPILLWAY_NOTICE_FILE $DIR/seen' TERM; $JOB daemon $DIR/d; touch $DIR/ready; while :; do sleep 0.01; done");
  start.lease_bound = true;
  node_.Run(start);
  node_.Run(node_.Shell("free", "exec sleep 1000"));
  ASSERT_TRUE(node_.WaitForFile("ready"));
  // Between the stop signal (-20 s) and SIGKILL (-5 s) of a long lease: the kill is 300 ms away, the lease's end far.
  const int64_t end = node_.Now() + 5'300;
  ASSERT_OK(node_.client().Renew({end, 600'000}));
  node_.Wait<frames::Stopping>("bound");
  node_.LeaveAlone();
  ASSERT_TRUE(node_.WaitFor([&] { return !node_.Alive("d"); }));
  node_.NewClient();
  const auto facts = node_.WaitExit("bound");
  EXPECT_LT(facts.ended_boottime_ms, end);
  EXPECT_GE(facts.ended_boottime_ms, end - 5'000);
  EXPECT_FALSE(facts.lease_lapsed);
  EXPECT_EQ(EndOf(facts).cause, EndCause::kFenced);
  EXPECT_EQ(EndOf(facts).initiator, Initiator::kNode);
  EXPECT_THAT(node_.Read("seen"), HasSubstr("\"reason\":\"lease\""));
  const auto items = node_.List().items;
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].state, AttemptState::kRunning) << "what is not bound to the lease goes on";
  EXPECT_THAT(node_.Answer(node_.client().Start(start)), StatusIs(absl::StatusCode::kAlreadyExists, testing::_));
  start.attempt.key = "cluster/late";
  EXPECT_THAT(node_.Answer(node_.client().Start(start)), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("about to end")));
}

// A supervisor that did not run while the lease ended (a suspended machine) kills the first thing it does, and says that it was too late.
TEST_P(NodeTest, ALapsedLeaseIsToldAsSuch) {
  Renew(600'000);
  auto start = node_.Shell("a", "$JOB say '{\"type\":\"completed\"}'; exec $JOB stubborn $DIR/ready");
  start.lease_bound = true;
  node_.Run(start);
  ASSERT_TRUE(node_.WaitForFile("ready"));
  const int64_t end = Renew(300);
  ASSERT_EQ(kill(static_cast<pid_t>(node_.pid()), SIGSTOP), 0);
  ASSERT_TRUE(node_.WaitFor([&] { return node_.Now() > end; }));
  ASSERT_EQ(kill(static_cast<pid_t>(node_.pid()), SIGCONT), 0);
  const auto facts = node_.WaitExit("a");
  EXPECT_TRUE(facts.lease_lapsed);
  EXPECT_EQ(EndOf(facts).cause, EndCause::kFenced);
  EXPECT_FALSE(node_.Alive("ready"));
}

TEST_P(NodeTest, ARenewalWithdrawsTheCheckpointRequest) {
  auto start = node_.Shell("a",
                           "trap 'exit 7' TERM; touch $DIR/ready; until test -e $SPILLWAY_NOTICE_FILE; do sleep 0.005; done; touch $DIR/asked;"
                           "while test -e $SPILLWAY_NOTICE_FILE; do sleep 0.005; done; exit 3");
  start.lease_bound = true;
  EXPECT_THAT(node_.Answer(node_.client().Start(start)), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no lease")));
  Renew(600'000);
  node_.Run(start);
  ASSERT_TRUE(node_.WaitForFile("ready"));
  ASSERT_OK(node_.client().Renew({node_.Now() + 50'000, 600'000}));  // less than 60 s are left of a long lease
  ASSERT_TRUE(node_.WaitForFile("asked"));
  Renew(600'000);
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(facts.exit_code, 3);
  EXPECT_TRUE(facts.stop_withdrawn);
  EXPECT_EQ(EndOf(facts).cause, EndCause::kUserError);
}

TEST_P(NodeTest, ALeaseTakenAwayKills) {
  Renew(600'000);
  auto start = node_.Shell("a", "exec $JOB stubborn $DIR/ready");
  start.lease_bound = true;
  node_.Run(start);
  ASSERT_TRUE(node_.WaitForFile("ready"));
  ASSERT_OK(node_.client().Renew({0, 0}));
  EXPECT_EQ(EndOf(node_.WaitExit("a")).cause, EndCause::kFenced);
}

TEST_P(NodeTest, ANoticeReachesEveryAttempt) {
  for (const char* name : {"a", "b"}) {
    node_.Run(node_.Shell(name, absl::StrCat("trap 'cp $SPILLWAY_NOTICE_FILE $DIR/seen-", name, "; exit 85' TERM; touch $DIR/ready-", name,
                                             "; $JOB say '{\"type\":\"checkpoint\",\"step\":5}'; while :; do sleep 0.01; done")));
  }
  node_.Run(node_.Shell("stubborn", "exec $JOB stubborn $DIR/ready-c"));
  for (const char* file : {"ready-a", "ready-b", "ready-c"}) ASSERT_TRUE(node_.WaitForFile(file));
  node_.Wait<frames::Checkpoint>("a");
  const int64_t deadline = node_.Now() + 1'000;
  ASSERT_OK(node_.Answer(node_.client().Notice({deadline, Initiator::kProvider, "spot"})));
  EXPECT_THAT(node_.Answer(node_.client().Start(node_.Shell("late", "exit 0"))), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("notice")));
  for (const char* name : {"a", "b"}) {
    const auto facts = node_.WaitExit(name);
    EXPECT_EQ(facts.exit_code, 85);
    EXPECT_EQ(EndOf(facts).cause, EndCause::kPreempted);
    EXPECT_EQ(EndOf(facts).initiator, Initiator::kProvider);
    EXPECT_THAT(node_.Read(absl::StrCat("seen-", name)), HasSubstr("\"reason\":\"spot\""));
  }
  const auto facts = node_.WaitExit("stubborn");
  EXPECT_EQ(facts.signal, SIGKILL);
  EXPECT_GE(facts.ended_boottime_ms, deadline);
}

TEST_P(NodeTest, RefusesWhatMakesNoSense) {
  node_.Run(node_.Shell("a", "exec sleep 1000"));
  EXPECT_THAT(node_.Answer(node_.client().Start(node_.Shell("a", "exit 0"))), StatusIs(absl::StatusCode::kAlreadyExists, testing::_));
  EXPECT_THAT(node_.Answer(node_.client().Stop({"cluster/other"})), StatusIs(absl::StatusCode::kNotFound, HasSubstr("cluster/other")));
  EXPECT_THAT(node_.Answer(node_.client().Notice({})), StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_THAT(node_.Answer(node_.client().Shutdown()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("1 attempts")));
  auto bad = node_.Shell("bad", "exit 0");
  bad.env.push_back("no-equals");
  EXPECT_THAT(node_.client().Start(bad).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("env")));
  node_.Wait<frames::Started>("a");
  // Text that would not fit an event is cut, and harms nobody.
  ASSERT_OK(node_.Answer(node_.client().Stop({"cluster/a", EndCause::kCancelled, Initiator::kUser, std::string(400'000, 'r'), std::string(400'000, '\n'), 0})));
  EXPECT_EQ(node_.WaitExit("a").signal, SIGKILL) << "a grace of 0 kills at once";
}

TEST_P(NodeTest, LongCommandLinesArrive) {
  auto start = node_.Command("a", {"sh", "-c", "echo ${#1} ${#BIG}", "sh", std::string(120'000, 'x')});
  start.env.push_back("BIG=" + std::string(120'000, 'y'));
  for (int i = 0; i < 20; ++i) start.argv.push_back(std::string(10'000, 'z'));
  node_.Run(start);
  EXPECT_EQ(node_.WaitExit("a").exit_code, 0);
  EXPECT_EQ(node_.Log("a"), "120000 120000\n");
}

// A connection that does not speak the protocol is closed, and nobody else notices.
TEST_P(NodeTest, HostilePeers) {
  const auto connect_raw = [&] {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, node_.Path("s").c_str(), sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  };
  const std::vector<std::string> openings = {"x",
                                             std::string("\0", 1),
                                             std::string("\0garbage", 8),
                                             std::string("\0\x01\x02", 3),
                                             std::string(60'000, '\1'),
                                             std::string(1, '\0') + *frames::Encode(frames::ToSupervisor{1, frames::List{}})};
  for (const std::string& opening : openings) {
    const int fd = connect_raw();
    char buffer[4096];
    for (int i = 0; i < 40 && send(fd, opening.data(), opening.size(), MSG_NOSIGNAL) >= 0; ++i) {
    }
    while (recv(fd, buffer, sizeof buffer, 0) > 0) {
    }
    close(fd);
  }
  // A second Hello takes over from the first.
  const int fd = connect_raw();
  const std::string hello = std::string(1, '\0') + *frames::Encode(frames::ToSupervisor{0, frames::Hello{}});
  ASSERT_GT(send(fd, hello.data(), hello.size(), 0), 0);
  EXPECT_THAT(node_.LastWord(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  close(fd);
  node_.Reconnect();
  node_.Run(node_.Shell("a", "exit 2"));
  EXPECT_EQ(node_.WaitExit("a").exit_code, 2);
}

TEST_P(NodeTest, FoldersOfTheDeadDoNotPileUp) {
  auto dead = std::make_unique<SupervisorHarness>("auto");
  SupervisorHarness idle("auto");
  const auto folder_of = [](SupervisorHarness& node) {
    node.Run(node.Shell("a", "exit 0"));
    const std::string cgroup = node.Wait<frames::Started>("a").value_or(frames::Started()).cgroup;
    node.WaitExit("a");
    return cgroup.substr(0, cgroup.rfind('/'));
  };
  const std::string dead_folder = folder_of(*dead), idle_folder = folder_of(idle);
  if (dead_folder.empty()) return;  // no cgroups here
  dead->KillSupervisor();
  EXPECT_TRUE(PathExists(dead_folder));
  SupervisorHarness other("auto");
  EXPECT_FALSE(PathExists(dead_folder));
  EXPECT_TRUE(PathExists(idle_folder));
  idle.Run(idle.Shell("b", "exit 3"));
  EXPECT_EQ(idle.WaitExit("b").exit_code, 3);
}

TEST_P(NodeTest, OneSupervisorAHome) {
  SpawnOptions spawn;
  spawn.argv = {absl::StrCat(getenv("SPILLWAY_BIN"), "/spillway-supervisor"), "--home", node_.Path("home"), "--socket", node_.Path("s2")};
  spawn.stderr_path = node_.Path("second");
  ASSERT_OK_AND_ASSIGN(const pid_t second, Spawn(spawn));
  int status = 0;
  ASSERT_EQ(waitpid(second, &status, 0), second);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_THAT(node_.Read("second"), HasSubstr("another supervisor owns"));
  node_.Run(node_.Shell("a", "exit 0"));
  EXPECT_EQ(node_.WaitExit("a").exit_code, 0);
}

TEST_P(NodeTest, AskedToLeaveItStopsItsAttemptsFirst) {
  node_.Run(node_.Shell("a", "trap 'cp $SPILLWAY_NOTICE_FILE $DIR/seen; exit 0' TERM; touch $DIR/ready; while :; do sleep 0.01; done"));
  ASSERT_TRUE(node_.WaitForFile("ready"));
  ASSERT_EQ(kill(static_cast<pid_t>(node_.pid()), SIGTERM), 0);
  const auto facts = node_.WaitExit("a");
  EXPECT_EQ(EndOf(facts).cause, EndCause::kPreempted);
  EXPECT_EQ(EndOf(facts).initiator, Initiator::kNode);
  EXPECT_THAT(node_.Read("seen"), HasSubstr("shutdown"));
  EXPECT_THAT(node_.LastWord(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_EQ(node_.Reconnect().items.size(), 1u) << "its end is still owed";
}

TEST(SupervisorProgram, LeavesWhenIdleAndRefusesBadFlags) {
  char folder[] = "/tmp/spillway-sv-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string program = absl::StrCat(getenv("SPILLWAY_BIN"), "/spillway-supervisor");
  const auto run = [&](std::vector<std::string> words) {
    SpawnOptions spawn;
    spawn.argv = {program};
    spawn.argv.insert(spawn.argv.end(), words.begin(), words.end());
    spawn.stderr_path = spawn.stdout_path = JoinPath(folder, "output");
    const auto pid = Spawn(spawn);
    EXPECT_OK(pid);
    int status = 0;
    waitpid(*pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(run({"--home", JoinPath(folder, "h"), "--socket", JoinPath(folder, "s"), "--idle-exit", "10ms"}), 0);
  EXPECT_FALSE(PathExists(JoinPath(folder, "s")));
  EXPECT_EQ(run({"--hom", folder}), 2);
  EXPECT_THAT(ReadFile(JoinPath(folder, "output")).value(), HasSubstr("did you mean --home?"));
  EXPECT_EQ(run({"--home", folder, "--socket", JoinPath(folder, std::string(120, 's'))}), 1);
  EXPECT_EQ(run({"--home", folder, "--socket", JoinPath(folder, "s"), "--idle-exit", "10"}), 2);
  (void)RemoveTree(folder);
}

}  // namespace
}  // namespace spillway::supervisor
