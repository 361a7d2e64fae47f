// The supervisor's socket: accepts workers of the same user, turns packets into commands, and sends replies, inventories and events.
// One worker at a time is served events: the newest that said Hello. Everything a peer can send is bounded; a peer that does not speak the protocol
// is closed, and harms nobody else.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/frames/frames.h"
#include "worker/frames/packets.h"
#include "worker/supervisor/event_loop.h"
#include "worker/supervisor/event_queue.h"
#include "worker/supervisor/supervisor.h"

namespace spillway::supervisor {

class Server {
 public:
  // Replaces what is at `socket_path`: the caller holds the home's lock. Mode 0600.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& socket_path, EventLoop* loop, EventQueue* events, Supervisor* supervisor);
  ~Server();  // the path is removed
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Sends what has come up since; after every turn of the loop.
  void Flush();
  bool has_worker() const { return worker_ != 0; }

 private:
  struct Connection {
    int fd = -1;
    uint64_t id = 0;
    bool greeted = false;
    bool closing = false;  // once the outbox is empty
    uint32_t watching = 0;
    frames::PacketJoiner joiner;
    std::deque<std::string> outbox;  // whole frames
    size_t offset = 0;               // into the first
    uint64_t cursor = 0;             // the last event put into the outbox
  };

  Server(std::string path, int fd, EventLoop* loop, EventQueue* events, Supervisor* supervisor)
      : path_(std::move(path)), fd_(fd), loop_(loop), events_(events), supervisor_(supervisor) {}
  void Accept();
  void OnReady(uint64_t id, uint32_t events);
  bool Receive(Connection& connection);  // false: close it
  bool Handle(Connection& connection, frames::ToSupervisor command);
  void Send(Connection& connection, const frames::FromSupervisor& frame);
  bool Write(Connection& connection);  // false: close it
  void Close(uint64_t id);

  const std::string path_;
  const int fd_;
  EventLoop* const loop_;
  EventQueue* const events_;
  Supervisor* const supervisor_;
  std::map<uint64_t, Connection> connections_;
  uint64_t next_id_ = 1;
  uint64_t worker_ = 0;  // the connection that gets events; 0: none
};

}  // namespace spillway::supervisor
