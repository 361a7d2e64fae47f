// The ledger: what was appended comes back; an unfinished last line is cut off; anything else that is damaged is refused with its line.
#include "playground/ledger.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_matchers.h"
#include "playground/instance_json.h"
#include "tests/playground/cloud_fixture.h"
#include "tests/support/temporary_folder.h"

namespace spillway::playground {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kOffer[] =
    "- {name: s, market: spot, zone: z, gpus: {model: H100, count: 2, memory: 80GB}, cpus: 8, memory: 64GB, price_per_hour: 3.6, capacity: 9, "
    "notice: 1s, reclaim: {after: [5s]}}";

class LedgerTest : public ::testing::Test {
 protected:
  std::string Path() { return JoinPath(folder_.path(), "ledger.jsonl"); }

  std::vector<Event> History() {
    HandDrivenCloud pg(ConfigOf(kOffer));
    EXPECT_OK(pg.Create("a \"quoted\"\n", "s").status());
    EXPECT_OK(pg.Create("b", "s").status());
    pg.RunUntil(20'000);
    std::vector<Event> events;
    for (const std::string& line : pg.history) events.push_back(*DecodeEvent(line));
    return events;
  }

  TemporaryFolder folder_;
};

TEST_F(LedgerTest, WhatWasAppendedComesBack) {
  const std::vector<Event> history = History();
  {
    Cloud cloud(ConfigOf(kOffer));
    ASSERT_OK_AND_ASSIGN(Ledger ledger, Ledger::Open(Path(), &cloud));
    EXPECT_FALSE(cloud.opened().has_value());
    for (const Event& event : history) ASSERT_OK(ledger.Append({event}));
  }
  Cloud cloud(ConfigOf(kOffer));
  ASSERT_OK(Ledger::Open(Path(), &cloud).status());
  EXPECT_EQ(cloud.instances().size(), 2u);
  EXPECT_EQ(cloud.Find(1)->request.client_token, "a \"quoted\"\n");
  EXPECT_EQ(cloud.Find(1)->terms.gpus.count, 2);
  EXPECT_EQ(cloud.Find(1)->end_reason, EndReason::kReclaimed);
  EXPECT_EQ(cloud.Find(1)->charge_micros, 5'000);
}

TEST_F(LedgerTest, AnyCutOfTheFileGivesAPrefixOfTheHistory) {
  SetLogLevel(LogLevel::kError);  // every cut says so
  const std::vector<Event> history = History();
  std::string whole;
  for (const Event& event : history) absl::StrAppend(&whole, EncodeEvent(event), "\n");
  for (size_t cut = 0; cut <= whole.size(); cut += 7) {
    ASSERT_OK(WriteFileAtomically(Path(), whole.substr(0, cut)));
    Cloud cloud(ConfigOf(kOffer));
    {
      ASSERT_OK_AND_ASSIGN(Ledger ledger, Ledger::Open(Path(), &cloud));
      ASSERT_OK_AND_ASSIGN(const std::string kept, ReadFile(Path()));
      ASSERT_TRUE(kept.empty() || kept.back() == '\n');
      ASSERT_EQ(kept, whole.substr(0, kept.size()));
      ASSERT_GT(kept.size() + 4096, cut);
      ASSERT_EQ(whole.find('\n', kept.size()) >= cut, true);  // nothing complete was lost
    }
  }
}

TEST_F(LedgerTest, DamageIsRefusedWithItsLine) {
  const std::vector<Event> history = History();
  auto refused = [&](const std::string& second_line, const char* what) {
    ASSERT_OK(WriteFileAtomically(Path(), absl::StrCat(EncodeEvent(history[0]), "\n", second_line, "\n")));
    Cloud cloud(ConfigOf(kOffer));
    EXPECT_THAT(Ledger::Open(Path(), &cloud).status(), StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("ledger.jsonl:2:"), HasSubstr(what))));
  };
  refused("not json", "");
  refused(R"({"at_ms":1,"event":"exploded"})", "unknown event");
  refused(R"({"at_ms":1,"event":"gone","instance":1})", "no instance 1");
  refused(R"({"at_ms":1,"event":"started","instance":1})", "");
  refused(R"({"at_ms":1,"event":"ending","instance":1,"reason":"bored","detail":"","billed_ms":0,"charge_micros":0})", "unknown end reason");
}

TEST(InstanceJsonTest, RequestsAreReadStrictly) {
  auto refused = [](const char* json, const char* what) {
    EXPECT_THAT(RequestFromJson(nlohmann::json::parse(json)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what))) << json;
  };
  refused(R"({"client_tokken":"a"})", "did you mean `client_token`");
  refused(R"({"client_token":5})", "client_token");
  refused(R"({"worker":{"argv":"x"}})", "worker.argv");
  refused(R"({"worker":{"env":{"A=B":"x"}}})", "env");
  refused(R"({"worker":{"provider":1}})", "provider");
  refused(R"({"tags":{"a":1}})", "tags");
  refused(R"({"self_terminate_after":"soon"})", "self_terminate_after");
  refused(R"([])", "object");
  ASSERT_OK_AND_ASSIGN(const CreateRequest request, RequestFromJson(nlohmann::json::parse(R"({"client_token":"a","self_terminate_after":"30m"})")));
  EXPECT_EQ(request.self_terminate_after_ms, 1'800'000);
  EXPECT_EQ(*RequestFromJson(JsonOf(request)), request);
}

TEST(InstanceJsonTest, TimesCarryMilliseconds) { EXPECT_EQ(UtcWithMs(1'750'000'000'007), "2025-06-15T15:06:40.007Z"); }

}  // namespace
}  // namespace spillway::playground
