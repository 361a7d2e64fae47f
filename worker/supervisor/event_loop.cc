#include "worker/supervisor/event_loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <limits>

#include "base/files.h"

namespace spillway::supervisor {

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) return ErrnoStatus(errno, "cannot create an epoll set");
  const int timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<uint32_t>(timer_fd);
  if (timer_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event) != 0) {
    const int error = errno;
    close(epoll_fd);
    if (timer_fd >= 0) close(timer_fd);
    return ErrnoStatus(error, "cannot create a timer");
  }
  return std::unique_ptr<EventLoop>(new EventLoop(epoll_fd, timer_fd));
}

EventLoop::~EventLoop() {
  close(epoll_fd_);
  close(timer_fd_);
}

absl::Status EventLoop::Watch(int fd, uint32_t events, Handler handler) {
  auto watched = std::make_shared<Watched>(Watched{NextId(), std::move(handler)});
  epoll_event event = {};
  event.events = events;
  // The id tells a new descriptor of the same number from the old one within a turn.
  event.data.u64 = uint64_t{watched->id} << 32 | static_cast<uint32_t>(fd);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return ErrnoStatus(errno, "cannot watch a descriptor");
  watched_[fd] = std::move(watched);
  return absl::OkStatus();
}

void EventLoop::Change(int fd, uint32_t events) {
  const auto it = watched_.find(fd);
  if (it == watched_.end()) return;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = uint64_t{it->second->id} << 32 | static_cast<uint32_t>(fd);
  epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::Forget(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

absl::Status EventLoop::RunOnce(int64_t deadline_ms, const std::function<void()>& first) {
  if (deadline_ms != armed_ms_) {
    itimerspec spec = {};  // zero disarms
    if (deadline_ms != std::numeric_limits<int64_t>::max()) {
      // Never the zero that would disarm; a time that has passed fires at once.
      spec.it_value.tv_sec = deadline_ms > 0 ? deadline_ms / 1000 : 0;
      spec.it_value.tv_nsec = deadline_ms > 0 ? deadline_ms % 1000 * 1'000'000 + 1 : 1;
    }
    if (timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &spec, nullptr) != 0) return ErrnoStatus(errno, "cannot set the timer");
    armed_ms_ = deadline_ms;
  }
  epoll_event events[128];
  const int n = epoll_wait(epoll_fd_, events, 128, -1);
  if (n < 0 && errno != EINTR) return ErrnoStatus(errno, "cannot wait for events");
  first();
  for (int i = 0; i < n; ++i) {
    const int fd = static_cast<int>(events[i].data.u64 & 0xffffffff);
    const uint64_t id = events[i].data.u64 >> 32;
    if (id == 0) {
      uint64_t fired;
      (void)!read(timer_fd_, &fired, sizeof fired);
      armed_ms_ = -1;
      continue;
    }
    const auto it = watched_.find(fd);
    if (it == watched_.end() || it->second->id != id) continue;
    const std::shared_ptr<Watched> watched = it->second;  // lives on while it runs, even when it forgets itself
    watched->handler(events[i].events);
  }
  return absl::OkStatus();
}

}  // namespace spillway::supervisor
