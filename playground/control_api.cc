// The control API: what a provider's console and SDK would call. Every request carries the bearer token.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/limits.h"
#include "base/units.h"
#include "playground/http_routes.h"
#include "playground/instance_json.h"

namespace spillway::playground {
namespace {

using httplib::Request;
using httplib::Response;
using Json = nlohmann::json;

constexpr int64_t kTerminateWaitMs = 10'000;
constexpr size_t kConsoleTailBytes = 64 << 10;

absl::StatusOr<Json> BodyOf(const Request& request) {
  if (request.body.empty()) return Json::object();
  Json json = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("the body is not JSON");
  return json;
}

struct Page {
  int64_t size = limits::kPageSizeDefault;
  int64_t after = 0;  // instances with a higher number
  std::string state;  // "", "alive" or "ended"
  std::map<std::string, std::string> tags;
};

absl::StatusOr<Page> PageOf(const Request& request) {
  Page page;
  for (const auto& [key, value] : request.params) {
    if (key == "page_size") {
      if (!absl::SimpleAtoi(value, &page.size) || page.size < 1 || page.size > limits::kPageSizeMax) {
        return absl::InvalidArgumentError(absl::StrCat("page_size must be from 1 to ", limits::kPageSizeMax));
      }
    } else if (key == "page_token") {
      if (!absl::SimpleAtoi(value, &page.after) || page.after < 0) return absl::InvalidArgumentError("page_token is not one of ours");
    } else if (key == "state") {
      if (value != "alive" && value != "ended") return absl::InvalidArgumentError("state must be alive or ended");
      page.state = value;
    } else if (absl::StartsWith(key, "tag.")) {
      page.tags[key.substr(4)] = value;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unknown parameter `", key, "`; known: page_size, page_token, state, tag.NAME"));
    }
  }
  return page;
}

bool Wanted(const Instance& instance, const Page& page) {
  const bool ended = instance.state == InstanceState::kEnded;
  if ((page.state == "alive" && ended) || (page.state == "ended" && !ended)) return false;
  for (const auto& [name, value] : page.tags) {
    auto it = instance.request.tags.find(name);
    if (it == instance.request.tags.end() || it->second != value) return false;
  }
  return true;
}

// {key: [render(instance), ...], "next_page_token": "…"}; the token is empty on the last page.
template <typename Render>
void AddPage(const Cloud& cloud, const Page& page, const char* key, Render render, Json* out) {
  Json rows = Json::array();
  std::string next;
  int64_t last = page.after;
  for (auto it = cloud.instances().upper_bound(page.after); it != cloud.instances().end(); ++it) {
    if (!Wanted(it->second, page)) continue;
    if (static_cast<int64_t>(rows.size()) == page.size) {
      next = absl::StrCat(last);
      break;
    }
    rows.push_back(render(it->second));
    last = it->first;
  }
  (*out)[key] = std::move(rows);
  (*out)["next_page_token"] = next;
}

Json ChargeRow(const Instance& instance, int64_t now_ms, int64_t utc_at_zero_ms) {
  const Json full = JsonOf(instance, now_ms, utc_at_zero_ms);
  Json row{{"final", instance.ended_ms >= 0}};
  for (const char* key : {"id", "offer", "market", "name", "node_name", "tags", "state", "created", "running_after_ms", "ended_after_ms", "end_reason",
                          "price_micros_per_hour", "billed_ms", "billed_micros"}) {
    row[key] = full[key];
  }
  return row;
}

class ControlApi {
 public:
  ControlApi(Host* host, std::string token) : host_(host), token_(std::move(token)) {}

  bool Authorised(const Request& request, Response& response) const {
    const std::string header = request.get_header_value("Authorization");
    absl::string_view given = header;
    if (absl::ConsumePrefix(&given, "Bearer ") && SameSecret(given, token_)) return true;
    response.set_header("WWW-Authenticate", "Bearer");
    AnswerError(response, absl::UnauthenticatedError("send `Authorization: Bearer TOKEN` with the content of playground.token"));
    return false;
  }

  void Create(const Request& request, Response& response) const {
    absl::StatusOr<Json> body = BodyOf(request);
    if (!body.ok()) return AnswerError(response, body.status());
    absl::StatusOr<CreateRequest> create = RequestFromJson(*body);
    if (!create.ok()) return AnswerError(response, create.status());
    Answer(response, host_->Create(*create));
  }

  void List(const Request& request, Response& response) const {
    absl::StatusOr<Page> page = PageOf(request);
    if (!page.ok()) return AnswerError(response, page.status());
    AnswerJson(response, host_->With([&](const Cloud& cloud, int64_t now_ms, int64_t utc_at_zero_ms) {
      Json out;
      AddPage(
          cloud, *page, "instances", [&](const Instance& instance) { return JsonOf(instance, now_ms, utc_at_zero_ms); }, &out);
      return out;
    }));
  }

  void Get(const std::string& id, Response& response) const {
    absl::StatusOr<Instance> found = host_->With([&](const Cloud& cloud, int64_t, int64_t) -> absl::StatusOr<Instance> {
      const Instance* instance = cloud.FindById(id);
      if (instance == nullptr) return absl::NotFoundError(absl::StrCat("no instance ", id));
      return *instance;
    });
    Answer(response, found);
  }

  void Terminate(const std::string& id, Response& response) const { Answer(response, host_->Terminate(id, kTerminateWaitMs)); }

  void Reclaim(const std::string& id, const Request& request, Response& response) const {
    absl::StatusOr<Json> body = BodyOf(request);
    if (!body.ok()) return AnswerError(response, body.status());
    if (absl::Status keys = CheckKeys(*body, "the request", {"notice"}); !keys.ok()) return AnswerError(response, keys);
    std::optional<int64_t> notice_ms;
    if (body->contains("notice")) {
      absl::StatusOr<int64_t> parsed = ParseDurationMs((*body)["notice"].is_string() ? (*body)["notice"].get<std::string>() : "");
      if (!parsed.ok()) return AnswerError(response, absl::InvalidArgumentError(absl::StrCat("`notice`: ", parsed.status().message())));
      notice_ms = *parsed;
    }
    Answer(response, host_->OrderReclaim(id, notice_ms));
  }

  void KeepAlive(const std::string& id, Response& response) const {
    if (absl::Status status = host_->KeepAlive(id); !status.ok()) return AnswerError(response, status);
    AnswerJson(response, Json::object());
  }

  void Console(const std::string& id, Response& response) const {
    const bool known = host_->With([&](const Cloud& cloud, int64_t, int64_t) { return cloud.FindById(id) != nullptr; });
    if (!known) return AnswerError(response, absl::NotFoundError(absl::StrCat("no instance ", id)));
    response.set_content(host_->Console(id, kConsoleTailBytes).value_or(""), "text/plain; charset=utf-8");
  }

  void Offers(Response& response) const {
    AnswerJson(response, host_->With([](const Cloud& cloud, int64_t now_ms, int64_t) {
      Json offers = Json::array();
      for (const Offer& offer : cloud.config().offers) offers.push_back(JsonOf(offer, cloud, now_ms));
      return Json{{"offers", std::move(offers)}};
    }));
  }

  void Ledger(const Request& request, Response& response) const {
    absl::StatusOr<Page> page = PageOf(request);
    if (!page.ok()) return AnswerError(response, page.status());
    AnswerJson(response, host_->With([&](const Cloud& cloud, int64_t now_ms, int64_t utc_at_zero_ms) {
      const Totals totals = cloud.TotalsAt(now_ms);
      Json out{{"cloud_id", cloud.opened()->cloud_id},      {"scale", cloud.config().scale},
               {"now", UtcWithMs(utc_at_zero_ms + now_ms)}, {"instances_created", totals.created},
               {"billing_instances", totals.alive},         {"final_micros", totals.final_micros},
               {"accruing_micros", totals.accruing_micros}, {"total_micros", totals.final_micros + totals.accruing_micros}};
      AddPage(
          cloud, *page, "rows", [&](const Instance& instance) { return ChargeRow(instance, now_ms, utc_at_zero_ms); }, &out);
      return out;
    }));
  }

 private:
  void Answer(Response& response, const absl::StatusOr<Instance>& instance) const {
    if (!instance.ok()) return AnswerError(response, instance.status());
    AnswerJson(response, host_->With([&](const Cloud&, int64_t now_ms, int64_t utc_at_zero_ms) { return JsonOf(*instance, now_ms, utc_at_zero_ms); }));
  }

  Host* const host_;
  const std::string token_;
};

}  // namespace

void AddControlRoutes(httplib::Server& server, Host* host, const std::string& control_token) {
  auto api = std::make_shared<const ControlApi>(host, control_token);
  auto guarded = [api](auto handle) {
    return [api, handle](const Request& request, Response& response) {
      if (api->Authorised(request, response)) handle(*api, request, response);
    };
  };
  const std::string instance = R"(/v1/instances/(i-\d+))";
  server.Post("/v1/instances", guarded([](const ControlApi& a, const Request& q, Response& r) { a.Create(q, r); }));
  server.Get("/v1/instances", guarded([](const ControlApi& a, const Request& q, Response& r) { a.List(q, r); }));
  server.Get(instance, guarded([](const ControlApi& a, const Request& q, Response& r) { a.Get(q.matches[1], r); }));
  server.Delete(instance, guarded([](const ControlApi& a, const Request& q, Response& r) { a.Terminate(q.matches[1], r); }));
  server.Post(instance + "/reclaim", guarded([](const ControlApi& a, const Request& q, Response& r) { a.Reclaim(q.matches[1], q, r); }));
  server.Post(instance + "/keepalive", guarded([](const ControlApi& a, const Request& q, Response& r) { a.KeepAlive(q.matches[1], r); }));
  server.Get(instance + "/console", guarded([](const ControlApi& a, const Request& q, Response& r) { a.Console(q.matches[1], r); }));
  server.Get("/v1/offers", guarded([](const ControlApi& a, const Request&, Response& r) { a.Offers(r); }));
  server.Get("/v1/ledger", guarded([](const ControlApi& a, const Request& q, Response& r) { a.Ledger(q, r); }));
}

}  // namespace spillway::playground
