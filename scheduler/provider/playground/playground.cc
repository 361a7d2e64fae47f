#include "scheduler/provider/playground/playground.h"

#include <httplib.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::provider {
namespace {

using Json = nlohmann::json;

constexpr time_t kConnectSeconds = 2;
constexpr time_t kReadSeconds = 15;  // a termination may wait for the machine to die
constexpr int kPageSize = 1'000;
constexpr int kPagesMax = 1'000;
constexpr size_t kEndedKept = 1'000;
constexpr size_t kAnswerBytesMax = 16u << 20;
constexpr size_t kTokenBytesMax = 4'096;

int64_t Number(const Json& json, const char* key, int64_t otherwise) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
}
std::string Text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

// What an error answer means to us.
absl::Status StatusOf(int http_status, const Json& body) {
  const std::string code = Text(body, "code");
  const std::string message = absl::StrCat(code, code.empty() ? "" : ": ", Printable(Text(body, "message"), 500), " (HTTP ", http_status, ")");
  if (code == "INSUFFICIENT_CAPACITY") return absl::ResourceExhaustedError(message);
  if (http_status == 404) return absl::NotFoundError(message);
  if (http_status == 401) return absl::UnauthenticatedError(message);
  if (http_status == 400 || http_status == 409) return absl::InvalidArgumentError(message);
  return absl::UnavailableError(message);
}

core::Offer OfferOf(const std::string& provider, const Json& json) {
  core::Offer offer;
  offer.provider = provider;
  offer.name = Text(json, "name");
  offer.market = Text(json, "market") == "spot" ? Market::kSpot : Market::kOnDemand;
  offer.instance_type = Text(json, "instance_type");
  offer.zone = Text(json, "zone");
  offer.region = Text(json, "region");
  offer.capacity.cpu_milli = Number(json, "cpus", 0) * 1'000;
  offer.capacity.memory_bytes = Number(json, "memory_bytes", 0);
  offer.capacity.disk_bytes = Number(json, "disk_bytes", 0);
  if (const auto gpus = json.find("gpus"); gpus != json.end() && gpus->is_object() && Number(*gpus, "count", 0) > 0) {
    offer.capacity.gpu_model = Text(*gpus, "model");
    offer.capacity.gpu_count = Number(*gpus, "count", 0);
    offer.capacity.gpu_memory_bytes = Number(*gpus, "memory_bytes", 0);
    offer.capacity.gpu_simulated = true;
  }
  offer.price_micros_per_hour = Number(json, "price_micros_per_hour", 0);
  offer.billing = {Number(json, "billing_increment_ms", 1), Number(json, "billing_minimum_ms", 0)};
  offer.notice_ms = Number(json, "notice_ms", 0);
  offer.available = Number(json, "available", -1);
  return offer;
}

core::InstanceListing::Instance InstanceOf(const Json& json) {
  core::InstanceListing::Instance instance;
  instance.instance_id = Text(json, "id");
  instance.name = Text(json, "name");
  const std::string state = Text(json, "state");
  // `stopping` still bills and may still run: only `ended` is proof.
  instance.alive = state != "ended";
  const std::string reason = Text(json, "end_reason");
  instance.reclaimed = absl::StartsWith(reason, "reclaimed");
  instance.reason = reason.empty() ? state : reason;
  if (!instance.alive) instance.billed_micros = Number(json, "billed_micros", -1);
  instance.notice_in_ms = Number(json, "notice_left_ms", -1);
  return instance;
}

class Playground final : public Provider {
 public:
  Playground(std::string name, std::string host, int port, std::string token_file, Surroundings surroundings)
      : name_(std::move(name)), host_(std::move(host)), port_(port), token_file_(std::move(token_file)), surroundings_(std::move(surroundings)) {}

  const std::string& name() const override { return name_; }
  Capabilities capabilities() const override { return {.create = true, .testify = true, .offers = true}; }
  absl::StatusOr<std::vector<core::Offer>> ListOffers() override;
  absl::StatusOr<std::string> Create(const engine::CreateOrder& order) override;
  absl::Status Terminate(const engine::TerminateOrder& order) override;
  absl::StatusOr<core::InstanceListing> List() override;

 private:
  // A fresh connection a call: the runner calls seldom, and the cloud may have been restarted between two calls.
  absl::StatusOr<Json> Call(const std::string& method, const std::string& path, const std::optional<Json>& body = std::nullopt);
  absl::StatusOr<std::string> FindByName(const std::string& node_name);
  // Our instances in this state; "" all that the cloud remembers.
  absl::StatusOr<std::vector<core::InstanceListing::Instance>> ListState(const std::string& state);

  const std::string name_, host_;
  const int port_;
  const std::string token_file_;
  const Surroundings surroundings_;

  // A cloud remembers everything that ever was. It is asked for that once; later for what is alive, and about each instance that no longer is.
  bool listed_all_ = false;
  std::set<std::string> alive_;                        // ids, as of the last listing, and what was made since
  std::deque<core::InstanceListing::Instance> ended_;  // the newest kEndedKept, told in every listing
};

absl::StatusOr<Json> Playground::Call(const std::string& method, const std::string& path, const std::optional<Json>& body) {
  ASSIGN_OR_RETURN(const std::string token, ReadFile(token_file_, kTokenBytesMax));
  httplib::Client client(host_, port_);
  client.set_connection_timeout(kConnectSeconds);
  client.set_read_timeout(kReadSeconds);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.set_header("Authorization", absl::StrCat("Bearer ", absl::string_view(absl::StripAsciiWhitespace(token))));
  if (body) {
    request.body = body->dump();
    request.set_header("Content-Type", "application/json");
  }
  const httplib::Result result = client.send(request);
  if (!result) return absl::UnavailableError(absl::StrCat("http://", host_, ":", port_, " does not answer (", httplib::to_string(result.error()), ")"));
  if (result->body.size() > kAnswerBytesMax) return absl::UnavailableError("an answer beyond reason");
  Json json = Json::parse(result->body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) json = Json::object();
  if (result->status < 200 || result->status >= 300) return StatusOf(result->status, json);
  return json;
}

absl::StatusOr<std::vector<core::Offer>> Playground::ListOffers() {
  ASSIGN_OR_RETURN(const Json answer, Call("GET", "/v1/offers"));
  std::vector<core::Offer> offers;
  for (const Json& json : answer.value("offers", Json::array())) {
    if (json.is_object()) offers.push_back(OfferOf(name_, json));
  }
  return offers;
}

absl::StatusOr<std::string> Playground::Create(const engine::CreateOrder& order) {
  const Json body = {
      {"client_token", order.client_token},
      {"offer", order.offer.name},
      {"name", order.node.name},
      {"tags", {{"cluster", surroundings_.cluster_uuid}}},
      {"worker",
       {{"server", surroundings_.worker_address}, {"token_file", surroundings_.worker_token_file}, {"node_name", order.node.name}, {"provider", name_}}}};
  ASSIGN_OR_RETURN(const Json answer, Call("POST", "/v1/instances", body));
  const std::string id = Text(answer, "id");
  if (id.empty()) return absl::UnavailableError("the cloud answered a creation without an id");
  alive_.insert(id);
  return id;
}

// Without an id (the reply to the creation was lost) the name finds it.
absl::Status Playground::Terminate(const engine::TerminateOrder& order) {
  std::string id = order.instance_id;
  if (id.empty()) {
    absl::StatusOr<std::string> found = FindByName(order.name);
    if (absl::IsNotFound(found.status())) return absl::OkStatus();
    RETURN_IF_ERROR(found.status());
    id = *std::move(found);
  }
  const absl::StatusOr<Json> answer = Call("DELETE", absl::StrCat("/v1/instances/", id));
  if (absl::IsNotFound(answer.status())) return absl::OkStatus();
  return answer.status();
}

absl::StatusOr<std::string> Playground::FindByName(const std::string& node_name) {
  ASSIGN_OR_RETURN(const std::vector<core::InstanceListing::Instance> living, ListState("alive"));
  for (const core::InstanceListing::Instance& instance : living) {
    if (instance.name == node_name && instance.alive) return instance.instance_id;
  }
  return absl::NotFoundError(absl::StrCat("no living instance is called ", node_name));
}

absl::StatusOr<std::vector<core::InstanceListing::Instance>> Playground::ListState(const std::string& state) {
  std::vector<core::InstanceListing::Instance> instances;
  std::string token;
  for (int page = 0; page < kPagesMax; ++page) {
    ASSIGN_OR_RETURN(const Json answer,
                     Call("GET", absl::StrCat("/v1/instances?page_size=", kPageSize, "&tag.cluster=", surroundings_.cluster_uuid,
                                              state.empty() ? "" : absl::StrCat("&state=", state), token.empty() ? "" : absl::StrCat("&page_token=", token))));
    for (const Json& json : answer.value("instances", Json::array())) {
      if (json.is_object()) instances.push_back(InstanceOf(json));
    }
    token = Text(answer, "next_page_token");
    if (token.empty()) return instances;
  }
  return absl::UnavailableError("the cloud's listing does not end");
}

absl::StatusOr<core::InstanceListing> Playground::List() {
  core::InstanceListing listing;
  listing.provider = name_;
  ASSIGN_OR_RETURN(const std::vector<core::InstanceListing::Instance> found, ListState(listed_all_ ? "alive" : ""));
  std::set<std::string> missing = std::move(alive_);
  alive_.clear();
  for (const core::InstanceListing::Instance& instance : found) {
    missing.erase(instance.instance_id);
    if (!instance.alive) {
      ended_.push_back(instance);
      continue;
    }
    alive_.insert(instance.instance_id);
    listing.instances.push_back(instance);
  }
  listed_all_ = true;
  // How it ended, and the final bill. What could not be asked is asked next time.
  absl::Status status;
  for (const std::string& id : missing) {
    const absl::StatusOr<Json> answer = status.ok() ? Call("GET", absl::StrCat("/v1/instances/", id)) : absl::StatusOr<Json>(status);
    if (absl::IsNotFound(answer.status())) continue;  // forgotten: its absence is its end
    if (!answer.ok()) {
      status = answer.status();
      alive_.insert(id);
      continue;
    }
    const core::InstanceListing::Instance instance = InstanceOf(*answer);
    if (instance.alive) alive_.insert(id);
    if (instance.alive) listing.instances.push_back(instance);
    if (!instance.alive) ended_.push_back(instance);
  }
  RETURN_IF_ERROR(status);
  listing.instances.insert(listing.instances.end(), ended_.begin(), ended_.end());
  while (ended_.size() > kEndedKept) ended_.pop_front();
  return listing;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Provider>> MakePlayground(const v1::ProviderConfig& config, const Surroundings& surroundings) {
  absl::string_view rest = config.url();
  if (!absl::ConsumePrefix(&rest, "http://"))
    return absl::InvalidArgumentError(absl::StrCat("provider ", config.name(), ": url must be http://HOST:PORT, not ", Printable(config.url())));
  rest = absl::StripSuffix(rest, "/");
  const size_t colon = rest.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(colon + 1), &port) || port < 1 || port > 65'535) {
    return absl::InvalidArgumentError(absl::StrCat("provider ", config.name(), ": url must be http://HOST:PORT, not ", Printable(config.url())));
  }
  if (config.token_file().empty())
    return absl::InvalidArgumentError(absl::StrCat("provider ", config.name(), ": token_file is missing: the playground writes HOME/playground.token"));
  return std::make_unique<Playground>(config.name(), std::string(rest.substr(0, colon)), port, ExpandHome(config.token_file()), surroundings);
}

}  // namespace spillway::provider
