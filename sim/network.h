// Streams between workers and the scheduler, over links that delay, cut (one way or both) and break.
//
// Inside a stream frames arrive in order and what must not be lost is lost only with the stream, as gRPC promises; what was in flight when it breaks is
// gone. What the protocol says again (renewals, progress, reports and their acknowledgements) may also arrive twice, never, or after younger frames:
// more than gRPC would do to them. Each end learns of a break in its own time, or never when it is dead itself. A link that stays cut for longer than the
// keepalive breaks its streams. Owns frames in flight; changes none of them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "sim/faults.h"
#include "sim/world.h"
#include "worker/session_frames.h"

namespace spillway::sim {

using StreamId = int64_t;

// The worker's end.
class NodeEnd {
 public:
  virtual ~NodeEnd() = default;
  virtual void StreamFrame(StreamId stream, const worker::SchedulerFrame& frame) = 0;
  virtual void StreamBroken(StreamId stream, const std::string& why) = 0;
};
// The scheduler's end.
class SchedulerEnd {
 public:
  virtual ~SchedulerEnd() = default;
  virtual void StreamOpened(StreamId stream) = 0;
  virtual void StreamFrame(StreamId stream, const worker::WorkerFrame& frame) = 0;
  virtual void StreamBroken(StreamId stream) = 0;
};

class Network {
 public:
  Network(World* world, const Faults* faults) : world_(world), faults_(faults), rng_(world->Luck("network")) {}

  // The scheduler listens; null: nobody does, and every stream breaks.
  void Listen(SchedulerEnd* scheduler);

  // Frames may be sent at once; they wait until the stream stands.
  StreamId Dial(const std::string& link, NodeEnd* node);
  void SendUp(StreamId stream, worker::WorkerFrame frame);
  void SendDown(StreamId stream, worker::SchedulerFrame frame);
  // An end hangs up. What it sent before still arrives.
  void CloseByNode(StreamId stream);
  void CloseByScheduler(StreamId stream, const std::string& why);
  // Power off: the other end hears of it only by keepalive. Else (a process died) the kernel says so at once.
  void NodeDied(NodeEnd* node, bool power_off);

  // Faults.
  void BreakStreams(const std::string& link);
  void Cut(const std::string& link, bool up, bool down);
  void Mend(const std::string& link, bool up = true, bool down = true);

 private:
  struct Link {
    bool up_cut = false, down_cut = false;
    int64_t cuts = 0;  // numbers them
  };
  enum class Kind { kOpen, kFrame, kClosed };
  struct Up {
    Kind kind;
    worker::WorkerFrame frame;
  };
  struct Down {
    Kind kind;
    worker::SchedulerFrame frame;
    std::string why;
  };
  template <typename Message>
  struct Pipe {
    std::deque<Message> waiting;  // behind a cut, or not due yet
    int64_t last_at_ms = 0;       // arrival of the newest: no frame overtakes another
    bool pumping = false;
  };
  struct Stream {
    StreamId id;
    std::string link;
    NodeEnd* node;  // null: gone
    bool open_at_node = true, open_at_scheduler = false;
    bool broken = false;
    Pipe<Up> up;
    Pipe<Down> down;
  };

  template <typename Message>
  void Send(Stream* stream, Pipe<Message>* pipe, Message message);
  template <typename Message>
  void SendFrame(Stream* stream, Pipe<Message>* pipe, Message message, const char* twice);
  void Deliver(Stream* stream, const Up& message);
  void Deliver(Stream* stream, const Down& message);
  static bool MayRepeat(const worker::WorkerFrame& frame) { return !frame.hello; }
  static bool MayRepeat(const worker::SchedulerFrame& frame) { return !frame.welcome && !frame.goodbye; }
  static bool SaidAgain(const worker::WorkerFrame& frame) { return !frame.hello && !frame.notice; }
  static bool SaidAgain(const worker::SchedulerFrame& frame) {
    return !frame.welcome && !frame.goodbye && frame.offers.empty() && frame.stops.empty() && frame.specs.empty();
  }
  void PumpUp(StreamId id);
  void PumpDown(StreamId id);
  void Break(Stream* stream, const char* why, int64_t node_hears_ms, int64_t scheduler_hears_ms);
  void BreakSoon(Stream* stream, const char* why);
  void HearAtNode(Stream* stream, std::string why);
  void HearAtScheduler(Stream* stream);
  void Keepalive(const std::string& link, int64_t cut);
  Stream* Find(StreamId id);
  void Forget(Stream* stream);
  int64_t Latency();

  World* const world_;
  const Faults* const faults_;
  Rng rng_;
  SchedulerEnd* scheduler_ = nullptr;
  std::map<std::string, Link> links_;
  std::map<StreamId, std::unique_ptr<Stream>> streams_;
  StreamId next_stream_ = 1;
};

}  // namespace spillway::sim
