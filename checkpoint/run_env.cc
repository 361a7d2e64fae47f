#include "checkpoint/run_env.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr size_t kNoticeBytesMax = 64 << 10;
constexpr int64_t kSecondsMax = 1'000'000'000;

absl::StatusOr<int64_t> Integer(const char* name, const char* text, int64_t low) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low) {
    return absl::InvalidArgumentError(absl::StrCat(name, "=\"", Printable(text), "\" is not an integer from ", low));
  }
  return value;
}

// Bytes that are not UTF-8 become U+FFFD: a report must not fail for a strange path.
std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

absl::StatusOr<RunEnv> RunEnv::FromEnvironment() {
  return From([](const char* name) -> const char* { return std::getenv(name); });
}

absl::StatusOr<RunEnv> RunEnv::From(const std::function<const char*(const char*)>& lookup) {
  RunEnv env;
  absl::Status status;
  // A variable that is set but empty counts as not set.
  auto text = [&](const char* name) -> std::string {
    const char* value = lookup(name);
    return value == nullptr ? "" : value;
  };
  auto integer = [&](const char* name, int64_t low, int64_t* out) {
    const std::string value = text(name);
    if (value.empty()) return;
    auto parsed = Integer(name, value.c_str(), low);
    if (parsed.ok())
      *out = *parsed;
    else if (status.ok())
      status = parsed.status();
  };
  env.under_spillway = !text("SPILLWAY_JOB_ID").empty();
  integer("SPILLWAY_JOB_ID", 1, &env.job_id);
  integer("SPILLWAY_TASK_INDEX", 0, &env.task_index);
  integer("SPILLWAY_ATTEMPT", 1, &env.attempt);
  RETURN_IF_ERROR(status);
  env.job_uid = text("SPILLWAY_JOB_UID");
  env.cluster = text("SPILLWAY_CLUSTER");
  env.checkpoint_dir = text("SPILLWAY_CHECKPOINT_DIR");
  env.resume_from = text("SPILLWAY_RESUME_FROM");
  env.socket = text("SPILLWAY_SOCKET");
  env.notice_file = text("SPILLWAY_NOTICE_FILE");
  const std::string deadline = text("SPILLWAY_DEADLINE");
  if (!deadline.empty()) {
    auto parsed = ParseUtcMs(deadline);
    if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("SPILLWAY_DEADLINE: ", parsed.status().message()));
    env.deadline_utc_ms = *parsed;
  }
  return env;
}

absl::StatusOr<Reporter> Reporter::Open(const std::string& socket_path, Options options) {
  if (!options.sleep_ms) options.sleep_ms = [](int ms) { ::usleep(static_cast<useconds_t>(ms) * 1000); };
  if (socket_path.empty()) return Reporter(-1, "", std::move(options));
  if (socket_path.size() >= sizeof(sockaddr_un::sun_path) || socket_path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("SPILLWAY_SOCKET=\"", Printable(socket_path), "\" is no socket path: at most ", sizeof(sockaddr_un::sun_path) - 1, " bytes"));
  }
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  return Reporter(fd, socket_path, std::move(options));
}

Reporter::~Reporter() {
  if (fd_ >= 0) ::close(fd_);
}

Reporter::Reporter(Reporter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), options_(std::move(other.options_)), dropped_(other.dropped_) {}

void Reporter::Progress(int64_t step, int64_t total, const std::map<std::string, double>& metrics) {
  if (fd_ < 0) return;
  Json json = {{"type", "progress"}, {"step", step}};
  if (total > 0) json["total"] = total;
  size_t taken = 0;
  for (const auto& [name, value] : metrics) {
    if (!std::isfinite(value)) continue;
    if (++taken > limits::kMetricsPerProgressMax) break;
    json["metrics"][name] = value;
  }
  if (!SendOnce(Dump(json)).ok()) ++dropped_;
}

absl::Status Reporter::Checkpoint(int64_t step, absl::string_view path, absl::string_view manifest_sha256, int64_t bytes) {
  const Json json = {{"type", "checkpoint"}, {"step", step}, {"path", std::string(path)}, {"manifest_sha256", std::string(manifest_sha256)}, {"bytes", bytes}};
  return SendSurely(Dump(json));
}

absl::Status Reporter::Completed() { return SendSurely(R"({"type":"completed"})"); }

absl::Status Reporter::SendOnce(absl::string_view message) {
  if (message.size() > limits::kSocketMessageBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes; at most ", limits::kSocketMessageBytesMax));
  }
  // Addressed each time instead of connected once: the owner of the path may be replaced while the program runs.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ::memcpy(address.sun_path, path_.data(), path_.size());
  const ssize_t n = ::sendto(fd_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return n >= 0 ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("report to ", path_));
}

absl::Status Reporter::SendSurely(absl::string_view message) {
  if (fd_ < 0) return absl::OkStatus();
  absl::Status status;
  for (int i = 0; i < options_.tries; ++i) {
    status = SendOnce(message);
    if (status.ok() || absl::IsInvalidArgument(status)) return status;
    options_.sleep_ms(options_.wait_ms);
  }
  return status;
}

std::optional<Notice> NoticeWatcher::Check() const {
  if (path_.empty() || ::access(path_.c_str(), F_OK) != 0) return std::nullopt;
  auto text = ReadFile(path_, kNoticeBytesMax);
  if (absl::IsNotFound(text.status())) return std::nullopt;  // withdrawn between the two calls
  return ParseNotice(text.ok() ? *text : "");
}

Notice ParseNotice(absl::string_view text) {
  Notice notice{.reason = "unreadable"};
  if (text.size() > kNoticeBytesMax) return notice;
  // Flat by contract: refuse nesting before the parser sees it.
  if (text.find('[') != absl::string_view::npos || text.rfind('{') != text.find('{')) return notice;
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return notice;
  auto reason = json.find("reason");
  if (reason != json.end() && reason->is_string()) notice.reason = Printable(reason->get<std::string>());
  auto deadline = json.find("deadline");
  if (deadline != json.end() && deadline->is_string()) {
    auto parsed = ParseUtcMs(deadline->get<std::string>());
    if (parsed.ok()) notice.deadline_utc_ms = *parsed;
  }
  auto left = json.find("seconds_left");
  if (left != json.end() && left->is_number()) {
    const double seconds = left->get<double>();
    if (seconds >= 0 && seconds <= static_cast<double>(kSecondsMax)) notice.ms_left = static_cast<int64_t>(seconds * 1000);
  }
  return notice;
}

}  // namespace spillway::checkpoint
