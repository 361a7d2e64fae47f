// The metadata service of each instance, in the form of AWS's: a session token by PUT, then GETs that carry it. The path holds a secret of the
// instance's own, as the link-local address does in a cloud: who is not on the machine cannot ask. Session tokens are not stored; they sign
// their own expiry, so they survive a restart of the playground.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "playground/http_routes.h"
#include "playground/instance_json.h"

namespace spillway::playground {
namespace {

using httplib::Request;
using httplib::Response;

constexpr int64_t kTtlSecondsMax = 21'600;
constexpr char kTokenHeader[] = "X-aws-ec2-metadata-token";
constexpr char kTtlHeader[] = "X-aws-ec2-metadata-token-ttl-seconds";

std::string SecretOf(const std::string& instance_id, const std::string& control_token) {
  return HexOf(Sha256Of(absl::StrCat("metadata/", control_token, "/", instance_id))).substr(0, 32);
}

std::string SessionToken(const std::string& secret, int64_t expires_ms) {
  return absl::StrCat(expires_ms, "-", HexOf(Sha256Of(absl::StrCat("session/", secret, "/", expires_ms))));
}

bool ValidSession(absl::string_view token, const std::string& secret, int64_t now_ms) {
  const std::vector<std::string> parts = absl::StrSplit(token, absl::MaxSplits('-', 1));
  int64_t expires_ms = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &expires_ms)) return false;
  return SameSecret(token, SessionToken(secret, expires_ms)) && now_ms < expires_ms;
}

void Plain(Response& response, int http_status, const std::string& text) {
  response.status = http_status;
  response.set_content(text, "text/plain");
}

class MetadataApi {
 public:
  MetadataApi(Host* host, std::string control_token) : host_(host), control_token_(std::move(control_token)) {}

  void Token(const Request& request, Response& response) const {
    const std::string secret = SecretOf(request.matches[1], control_token_);
    if (!Reachable(request, secret)) return Plain(response, 404, "Not Found");
    int64_t ttl_seconds = 0;
    if (!absl::SimpleAtoi(request.get_header_value(kTtlHeader), &ttl_seconds) || ttl_seconds < 1 || ttl_seconds > kTtlSecondsMax) {
      return Plain(response, 400, "Bad Request");
    }
    const int64_t now_ms = NowMs();
    response.set_header(kTtlHeader, absl::StrCat(ttl_seconds));
    Plain(response, 200, SessionToken(secret, now_ms + ttl_seconds * 1'000));
  }

  void Get(const Request& request, Response& response) const {
    absl::StatusOr<Instance> instance = Session(request, response);
    if (!instance.ok()) return;
    const std::string what = request.matches[3];
    if (what == "spot/instance-action" || what == "spot/termination-time") return Notice(*instance, what, response);
    const Terms& terms = instance->terms;
    const std::map<std::string, std::string> facts = {{"instance-id", instance->id},
                                                      {"instance-type", terms.instance_type},
                                                      {"instance-life-cycle", terms.spot ? "spot" : "on-demand"},
                                                      {"placement/availability-zone", terms.zone},
                                                      {"placement/region", terms.region}};
    auto it = facts.find(what);
    if (it == facts.end()) return Plain(response, 404, "Not Found");
    Plain(response, 200, it->second);
  }

  void KeepAlive(const Request& request, Response& response) const {
    absl::StatusOr<Instance> instance = Session(request, response);
    if (!instance.ok()) return;
    if (absl::Status status = host_->KeepAlive(instance->id); !status.ok()) return AnswerError(response, status);
    AnswerJson(response, nlohmann::json::object());
  }

 private:
  bool Reachable(const Request& request, const std::string& secret) const { return SameSecret(request.matches[2].str(), secret); }

  int64_t NowMs() const {
    return host_->With([](const Cloud&, int64_t now_ms, int64_t) { return now_ms; });
  }

  // The instance that asks; an error has been answered already.
  absl::StatusOr<Instance> Session(const Request& request, Response& response) const {
    const std::string secret = SecretOf(request.matches[1], control_token_);
    absl::StatusOr<Instance> instance = host_->With([&](const Cloud& cloud, int64_t, int64_t) -> absl::StatusOr<Instance> {
      const Instance* found = cloud.FindById(request.matches[1].str());
      if (found == nullptr || !Reachable(request, secret)) return absl::NotFoundError("Not Found");
      return *found;
    });
    if (!instance.ok()) {
      Plain(response, 404, "Not Found");
      return instance;
    }
    const std::string token = request.get_header_value(kTokenHeader);
    if (ValidSession(token, secret, NowMs())) return instance;
    Plain(response, 401, "Unauthorized");
    return absl::UnauthenticatedError("no valid session token");
  }

  void Notice(const Instance& instance, const std::string& what, Response& response) const {
    if (instance.announced_ms < 0 || instance.state == InstanceState::kEnded) return Plain(response, 404, "Not Found");
    const std::string time = UtcWithMs(host_->With([&](const Cloud&, int64_t, int64_t utc_at_zero_ms) { return utc_at_zero_ms + instance.gone_at_ms; }));
    if (what == "spot/termination-time") return Plain(response, 200, time);
    AnswerJson(response, {{"action", "terminate"}, {"time", time}});
  }

  Host* const host_;
  const std::string control_token_;
};

}  // namespace

std::string MetadataPath(const std::string& instance_id, const std::string& control_token) {
  return absl::StrCat("/metadata/", instance_id, "/", SecretOf(instance_id, control_token));
}

void AddMetadataRoutes(httplib::Server& server, Host* host, const std::string& control_token) {
  auto api = std::make_shared<const MetadataApi>(host, control_token);
  const std::string base = R"(/metadata/(i-\d+)/([0-9a-f]+))";
  server.Put(base + "/latest/api/token", [api](const Request& request, Response& response) { api->Token(request, response); });
  server.Get(base + "/latest/meta-data/(.+)", [api](const Request& request, Response& response) { api->Get(request, response); });
  server.Post(base + "/keepalive", [api](const Request& request, Response& response) { api->KeepAlive(request, response); });
}

}  // namespace spillway::playground
