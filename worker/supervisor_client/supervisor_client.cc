#include "worker/supervisor_client/supervisor_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace spillway::supervisor {
namespace {

constexpr size_t kLastWordsBytes = 400;
constexpr int64_t kRetryMs = 5;

void PauseMs(int64_t ms) {
  const timespec pause = {ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

// What the supervisor said last, for the error when it does not come up.
std::string LastWords(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok() || text->empty()) return "";
  std::string tail = text->substr(text->size() > kLastWordsBytes ? text->size() - kLastWordsBytes : 0);
  const size_t end = tail.find_last_not_of('\n');
  tail.resize(end == std::string::npos ? 0 : end + 1);
  const size_t line = tail.rfind('\n');
  return Printable(line == std::string::npos ? tail : tail.substr(line + 1), kLastWordsBytes);
}

}  // namespace

std::string DefaultSocketPath(const std::string& home) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const unsigned char c : AbsolutePath(home)) hash = (hash ^ c) * 1099511628211u;
  const std::string name = absl::StrFormat("%012x", hash & 0xffffffffffffu);
  const std::string user = geteuid() == 0 ? "" : absl::StrCat("-", geteuid());
  const char* temporary = getenv("TMPDIR");
  for (const std::string& root :
       {absl::StrCat("/run/spillway", user), absl::StrCat(temporary == nullptr ? "/tmp" : temporary, "/spillway", user), absl::StrCat("/tmp/spillway", user)}) {
    const std::string folder = JoinPath(root, name);
    if (folder.size() < 90 && MakeDirectories(folder, 0700).ok() && access(folder.c_str(), W_OK) == 0) return JoinPath(folder, "s");
  }
  return JoinPath(home, "s");
}

SupervisorClient::SupervisorClient(ClientOptions options) : options_(std::move(options)) {
  if (options_.socket_path.empty()) options_.socket_path = DefaultSocketPath(options_.home);
  if (options_.program.empty()) options_.program = JoinPath(ExecutableFolder(), "spillway-supervisor");
}

SupervisorClient::~SupervisorClient() { Disconnect(); }

bool SupervisorClient::connected() const { return fd() >= 0; }

int SupervisorClient::fd() const {
  MutexLock lock(&mutex_);
  return broken_ ? -1 : fd_;
}

void SupervisorClient::Disconnect() {
  MutexLock lock(&mutex_);
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  broken_ = false;
  joiner_ = frames::PacketJoiner();
}

// ---- connecting ----

absl::StatusOr<frames::Inventory> SupervisorClient::Connect() {
  Disconnect();
  const int64_t deadline = clock_.NowSteadyMs() + options_.start_timeout_ms;
  bool started = false;
  while (true) {
    absl::Status status = TryConnect();
    if (status.ok()) {
      auto inventory = Greet(deadline);
      if (inventory.ok() || !absl::IsUnavailable(inventory.status())) {
        if (!inventory.ok()) Disconnect();
        return inventory;
      }
      status = inventory.status();  // it left just now
      Disconnect();
    }
    if (options_.program == "-") return status;
    if (clock_.NowSteadyMs() >= deadline) {
      const std::string words = LastWords(JoinPath(options_.home, "supervisor.log"));
      return absl::DeadlineExceededError(
          absl::StrCat("no supervisor at ", options_.socket_path, ": ", status.message(), words.empty() ? "" : "; it said: ", words));
    }
    // One that ended is started again: it may have lost a race against one that was just leaving.
    if (!started || ReapStarted()) {
      if (started) PauseMs(10 * kRetryMs);
      RETURN_IF_ERROR(StartSupervisor());
      started = true;
    }
    PauseMs(kRetryMs);
  }
}

absl::Status SupervisorClient::TryConnect() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (options_.socket_path.size() >= sizeof address.sun_path)
    return absl::InvalidArgumentError(absl::StrCat("socket path longer than 107 bytes: ", options_.socket_path));
  memcpy(address.sun_path, options_.socket_path.c_str(), options_.socket_path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a socket");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    close(fd);
    return absl::UnavailableError(absl::StrCat("cannot connect to ", options_.socket_path, ": ", strerror(error)));
  }
  MutexLock lock(&mutex_);
  fd_ = fd;
  return absl::OkStatus();
}

absl::StatusOr<frames::Inventory> SupervisorClient::Greet(int64_t deadline_ms) {
  frames::Hello hello;
  hello.client = absl::StrCat(options_.client, ", process ", getpid());
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(SendBytes({0, hello}));
  }
  frames::Inventory whole;
  bool first = true;
  while (true) {
    const int64_t left = deadline_ms - clock_.NowSteadyMs();
    if (left <= 0) return absl::DeadlineExceededError(absl::StrCat("the supervisor at ", options_.socket_path, " does not answer"));
    ASSIGN_OR_RETURN(std::optional<frames::FromSupervisor> frame, ReceiveRaw(left));
    if (!frame.has_value()) continue;
    if (const auto* reply = std::get_if<frames::Reply>(&*frame)) return absl::Status(static_cast<absl::StatusCode>(reply->code), reply->message);
    auto* part = std::get_if<frames::Inventory>(&*frame);
    if (part == nullptr) return absl::InternalError("the supervisor sent an event before its inventory");
    const bool more = part->more;
    if (first) {
      whole = std::move(*part);
      first = false;
    } else {
      std::move(part->items.begin(), part->items.end(), std::back_inserter(whole.items));
    }
    if (more) continue;
    whole.more = false;
    if (whole.boot_id != boot_id_) {
      boot_id_ = whole.boot_id;
      last_event_ = 0;
    }
    return whole;
  }
}

absl::Status SupervisorClient::StartSupervisor() {
  RETURN_IF_ERROR(MakeDirectories(options_.home, 0700));
  SpawnOptions spawn;
  spawn.argv = {options_.program, "--home", options_.home, "--socket", options_.socket_path};
  spawn.argv.insert(spawn.argv.end(), options_.extra_args.begin(), options_.extra_args.end());
  spawn.cwd = "/";
  spawn.stdout_path = spawn.stderr_path = AbsolutePath(JoinPath(options_.home, "supervisor.log"));
  spawn.new_session = true;
  // Relative paths were meant from here, not from the supervisor's folder.
  spawn.argv[0] = spawn.argv[0].find('/') == std::string::npos ? spawn.argv[0] : AbsolutePath(spawn.argv[0]);
  spawn.argv[2] = AbsolutePath(options_.home);
  spawn.argv[4] = AbsolutePath(options_.socket_path);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(spawn));
  started_.push_back(pid);
  return absl::OkStatus();
}

bool SupervisorClient::ReapStarted() {
  const pid_t newest = started_.empty() ? -1 : started_.back();
  std::erase_if(started_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  return started_.empty() || started_.back() != newest;
}

// ---- receiving ----

absl::StatusOr<std::optional<frames::FromSupervisor>> SupervisorClient::Receive(int64_t timeout_ms) {
  const int64_t deadline = clock_.NowSteadyMs() + timeout_ms;
  while (true) {
    auto frame = ReceiveRaw(std::max<int64_t>(0, deadline - clock_.NowSteadyMs()));
    if (!frame.ok()) {
      Disconnect();
      ReapStarted();
      return frame.status();
    }
    if (!frame->has_value()) {
      ReapStarted();
      return std::nullopt;
    }
    if (const auto* event = std::get_if<frames::Event>(&**frame)) {
      if (event->number <= last_event_) continue;
      last_event_ = event->number;
    }
    return frame;
  }
}

absl::StatusOr<std::optional<frames::FromSupervisor>> SupervisorClient::ReceiveRaw(int64_t timeout_ms) {
  static thread_local char buffer[frames::kPacketBytesMax + 1];
  const int64_t deadline = clock_.NowSteadyMs() + timeout_ms;
  while (true) {
    const int socket = fd();
    if (socket < 0) return absl::UnavailableError("not connected to a supervisor");
    const ssize_t n = recv(socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      const int64_t left = deadline - clock_.NowSteadyMs();
      if (left <= 0) return std::nullopt;
      pollfd ready = {socket, POLLIN, 0};
      (void)poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
      continue;
    }
    if (n <= 0) return absl::UnavailableError(n == 0 ? "the supervisor closed the connection" : absl::StrCat("the supervisor is gone: ", strerror(errno)));
    ASSIGN_OR_RETURN(std::optional<std::string> frame, joiner_.Add(absl::string_view(buffer, static_cast<size_t>(n))));
    if (!frame.has_value()) continue;
    ASSIGN_OR_RETURN(frames::FromSupervisor from, frames::DecodeFromSupervisor(*frame));
    return std::optional<frames::FromSupervisor>(std::move(from));
  }
}

// ---- sending ----

absl::Status SupervisorClient::SendBytes(const frames::ToSupervisor& frame) {
  if (fd_ < 0 || broken_) return absl::UnavailableError("not connected to a supervisor");
  ASSIGN_OR_RETURN(const std::string bytes, frames::Encode(frame));
  const int64_t deadline = clock_.NowSteadyMs() + options_.send_timeout_ms;
  size_t offset = 0;
  while (offset < bytes.size()) {
    size_t next = offset;
    const std::string packet = frames::TakePacket(bytes, next);
    const ssize_t n = send(fd_, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      offset = next;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != ENOBUFS) {
      broken_ = true;
      return absl::UnavailableError(absl::StrCat("the supervisor is gone: ", strerror(errno)));
    }
    const int64_t left = deadline - clock_.NowSteadyMs();
    if (left <= 0) {
      broken_ = offset > 0;  // half a frame is out: nothing more may follow it
      return absl::UnavailableError("the supervisor takes nothing");
    }
    pollfd ready = {fd_, POLLOUT, 0};
    (void)poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 1'000)));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SupervisorClient::SendRequest(frames::ToSupervisor frame) {
  MutexLock lock(&mutex_);
  frame.request = next_request_++;
  RETURN_IF_ERROR(SendBytes(frame));
  return frame.request;
}

absl::StatusOr<uint64_t> SupervisorClient::Start(frames::Start start) {
  RETURN_IF_ERROR(Validate(start));
  return SendRequest({0, std::move(start)});
}
absl::StatusOr<uint64_t> SupervisorClient::Stop(frames::Stop stop) { return SendRequest({0, std::move(stop)}); }
absl::StatusOr<uint64_t> SupervisorClient::Kill(frames::Kill kill) { return SendRequest({0, std::move(kill)}); }
absl::StatusOr<uint64_t> SupervisorClient::Notice(frames::Notice notice) { return SendRequest({0, std::move(notice)}); }
absl::StatusOr<uint64_t> SupervisorClient::Shutdown() { return SendRequest({0, frames::Shutdown{}}); }

absl::Status SupervisorClient::Renew(frames::Renew renew) {
  MutexLock lock(&mutex_);
  return SendBytes({0, renew});
}
absl::Status SupervisorClient::Ack(uint64_t number) {
  MutexLock lock(&mutex_);
  return SendBytes({0, frames::Ack{number}});
}
absl::Status SupervisorClient::List() {
  MutexLock lock(&mutex_);
  return SendBytes({0, frames::List{}});
}

}  // namespace spillway::supervisor
