#include "scheduler/rpc/session_outbox.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "scheduler/rpc/translate_session.h"
#include "scheduler/rpc/translate_view.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::rpc {
namespace {

std::vector<std::string> SecretsOf(const std::string& spec_bytes) {
  v1::JobSpec spec;
  if (!spec.ParseFromString(spec_bytes)) return {};  // the worker says so
  return {spec.secrets().begin(), spec.secrets().end()};
}

}  // namespace

absl::Status SessionOutbox::Room() const {
  const size_t waiting = offers_.size() + stops_.size() + forget_.size();
  if (waiting < options_.orders_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(waiting, " orders wait: the session does not read what it is sent"));
}

absl::Status SessionOutbox::Welcome(engine::WelcomeOrder order) {
  welcome_ = std::move(order);
  return absl::OkStatus();
}
absl::Status SessionOutbox::Offer(engine::OfferOrder order) {
  RETURN_IF_ERROR(Room());
  offers_.push_back(std::move(order));
  return absl::OkStatus();
}
absl::Status SessionOutbox::Stop(engine::StopOrder order) {
  RETURN_IF_ERROR(Room());
  stops_.push_back(std::move(order));
  return absl::OkStatus();
}
absl::Status SessionOutbox::Forget(AttemptId attempt) {
  RETURN_IF_ERROR(Room());
  forget_.push_back(attempt);
  return absl::OkStatus();
}
void SessionOutbox::AckReports(int64_t seq) { report_ack_ = std::max(report_ack_, seq); }
void SessionOutbox::AckRenewal(int64_t renewal) { renewal_ack_ = std::max(renewal_ack_, renewal); }
void SessionOutbox::SayGoodbye(v1::Goodbye goodbye) {
  welcome_.reset();
  offers_.clear();
  stops_.clear();
  forget_.clear();
  goodbye_ = std::move(goodbye);
}

bool SessionOutbox::Empty() const {
  return !welcome_ && offers_.empty() && stops_.empty() && forget_.empty() && report_ack_ == 0 && renewal_ack_ == 0 && !goodbye_;
}

template <typename Holder>
absl::StatusOr<bool> SessionOutbox::AddOffer(const engine::OfferOrder& order, size_t* bytes, Holder* holder) {
  v1::SchedulerFrame::Offer offer = OfferFrame(order);
  size_t size = offer.ByteSizeLong() + 16;
  std::string spec;
  const auto sent = sent_specs_.find(order.spec_digest);
  const bool needs_spec = sent == sent_specs_.end();
  std::vector<std::string> secrets;
  if (needs_spec) {
    ASSIGN_OR_RETURN(spec, options_.spec_of(order.spec_digest));
    size += spec.size() + order.spec_digest.size() + 16;
    secrets = SecretsOf(spec);
  } else {
    secrets = sent->second;
  }
  if (!secrets.empty()) {
    for (auto& [name, value] : options_.secrets_of(secrets)) {
      size += name.size() + value.size() + 16;
      (*offer.mutable_secrets())[name] = std::move(value);
    }
  }
  // The first always goes: a spec is far smaller than a message may be.
  if (*bytes > 0 && *bytes + size > options_.frame_bytes_max) return false;
  *bytes += size;
  if (needs_spec) {
    sent_specs_.emplace(order.spec_digest, std::move(secrets));
    v1::SpecData* data = holder->add_specs();
    data->set_digest(order.spec_digest);
    data->set_spec(std::move(spec));
  }
  *holder->add_offers() = std::move(offer);
  return true;
}

absl::StatusOr<v1::SchedulerFrame> SessionOutbox::NextFrame() {
  v1::SchedulerFrame frame;
  size_t bytes = 0;
  if (welcome_) {
    engine::WelcomeOrder order = *std::exchange(welcome_, std::nullopt);
    std::deque<engine::OfferOrder> offers(std::make_move_iterator(order.offers.begin()), std::make_move_iterator(order.offers.end()));
    order.offers.clear();
    v1::Welcome welcome;
    while (!offers.empty()) {
      ASSIGN_OR_RETURN(const bool fits, AddOffer(offers.front(), &bytes, &welcome));
      if (!fits) break;
      offers.pop_front();
    }
    // An attempt that is wanted, not there and not offered would be taken for lost: what is told later is wanted later.
    std::set<AttemptId> later;
    for (const engine::OfferOrder& offer : offers) later.insert(offer.attempt);
    order.wanted.erase(std::remove_if(order.wanted.begin(), order.wanted.end(), [&](const AttemptId& attempt) { return later.count(attempt) > 0; }),
                       order.wanted.end());
    offers_.insert(offers_.begin(), std::make_move_iterator(offers.begin()), std::make_move_iterator(offers.end()));
    *frame.mutable_welcome() = WelcomeFrame(order, options_.store_url);
    frame.mutable_welcome()->MergeFrom(welcome);
  }
  frame.set_report_ack(std::exchange(report_ack_, 0));
  frame.set_renewal_ack(std::exchange(renewal_ack_, 0));
  while (!offers_.empty()) {
    ASSIGN_OR_RETURN(const bool fits, AddOffer(offers_.front(), &bytes, &frame));
    if (!fits) return frame;
    offers_.pop_front();
  }
  while (!stops_.empty() && bytes < options_.frame_bytes_max) {
    v1::Stop* stop = frame.add_stops();
    *stop = StopFrame(stops_.front());
    bytes += stop->ByteSizeLong();
    stops_.pop_front();
  }
  while (stops_.empty() && !forget_.empty() && bytes < options_.frame_bytes_max) {
    *frame.add_forget() = KeyOf(forget_.front());
    bytes += frame.forget(frame.forget_size() - 1).ByteSizeLong();
    forget_.pop_front();
  }
  if (goodbye_) *frame.mutable_goodbye() = *std::exchange(goodbye_, std::nullopt);
  return frame;
}

}  // namespace spillway::rpc
