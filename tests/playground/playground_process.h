// The real program in a folder of its own, spoken to over HTTP. Waits are bounded and on a condition.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace spillway::playground {

using Json = nlohmann::json;

inline bool Eventually(const std::function<bool()>& condition, int seconds = 15) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  return true;
}

inline std::string PlaygroundProgram() { return JoinPath(getenv("SPILLWAY_BIN"), "spillway-playground"); }

// Processes alive whose environment has this entry.
inline std::vector<pid_t> ProcessesWith(const std::string& entry) {
  std::vector<pid_t> out;
  const std::vector<std::string> names = ListDirectory("/proc").value();
  for (const std::string& name : names) {
    const pid_t pid = atoi(name.c_str());
    if (pid <= 0) continue;
    absl::StatusOr<std::string> environment = ReadFile(absl::StrCat("/proc/", name, "/environ"), 4 << 20);
    if (!environment.ok()) continue;
    for (absl::string_view variable : absl::StrSplit(*environment, '\0')) {
      if (variable == entry) {
        out.push_back(pid);
        break;
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Reply {
  int status = 0;
  Json json;
  std::string text;
};

class PlaygroundProcess {
 public:
  PlaygroundProcess(const std::string& home, const std::string& offers, std::vector<std::string> more_flags = {}) : home_(home) {
    const std::string config = JoinPath(home, "config.yaml");
    EXPECT_TRUE(WriteFileAtomically(config, absl::StrCat("throttle: {requests_per_second: 1000}\noffers:\n", offers)).ok());
    unlink(JoinPath(home, "playground.pid").c_str());
    SpawnOptions spawn;
    spawn.argv = {PlaygroundProgram(), "--config", config, "--home", home};
    spawn.argv.insert(spawn.argv.end(), more_flags.begin(), more_flags.end());
    spawn.stdout_path = spawn.stderr_path = JoinPath(home, "playground.log");
    spawn.die_with_parent = true;
    pid_ = Spawn(spawn).value();
    EXPECT_TRUE(Eventually([&] {
      absl::StatusOr<std::string> pid = ReadFile(JoinPath(home_, "playground.pid"));
      return pid.ok() && atoi(pid->c_str()) == pid_ && PathExists(JoinPath(home_, "playground.port"));
    })) << ReadFile(JoinPath(home_, "playground.log")).value_or("no log");
    // The port file is written after the pid file, in place of an older life's.
    EXPECT_TRUE(Eventually([&] {
      port_ = atoi(ReadFile(JoinPath(home_, "playground.port")).value().c_str());
      return Call("GET", "/v1/offers").status == 200;
    }));
  }
  ~PlaygroundProcess() { Signal(SIGKILL); }

  // Returns the exit status, or -signal.
  int Signal(int signal) {
    if (pid_ <= 0) return 0;
    kill(pid_, signal);
    int wait_status = 0;
    waitpid(pid_, &wait_status, 0);
    pid_ = 0;
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -WTERMSIG(wait_status);
  }

  std::string Token() const { return std::string(absl::StripAsciiWhitespace(ReadFile(JoinPath(home_, "playground.token")).value_or(""))); }
  int port() const { return port_; }

  Reply Call(const std::string& method, const std::string& path, const Json& body = nullptr, std::optional<std::string> token = std::nullopt) const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(20);
    httplib::Request request;
    request.method = method;
    request.path = path;
    if (token.value_or("x") != "") request.set_header("Authorization", "Bearer " + token.value_or(Token()));
    if (!body.is_null()) request.body = body.dump();
    const httplib::Result result = client.send(request);
    Reply reply;
    if (!result) return reply;
    reply.status = result->status;
    reply.text = result->body;
    reply.json = Json::parse(result->body, nullptr, false);
    return reply;
  }

  Json Create(const std::string& client_token, const std::string& offer, std::vector<std::string> argv) const {
    const Reply reply = Call("POST", "/v1/instances", {{"client_token", client_token}, {"offer", offer}, {"worker", {{"argv", argv}}}});
    EXPECT_EQ(reply.status, 200) << reply.text;
    return reply.json;
  }
  Json Get(const std::string& id) const { return Call("GET", "/v1/instances/" + id).json; }
  bool WaitForState(const std::string& id, const std::string& state) const {
    return Eventually([&] { return Get(id).value("state", "") == state; });
  }
  std::string MarkerOf(const std::string& id) const {
    return absl::StrCat("SPILLWAY_PLAYGROUND_INSTANCE=", Call("GET", "/v1/ledger").json.at("cloud_id").get<std::string>(), "/", id);
  }
  std::string Disk(const std::string& id) const { return absl::StrCat(home_, "/instances/", id); }

 private:
  const std::string home_;
  pid_t pid_ = 0;
  int port_ = 0;
};

}  // namespace spillway::playground
