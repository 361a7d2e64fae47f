#include "worker/supervisor/server.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

namespace spillway::supervisor {
namespace {

constexpr size_t kConnectionsMax = 16;
constexpr size_t kOutboxMax = 256;  // frames; beyond it nothing more is read from this peer
constexpr int kPacketsPerTurn = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const std::string& socket_path, EventLoop* loop, EventQueue* events, Supervisor* supervisor) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.empty() || socket_path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("--socket: a path of 1 to ", sizeof address.sun_path - 1, " bytes, not ", socket_path.size()));
  }
  memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a socket");
  unlink(socket_path.c_str());
  // umask 077 holds from the start of the program, so there is no moment at which others could connect.
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || chmod(socket_path.c_str(), 0600) != 0 || listen(fd, 16) != 0) {
    const int error = errno;
    close(fd);
    return ErrnoStatus(error, absl::StrCat("cannot listen on ", socket_path));
  }
  std::unique_ptr<Server> server(new Server(socket_path, fd, loop, events, supervisor));
  const absl::Status status = loop->Watch(fd, EPOLLIN, [raw = server.get()](uint32_t) { raw->Accept(); });
  if (!status.ok()) return status;
  return server;
}

Server::~Server() {
  while (!connections_.empty()) Close(connections_.begin()->first);
  loop_->Forget(fd_);
  close(fd_);
  unlink(path_.c_str());
}

void Server::Accept() {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || (peer.uid != geteuid() && peer.uid != 0)) {
    LOG(WARNING) << "refused a connection of user " << peer.uid << ", process " << peer.pid;
    close(fd);
    return;
  }
  if (connections_.size() >= kConnectionsMax) {
    LOG(WARNING) << "refused a connection of process " << peer.pid << ": " << kConnectionsMax << " are open";
    close(fd);
    return;
  }
  const uint64_t id = next_id_++;
  Connection& connection = connections_[id];
  connection.fd = fd;
  connection.id = id;
  connection.watching = EPOLLIN;
  if (!loop_->Watch(fd, EPOLLIN, [this, id](uint32_t events) { OnReady(id, events); }).ok()) {
    connections_.erase(id);
    close(fd);
  }
}

void Server::Close(uint64_t id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  loop_->Forget(it->second.fd);
  close(it->second.fd);
  connections_.erase(it);
  if (worker_ == id) worker_ = 0;
}

void Server::OnReady(uint64_t id, uint32_t events) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  bool open = true;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) open = Receive(it->second);
  if (open && connections_.contains(id)) open = Write(it->second);
  if (!open) Close(id);
}

bool Server::Receive(Connection& connection) {
  static char buffer[frames::kPacketBytesMax + 1];
  for (int i = 0; i < kPacketsPerTurn && connection.outbox.size() < kOutboxMax && !connection.closing; ++i) {
    const ssize_t n = recv(connection.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    if (static_cast<size_t>(n) > frames::kPacketBytesMax) return false;
    auto frame = connection.joiner.Add(absl::string_view(buffer, static_cast<size_t>(n)));
    if (!frame.ok()) {
      LOG(WARNING) << "closed a connection: " << frame.status().message();
      return false;
    }
    if (!frame->has_value()) continue;
    auto command = frames::DecodeToSupervisor(**frame);
    if (!command.ok()) {
      // The peer is told once and then closed: after one frame that makes no sense none is trusted.
      LOG(WARNING) << "closed a connection: " << command.status().message();
      Send(connection, frames::Reply{0, static_cast<int64_t>(command.status().code()), std::string(command.status().message())});
      connection.closing = true;
      return true;
    }
    if (!Handle(connection, std::move(*command))) return false;
  }
  return true;
}

bool Server::Handle(Connection& connection, frames::ToSupervisor command) {
  const uint64_t request = command.request;
  if (const auto* hello = std::get_if<frames::Hello>(&command.what)) {
    if (hello->version != frames::kProtocolVersion) {
      Send(connection, frames::Reply{request, static_cast<int64_t>(absl::StatusCode::kFailedPrecondition),
                                     absl::StrCat("this supervisor speaks version ", frames::kProtocolVersion, ", not ", hello->version)});
      connection.closing = true;
      return true;
    }
    LOG(INFO) << "worker: " << Printable(hello->client);
    if (worker_ != 0 && worker_ != connection.id) Close(worker_);
    worker_ = connection.id;
    connection.greeted = true;
    connection.cursor = 0;
    for (const frames::Inventory& part : supervisor_->Inventories()) Send(connection, part);
    return true;
  }
  if (!connection.greeted) {
    LOG(WARNING) << "closed a connection that did not begin with Hello";
    return false;
  }
  if (std::holds_alternative<frames::List>(command.what)) {
    for (const frames::Inventory& part : supervisor_->Inventories()) Send(connection, part);
    return true;
  }
  const bool is_ack = std::holds_alternative<frames::Ack>(command.what);
  const absl::Status status = supervisor_->Handle(std::move(command));
  if (request != 0 && !is_ack) {
    Send(connection, frames::Reply{request, static_cast<int64_t>(status.code()), std::string(status.message())});
  } else if (!status.ok()) {
    LOG(ERROR) << "a command without a reply failed: " << status.ToString();
  }
  return true;
}

void Server::Send(Connection& connection, const frames::FromSupervisor& frame) {
  auto bytes = frames::Encode(frame);
  CHECK(bytes.ok()) << bytes.status().ToString();  // every part of an answer is bounded
  connection.outbox.push_back(std::move(*bytes));
}

bool Server::Write(Connection& connection) {
  bool full = false;
  while (!full) {
    if (connection.outbox.empty() && connection.id == worker_) {
      const frames::Event* event = events_->After(connection.cursor);
      if (event != nullptr) {
        connection.cursor = event->number;
        Send(connection, *event);
      }
    }
    if (connection.outbox.empty()) break;
    size_t next = connection.offset;
    const std::string packet = frames::TakePacket(connection.outbox.front(), next);
    const ssize_t n = send(connection.fd, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
      full = true;
    } else if (n < 0) {
      return false;
    } else {
      connection.offset = next;
      if (next == connection.outbox.front().size()) {
        connection.outbox.pop_front();
        connection.offset = 0;
      }
    }
  }
  if (connection.closing && connection.outbox.empty()) return false;
  const bool may_read = connection.outbox.size() < kOutboxMax && !connection.closing;
  const uint32_t wanted = (may_read ? EPOLLIN : 0u) | (full ? EPOLLOUT : 0u);
  if (wanted != connection.watching) {
    loop_->Change(connection.fd, wanted);
    connection.watching = wanted;
  }
  return true;
}

void Server::Flush() {
  const auto it = connections_.find(worker_);
  if (it != connections_.end() && (it->second.watching & EPOLLOUT) == 0 && !Write(it->second)) Close(worker_);
}

}  // namespace spillway::supervisor
