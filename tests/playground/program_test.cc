// spillway-playground itself: machines die whole, disks go with them, the ledger is exact across kill -9, the API says what went wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "base/status_matchers.h"
#include "tests/playground/playground_process.h"
#include "worker/preemption/notice_source.h"

namespace spillway::playground {
namespace {

// Billed by the millisecond at a micro a millisecond, so that a bill can be read as a duration.
constexpr char kOffers[] =
    "- {name: spot-a, market: spot, zone: z1, region: r1, cpus: 8, memory: 64GB, price_per_hour: \"3.60\", billing: {increment: 1ms}, capacity: 4, "
    "notice: 1s}\n"
    "- {name: tight, market: on_demand, zone: z1, cpus: 8, memory: 64GB, price_per_hour: \"3.60\", billing: {increment: 1ms}, capacity: 1}\n";

// A worker with descendants that would rather not die: another session, an ignored SIGTERM.
const std::vector<std::string> kFamily = {
    "/bin/sh", "-c", "setsid sleep 100000 & (trap '' TERM HUP; sleep 100000) & echo $$ > pid; echo {metadata_url} > ready.tmp; mv ready.tmp ready; wait"};

class ProgramTest : public ::testing::Test {
 protected:
  void TearDown() override {
    // Whatever a failed test left running.
    if (marker_.empty()) return;
    for (pid_t pid : ProcessesWith(marker_)) kill(pid, SIGKILL);
  }
  std::string StartFamily(const PlaygroundProcess& pg, const std::string& token, const std::string& offer = "spot-a") {
    const std::string id = pg.Create(token, offer, kFamily).at("id");
    marker_ = pg.MarkerOf(id);
    EXPECT_TRUE(Eventually([&] { return PathExists(pg.Disk(id) + "/ready"); })) << pg.Call("GET", "/v1/instances/" + id + "/console").text;
    family_size_ = Namespaced(pg, id) ? 5 : 4;
    // Monitor, init (in a namespace), shell and its children; a process between fork and exec shows no environment, and the one that said `ready` has to
    // end: wait for calm.
    EXPECT_TRUE(Eventually([&] {
      const std::vector<pid_t> family = ProcessesWith(marker_);
      return family.size() >= family_size_ && ProcessesWith(marker_) == family && ProcessesWith(marker_) == family;
    }));
    return id;
  }

  // Where the kernel or the container refuses namespaces, a machine is a tree without an init of its own. In one its shell comes right after the init.
  static bool Namespaced(const PlaygroundProcess& pg, const std::string& id) { return ReadFile(pg.Disk(id) + "/pid").value() == "2\n"; }

  // The moment in the ledger (ms since it was opened) of the first event of this kind about this instance.
  int64_t LedgerMs(const std::string& event, int64_t instance) {
    const std::string ledger = ReadFile(home_.File("ledger.jsonl")).value();
    for (absl::string_view line : absl::StrSplit(ledger, '\n', absl::SkipEmpty())) {
      const Json json = Json::parse(line.begin(), line.end());
      if (json.at("event") == event && json.value("instance", int64_t{0}) == instance) return json.at(event == "opened" ? "steady_ms" : "at_ms");
    }
    ADD_FAILURE() << "no event " << event;
    return 0;
  }

  TemporaryFolder home_;
  std::string marker_;
  size_t family_size_ = 5;
};

TEST_F(ProgramTest, TerminationKillsTheWholeTreeAndDeletesTheDisk) {
  PlaygroundProcess pg(home_.path(), kOffers);
  const std::string id = StartFamily(pg, "a");
  EXPECT_EQ(pg.Get(id).at("state"), "running");
  const Reply reply = pg.Call("DELETE", "/v1/instances/" + id);
  EXPECT_EQ(reply.json.at("state"), "ended");
  EXPECT_EQ(reply.json.at("end_reason"), "user");
  EXPECT_TRUE(ProcessesWith(marker_).empty());  // no waiting: ended means dead
  EXPECT_FALSE(PathExists(pg.Disk(id)));
  EXPECT_EQ(pg.Call("DELETE", "/v1/instances/" + id).json.at("ended_after_ms"), reply.json.at("ended_after_ms"));
}

TEST_F(ProgramTest, PidOneOfANamespaceOfItsOwn) {
  PlaygroundProcess pg(home_.path(), kOffers);
  const std::string id = StartFamily(pg, "a");
  const bool possible = system("unshare --pid --fork --mount-proc true 2>/dev/null") == 0;  // else machines are trees (next test)
  EXPECT_TRUE(Namespaced(pg, id) || !possible);
}

TEST_F(ProgramTest, ATreeWithoutNamespaceDiesWholeToo) {
  SpawnOptions spawn;
  const std::string marker = absl::StrCat("TREE_TEST=", getpid());
  marker_ = marker;
  spawn.argv = {PlaygroundProgram(), "instance-init", "--end-file", home_.File("end"), "--tree", "--"};
  spawn.argv.insert(spawn.argv.end(), kFamily.begin(), kFamily.end());
  spawn.env = std::vector<std::string>{"PATH=/usr/bin:/bin", marker};
  spawn.cwd = home_.path();
  spawn.new_session = true;
  const pid_t pid = Spawn(spawn).value();
  ASSERT_TRUE(Eventually([&] { return ProcessesWith(marker).size() >= 4 && PathExists(home_.File("ready")); }));
  kill(pid, SIGTERM);
  int wait_status = 0;
  waitpid(pid, &wait_status, 0);
  EXPECT_EQ(WEXITSTATUS(wait_status), 137);
  EXPECT_TRUE(ProcessesWith(marker).empty());
  EXPECT_TRUE(PathExists(home_.File("end")));
}

TEST_F(ProgramTest, KillingTheMonitorKillsTheMachine) {
  PlaygroundProcess pg(home_.path(), kOffers);
  const std::string id = StartFamily(pg, "a");
  std::vector<pid_t> family = ProcessesWith(marker_);
  kill(*std::min_element(family.begin(), family.end()), SIGKILL);  // the first started
  EXPECT_TRUE(pg.WaitForState(id, "ended"));
  EXPECT_EQ(pg.Get(id).at("end_reason"), "crashed");
  EXPECT_TRUE(Eventually([&] { return ProcessesWith(marker_).empty(); }));
}

TEST_F(ProgramTest, AnnouncesOnTheMetadataServiceThenTakes) {
  PlaygroundProcess pg(home_.path(), kOffers);
  const std::string id = StartFamily(pg, "a");
  std::string base(absl::StripAsciiWhitespace(ReadFile(pg.Disk(id) + "/ready").value()));
  const std::string path = base.substr(base.find("/metadata/"));
  httplib::Client metadata("127.0.0.1", pg.port());
  EXPECT_EQ(metadata.Get(path + "/latest/meta-data/instance-id")->status, 401);
  EXPECT_EQ(metadata.Put(path + "/latest/api/token", httplib::Headers{}, "", "text/plain")->status, 400);
  const std::string token = metadata.Put(path + "/latest/api/token", httplib::Headers{{"X-aws-ec2-metadata-token-ttl-seconds", "60"}}, "", "text/plain")->body;
  const httplib::Headers session{{"X-aws-ec2-metadata-token", token}};
  EXPECT_EQ(metadata.Get(path + "/latest/meta-data/instance-id", session)->body, id);
  EXPECT_EQ(metadata.Get(path + "/latest/meta-data/placement/availability-zone", session)->body, "z1");
  EXPECT_EQ(metadata.Get(path + "/latest/meta-data/spot/instance-action", session)->status, 404);
  EXPECT_EQ(metadata.Get("/metadata/" + id + "/0123/latest/meta-data/instance-id", session)->status, 404);
  EXPECT_EQ(metadata.Post(path + "/keepalive", session, "", "text/plain")->status, 200);

  const int64_t before_ms = RealClock().NowUtcMs();
  EXPECT_EQ(pg.Call("POST", "/v1/instances/" + id + "/reclaim", Json::object()).status, 200);
  const httplib::Result notice = metadata.Get(path + "/latest/meta-data/spot/instance-action", session);
  ASSERT_EQ(notice->status, 200);
  const Json action = Json::parse(notice->body);
  EXPECT_EQ(action.at("action"), "terminate");
  const std::string time = action.at("time");
  EXPECT_EQ(time.size(), std::string("2026-01-01T00:00:00.000Z").size()) << time;
  EXPECT_TRUE(PathExists(pg.Disk(id)));
  EXPECT_TRUE(pg.WaitForState(id, "ended"));
  const Json ended = pg.Get(id);
  EXPECT_EQ(ended.at("end_reason"), "reclaimed");
  EXPECT_GE(ended.at("ended_after_ms").get<int64_t>() - ended.at("announced_after_ms").get<int64_t>(), 1'000);
  EXPECT_GE(RealClock().NowUtcMs() - before_ms, 1'000);
  EXPECT_TRUE(ProcessesWith(marker_).empty());
}

TEST_F(ProgramTest, TheWorkersOwnSourceHearsTheNotice) {
  PlaygroundProcess pg(home_.path(), kOffers);
  const std::string id = StartFamily(pg, "a");
  preemption::SourceOptions options;
  options.base_url = std::string(absl::StripAsciiWhitespace(ReadFile(pg.Disk(id) + "/ready").value()));
  ASSERT_OK_AND_ASSIGN(const auto source, preemption::MakeNoticeSource("aws", options));
  ASSERT_OK_AND_ASSIGN(const preemption::Reading before, source->Poll());
  EXPECT_EQ(before.kind, preemption::Reading::Kind::kNone);
  const int64_t ordered_ms = RealClock().NowUtcMs();
  ASSERT_EQ(pg.Call("POST", "/v1/instances/" + id + "/reclaim", {{"notice", "3s"}}).status, 200);
  ASSERT_OK_AND_ASSIGN(const preemption::Reading reading, source->Poll());
  EXPECT_EQ(reading.kind, preemption::Reading::Kind::kNotice);
  ASSERT_TRUE(reading.gone_at_utc_ms.has_value()) << reading.raw;
  EXPECT_GE(*reading.gone_at_utc_ms, ordered_ms + 2'900);
  EXPECT_LE(*reading.gone_at_utc_ms, RealClock().NowUtcMs() + 3'100);
  EXPECT_EQ(pg.Call("DELETE", "/v1/instances/" + id).json.at("end_reason"), "user");
}

TEST_F(ProgramTest, ReclaimWithoutNotice) {
  PlaygroundProcess pg(home_.path(), kOffers);
  const std::string id = StartFamily(pg, "a");
  EXPECT_EQ(pg.Call("POST", "/v1/instances/" + id + "/reclaim", {{"notice", "0s"}}).status, 200);
  EXPECT_TRUE(pg.WaitForState(id, "ended"));
  EXPECT_EQ(pg.Get(id).at("end_reason"), "reclaimed_without_notice");
  EXPECT_TRUE(ProcessesWith(marker_).empty());
  EXPECT_FALSE(PathExists(pg.Disk(id)));
}

TEST_F(ProgramTest, AMachineWhoseWorkerExitsHasCrashedAndBillsNoMore) {
  PlaygroundProcess pg(home_.path(), kOffers);
  const std::string id = pg.Create("a", "spot-a", {"/bin/sh", "-c", "echo farewell; exit 3"}).at("id");
  ASSERT_TRUE(pg.WaitForState(id, "ended"));
  const Json ended = pg.Get(id);
  EXPECT_EQ(ended.at("end_reason"), "crashed");
  EXPECT_EQ(ended.at("end_detail"), "exit status 3");
  EXPECT_EQ(ended.at("billed_micros"), ended.at("ended_after_ms"));
  EXPECT_EQ(pg.Call("GET", "/v1/instances/" + id + "/console").text, "farewell\n");
  EXPECT_EQ(pg.Call("GET", "/v1/ledger").json.at("billing_instances"), 0);
}

TEST_F(ProgramTest, LedgerIsExactAfterKillNine) {
  std::string kept, died, dead_before;
  int64_t dead_bill = 0;
  {
    PlaygroundProcess pg(home_.path(), kOffers);
    dead_before = pg.Create("a", "spot-a", {"/bin/true"}).at("id");
    ASSERT_TRUE(pg.WaitForState(dead_before, "ended"));
    dead_bill = pg.Get(dead_before).at("billed_micros");
    died = pg.Create("b", "spot-a", {"/bin/sh", "-c", "echo go > started; while [ ! -e stop ]; do sleep 0.01; done"}).at("id");
    ASSERT_TRUE(Eventually([&] { return PathExists(pg.Disk(died) + "/started"); }));
    kept = StartFamily(pg, "c");
    EXPECT_EQ(pg.Signal(SIGKILL), -SIGKILL);
  }
  const std::vector<pid_t> family = ProcessesWith(marker_);
  EXPECT_GE(family.size(), family_size_);  // nobody on a machine notices that the cloud's console is down
  ASSERT_OK(WriteFileAtomically(home_.path() + "/instances/" + died + "/stop", ""));
  ASSERT_TRUE(Eventually([&] { return PathExists(home_.path() + "/ends/" + died); }));
  const int64_t died_steady_ms = atoll(ReadFile(home_.path() + "/ends/" + died).value().c_str());
  ASSERT_TRUE(Eventually([&] { return RealClock().NowSteadyMs() > died_steady_ms + 300; }));  // the cloud is away for a while after

  PlaygroundProcess pg(home_.path(), kOffers);
  EXPECT_EQ(pg.Get(dead_before).at("billed_micros"), dead_bill);
  EXPECT_EQ(pg.Get(kept).at("state"), "running");
  // Adopted, not started anew: all that lives now lived before. (The one that said `ready` may have ended meanwhile.)
  const std::vector<pid_t> adopted = ProcessesWith(marker_);
  EXPECT_GE(adopted.size(), family_size_);
  EXPECT_TRUE(std::includes(family.begin(), family.end(), adopted.begin(), adopted.end()));
  ASSERT_TRUE(pg.WaitForState(died, "ended"));
  const Json ended = pg.Get(died);
  EXPECT_EQ(ended.at("end_reason"), "crashed");
  EXPECT_EQ(ended.at("billed_micros"), ended.at("ended_after_ms"));
  // Billed until it died, by its monitor's word, and not until it was found dead.
  EXPECT_EQ(ended.at("ended_after_ms"), died_steady_ms - LedgerMs("opened", 0) - LedgerMs("created", 2));
  EXPECT_GE(ended.at("age_ms").get<int64_t>() - ended.at("ended_after_ms").get<int64_t>(), 300);
  EXPECT_EQ(pg.Create("c", "spot-a", kFamily).at("id"), kept);  // the token is still known

  EXPECT_EQ(pg.Call("DELETE", "/v1/instances/" + kept).json.at("state"), "ended");  // an adopted machine is killed and buried as any other
  EXPECT_TRUE(ProcessesWith(marker_).empty());
  const Json bills = pg.Call("GET", "/v1/ledger").json;
  int64_t sum = 0;
  for (const Json& row : bills.at("rows")) {
    EXPECT_EQ(row.at("billed_micros"), row.at("ended_after_ms"));
    sum += row.at("billed_micros").get<int64_t>();
  }
  EXPECT_EQ(bills.at("rows").size(), 3u);
  EXPECT_EQ(bills.at("final_micros"), sum);
  EXPECT_EQ(bills.at("total_micros"), sum);
  EXPECT_EQ(bills.at("billing_instances"), 0);
}

TEST_F(ProgramTest, MachinesSurviveAnOrderlyStopUnlessToldOtherwise) {
  std::string id;
  int port = 0;
  {
    PlaygroundProcess pg(home_.path(), kOffers);
    id = StartFamily(pg, "a");
    port = pg.port();
    EXPECT_EQ(pg.Signal(SIGTERM), 0);
  }
  EXPECT_FALSE(ProcessesWith(marker_).empty());
  PlaygroundProcess pg(home_.path(), kOffers, {"--terminate-on-exit"});
  EXPECT_EQ(pg.port(), port);  // machines still running know only this one
  EXPECT_EQ(pg.Get(id).at("state"), "running");
  EXPECT_EQ(pg.Signal(SIGTERM), 0);
  EXPECT_TRUE(ProcessesWith(marker_).empty());
  EXPECT_FALSE(PathExists(home_.path() + "/instances/" + id));
}

TEST_F(ProgramTest, SaysWhatIsWrong) {
  PlaygroundProcess pg(home_.path(), kOffers);
  auto expect = [&](const Reply& reply, int status, const std::string& code, const std::string& text) {
    EXPECT_EQ(reply.status, status) << reply.text;
    EXPECT_EQ(reply.json.value("code", ""), code);
    EXPECT_THAT(reply.json.value("message", ""), ::testing::HasSubstr(text));
  };
  const Json good = {{"client_token", "t"}, {"offer", "tight"}, {"worker", {{"argv", {"/bin/sleep", "1000"}}}}};
  auto with = [&](const char* key, const Json& value) {
    Json changed = good;
    changed[key] = value;
    return changed;
  };
  expect(pg.Call("GET", "/v1/offers", nullptr, "wrong"), 401, "UNAUTHENTICATED", "playground.token");
  expect(pg.Call("GET", "/v1/offers", nullptr, ""), 401, "UNAUTHENTICATED", "playground.token");
  expect(pg.Call("POST", "/v1/instances", with("offer", "tigth")), 400, "INVALID_ARGUMENT", "did you mean `tight`");
  expect(pg.Call("POST", "/v1/instances", with("ofer", 1)), 400, "INVALID_ARGUMENT", "unknown key");
  EXPECT_EQ(pg.Call("POST", "/v1/instances", good).status, 200);
  expect(pg.Call("POST", "/v1/instances", with("client_token", "u")), 409, "INSUFFICIENT_CAPACITY", "tight");
  expect(pg.Call("POST", "/v1/instances", with("name", "other")), 409, "CLIENT_TOKEN_REUSED", "i-000001");
  expect(pg.Call("GET", "/v1/instances/i-000099"), 404, "NOT_FOUND", "i-000099");
  expect(pg.Call("GET", "/v1/nothing"), 404, "NOT_FOUND", "/v1/nothing");
  expect(pg.Call("GET", "/v1/instances?page_sise=3"), 400, "INVALID_ARGUMENT", "page_sise");
  expect(pg.Call("POST", "/v1/instances/i-000001/reclaim", Json::object()), 409, "WRONG_STATE", "on demand");
  expect(pg.Call("POST", "/v1/instances/i-000001/reclaim", {{"notice", "soon"}}), 400, "INVALID_ARGUMENT", "notice");
  EXPECT_EQ(pg.Call("GET", "/v1/offers").json.at("offers")[1].at("available"), 0);
  pg.Call("DELETE", "/v1/instances/i-000001");
  EXPECT_EQ(pg.Call("GET", "/v1/offers").json.at("offers")[1].at("available"), 1);
  expect(pg.Call("POST", "/v1/instances/i-000001/keepalive"), 409, "WRONG_STATE", "ended");
}

TEST_F(ProgramTest, ListsInPages) {
  PlaygroundProcess pg(home_.path(), kOffers);
  for (const char* token : {"a", "b", "c"}) {
    const Json body = {{"client_token", token},
                       {"offer", "spot-a"},
                       {"tags", {{"cluster", token[0] == 'b' ? "other" : "mine"}}},
                       {"worker", {{"argv", {"/bin/sleep", "1000"}}}}};
    ASSERT_EQ(pg.Call("POST", "/v1/instances", body).status, 200);
  }
  pg.Call("DELETE", "/v1/instances/i-000003");
  const Json first = pg.Call("GET", "/v1/instances?page_size=2").json;
  EXPECT_EQ(first.at("instances").size(), 2u);
  const Json second = pg.Call("GET", "/v1/instances?page_size=2&page_token=" + first.at("next_page_token").get<std::string>()).json;
  EXPECT_EQ(second.at("instances").size(), 1u);
  EXPECT_EQ(second.at("next_page_token"), "");
  EXPECT_EQ(pg.Call("GET", "/v1/instances?state=ended").json.at("instances").size(), 1u);
  EXPECT_EQ(pg.Call("GET", "/v1/instances?state=alive&tag.cluster=mine").json.at("instances").size(), 1u);
  for (const char* id : {"i-000001", "i-000002"}) pg.Call("DELETE", std::string("/v1/instances/") + id);
}

TEST_F(ProgramTest, RefusesToStartOnWhatWouldGoWrong) {
  auto run = [&](std::vector<std::string> flags) {
    SpawnOptions spawn;
    spawn.argv = {PlaygroundProgram()};
    spawn.argv.insert(spawn.argv.end(), flags.begin(), flags.end());
    spawn.stdout_path = spawn.stderr_path = home_.File("refusal.log");
    unlink(spawn.stdout_path.c_str());
    int wait_status = 0;
    waitpid(Spawn(spawn).value(), &wait_status, 0);
    return std::make_pair(WEXITSTATUS(wait_status), ReadFile(spawn.stdout_path).value_or(""));
  };
  const std::string config = home_.File("config.yaml");
  {
    PlaygroundProcess pg(home_.path(), kOffers);
    const auto [status, text] = run({"--config", config, "--home", home_.path()});
    EXPECT_EQ(status, 1);
    EXPECT_THAT(text, ::testing::HasSubstr("another playground is running"));
    EXPECT_EQ(pg.Signal(SIGTERM), 0);
  }
  EXPECT_THAT(run({"--config", config, "--home", home_.path(), "--scale", "60"}).second, ::testing::HasSubstr("scale 1"));
  EXPECT_THAT(run({"--home", home_.path()}).second, ::testing::HasSubstr("no configuration"));
  EXPECT_THAT(run({"--hom", home_.path()}).second, ::testing::HasSubstr("did you mean --home"));
  EXPECT_EQ(run({"--port"}).first, 2);
  ASSERT_OK(WriteFileAtomically(config, "offers:\n- {name: a, markt: spot}\n"));
  EXPECT_THAT(run({"--config", config, "--home", home_.path()}).second, ::testing::HasSubstr("config.yaml:2: unknown key `markt`"));
}

}  // namespace
}  // namespace spillway::playground
