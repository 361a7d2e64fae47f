#include "scheduler/http/http_server.h"

#include <httplib.h>

#include <map>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace spillway::http {

namespace {

constexpr time_t kReadSeconds = 5;
constexpr time_t kKeepAliveSeconds = 1;
constexpr size_t kThreads = 32;  // a connection that is kept alive, or slow, holds one

}  // namespace

struct Server::Listener {
  httplib::Server server;
  std::thread thread;
};

Server::Server() : listener_(std::make_unique<Listener>()) {}

Server::~Server() {
  listener_->server.stop();
  if (listener_->thread.joinable()) listener_->thread.join();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::string& address, engine::EngineThread* engine) {
  const size_t colon = address.rfind(':');
  const std::string host(absl::StripPrefix(absl::StripSuffix(address.substr(0, colon), "]"), "["));
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port))
    return absl::InvalidArgumentError(absl::StrCat(address, ": write HOST:PORT"));
  std::unique_ptr<Server> out(new Server());
  httplib::Server& server = out->listener_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_keep_alive_timeout(kKeepAliveSeconds);
  server.set_read_timeout(kReadSeconds);
  server.set_payload_max_length(4'096);
  server.Get("/healthz", [engine](const httplib::Request&, httplib::Response& response) {
    const absl::Status status = engine->Query([](const core::State&, const core::Soft&, int64_t) {});  // the engine turns
    response.status = status.ok() ? 200 : 503;
    response.set_content(status.ok() ? "ok\n" : absl::StrCat(status.message(), "\n"), "text/plain");
  });
  server.Get("/metrics", [engine](const httplib::Request&, httplib::Response& response) {
    std::string text;
    const absl::Status status = engine->Query([&](const core::State& state, const core::Soft&, int64_t) { text = MetricsText(state, engine->counters()); });
    response.status = status.ok() ? 200 : 503;
    response.set_content(text, "text/plain; version=0.0.4");
  });
  out->port_ = port == 0 ? server.bind_to_any_port(host) : (server.bind_to_port(host, port) ? port : -1);
  if (out->port_ <= 0)
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     ": the port is taken, or the address is not of this machine; `listen` in config.yaml names another (port 0: a free one)"));
  out->listener_->thread = std::thread([&server] { server.listen_after_bind(); });
  return out;
}

std::string MetricsText(const core::State& state, const engine::Counters& counters) {
  core::TaskCounts counts;
  for (const auto& [id, job] : state.jobs) {
    counts.queued += job.job.counts.queued;
    counts.held += job.job.counts.held;
    counts.active += job.job.counts.active;
  }
  std::map<std::pair<std::string, std::string>, int64_t> nodes;
  for (const auto& [id, node] : state.nodes) ++nodes[{LowerName(node.state), LowerName(node.market)}];
  std::string text = "# HELP spillway_tasks Living tasks by state.\n# TYPE spillway_tasks gauge\n";
  absl::StrAppend(&text, "spillway_tasks{state=\"queued\"} ", counts.queued, "\nspillway_tasks{state=\"held\"} ", counts.held,
                  "\nspillway_tasks{state=\"active\"} ", counts.active, "\n");
  absl::StrAppend(&text, "# HELP spillway_nodes Living nodes by state and market.\n# TYPE spillway_nodes gauge\n");
  for (const auto& [key, count] : nodes) absl::StrAppend(&text, "spillway_nodes{state=\"", key.first, "\",market=\"", key.second, "\"} ", count, "\n");
  absl::StrAppend(&text, "# HELP spillway_turns_total Turns of the engine since it started.\n# TYPE spillway_turns_total counter\nspillway_turns_total ",
                  counters.turns, "\n# TYPE spillway_events_total counter\nspillway_events_total ", counters.events,
                  "\n# TYPE spillway_commits_refused_total counter\nspillway_commits_refused_total ", counters.commits_refused, "\n");
  return text;
}

}  // namespace spillway::http
