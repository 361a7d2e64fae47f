#include "client/local_home.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/process_lock.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/connection.h"
#include "spec/validate.h"
#include "spec/yaml.h"

namespace spillway::client {
namespace {

absl::Status MakeFolder(const std::string& path) {
  RETURN_IF_ERROR(MakeDirectories(path, 0700));
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if (info.st_uid != geteuid()) return absl::PermissionDeniedError(absl::StrCat(path, " belongs to another user"));
  if ((info.st_mode & 0022) != 0) return absl::PermissionDeniedError(absl::StrCat(path, " may be written by others: run chmod 700 ", path));
  return absl::OkStatus();
}

absl::Status MakeToken(const std::string& path) {
  if (PathExists(path)) return absl::OkStatus();
  return WriteFileDurably(path, NewToken() + "\n", 0600);
}

absl::StatusOr<bool> MakeConfig(const HomePaths& paths, std::optional<int64_t> port) {
  if (!PathExists(paths.config)) {
    RETURN_IF_ERROR(WriteFileDurably(paths.config, DefaultConfig(port), 0600));
    return true;
  }
  if (!port.has_value()) return false;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(paths.config));
  v1::ServerConfig config;
  RETURN_IF_ERROR(spec::BindYaml(text, paths.config, &config).status());
  const std::string listen = config.listen().user().empty() ? kDefaultServer : config.listen().user();
  if (absl::EndsWith(listen, absl::StrCat(":", *port))) return false;
  return absl::FailedPreconditionError(absl::StrCat("--port ", *port, ": ", paths.config, " exists and says ", Printable(listen, 60),
                                                    "; change `listen.user` there (`worker` and `http` too where those are taken), or leave out --port"));
}

}  // namespace

HomePaths::HomePaths(const std::string& home)
    : home(home),
      config(JoinPath(home, "config.yaml")),
      user_token(JoinPath(home, "tokens/user")),
      worker_token(JoinPath(home, "tokens/worker")),
      user_port(JoinPath(home, "run/user.port")),
      worker_port(JoinPath(home, "run/worker.port")),
      scheduler_pid(JoinPath(home, "run/spillwayd.pid")),
      scheduler_log(JoinPath(home, "run/spillwayd.log")),
      lock(JoinPath(home, "run/up.lock")) {}

std::string HomePaths::NodeHome(const std::string& node) const { return JoinPath(home, absl::StrCat("nodes/", node)); }
std::string HomePaths::WorkerPid(const std::string& node) const { return JoinPath(home, absl::StrCat("run/worker-", node, ".pid")); }
std::string HomePaths::WorkerLog(const std::string& node) const { return JoinPath(home, absl::StrCat("run/worker-", node, ".log")); }
std::string HomePaths::SupervisorPid(const std::string& node) const { return JoinPath(NodeHome(node), "supervisor.pid"); }

std::string DefaultConfig(std::optional<int64_t> port) {
  std::string text = "# Configuration of spillwayd. Unknown keys are refused. Durations: 90s, 2h30m. Sizes: 24GB. Money: 3.50.\n\n";
  if (!port.has_value()) {
    absl::StrAppend(&text, "# listen: {user: \"127.0.0.1:7070\", worker: \"127.0.0.1:7071\", http: \"127.0.0.1:7080\"}\n");
  } else {
    absl::StrAppend(&text, "# Port 0 takes a free one; run/*.port tells which.\nlisten: {user: \"127.0.0.1:", *port,
                    "\", worker: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\n");
  }
  absl::StrAppend(&text,
                  "# store: file:/path/to/store          # default: store/ beside this file\n\n"
                  "# Capacity already paid for, over nodes that join by themselves (`spillway up` starts local-1):\n"
                  "# reservations:\n"
                  "#   - {name: base, nodes: [local-1], price_per_hour: 1.20, from: \"2026-01-01T00:00:00Z\"}\n\n"
                  "# Where the overflow goes:\n"
                  "# providers:\n"
                  "#   - {name: cloud, kind: playground, url: \"http://127.0.0.1:9000\", token_file: /path/to/token, max_nodes: 10}\n");
  // Something must stand in the file for it to be a document.
  if (!port.has_value()) absl::StrAppend(&text, "\npolicy: {retry_backoff: 1s}\n");
  return text;
}

absl::StatusOr<bool> PrepareHome(const HomePaths& paths, std::optional<int64_t> port) {
  for (const char* folder : {"", "run", "tokens", "nodes", "data", "store"}) RETURN_IF_ERROR(MakeFolder(JoinPath(paths.home, folder)));
  RETURN_IF_ERROR(MakeToken(paths.user_token));
  RETURN_IF_ERROR(MakeToken(paths.worker_token));
  return MakeConfig(paths, port);
}

std::vector<std::string> LocalNodes(const HomePaths& paths) {
  std::vector<std::string> nodes;
  const auto names = ListDirectory(JoinPath(paths.home, "nodes"));
  if (!names.ok()) return nodes;
  // Other things live there too: nodes of the `local` provider, and what people leave behind.
  for (const std::string& name : *names) {
    absl::string_view number = name;
    if (absl::ConsumePrefix(&number, "local-") && !number.empty() && number.find_first_not_of("0123456789") == absl::string_view::npos) nodes.push_back(name);
  }
  return nodes;
}

absl::StatusOr<int> LockHome(const HomePaths& paths) { return LockFile(paths.lock, absl::StrCat("another `spillway up` or `down` works on ", paths.home)); }

}  // namespace spillway::client
