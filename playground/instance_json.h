// The JSON forms of requests, terms and instances, for the ledger and the HTTP API alike. Requests are read strictly: an unknown key or a
// value of the wrong type is refused by name with the nearest valid one. Terms come only from our own ledger.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "playground/cloud.h"

namespace spillway::playground {

nlohmann::json JsonOf(const CreateRequest& request);
absl::StatusOr<CreateRequest> RequestFromJson(const nlohmann::json& json);

nlohmann::json JsonOf(const Terms& terms);
Terms TermsFromJson(const nlohmann::json& json);  // throws nlohmann::json::exception

// What the API shows of an instance at `now_ms`. `utc_at_zero_ms` turns the cloud's time line into wall time for people.
nlohmann::json JsonOf(const Instance& instance, int64_t now_ms, int64_t utc_at_zero_ms);
nlohmann::json JsonOf(const Offer& offer, const Cloud& cloud, int64_t now_ms);

// RFC 3339 in UTC with milliseconds: at a scale of 600 a second is ten minutes, so whole seconds are too coarse.
std::string UtcWithMs(int64_t utc_ms);

// OK when `json` is an object whose keys are all in `known`; otherwise INVALID_ARGUMENT naming the key and the nearest known one.
absl::Status CheckKeys(const nlohmann::json& json, absl::string_view what, const std::vector<std::string>& known);

}  // namespace spillway::playground
