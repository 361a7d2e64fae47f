#include <algorithm>

#include "nlohmann/json.hpp"
#include "worker/session_logic.h"

namespace spillway::worker {
namespace {

using nlohmann::json;

std::string Text(const json& value, const char* field) {
  const auto it = value.find(field);
  return it != value.end() && it->is_string() ? it->get<std::string>() : std::string();
}

int64_t Number(const json& value, const char* field) {
  const auto it = value.find(field);
  return it != value.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

}  // namespace

std::string EncodeTag(const Offer& offer) {
  const json value = {{"job", offer.attempt.job},
                      {"task", offer.attempt.index},
                      {"attempt", offer.attempt.number},
                      {"job_uid", offer.job_uid},
                      {"job_name", offer.job_name},
                      {"checkpoint_dir", offer.checkpoint_dir},
                      {"resume_from", offer.resume_from},
                      {"resume_step", offer.resume_step},
                      {"log_path", offer.log_path},
                      {"devices", offer.devices},
                      {"rank", offer.rank},
                      {"members", offer.members}};
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Offer DecodeTag(absl::string_view tag) {
  Offer offer;
  const json value = json::parse(tag.begin(), tag.end(), nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return offer;
  offer.attempt = {Number(value, "job"), Number(value, "task"), Number(value, "attempt")};
  offer.job_uid = Text(value, "job_uid");
  offer.job_name = Text(value, "job_name");
  offer.checkpoint_dir = Text(value, "checkpoint_dir");
  offer.resume_from = Text(value, "resume_from");
  offer.resume_step = Number(value, "resume_step");
  offer.log_path = Text(value, "log_path");
  offer.rank = Number(value, "rank");
  offer.members = std::max<int64_t>(1, Number(value, "members"));
  if (const auto it = value.find("devices"); it != value.end() && it->is_array()) {
    for (const json& device : *it) {
      if (device.is_number_integer()) offer.devices.push_back(device.get<int>());
    }
  }
  return offer;
}

}  // namespace spillway::worker
