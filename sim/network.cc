#include "sim/network.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace spillway::sim {

Network::Stream* Network::Find(StreamId id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

int64_t Network::Latency() { return rng_.Between(1, std::max<int64_t>(1, faults_->latency_ms_max)); }

void Network::Listen(SchedulerEnd* scheduler) {
  scheduler_ = scheduler;
  if (scheduler != nullptr) return;
  std::vector<StreamId> all;
  for (const auto& [id, stream] : streams_) all.push_back(id);
  for (const StreamId id : all) {
    Stream* stream = Find(id);
    stream->open_at_scheduler = false;
    if (!stream->broken) Break(stream, "the scheduler's process died", Latency(), 0);
  }
}

StreamId Network::Dial(const std::string& link, NodeEnd* node) {
  auto stream = std::make_unique<Stream>();
  stream->id = next_stream_++;
  stream->link = link;
  stream->node = node;
  Stream* const raw = stream.get();
  streams_[raw->id] = std::move(stream);
  Send(raw, &raw->up, Up{Kind::kOpen, {}});
  return raw->id;
}

template <typename Message>
void Network::Send(Stream* stream, Pipe<Message>* pipe, Message message) {
  pipe->last_at_ms = std::max(pipe->last_at_ms, world_->now_ms() + Latency());
  pipe->waiting.push_back(std::move(message));
  constexpr bool kUp = std::is_same_v<Message, Up>;
  world_->At(pipe->last_at_ms, [this, id = stream->id] { kUp ? PumpUp(id) : PumpDown(id); });
}

// A frame on its way, or on none. One that is lost and not said again takes its stream with it: gRPC never leaves a gap.
template <typename Message>
void Network::SendFrame(Stream* stream, Pipe<Message>* pipe, Message message, const char* twice) {
  const bool again = SaidAgain(message.frame);
  if (rng_.Chance(faults_->lost)) {
    world_->Reach(again ? "a frame was lost" : "a frame was lost and its stream with it");
    return again ? void() : BreakSoon(stream, "the stream broke");
  }
  if (MayRepeat(message.frame) && rng_.Chance(faults_->duplicated)) {
    world_->Reach(twice);
    Send(stream, pipe, message);
  }
  if (!again || !rng_.Chance(faults_->reordered)) return Send(stream, pipe, std::move(message));
  world_->Reach("a frame was overtaken");
  world_->After(rng_.Between(1, 15'000), [this, id = stream->id, pipe, message = std::move(message)] {
    Stream* stream = Find(id);
    if (stream != nullptr && !stream->broken) Send(stream, pipe, message);
  });
}

void Network::SendUp(StreamId id, worker::WorkerFrame frame) {
  Stream* stream = Find(id);
  if (stream == nullptr || stream->broken || !stream->open_at_node) return;
  SendFrame(stream, &stream->up, Up{Kind::kFrame, std::move(frame)}, "a worker's frame came twice");
}

void Network::SendDown(StreamId id, worker::SchedulerFrame frame) {
  Stream* stream = Find(id);
  if (stream == nullptr || stream->broken || !stream->open_at_scheduler) return;
  SendFrame(stream, &stream->down, Down{Kind::kFrame, std::move(frame), ""}, "a scheduler's frame came twice");
}

// One message a planned arrival; behind a cut they wait, and all come when it is mended.
void Network::PumpUp(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr || stream->broken || stream->up.waiting.empty() || links_[stream->link].up_cut) return;
  const Up message = std::move(stream->up.waiting.front());
  stream->up.waiting.pop_front();
  Deliver(stream, message);
}

void Network::PumpDown(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr || stream->broken || stream->down.waiting.empty() || links_[stream->link].down_cut) return;
  const Down message = std::move(stream->down.waiting.front());
  stream->down.waiting.pop_front();
  Deliver(stream, message);
}

void Network::Deliver(Stream* stream, const Up& message) {
  switch (message.kind) {
    case Kind::kOpen:
      if (scheduler_ == nullptr) return Break(stream, "connection refused", Latency(), 0);
      stream->open_at_scheduler = true;
      return scheduler_->StreamOpened(stream->id);
    case Kind::kFrame:
      if (stream->open_at_scheduler && scheduler_ != nullptr) scheduler_->StreamFrame(stream->id, message.frame);
      return;
    case Kind::kClosed: return HearAtScheduler(stream);
  }
}

void Network::Deliver(Stream* stream, const Down& message) {
  if (message.kind == Kind::kClosed) return HearAtNode(stream, message.why);
  if (stream->open_at_node && stream->node != nullptr) stream->node->StreamFrame(stream->id, message.frame);
}

void Network::CloseByNode(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->open_at_node) return;
  stream->open_at_node = false;
  if (stream->broken) return Forget(stream);
  Send(stream, &stream->up, Up{Kind::kClosed, {}});
}

void Network::CloseByScheduler(StreamId id, const std::string& why) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->open_at_scheduler) return;
  stream->open_at_scheduler = false;
  if (stream->broken) return Forget(stream);
  Send(stream, &stream->down, Down{Kind::kClosed, {}, why});
}

void Network::NodeDied(NodeEnd* node, bool power_off) {
  std::vector<StreamId> hers;
  for (const auto& [id, stream] : streams_) {
    if (stream->node == node) hers.push_back(id);
  }
  for (const StreamId id : hers) {
    Stream* stream = Find(id);
    stream->node = nullptr;
    stream->open_at_node = false;
    if (stream->broken) {
      Forget(stream);
    } else {
      Break(stream, "", 0, power_off ? rng_.Between(20'000, 40'000) : Latency());
    }
  }
}

// ---- faults ----

void Network::Break(Stream* stream, const char* why, int64_t node_hears_ms, int64_t scheduler_hears_ms) {
  stream->broken = true;
  if (!stream->up.waiting.empty() || !stream->down.waiting.empty()) world_->Reach("frames were lost with their stream");
  for (const Up& up : stream->up.waiting) {
    if (!up.frame.reports.empty()) world_->Reach("reports were lost");
  }
  for (const Down& down : stream->down.waiting) {
    if (!down.frame.offers.empty()) world_->Reach("an offer was lost");
  }
  stream->up.waiting.clear();
  stream->down.waiting.clear();
  const StreamId id = stream->id;
  if (stream->open_at_node) {
    world_->After(node_hears_ms, [this, id, why = std::string(why)] {
      if (Stream* stream = Find(id)) HearAtNode(stream, why);
    });
  }
  if (stream->open_at_scheduler) {
    world_->After(scheduler_hears_ms, [this, id] {
      if (Stream* stream = Find(id)) HearAtScheduler(stream);
    });
  }
  Forget(stream);
}

// The ends learn of it each in their own time, the scheduler's sometimes only by keepalive.
void Network::BreakSoon(Stream* stream, const char* why) {
  Break(stream, why, rng_.Between(1, 3'000), rng_.Chance(0.2) ? rng_.Between(3'000, 40'000) : rng_.Between(1, 3'000));
}

void Network::HearAtNode(Stream* stream, std::string why) {
  const StreamId id = stream->id;
  NodeEnd* const node = std::exchange(stream->open_at_node, false) ? stream->node : nullptr;
  Forget(stream);
  if (node != nullptr) node->StreamBroken(id, why);
}

void Network::HearAtScheduler(Stream* stream) {
  const StreamId id = stream->id;
  const bool told = std::exchange(stream->open_at_scheduler, false);
  Forget(stream);
  if (told && scheduler_ != nullptr) scheduler_->StreamBroken(id);
}

// Only when nobody waits for anything any more.
void Network::Forget(Stream* stream) {
  if (!stream->open_at_node && !stream->open_at_scheduler && (stream->broken || (stream->up.waiting.empty() && stream->down.waiting.empty()))) {
    streams_.erase(stream->id);
  }
}

void Network::BreakStreams(const std::string& link) {
  std::vector<StreamId> hers;
  for (const auto& [id, stream] : streams_) {
    if (stream->link == link && !stream->broken) hers.push_back(id);
  }
  for (const StreamId id : hers) BreakSoon(Find(id), "the stream broke");
}

void Network::Cut(const std::string& link, bool up, bool down) {
  Link& at = links_[link];
  at.up_cut |= up;
  at.down_cut |= down;
  world_->Reach(at.up_cut && at.down_cut ? "a link was cut both ways" : "a link was cut one way");
  world_->Trace("link ", link, " cut", at.up_cut ? " up" : "", at.down_cut ? " down" : "");
  world_->After(rng_.Between(20'000, 40'000), [this, link, cut = ++at.cuts] { Keepalive(link, cut); });
}

void Network::Mend(const std::string& link, bool up, bool down) {
  Link& at = links_[link];
  up = up && at.up_cut;
  down = down && at.down_cut;
  if (!up && !down) return;
  at.up_cut &= !up;
  at.down_cut &= !down;
  if (!at.up_cut && !at.down_cut) ++at.cuts;
  world_->Trace("link ", link, " mended", up ? " up" : "", down ? " down" : "");
  for (const auto& [id, stream] : streams_) {
    if (stream->link != link || stream->broken) continue;
    for (size_t i = 0; i < stream->up.waiting.size(); ++i) world_->After(1 + static_cast<int64_t>(i), [this, id = id] { PumpUp(id); });
    for (size_t i = 0; i < stream->down.waiting.size(); ++i) world_->After(1 + static_cast<int64_t>(i), [this, id = id] { PumpDown(id); });
  }
}

// Pings need both ways.
void Network::Keepalive(const std::string& link, int64_t cut) {
  if (links_[link].cuts != cut) return;
  std::vector<StreamId> hers;
  for (const auto& [id, stream] : streams_) {
    if (stream->link == link && !stream->broken) hers.push_back(id);
  }
  for (const StreamId id : hers) Break(Find(id), "keepalive timed out", rng_.Between(0, 20'000), rng_.Between(0, 20'000));
  // A stream dialled behind the cut is looked at again.
  world_->After(rng_.Between(20'000, 40'000), [this, link, cut] { Keepalive(link, cut); });
}

}  // namespace spillway::sim
