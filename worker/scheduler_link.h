// The worker's end of the stream to the scheduler: gRPC behind plain frames. Owns the channel and at most one stream; decides nothing, and
// reconnects only when told to. Sees generated code; its users do not.
//
// One frame at a time comes in: the next is read when the last was consumed, so that a slow worker slows the scheduler down instead of growing.
// What goes out is bounded by limits::kSessionOutboxFramesMax; a peer that does not read ends the session.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "worker/session_frames.h"

namespace spillway::worker {

struct LinkOptions {
  std::string server;      // HOST:PORT
  std::string token_file;  // read at every connect; "" sends none
};

class SchedulerLink {
 public:
  // Called on gRPC's threads; must not block. `session` is the number given to Connect.
  struct Callbacks {
    std::function<void(int64_t session, SchedulerFrame frame)> frame;
    std::function<void(int64_t session, std::string why)> closed;  // once a session, unless it was closed from here
  };

  SchedulerLink(LinkOptions options, Callbacks callbacks);
  ~SchedulerLink();  // cancels the stream and waits for its end

  void Connect(int64_t session);                         // ends the one before
  void Send(int64_t session, const WorkerFrame& frame);  // ignored for any other session than the newest
  void Consumed(int64_t session);                        // the last frame was handled: read the next
  void Disconnect(int64_t session);
  // Waits until what was sent has left this process, at most `timeout_ms`.
  void Flush(int64_t timeout_ms);

  class Stream;

 private:
  const LinkOptions options_;
  const Callbacks callbacks_;
  Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway::worker
