// Each source against a real HTTP server that speaks as its cloud does.
#include "worker/preemption/notice_source.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/status_matchers.h"
#include "base/units.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker_preemption/metadata_server.h"
#include "worker/preemption/metadata_http.h"

namespace spillway::preemption {
namespace {

using Kind = Reading::Kind;
using httplib::Request;
using httplib::Response;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<NoticeSource> Source(const std::string& name, const std::string& url, const std::string& vm_name = "") {
  SourceOptions options;
  options.base_url = url;
  options.vm_name = vm_name;
  absl::StatusOr<std::unique_ptr<NoticeSource>> source = MakeNoticeSource(name, options);
  EXPECT_OK(source.status());
  return *std::move(source);
}

void Say(Response& response, int status, const std::string& body) {
  response.status = status;
  response.set_content(body, "text/plain");
}

TEST(AwsSourceTest, FetchesATokenOnceAndANewOneWhenRefused) {
  int tokens = 0;
  std::string action;
  MetadataServer server([&](const Request& request, Response& response) {
    if (request.method == "PUT") {
      if (request.get_header_value("X-aws-ec2-metadata-token-ttl-seconds") != "21600") return Say(response, 400, "");
      return Say(response, 200, "token-" + std::to_string(++tokens));
    }
    if (request.get_header_value("X-aws-ec2-metadata-token") != "token-" + std::to_string(tokens)) return Say(response, 401, "");
    if (request.path == "/x/latest/meta-data/spot/instance-action" && !action.empty()) return Say(response, 200, action);
    Say(response, 404, "");
  });
  auto source = Source("aws", server.url() + "/x/");
  EXPECT_EQ(source->lead().usual_ms, 120'000);
  EXPECT_EQ(source->Poll()->kind, Kind::kNone);
  EXPECT_EQ(source->Poll()->kind, Kind::kNone);
  EXPECT_EQ(tokens, 1);
  server.Change([&] {
    ++tokens;  // the service has forgotten ours
    action = R"({"action":"terminate","time":"2020-04-24T17:11:44Z"})";
  });
  EXPECT_EQ(source->Poll()->gone_at_utc_ms, *ParseUtcMs("2020-04-24T17:11:44Z"));
  EXPECT_EQ(tokens, 3);
}

TEST(AwsSourceTest, RebalanceIsAskedForUntilItCame) {
  MetadataServer server([&](const Request& request, Response& response) {
    if (request.method == "PUT") return Say(response, 200, "t");
    if (request.path == "/latest/meta-data/events/recommendations/rebalance") return Say(response, 200, R"({"noticeTime":"2020-10-16T19:18:24Z"})");
    Say(response, 404, "");
  });
  auto source = Source("aws", server.url());
  EXPECT_EQ(source->Poll()->kind, Kind::kAdvisory);
  EXPECT_EQ(source->Poll()->kind, Kind::kNone);
  EXPECT_THAT(server.asked(), ElementsAre("PUT /latest/api/token", "GET /latest/meta-data/spot/instance-action",
                                          "GET /latest/meta-data/events/recommendations/rebalance", "GET /latest/meta-data/spot/instance-action"));
}

TEST(AwsSourceTest, AServiceThatRefusesEveryTokenIsAnErrorAndNotALoop) {
  MetadataServer server([&](const Request& request, Response& response) { Say(response, request.method == "PUT" ? 200 : 401, "t"); });
  EXPECT_THAT(Source("aws", server.url())->Poll(), StatusIs(absl::StatusCode::kUnauthenticated, _));
  EXPECT_EQ(server.asked().size(), 4u);
  MetadataServer none([&](const Request&, Response& response) { Say(response, 403, "forbidden"); });
  EXPECT_THAT(Source("aws", none.url())->Poll(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("403")));
}

TEST(GcpSourceTest, AsksWithTheFlavor) {
  std::string word = "FALSE";
  MetadataServer server([&](const Request& request, Response& response) {
    if (request.path != "/computeMetadata/v1/instance/preempted" || request.get_header_value("Metadata-Flavor") != "Google") return Say(response, 403, "");
    Say(response, 200, word);
  });
  auto source = Source("gcp", server.url());
  EXPECT_EQ(source->period_ms_min(), 1'000);
  EXPECT_EQ(source->Poll()->kind, Kind::kNone);
  server.Change([&] { word = "TRUE"; });
  EXPECT_EQ(source->Poll()->kind, Kind::kNotice);
}

TEST(AzureSourceTest, ReadsEventsAndAcknowledgesTheOneThatCounted) {
  std::string posted;
  MetadataServer server([&](const Request& request, Response& response) {
    if (request.get_header_value("Metadata") != "true" || request.get_param_value("api-version") != "2020-07-01") return Say(response, 400, "");
    if (request.method == "POST") {
      posted = request.body;
      return Say(response, 200, "");
    }
    Say(response, 200,
        R"({"DocumentIncarnation":1,"Events":[{"EventId":"E-7","EventType":"Preempt","Resources":["vm-3"],"EventStatus":"Scheduled","NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"}]})");
  });
  auto other = Source("azure", server.url(), "vm-4");
  EXPECT_EQ(other->Poll()->kind, Kind::kNone);
  EXPECT_THAT(other->Acknowledge(), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  auto source = Source("azure", server.url(), "vm-3");
  EXPECT_EQ(source->Poll()->gone_at_utc_ms, *ParseUtcMs("2016-09-19T18:29:47Z"));
  EXPECT_OK(source->Acknowledge());
  EXPECT_EQ(posted, R"({"StartRequests":[{"EventId":"E-7"}]})");
}

TEST(AlibabaSourceTest, TokenAndTime) {
  MetadataServer server([&](const Request& request, Response& response) {
    if (request.method == "PUT") {
      return Say(response, request.get_header_value("X-aliyun-ecs-metadata-token-ttl-seconds").empty() ? 400 : 200, "ali");
    }
    if (request.get_header_value("X-aliyun-ecs-metadata-token") != "ali") return Say(response, 401, "");
    Say(response, request.path == "/latest/meta-data/instance/spot/termination-time" ? 200 : 404, "2015-01-05T18:02:00Z");
  });
  EXPECT_EQ(Source("alibaba", server.url())->Poll()->gone_at_utc_ms, *ParseUtcMs("2015-01-05T18:02:00Z"));
}

TEST(TencentSourceTest, Time) {
  MetadataServer server([&](const Request& request, Response& response) {
    Say(response, request.path == "/latest/meta-data/spot/termination-time" ? 200 : 404, "2018-08-18 12:05:33");
  });
  EXPECT_EQ(Source("tencent", server.url())->Poll()->gone_at_utc_ms, *ParseUtcMs("2018-08-18T04:05:33Z"));
}

TEST(FileSourceTest, AppearsWithAnyContent) {
  TemporaryFolder folder;
  SourceOptions options;
  options.path = folder.File("notice");
  ASSERT_OK_AND_ASSIGN(auto source, MakeNoticeSource("file", options));
  EXPECT_EQ(source->Poll()->kind, Kind::kNone);
  ASSERT_OK(WriteFileAtomically(options.path, ""));
  EXPECT_FALSE(source->Poll()->readable);
  ASSERT_OK(WriteFileAtomically(options.path, "10m"));
  EXPECT_EQ(source->Poll()->lead_ms, 600'000);
  ASSERT_OK(WriteFileAtomically(options.path, std::string(kAnswerBytesMax + 1, 'x')));
  EXPECT_EQ(source->Poll()->kind, Kind::kNotice);  // too long to read, but it is there
}

TEST(SourcesTest, NobodyThereIsAnError) {
  std::string url;
  {
    url = MetadataServer([](const Request&, Response&) {}).url();
  }
  for (const char* name : {"aws", "gcp", "azure", "alibaba", "tencent"}) {
    EXPECT_THAT(Source(name, url)->Poll(), StatusIs(absl::StatusCode::kUnavailable, _)) << name;
  }
}

TEST(SourcesTest, EndlessAnswersAreCut) {
  MetadataServer server([](const Request&, Response& response) { Say(response, 200, std::string(10 << 20, 'T')); });
  const absl::StatusOr<Reading> reading = Source("gcp", server.url())->Poll();
  ASSERT_OK(reading);
  EXPECT_FALSE(reading->readable);
}

TEST(SourcesTest, RedirectsAreNotFollowed) {
  MetadataServer server([](const Request& request, Response& response) {
    if (request.path == "/elsewhere") return Say(response, 200, "TRUE");
    response.set_redirect("/elsewhere");
  });
  EXPECT_THAT(Source("gcp", server.url())->Poll(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("302")));
}

TEST(FactoryTest, RefusesByName) {
  EXPECT_THAT(MakeNoticeSource("awz", {}).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean `aws`")));
  EXPECT_THAT(MakeNoticeSource("file", {}).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("path")));
  for (const char* url : {"https://x", "http://", "http:///x", "127.0.0.1", "ftp://x"}) {
    SourceOptions options;
    options.base_url = url;
    EXPECT_THAT(MakeNoticeSource("aws", options).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("http://HOST"))) << url;
  }
  for (const std::string& name : NoticeSourceNames()) {
    SourceOptions options;
    options.path = "/x";
    options.usual_lead_ms = 7;
    ASSERT_OK_AND_ASSIGN(const auto source, MakeNoticeSource(name, options));
    EXPECT_EQ(source->name(), name);
    EXPECT_EQ(source->lead().usual_ms, 7);
  }
}

}  // namespace
}  // namespace spillway::preemption
