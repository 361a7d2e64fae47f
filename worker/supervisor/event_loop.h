// Waits for descriptors and for one deadline on CLOCK_BOOTTIME (epoll, timerfd). One thread. Owns no descriptor but its own two.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway::supervisor {

class EventLoop {
 public:
  using Handler = std::function<void(uint32_t events)>;  // EPOLLIN, EPOLLOUT, EPOLLHUP, ...

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  absl::Status Watch(int fd, uint32_t events, Handler handler);
  void Change(int fd, uint32_t events);
  // Before the descriptor is closed. Its handler will not be called again, not even by the turn under way; a handler may forget itself.
  void Forget(int fd);

  // Waits until something is ready or CLOCK_BOOTTIME reaches `deadline_ms` (INT64_MAX: no deadline), then calls the ready handlers.
  // `first` runs after the wait and before them: what is due by time goes before what peers ask.
  absl::Status RunOnce(int64_t deadline_ms, const std::function<void()>& first);

 private:
  EventLoop(int epoll_fd, int timer_fd) : epoll_fd_(epoll_fd), timer_fd_(timer_fd) {}
  struct Watched {
    uint32_t id;
    Handler handler;
  };
  const int epoll_fd_;
  const int timer_fd_;
  int64_t armed_ms_ = -1;
  uint32_t next_id_ = 0;
  uint32_t NextId() { return ++next_id_ == 0 ? ++next_id_ : next_id_; }  // never 0: that is the timer
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
};

}  // namespace spillway::supervisor
