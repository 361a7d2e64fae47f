// What waits to be written on one worker session, made into frames when there is room. Pure but for the look-up of specs and of the secrets that they name.
//
// Owns the bounds: orders that wait, bytes of a frame. A welcome is told whole in its first frame as far as that holds it; offers that it cannot hold follow
// as ordinary ones. A stop never overtakes the offer it ends, an acknowledgement never the frame before it. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "scheduler/engine/orders.h"
#include "spillway/v1/worker_service.pb.h"

namespace spillway::rpc {

class SessionOutbox {
 public:
  // More than the attempts a node may have, each with its stop: whoever lets so many gather does not read.
  static constexpr size_t kOrdersMax = 131'072;

  struct Options {
    std::function<absl::StatusOr<std::string>(const std::string& digest)> spec_of;
    std::function<std::map<std::string, std::string>(const std::vector<std::string>& names)> secrets_of;  // those that there are
    std::string store_url;
    size_t orders_max = kOrdersMax;
    size_t frame_bytes_max = limits::kGrpcMessageBytesMax / 4;
  };
  explicit SessionOutbox(Options options) : options_(std::move(options)) {}

  // RESOURCE_EXHAUSTED: the worker does not read what it is sent. The session must end; its next welcome tells everything again.
  absl::Status Welcome(engine::WelcomeOrder order);
  absl::Status Offer(engine::OfferOrder order);
  absl::Status Stop(engine::StopOrder order);
  absl::Status Forget(AttemptId attempt);
  void AckReports(int64_t seq);
  void AckRenewal(int64_t renewal);
  // The last word: orders that still wait are not worth telling any more, acknowledgements are.
  void SayGoodbye(v1::Goodbye goodbye);

  bool Empty() const;
  // Precondition: not Empty(). An error is that of spec_of: the session cannot go on.
  absl::StatusOr<v1::SchedulerFrame> NextFrame();

 private:
  absl::Status Room() const;
  // Adds an offer with its spec, where the session has not seen it, to what can hold both; false: it would become too large.
  template <typename Holder>
  absl::StatusOr<bool> AddOffer(const engine::OfferOrder& order, size_t* bytes, Holder* holder);

  const Options options_;
  std::optional<engine::WelcomeOrder> welcome_;
  std::deque<engine::OfferOrder> offers_;
  std::deque<engine::StopOrder> stops_;
  std::deque<AttemptId> forget_;
  int64_t report_ack_ = 0, renewal_ack_ = 0;  // 0: none waits
  std::optional<v1::Goodbye> goodbye_;
  std::map<std::string, std::vector<std::string>> sent_specs_;  // by digest: the secrets that it names
};

}  // namespace spillway::rpc
