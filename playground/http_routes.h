// Inside the HTTP front: what the route files share. Not for anyone else.
#pragma once

#include <httplib.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "playground/host.h"

namespace spillway::playground {

// {"code": ..., "message": ...} with the HTTP status that fits.
void AnswerError(httplib::Response& response, const absl::Status& status);
void AnswerJson(httplib::Response& response, const nlohmann::json& json, int http_status = 200);

// Equal without telling by time where they differ.
bool SameSecret(absl::string_view a, absl::string_view b);

void AddControlRoutes(httplib::Server& server, Host* host, const std::string& control_token);
void AddMetadataRoutes(httplib::Server& server, Host* host, const std::string& control_token);
std::string MetadataPath(const std::string& instance_id, const std::string& control_token);

}  // namespace spillway::playground
