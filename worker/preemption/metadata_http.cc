#include "worker/preemption/metadata_http.h"

#include <httplib.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace spillway::preemption {

absl::StatusOr<BaseUrl> ParseBaseUrl(const std::string& url) {
  constexpr absl::string_view kScheme = "http://";
  if (!absl::StartsWith(url, kScheme) || url.size() == kScheme.size() || url[kScheme.size()] == '/') {
    return absl::InvalidArgumentError(absl::StrCat("'", Printable(url), "' is not a metadata address: write http://HOST[:PORT][/PATH]"));
  }
  const size_t slash = url.find('/', kScheme.size());
  BaseUrl base{url.substr(0, slash), slash == std::string::npos ? "" : url.substr(slash)};
  while (!base.path.empty() && base.path.back() == '/') base.path.pop_back();
  return base;
}

absl::StatusOr<HttpAnswer> Fetch(const std::string& method, const BaseUrl& base, const std::string& path, const HttpHeaders& headers, const std::string& body,
                                 int64_t timeout_ms) {
  httplib::Client client(base.origin);
  client.set_connection_timeout(timeout_ms / 1'000, timeout_ms % 1'000 * 1'000);
  client.set_read_timeout(timeout_ms / 1'000, timeout_ms % 1'000 * 1'000);
  client.set_write_timeout(timeout_ms / 1'000, timeout_ms % 1'000 * 1'000);
  client.set_follow_location(false);
  client.set_tcp_nodelay(true);
  httplib::Request request;
  request.method = method;
  request.path = base.path + path;
  for (const auto& [name, value] : headers) request.set_header(name, value);
  request.body = body;
  if (body.empty() && method != "GET") request.set_header("Content-Length", "0");
  HttpAnswer answer;
  bool cut = false;
  request.content_receiver = [&](const char* data, size_t n, uint64_t, uint64_t) {
    const size_t room = kAnswerBytesMax - answer.body.size();
    answer.body.append(data, std::min(n, room));
    cut = n > room;
    return !cut;  // false ends the transfer
  };
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  const bool complete = client.send(request, response, error);
  if (!complete && !cut) return absl::UnavailableError(absl::StrCat(method, " ", base.origin, ": ", httplib::to_string(error)));
  answer.status = response.status;
  return answer;
}

}  // namespace spillway::preemption
