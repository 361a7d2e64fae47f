// Literal answers of each cloud, and what can come in their place.
#include "worker/preemption/answers.h"

#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "base/units.h"

namespace spillway::preemption {
namespace {

using Kind = Reading::Kind;
using ::testing::_;
using ::testing::HasSubstr;

int64_t Utc(const char* text) { return *ParseUtcMs(text); }

void ExpectUnreadable(const absl::StatusOr<Reading>& reading) {
  ASSERT_OK(reading);
  EXPECT_EQ(reading->kind, Kind::kNotice);
  EXPECT_FALSE(reading->readable);
  EXPECT_EQ(reading->gone_at_utc_ms, std::nullopt);
}

TEST(AwsTest, InstanceAction) {
  EXPECT_EQ(ReadAwsInstanceAction(404, "")->kind, Kind::kNone);
  const Reading reading = *ReadAwsInstanceAction(200, R"({"action":"terminate","time":"2020-04-24T17:11:44Z"})");
  EXPECT_EQ(reading.kind, Kind::kNotice);
  EXPECT_EQ(reading.gone_at_utc_ms, Utc("2020-04-24T17:11:44Z"));
  EXPECT_EQ(ReadAwsInstanceAction(200, R"({"action":"stop","time":"2020-04-24T17:11:44.250Z"})")->gone_at_utc_ms, Utc("2020-04-24T17:11:44.250Z"));
}

TEST(AwsTest, HibernationHasNoLead) {
  EXPECT_EQ(ReadAwsInstanceAction(200, R"({"action":"hibernate","time":"2020-04-24T17:11:44Z"})")->lead_ms, 0);
  EXPECT_EQ(ReadAwsInstanceAction(200, R"({"action":"terminate","time":"2020-04-24T17:11:44Z"})")->lead_ms, std::nullopt);
}

TEST(AwsTest, UnreadableBodiesAreNotices) {
  for (const char* body : {"", "<html>", "{}", "[]", "null", "\"x\"", R"({"action":"terminate"})", R"({"action":"terminate","time":"soon"})",
                           R"({"action":"terminate","time":5})", R"({"action":{},"time":[]})"}) {
    ExpectUnreadable(ReadAwsInstanceAction(200, body));
  }
}

TEST(AwsTest, OtherStatusesAreErrors) {
  EXPECT_THAT(ReadAwsInstanceAction(401, ""), StatusIs(absl::StatusCode::kUnauthenticated, _));
  EXPECT_THAT(ReadAwsInstanceAction(500, R"({"action":"terminate"})"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("500")));
  EXPECT_THAT(ReadAwsInstanceAction(302, ""), StatusIs(absl::StatusCode::kUnavailable, _));
}

TEST(AwsTest, RebalanceIsAdvice) {
  EXPECT_EQ(ReadAwsRebalance(404, "")->kind, Kind::kNone);
  EXPECT_EQ(ReadAwsRebalance(200, R"({"noticeTime":"2020-10-16T19:18:24Z"})")->kind, Kind::kAdvisory);
  EXPECT_EQ(ReadAwsRebalance(200, "?")->kind, Kind::kAdvisory);
}

TEST(GcpTest, TrueAndFalse) {
  EXPECT_EQ(ReadGcp(200, "FALSE")->kind, Kind::kNone);
  EXPECT_EQ(ReadGcp(200, "FALSE\n")->kind, Kind::kNone);
  EXPECT_EQ(ReadGcp(404, "")->kind, Kind::kNone);
  EXPECT_EQ(ReadGcp(200, "TRUE")->kind, Kind::kNotice);
  EXPECT_TRUE(ReadGcp(200, "TRUE\n")->readable);
  ExpectUnreadable(ReadGcp(200, "MAYBE"));
  ExpectUnreadable(ReadGcp(200, ""));
}

TEST(AlibabaTest, TerminationTime) {
  EXPECT_EQ(ReadAlibaba(404, "")->kind, Kind::kNone);
  EXPECT_EQ(ReadAlibaba(200, "2015-01-05T18:02:00Z")->gone_at_utc_ms, Utc("2015-01-05T18:02:00Z"));
  EXPECT_EQ(ReadAlibaba(200, "2015-01-05T18:02:00Z\n")->gone_at_utc_ms, Utc("2015-01-05T18:02:00Z"));
  ExpectUnreadable(ReadAlibaba(200, "2015-01-05 18:02"));
}

TEST(TencentTest, TerminationTimeIsEightHoursAhead) {
  EXPECT_EQ(ReadTencent(404, "")->kind, Kind::kNone);
  EXPECT_EQ(ReadTencent(200, "2018-08-18 12:05:33")->gone_at_utc_ms, Utc("2018-08-18T04:05:33Z"));
  EXPECT_EQ(ReadTencent(200, "2018-01-01 07:00:00")->gone_at_utc_ms, Utc("2017-12-31T23:00:00Z"));
  ExpectUnreadable(ReadTencent(200, "2018-08-18T12:05:33Z"));
  ExpectUnreadable(ReadTencent(200, "tomorrow noon"));
}

std::string AzureEvents(const std::string& events) { return R"({"DocumentIncarnation":2,"Events":[)" + events + "]}"; }

constexpr char kPreempt[] =
    R"({"EventId":"A-1","EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["vm"],"EventStatus":"Scheduled","NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"})";

TEST(AzureTest, PreemptOfThisMachine) {
  std::string id;
  const Reading reading = *ReadAzure(200, AzureEvents(kPreempt), "VM", &id);
  EXPECT_EQ(reading.gone_at_utc_ms, Utc("2016-09-19T18:29:47Z"));
  EXPECT_EQ(id, "A-1");
}

TEST(AzureTest, OthersAndPausesAreNotOurs) {
  std::string id;
  EXPECT_EQ(ReadAzure(200, AzureEvents(""), "vm", &id)->kind, Kind::kNone);
  EXPECT_EQ(ReadAzure(200, AzureEvents(kPreempt), "another", &id)->kind, Kind::kNone);
  EXPECT_EQ(ReadAzure(200, AzureEvents(R"({"EventId":"F","EventType":"Freeze","Resources":["vm"]})"), "vm", &id)->kind, Kind::kNone);
  EXPECT_EQ(ReadAzure(404, "", "vm", &id)->kind, Kind::kNone);
  EXPECT_EQ(id, "");
  EXPECT_EQ(ReadAzure(200, AzureEvents(kPreempt), "", &id)->kind, Kind::kNotice);  // no name given: any
}

TEST(AzureTest, OfSeveralTheSoonestCounts) {
  std::string id;
  const std::string later = R"({"EventId":"B","EventType":"Reboot","Resources":["vm"],"NotBefore":"Mon, 19 Sep 2016 19:00:00 GMT"})";
  EXPECT_EQ(ReadAzure(200, AzureEvents(later + "," + kPreempt), "vm", &id)->gone_at_utc_ms, Utc("2016-09-19T18:29:47Z"));
  EXPECT_EQ(id, "A-1");
  EXPECT_EQ(ReadAzure(200, AzureEvents(std::string(kPreempt) + "," + later), "vm", &id)->gone_at_utc_ms, Utc("2016-09-19T18:29:47Z"));
  EXPECT_EQ(id, "A-1");
}

TEST(AzureTest, StartedMeansNow) {
  std::string id;
  const Reading reading =
      *ReadAzure(200, AzureEvents(R"({"EventId":"S","EventType":"Preempt","Resources":["vm"],"EventStatus":"Started","NotBefore":""})"), "vm", &id);
  EXPECT_EQ(reading.kind, Kind::kNotice);
  EXPECT_EQ(reading.lead_ms, 0);
}

TEST(AzureTest, Unreadable) {
  std::string id;
  for (const char* body : {"", "{}", "[]", R"({"Events":5})"}) ExpectUnreadable(ReadAzure(200, body, "vm", &id));
  ExpectUnreadable(ReadAzure(200, AzureEvents(R"({"EventType":"Preempt","Resources":["vm"],"NotBefore":"soon"})"), "vm", &id));
  EXPECT_EQ(ReadAzure(200, AzureEvents("5,null,[]"), "vm", &id)->kind, Kind::kNone);
}

TEST(FileTest, Forms) {
  EXPECT_EQ(ReadFileContent("2026-12-24T08:00:00Z\n").gone_at_utc_ms, Utc("2026-12-24T08:00:00Z"));
  EXPECT_EQ(ReadFileContent("45s").lead_ms, 45'000);
  EXPECT_EQ(ReadFileContent("advisory\n").kind, Kind::kAdvisory);
  ExpectUnreadable(ReadFileContent(""));
  ExpectUnreadable(ReadFileContent("go away"));
}

TEST(RawTest, IsCutAndPrintable) {
  const Reading reading = *ReadGcp(200, std::string(100'000, '\x1b'));
  EXPECT_LE(reading.raw.size(), kRawBytesMax + 8);
  EXPECT_EQ(reading.raw.find('\x1b'), std::string::npos);
}

TEST(TimesTest, HttpDates) {
  EXPECT_EQ(*ParseHttpDateMs("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
  for (const char* text : {"", "Mon, 19 Sep 2016 18:29:47", "Mon, 19 Foo 2016 18:29:47 GMT", "Mon, 39 Sep 2016 18:29:47 GMT", "Mon, 9 Sep 2016 18:29:47 GMT"}) {
    EXPECT_THAT(ParseHttpDateMs(text), StatusIs(absl::StatusCode::kInvalidArgument, _)) << text;
  }
}

}  // namespace
}  // namespace spillway::preemption
