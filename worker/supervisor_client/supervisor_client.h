// The worker's end of the socket to its node's supervisor: connect, or start one first; send commands; receive events.
//
// Owns one connection. Never decides anything about attempts, never retries a command by itself: a command whose connection broke may or may not
// have been taken; after Connect the Inventory says.
//
// Threads: Send* from any thread; Connect and Receive from one thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "worker/frames/frames.h"
#include "worker/frames/packets.h"

namespace spillway::supervisor {

struct ClientOptions {
  std::string home;         // the node's folder: supervisor.journal, supervisor.pid; created when absent
  std::string socket_path;  // at most 107 bytes; "" uses DefaultSocketPath(home)
  std::string program;      // "" uses spillway-supervisor beside this executable; "-" never starts one
  std::vector<std::string> extra_args;
  std::string client = "spillway-worker";
  int64_t start_timeout_ms = 20'000;  // from spawn to the first Inventory (it may have leftovers to kill)
  int64_t send_timeout_ms = 10'000;
};

// /run/spillway/<hash of home>/s, or under the temporary folder when /run is not writable: short whatever home is.
std::string DefaultSocketPath(const std::string& home);

class SupervisorClient {
 public:
  explicit SupervisorClient(ClientOptions options);
  ~SupervisorClient();  // the supervisor and its attempts live on
  SupervisorClient(const SupervisorClient&) = delete;
  SupervisorClient& operator=(const SupervisorClient&) = delete;

  // Connects, starting a supervisor (new session, so that it outlives the worker) when nobody listens, and returns the whole Inventory, its parts
  // joined. Call it first, and again after Receive or Send said UNAVAILABLE. Whatever was unacked comes again, except events that this object
  // already returned in the same boot_id. DEADLINE_EXCEEDED or the supervisor's own last words when it does not come up.
  absl::StatusOr<frames::Inventory> Connect();
  bool connected() const;

  // The next Event or Reply (or Inventory, after List); nullopt when none came within `timeout_ms` (0: only what is there).
  // UNAVAILABLE when the supervisor is gone or closed the connection.
  absl::StatusOr<std::optional<frames::FromSupervisor>> Receive(int64_t timeout_ms);
  // Readable when Receive may have something; -1 when not connected. For a caller with its own poll loop: Receive(0) until nullopt.
  int fd() const;

  // Returns the request number that the Reply will carry. OK means sent, not done.
  absl::StatusOr<uint64_t> Start(frames::Start start);
  absl::StatusOr<uint64_t> Stop(frames::Stop stop);
  absl::StatusOr<uint64_t> Kill(frames::Kill kill);
  absl::StatusOr<uint64_t> Notice(frames::Notice notice);
  absl::StatusOr<uint64_t> Shutdown();
  // Without a Reply.
  absl::Status Renew(frames::Renew renew);
  absl::Status Ack(uint64_t number);
  absl::Status List();

 private:
  absl::StatusOr<uint64_t> SendRequest(frames::ToSupervisor frame);
  absl::Status SendBytes(const frames::ToSupervisor& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryConnect();
  absl::StatusOr<frames::Inventory> Greet(int64_t deadline_ms);
  absl::StatusOr<std::optional<frames::FromSupervisor>> ReceiveRaw(int64_t timeout_ms);
  absl::Status StartSupervisor();
  bool ReapStarted();  // true when the supervisor that this object started has ended
  void Disconnect();

  ClientOptions options_;
  mutable Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // a send failed half-way: the connection is of no use
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;
  // Of the receiving thread.
  RealClock clock_;
  std::vector<pid_t> started_;  // and not reaped yet: one that is killed closes its socket a moment before it can be
  frames::PacketJoiner joiner_;
  std::string boot_id_;
  uint64_t last_event_ = 0;
};

}  // namespace spillway::supervisor
