// A real spillway-supervisor in a folder of its own, reached through the real client; waits are on events, bounded.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/attempt_log.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "worker/frames/end_of_attempt.h"
#include "worker/frames/frames.h"
#include "worker/supervisor_client/supervisor_client.h"

namespace spillway::supervisor {

inline constexpr int64_t kWaitMs = 20'000;

class SupervisorHarness {
 public:
  // `prepare` gets the folder before the first supervisor is started there.
  explicit SupervisorHarness(std::string containment, const std::function<void(const std::string&)>& prepare = nullptr) : containment_(std::move(containment)) {
    char folder[] = "/tmp/spillway-sv-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    if (prepare) prepare(folder_);
    NewClient();
  }
  ~SupervisorHarness() {
    // By its own number, and its attempts with it: a successor has nothing to do with this test any more.
    if (pid_ > 0) {
      kill(static_cast<pid_t>(pid_), SIGTERM);
      kill(static_cast<pid_t>(pid_), SIGTERM);
      WaitFor([&] { return !ProcessAlive(static_cast<pid_t>(pid_), ticks_); });
    }
    client_.reset();
    (void)RemoveTree(folder_);
  }

  // A worker that comes, or comes back.
  void NewClient() {
    client_.reset();
    kept_.clear();
    replies_.clear();
    ClientOptions options;
    options.home = Path("home");
    options.socket_path = Path("s");
    options.program = absl::StrCat(getenv("SPILLWAY_BIN"), "/spillway-supervisor");
    options.extra_args = {"--containment", containment_};
    client_ = std::make_unique<SupervisorClient>(options);
    Reconnect();
  }
  frames::Inventory Reconnect() {
    auto inventory = client_->Connect();
    EXPECT_OK(inventory);
    if (!inventory.ok()) return {};
    pid_ = inventory->pid;
    ticks_ = ProcessStartTicks(static_cast<pid_t>(pid_)).value_or(0);
    return *inventory;
  }
  void LeaveAlone() { client_.reset(); }
  void KillSupervisor() {
    const auto pid = static_cast<pid_t>(pid_);
    pid_ = 0;  // the number is not ours any more
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    WaitFor([&] { return !ProcessAlive(pid, ticks_); });
  }

  // How the connection ended: what was said before it did may still lie in front.
  absl::Status LastWord() {
    while (true) {
      if (const auto received = client().Receive(kWaitMs); !received.ok()) return received.status();
    }
  }

  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }
  static std::string Job() { return SUPERVISOR_TEST_JOB; }
  SupervisorClient& client() { return *client_; }
  int64_t pid() const { return pid_; }
  int64_t Now() { return clock_.NowSteadyMs(); }

  frames::Start Command(const std::string& name, std::vector<std::string> argv) {
    frames::Start start;
    start.attempt.key = absl::StrCat("cluster/", name);
    start.attempt.id = {1, next_++, 1};
    start.argv = std::move(argv);
    start.env = {"PATH=/usr/bin:/bin", absl::StrCat("DIR=", folder_), absl::StrCat("JOB=", Job())};
    start.cwd = folder_;
    start.log_path = Path(absl::StrCat("logs/", name));
    start.lease_bound = false;
    return start;
  }
  frames::Start Shell(const std::string& name, const std::string& script) { return Command(name, {"sh", "-c", script}); }

  // The next event for which `wanted` holds, from those kept or yet to come; the others are kept.
  std::optional<frames::Event> WaitEvent(const std::function<bool(const frames::Event&)>& wanted, int64_t timeout_ms = kWaitMs) {
    const int64_t deadline = Now() + timeout_ms;
    size_t looked_at = 0;
    while (true) {
      for (; looked_at < kept_.size(); ++looked_at) {
        if (wanted(kept_[looked_at])) {
          frames::Event event = kept_[looked_at];
          kept_.erase(kept_.begin() + static_cast<long>(looked_at));
          return event;
        }
      }
      if (!ReceiveOne(deadline)) return std::nullopt;
    }
  }
  template <typename T>
  std::optional<T> Wait(const std::string& name, int64_t timeout_ms = kWaitMs) {
    const std::string key = absl::StrCat("cluster/", name);
    auto event = WaitEvent([&](const frames::Event& e) { return e.attempt.key == key && std::holds_alternative<T>(e.what); }, timeout_ms);
    EXPECT_TRUE(event.has_value()) << "no such event for " << name;
    if (!event) return std::nullopt;
    last_number_ = event->number;
    return std::get<T>(event->what);
  }
  frames::ExitFacts WaitExit(const std::string& name) {
    const auto exited = Wait<frames::Exited>(name);
    return exited ? exited->facts : frames::ExitFacts();
  }
  // The answer to a request.
  absl::Status Answer(absl::StatusOr<uint64_t> request) {
    if (!request.ok()) return request.status();
    const int64_t deadline = Now() + kWaitMs;
    while (true) {
      for (size_t i = 0; i < replies_.size(); ++i) {
        if (replies_[i].request != *request) continue;
        const frames::Reply reply = replies_[i];
        replies_.erase(replies_.begin() + static_cast<long>(i));
        return reply.code == 0 ? absl::OkStatus() : absl::Status(static_cast<absl::StatusCode>(reply.code), reply.message);
      }
      if (!ReceiveOne(deadline)) return absl::DeadlineExceededError("no reply");
    }
  }
  frames::Inventory List() {
    EXPECT_OK(client_->List());
    const int64_t deadline = Now() + kWaitMs;
    inventory_.reset();
    while (!inventory_ && ReceiveOne(deadline)) {
    }
    return inventory_.value_or(frames::Inventory());
  }
  void Run(frames::Start start) { ASSERT_OK(Answer(client_->Start(std::move(start)))); }

  bool WaitFor(const std::function<bool()>& condition) {
    const int64_t deadline = Now() + kWaitMs;
    while (!condition()) {
      if (Now() >= deadline) return false;
      usleep(1'000);
    }
    return true;
  }
  bool WaitForFile(const std::string& name) {
    return WaitFor([&] { return PathExists(Path(name)); });
  }
  std::string Read(const std::string& name) { return ReadFile(Path(name)).value_or("(no file)"); }
  std::string Log(const std::string& name) { return Read(absl::StrCat("logs/", name)); }
  // A process of a test, by the number that it wrote.
  bool Alive(const std::string& file) {
    int pid = 0;
    return absl::SimpleAtoi(Read(file), &pid) && ProcessStartTicks(pid).ok() && ProcessAlive(pid, *ProcessStartTicks(pid));
  }
  uint64_t last_number() const { return last_number_; }

 private:
  bool ReceiveOne(int64_t deadline) {
    auto frame = client_->Receive(std::max<int64_t>(0, deadline - Now()));
    if (!frame.ok() || !frame->has_value()) return false;
    if (auto* event = std::get_if<frames::Event>(&**frame)) kept_.push_back(std::move(*event));
    if (auto* reply = std::get_if<frames::Reply>(&**frame)) replies_.push_back(std::move(*reply));
    if (auto* inventory = std::get_if<frames::Inventory>(&**frame)) inventory_ = std::move(*inventory);
    return true;
  }

  const std::string containment_;
  std::string folder_;
  std::unique_ptr<SupervisorClient> client_;
  RealClock clock_;
  int64_t pid_ = 0, ticks_ = 0;
  int64_t next_ = 0;
  uint64_t last_number_ = 0;
  std::vector<frames::Event> kept_;
  std::vector<frames::Reply> replies_;
  std::optional<frames::Inventory> inventory_;
};

}  // namespace spillway::supervisor
