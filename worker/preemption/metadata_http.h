// One short HTTP request to a metadata service: nothing is followed, nothing retried, nothing long is read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway::preemption {

inline constexpr int64_t kHttpTimeoutMs = 2'000;
inline constexpr size_t kAnswerBytesMax = 64 << 10;

struct HttpAnswer {
  int status = 0;
  std::string body;  // cut at kAnswerBytesMax
};

// "http://host[:port][/path]"; the path may name an instance (the playground's does).
struct BaseUrl {
  std::string origin;  // http://host:port
  std::string path;    // "" or "/x", without a slash at its end
};
absl::StatusOr<BaseUrl> ParseBaseUrl(const std::string& url);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// `method` is GET, PUT or POST; `path` follows the base's. UNAVAILABLE when there is no answer within the time.
absl::StatusOr<HttpAnswer> Fetch(const std::string& method, const BaseUrl& base, const std::string& path, const HttpHeaders& headers,
                                 const std::string& body = "", int64_t timeout_ms = kHttpTimeoutMs);

}  // namespace spillway::preemption
