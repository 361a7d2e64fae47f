#include "playground/http_server.h"

#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "playground/http_routes.h"

namespace spillway::playground {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr size_t kThreads = 16;
constexpr size_t kBodyBytesMax = 1 << 20;

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument: return 400;
    case absl::StatusCode::kUnauthenticated: return 401;
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition: return 409;
    case absl::StatusCode::kUnavailable: return 429;
    default: return 500;
  }
}

const char* CodeNameOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument: return "INVALID_ARGUMENT";
    case absl::StatusCode::kUnauthenticated: return "UNAUTHENTICATED";
    case absl::StatusCode::kNotFound: return "NOT_FOUND";
    case absl::StatusCode::kResourceExhausted: return "INSUFFICIENT_CAPACITY";
    case absl::StatusCode::kAlreadyExists: return "CLIENT_TOKEN_REUSED";
    case absl::StatusCode::kFailedPrecondition: return "WRONG_STATE";
    case absl::StatusCode::kUnavailable: return "THROTTLED";
    default: return "INTERNAL";
  }
}

}  // namespace

void AnswerJson(httplib::Response& response, const nlohmann::json& json, int http_status) {
  response.status = http_status;
  response.set_content(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", "application/json");
}

void AnswerError(httplib::Response& response, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kUnavailable) response.set_header("Retry-After", "1");
  AnswerJson(response, {{"code", CodeNameOf(status.code())}, {"message", std::string(status.message())}}, HttpStatusOf(status.code()));
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ (i < b.size() ? b[i] : 0));
  return difference == 0;
}

class HttpServer::Impl {
 public:
  Impl(Host* host, std::string control_token) : host_(host), control_token_(std::move(control_token)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(kBodyBytesMax);
    server_.set_keep_alive_timeout(1);  // an idle connection holds a thread
    server_.set_tcp_nodelay(true);
    // Without SO_REUSEPORT, the library's default: two playgrounds would share a port without a word.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr thrown) {
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& e) {
        LOG(ERROR) << "request failed: " << e.what();
      }
      AnswerError(response, absl::InternalError("the request failed inside the playground"));
    });
    server_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return;
      if (response.status == 404) AnswerError(response, absl::NotFoundError(absl::StrCat("no such path: ", request.method, " ", request.path)));
    });
    // A PUT, POST or DELETE without a length has no body (RFC 9112); the library would wait for one until its time runs out. curl sends such.
    server_.set_pre_routing_handler([](const httplib::Request& request, httplib::Response&) {
      if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
        const_cast<httplib::Request&>(request).set_header("Content-Length", "0");
      }
      return httplib::Server::HandlerResponse::Unhandled;
    });
    AddControlRoutes(server_, host_, control_token_);
    AddMetadataRoutes(server_, host_, control_token_);
  }

  absl::StatusOr<int> Bind(int port, int preferred_port) {
    if (port == 0 && preferred_port > 0 && server_.bind_to_port(kLoopback, preferred_port)) return port_ = preferred_port;
    if (port == 0) {
      port_ = server_.bind_to_any_port(kLoopback);
    } else {
      port_ = server_.bind_to_port(kLoopback, port) ? port : -1;
    }
    if (port_ <= 0) return absl::UnavailableError(absl::StrCat("cannot listen on ", kLoopback, ":", port));
    if (preferred_port > 0 && port == 0) {
      LOG(WARNING) << "port " << preferred_port << " of the last life is taken: machines still running will not see their notices";
    }
    return port_;
  }

  void Start() {
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // Connections queue from Bind on; but Stop would pass unheard before the loop runs.
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void Stop() {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

  std::string MetadataUrl(const std::string& instance_id) const {
    return absl::StrCat("http://", kLoopback, ":", port_, MetadataPath(instance_id, control_token_));
  }

 private:
  Host* const host_;
  const std::string control_token_;
  httplib::Server server_;
  int port_ = -1;
  std::thread thread_;
};

HttpServer::HttpServer(Host* host, std::string control_token) : impl_(std::make_unique<Impl>(host, std::move(control_token))) {}
HttpServer::~HttpServer() { Stop(); }
absl::StatusOr<int> HttpServer::Bind(int port, int preferred_port) { return impl_->Bind(port, preferred_port); }
void HttpServer::Start() { impl_->Start(); }
void HttpServer::Stop() { impl_->Stop(); }
std::string HttpServer::MetadataUrl(const std::string& instance_id) const { return impl_->MetadataUrl(instance_id); }

}  // namespace spillway::playground
