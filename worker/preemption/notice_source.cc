#include "worker/preemption/notice_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/preemption/answers.h"
#include "worker/preemption/metadata_http.h"

namespace spillway::preemption {
namespace {

// No cloud that gives notice at all promises less than half a minute; an answer that cannot be read is taken to mean that.
constexpr int64_t kMinimumLeadMs = 30'000;
constexpr char kTokenTtlSeconds[] = "21600";

struct ProviderFacts {
  const char* name;
  const char* base_url;
  ProviderLead lead;
};

constexpr ProviderFacts kAws{"aws", "http://169.254.169.254", {120'000, kMinimumLeadMs}};
constexpr ProviderFacts kGcp{"gcp", "http://metadata.google.internal", {30'000, kMinimumLeadMs}};
constexpr ProviderFacts kAzure{"azure", "http://169.254.169.254", {30'000, kMinimumLeadMs}};
constexpr ProviderFacts kAlibaba{"alibaba", "http://100.100.100.200", {300'000, kMinimumLeadMs}};
constexpr ProviderFacts kTencent{"tencent", "http://metadata.tencentyun.com", {120'000, kMinimumLeadMs}};
// A file is written by somebody who knows: the time it names is taken as it is, up to a day.
constexpr ProviderFacts kFile{"file", "", {24LL * 3'600'000, kMinimumLeadMs}};

class SourceBase : public NoticeSource {
 public:
  SourceBase(const ProviderFacts& facts, const SourceOptions& options) : name_(facts.name), lead_(facts.lead) {
    if (options.usual_lead_ms > 0) lead_.usual_ms = options.usual_lead_ms;
  }
  const std::string& name() const override { return name_; }
  ProviderLead lead() const override { return lead_; }

 private:
  std::string name_;
  ProviderLead lead_;
};

// A session token fetched by PUT and kept until the service refuses it: AWS's IMDSv2, and Alibaba's likeness of it.
class TokenSession {
 public:
  TokenSession(BaseUrl base, std::string token_header) : base_(std::move(base)), token_header_(std::move(token_header)) {}

  // Calls read(status, body). A refusal (UNAUTHENTICATED) fetches a new token and asks once more.
  template <typename Read>
  absl::StatusOr<Reading> Get(const std::string& path, Read read) {
    for (int attempt = 0;; ++attempt) {
      if (token_.empty()) RETURN_IF_ERROR(FetchToken());
      ASSIGN_OR_RETURN(const HttpAnswer answer, Fetch("GET", base_, path, {{token_header_, token_}}));
      absl::StatusOr<Reading> reading = read(answer.status, answer.body);
      if (!absl::IsUnauthenticated(reading.status()) || attempt > 0) return reading;
      token_.clear();
    }
  }

 private:
  absl::Status FetchToken() {
    ASSIGN_OR_RETURN(const HttpAnswer answer, Fetch("PUT", base_, "/latest/api/token", {{absl::StrCat(token_header_, "-ttl-seconds"), kTokenTtlSeconds}}));
    const std::string token(absl::StripAsciiWhitespace(answer.body));
    const bool printable = std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > 32 && c < 127; });
    if (answer.status != 200 || token.empty() || !printable) {
      return absl::UnavailableError(absl::StrCat("no metadata token from ", base_.origin, ": status ", answer.status));
    }
    token_ = token;
    return absl::OkStatus();
  }

  const BaseUrl base_;
  const std::string token_header_;
  std::string token_;
};

class AwsSource final : public SourceBase {
 public:
  AwsSource(BaseUrl base, const SourceOptions& options) : SourceBase(kAws, options), session_(std::move(base), "X-aws-ec2-metadata-token") {}
  absl::StatusOr<Reading> Poll() override {
    ASSIGN_OR_RETURN(Reading action, session_.Get("/latest/meta-data/spot/instance-action", ReadAwsInstanceAction));
    if (action.kind != Reading::Kind::kNone || advised_) return action;
    ASSIGN_OR_RETURN(Reading advice, session_.Get("/latest/meta-data/events/recommendations/rebalance", ReadAwsRebalance));
    advised_ = advice.kind == Reading::Kind::kAdvisory;  // it stays; asking again tells nothing new
    return advice;
  }

 private:
  TokenSession session_;
  bool advised_ = false;
};

class AlibabaSource final : public SourceBase {
 public:
  AlibabaSource(BaseUrl base, const SourceOptions& options) : SourceBase(kAlibaba, options), session_(std::move(base), "X-aliyun-ecs-metadata-token") {}
  absl::StatusOr<Reading> Poll() override { return session_.Get("/latest/meta-data/instance/spot/termination-time", ReadAlibaba); }

 private:
  TokenSession session_;
};

class TencentSource final : public SourceBase {
 public:
  TencentSource(BaseUrl base, const SourceOptions& options) : SourceBase(kTencent, options), base_(std::move(base)) {}
  absl::StatusOr<Reading> Poll() override {
    ASSIGN_OR_RETURN(const HttpAnswer answer, Fetch("GET", base_, "/latest/meta-data/spot/termination-time", {}));
    return ReadTencent(answer.status, answer.body);
  }

 private:
  const BaseUrl base_;
};

// Without wait_for_change: a request that hangs for a minute would outlive the two seconds a request may take.
class GcpSource final : public SourceBase {
 public:
  GcpSource(BaseUrl base, const SourceOptions& options) : SourceBase(kGcp, options), base_(std::move(base)) {}
  int64_t period_ms_min() const override { return 1'000; }
  absl::StatusOr<Reading> Poll() override {
    ASSIGN_OR_RETURN(const HttpAnswer answer, Fetch("GET", base_, "/computeMetadata/v1/instance/preempted", {{"Metadata-Flavor", "Google"}}));
    return ReadGcp(answer.status, answer.body);
  }

 private:
  const BaseUrl base_;
};

class AzureSource final : public SourceBase {
 public:
  AzureSource(BaseUrl base, const SourceOptions& options) : SourceBase(kAzure, options), base_(std::move(base)), vm_name_(options.vm_name) {}
  absl::StatusOr<Reading> Poll() override {
    ASSIGN_OR_RETURN(const HttpAnswer answer, Fetch("GET", base_, kPath, {{"Metadata", "true"}}));
    return ReadAzure(answer.status, answer.body, vm_name_, &event_id_);
  }
  absl::Status Acknowledge() override {
    if (event_id_.empty()) return absl::FailedPreconditionError("there is no event to acknowledge");
    const nlohmann::json body{{"StartRequests", {{{"EventId", event_id_}}}}};
    ASSIGN_OR_RETURN(const HttpAnswer answer, Fetch("POST", base_, kPath, {{"Metadata", "true"}, {"Content-Type", "application/json"}}, body.dump()));
    if (answer.status == 200) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("the event was not acknowledged: status ", answer.status));
  }

 private:
  static constexpr char kPath[] = "/metadata/scheduledevents?api-version=2020-07-01";
  const BaseUrl base_;
  const std::string vm_name_;
  std::string event_id_;
};

class FileSource final : public SourceBase {
 public:
  explicit FileSource(const SourceOptions& options) : SourceBase(kFile, options), path_(options.path) {}
  absl::StatusOr<Reading> Poll() override {
    absl::StatusOr<std::string> content = ReadFile(path_, kAnswerBytesMax);
    if (absl::IsNotFound(content.status())) return Reading{};
    if (content.ok()) return ReadFileContent(*content);
    return ReadFileContent(content.status().message());  // it is there, so it means something, readable or not
  }

 private:
  const std::string path_;
};

template <typename Source>
absl::StatusOr<std::unique_ptr<NoticeSource>> OverHttp(const ProviderFacts& facts, const SourceOptions& options) {
  ASSIGN_OR_RETURN(BaseUrl base, ParseBaseUrl(options.base_url.empty() ? facts.base_url : options.base_url));
  return std::unique_ptr<NoticeSource>(std::make_unique<Source>(std::move(base), options));
}

}  // namespace

std::vector<std::string> NoticeSourceNames() { return {kAws.name, kGcp.name, kAzure.name, kAlibaba.name, kTencent.name, kFile.name}; }

absl::StatusOr<std::unique_ptr<NoticeSource>> MakeNoticeSource(const std::string& name, const SourceOptions& options) {
  if (name == kAws.name) return OverHttp<AwsSource>(kAws, options);
  if (name == kGcp.name) return OverHttp<GcpSource>(kGcp, options);
  if (name == kAzure.name) return OverHttp<AzureSource>(kAzure, options);
  if (name == kAlibaba.name) return OverHttp<AlibabaSource>(kAlibaba, options);
  if (name == kTencent.name) return OverHttp<TencentSource>(kTencent, options);
  if (name == kFile.name) {
    if (options.path.empty()) return absl::InvalidArgumentError("the notice source `file` needs the path of the file that will appear");
    return std::unique_ptr<NoticeSource>(std::make_unique<FileSource>(options));
  }
  const std::string nearest = NearestName(name, NoticeSourceNames());
  return absl::InvalidArgumentError(
      absl::StrCat("unknown notice source `", Printable(name), "`",
                   nearest.empty() ? absl::StrCat("; known: ", absl::StrJoin(NoticeSourceNames(), ", ")) : absl::StrCat("; did you mean `", nearest, "`?")));
}

}  // namespace spillway::preemption
