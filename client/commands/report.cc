// Used inside a job: one datagram to the supervisor. Talks to nobody else; needs no token.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/text.h"
#include "client/commands/commands.h"

namespace spillway::client {
namespace {

absl::Status SendDatagram(const std::string& path, const std::string& message) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return absl::InvalidArgumentError("SPILLWAY_SOCKET is longer than a socket's path can be");
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a socket");
  ssize_t sent;
  do {
    sent = sendto(fd, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (sent < 0 && errno == EINTR);
  const int error = errno;
  close(fd);
  if (sent == static_cast<ssize_t>(message.size())) return absl::OkStatus();
  if (error == ECONNREFUSED || error == ENOENT) return absl::UnavailableError(absl::StrCat("nobody listens at ", path, ": the attempt is over"));
  return ErrnoStatus(error, absl::StrCat("cannot send to ", path));
}

class Report final : public Verb {
 public:
  std::string Name() const override { return "report"; }
  std::string Summary() const override { return "inside a job: tell its progress, or that it is complete"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway report progress --step 5 --total 10 --metric loss=1.9", "what `queue` and `describe` show"},
            {"spillway report completed", "an exit with 0 after a stop signal now counts as the end, not as a pause"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("progress|completed", &what_, "what to tell", true);
    builder.Option("--step", &step_, "N", "steps done");
    builder.Option("--total", &total_, "N", "steps in all, where known");
    builder.Options("--metric", &metrics_, "NAME=NUMBER", "a number to show beside it");
  }
  int Run(Context& context) override {
    const auto message = Message();
    if (!message.ok()) return context.Fail(message.status());
    const std::string socket = context.environment("SPILLWAY_SOCKET");
    if (socket.empty()) return context.Fail(absl::InvalidArgumentError("SPILLWAY_SOCKET is not set: `report` is for use inside a job"));
    OR_FAIL(context, SendDatagram(socket, *message));
    return kExitOk;
  }

 private:
  absl::StatusOr<std::string> Message() const {
    nlohmann::json json;
    if (what_ == "completed") {
      if (step_ || total_ || !metrics_.empty()) return absl::InvalidArgumentError("`report completed` takes no options");
      json["type"] = "completed";
      return json.dump();
    }
    if (what_ != "progress") {
      const std::string nearest = NearestName(what_, {"progress", "completed"});
      return absl::InvalidArgumentError(absl::StrCat("`report ", Printable(what_, 40), "`: expected progress or completed",
                                                     nearest.empty() ? "" : absl::StrCat(", did you mean `", nearest, "`?")));
    }
    if (!step_ || *step_ < 0) return absl::InvalidArgumentError("`report progress` needs --step N, from 0");
    if (total_.value_or(1) < 1) return absl::InvalidArgumentError("--total is a number from 1");
    json["type"] = "progress";
    json["step"] = *step_;
    if (total_) json["total"] = *total_;
    if (metrics_.size() > limits::kMetricsPerProgressMax)
      return absl::InvalidArgumentError(absl::StrCat("more than ", limits::kMetricsPerProgressMax, " metrics"));
    for (const std::string& metric : metrics_) {
      const size_t equals = metric.find('=');
      double value = 0;
      if (equals == std::string::npos || equals == 0 || !absl::SimpleAtod(metric.substr(equals + 1), &value) || !std::isfinite(value)) {
        return absl::InvalidArgumentError(absl::StrCat("--metric ", Printable(metric, 60), ": expected NAME=NUMBER, such as loss=1.9"));
      }
      json["metrics"][metric.substr(0, equals)] = value;
    }
    const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (text.size() > limits::kSocketMessageBytesMax)
      return absl::InvalidArgumentError(absl::StrCat("the message is ", text.size(), " bytes; the most is ", limits::kSocketMessageBytesMax));
    return text;
  }

  std::string what_;
  std::optional<int64_t> step_, total_;
  std::vector<std::string> metrics_;
};

}  // namespace

std::unique_ptr<Verb> MakeReport() { return std::make_unique<Report>(); }

}  // namespace spillway::client
