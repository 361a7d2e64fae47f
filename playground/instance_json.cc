#include "playground/instance_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway::playground {
namespace {

using Json = nlohmann::json;

absl::Status WrongType(absl::string_view key, absl::string_view wanted) { return absl::InvalidArgumentError(absl::StrCat("`", key, "` must be ", wanted)); }

absl::Status ReadText(const Json& json, const char* key, std::string* out) {
  if (!json.contains(key)) return absl::OkStatus();
  if (!json[key].is_string()) return WrongType(key, "a string");
  *out = json[key].get<std::string>();
  if (out->find('\0') != std::string::npos) return WrongType(key, "free of zero bytes");
  return absl::OkStatus();
}

absl::Status ReadMap(const Json& json, const char* key, std::map<std::string, std::string>* out) {
  if (!json.contains(key)) return absl::OkStatus();
  if (!json[key].is_object()) return WrongType(key, "an object of strings");
  for (const auto& [name, value] : json[key].items()) {
    if (!value.is_string() || name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos ||
        value.get_ref<const std::string&>().find('\0') != std::string::npos) {
      return WrongType(absl::StrCat(key, ".", Printable(name)), "a string, under a name without `=`");
    }
    (*out)[name] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status ReadWorker(const Json& json, WorkerSpec* out) {
  RETURN_IF_ERROR(CheckKeys(json, "worker", {"server", "token_file", "node_name", "provider", "argv", "env"}));
  RETURN_IF_ERROR(ReadText(json, "server", &out->server));
  RETURN_IF_ERROR(ReadText(json, "token_file", &out->token_file));
  RETURN_IF_ERROR(ReadText(json, "node_name", &out->node_name));
  RETURN_IF_ERROR(ReadText(json, "provider", &out->provider));
  RETURN_IF_ERROR(ReadMap(json, "env", &out->env));
  if (!json.contains("argv")) return absl::OkStatus();
  if (!json["argv"].is_array()) return WrongType("worker.argv", "a list of strings");
  for (const Json& arg : json["argv"]) {
    if (!arg.is_string() || arg.get_ref<const std::string&>().find('\0') != std::string::npos) return WrongType("worker.argv", "a list of strings");
    out->argv.push_back(arg.get<std::string>());
  }
  return absl::OkStatus();
}

Json SinceCreation(int64_t at_ms, const Instance& instance) { return at_ms < 0 ? Json(nullptr) : Json(at_ms - instance.created_ms); }

}  // namespace

std::string UtcWithMs(int64_t utc_ms) {
  const int64_t ms = ((utc_ms % 1000) + 1000) % 1000;
  std::string seconds = FormatUtcMs(utc_ms - ms);
  if (!seconds.empty() && seconds.back() == 'Z') seconds.pop_back();
  return absl::StrFormat("%s.%03dZ", seconds, ms);
}

absl::Status CheckKeys(const Json& json, absl::string_view what, const std::vector<std::string>& known) {
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(what, " must be an object with ", absl::StrJoin(known, ", ")));
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string nearest = NearestName(key, known);
    return absl::InvalidArgumentError(
        absl::StrCat("unknown key `", Printable(key), "` in ", what,
                     nearest.empty() ? absl::StrCat("; known: ", absl::StrJoin(known, ", ")) : absl::StrCat("; did you mean `", nearest, "`?")));
  }
  return absl::OkStatus();
}

Json JsonOf(const CreateRequest& request) {
  Json worker{{"server", request.worker.server},       {"token_file", request.worker.token_file},
              {"node_name", request.worker.node_name}, {"provider", request.worker.provider},
              {"argv", request.worker.argv},           {"env", request.worker.env}};
  return {{"client_token", request.client_token},
          {"offer", request.offer},
          {"name", request.name},
          {"tags", request.tags},
          {"worker", std::move(worker)},
          {"self_terminate_after", absl::StrCat(request.self_terminate_after_ms, "ms")}};
}

absl::StatusOr<CreateRequest> RequestFromJson(const Json& json) {
  RETURN_IF_ERROR(CheckKeys(json, "the request", {"client_token", "offer", "name", "tags", "worker", "self_terminate_after"}));
  CreateRequest request;
  RETURN_IF_ERROR(ReadText(json, "client_token", &request.client_token));
  RETURN_IF_ERROR(ReadText(json, "offer", &request.offer));
  RETURN_IF_ERROR(ReadText(json, "name", &request.name));
  RETURN_IF_ERROR(ReadMap(json, "tags", &request.tags));
  if (json.contains("worker")) RETURN_IF_ERROR(ReadWorker(json["worker"], &request.worker));
  std::string lease;
  RETURN_IF_ERROR(ReadText(json, "self_terminate_after", &lease));
  if (lease.empty()) return request;
  absl::StatusOr<int64_t> lease_ms = ParseDurationMs(lease);
  if (!lease_ms.ok()) return absl::InvalidArgumentError(absl::StrCat("`self_terminate_after`: ", lease_ms.status().message()));
  request.self_terminate_after_ms = *lease_ms;
  return request;
}

Json JsonOf(const Terms& terms) {
  return {{"market", terms.spot ? "spot" : "on_demand"},
          {"instance_type", terms.instance_type},
          {"zone", terms.zone},
          {"region", terms.region},
          {"gpus", {{"model", terms.gpus.model}, {"count", terms.gpus.count}, {"memory_bytes", terms.gpus.memory_bytes}}},
          {"cpus", terms.cpus},
          {"memory_bytes", terms.memory_bytes},
          {"disk_bytes", terms.disk_bytes},
          {"price_micros_per_hour", terms.billing.price_micros_per_hour},
          {"billing_increment_ms", terms.billing.increment_ms},
          {"billing_minimum_ms", terms.billing.minimum_ms}};
}

Terms TermsFromJson(const Json& json) {
  Terms terms;
  terms.spot = json.at("market") == "spot";
  terms.instance_type = json.at("instance_type");
  terms.zone = json.at("zone");
  terms.region = json.at("region");
  const Json& gpus = json.at("gpus");
  terms.gpus = {gpus.at("model"), gpus.at("count"), gpus.at("memory_bytes")};
  terms.cpus = json.at("cpus");
  terms.memory_bytes = json.at("memory_bytes");
  terms.disk_bytes = json.at("disk_bytes");
  terms.billing = {json.at("billing_increment_ms"), json.at("billing_minimum_ms"), json.at("price_micros_per_hour")};
  return terms;
}

Json JsonOf(const Instance& instance, int64_t now_ms, int64_t utc_at_zero_ms) {
  const bool decided = instance.ended_ms >= 0;
  const int64_t run_ms = now_ms - instance.created_ms;
  Json json = JsonOf(instance.terms);
  json["id"] = instance.id;
  json["offer"] = instance.request.offer;
  json["name"] = instance.request.name;
  json["client_token"] = instance.request.client_token;
  json["tags"] = instance.request.tags;
  json["node_name"] = instance.request.worker.node_name;
  json["state"] = std::string(NameOf(instance.state));
  json["created"] = UtcWithMs(utc_at_zero_ms + instance.created_ms);
  json["age_ms"] = run_ms;
  json["running_after_ms"] = SinceCreation(instance.started_ms, instance);
  json["announced_after_ms"] = SinceCreation(instance.announced_ms, instance);
  json["ended_after_ms"] = SinceCreation(instance.ended_ms, instance);
  json["notice_left_ms"] = instance.announced_ms >= 0 && !decided ? Json(std::max<int64_t>(0, instance.gone_at_ms - now_ms)) : Json(nullptr);
  json["end_reason"] = decided ? Json(std::string(NameOf(instance.end_reason))) : Json(nullptr);
  json["end_detail"] = decided ? Json(instance.end_detail) : Json(nullptr);
  json["billed_ms"] = decided ? instance.billed_ms : pricing::BilledMs(instance.terms.billing, run_ms);
  json["billed_micros"] = decided ? instance.charge_micros : pricing::ChargeMicros(instance.terms.billing, run_ms);
  json["self_terminate_after_ms"] = instance.request.self_terminate_after_ms;
  return json;
}

Json JsonOf(const Offer& offer, const Cloud& cloud, int64_t now_ms) {
  Json json =
      JsonOf(Terms{offer.spot, offer.instance_type, offer.zone, offer.region, offer.gpus, offer.cpus, offer.memory_bytes, offer.disk_bytes, offer.billing});
  const int64_t used = cloud.AliveOf(offer.name);
  json["name"] = offer.name;
  json["capacity"] = offer.capacity;
  json["used"] = used;
  json["available"] = cloud.OpenFor(offer, now_ms) ? std::max<int64_t>(0, offer.capacity - used) : 0;
  json["boot_ms"] = offer.boot_ms;
  json["notice_ms"] = offer.notice_ms;
  return json;
}

}  // namespace spillway::playground
