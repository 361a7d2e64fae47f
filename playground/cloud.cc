#include "playground/cloud.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::playground {
namespace {

constexpr std::pair<EndReason, const char*> kReasons[] = {
    {EndReason::kNone, ""},
    {EndReason::kUser, "user"},
    {EndReason::kReclaimed, "reclaimed"},
    {EndReason::kReclaimedWithoutNotice, "reclaimed_without_notice"},
    {EndReason::kCrashed, "crashed"},
    {EndReason::kBootFailed, "boot_failed"},
    {EndReason::kLeaseExpired, "lease_expired"},
};

bool Decided(const Instance& instance) { return instance.state == InstanceState::kStopping || instance.state == InstanceState::kEnded; }

absl::Status CheckRequest(const CreateRequest& request) {
  if (request.client_token.empty() || request.client_token.size() > limits::kRequestIdBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("client_token must have 1 to ", limits::kRequestIdBytesMax, " bytes"));
  }
  if (request.name.size() > limits::kNameBytesMax) return absl::InvalidArgumentError("name is too long");
  if (request.self_terminate_after_ms < 0) return absl::InvalidArgumentError("self_terminate_after must not be negative");
  if (request.worker.argv.size() > limits::kArgvCountMax || request.worker.env.size() > limits::kEnvCountMax) {
    return absl::InvalidArgumentError("worker.argv or worker.env has too many entries");
  }
  if (request.worker.argv.empty() && (request.worker.server.empty() || request.worker.token_file.empty() || request.worker.node_name.empty())) {
    return absl::InvalidArgumentError("worker needs server, token_file and node_name, or an argv of its own");
  }
  return absl::OkStatus();
}

Terms TermsOf(const Offer& offer) {
  return {offer.spot, offer.instance_type, offer.zone, offer.region, offer.gpus, offer.cpus, offer.memory_bytes, offer.disk_bytes, offer.billing};
}

absl::Status NoInstance(int64_t instance) { return absl::NotFoundError(absl::StrCat("no instance ", InstanceIdOf(instance))); }

int64_t LeaseEndMs(const Instance& instance) {
  return instance.request.self_terminate_after_ms == 0 ? std::numeric_limits<int64_t>::max()
                                                       : instance.kept_alive_ms + instance.request.self_terminate_after_ms;
}

}  // namespace

absl::string_view NameOf(InstanceState state) {
  switch (state) {
    case InstanceState::kBooting: return "booting";
    case InstanceState::kRunning: return "running";
    case InstanceState::kStopping: return "stopping";
    case InstanceState::kEnded: return "ended";
  }
  return "";
}

absl::string_view NameOf(EndReason reason) {
  for (const auto& [value, name] : kReasons) {
    if (value == reason) return name;
  }
  return "";
}

std::optional<EndReason> EndReasonOf(absl::string_view name) {
  for (const auto& [value, text] : kReasons) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::string InstanceIdOf(int64_t number) { return absl::StrFormat("i-%06d", number); }

absl::StatusOr<Cloud::CreateOutcome> Cloud::Create(const CreateRequest& request, int64_t now_ms) const {
  RETURN_IF_ERROR(CheckRequest(request));
  if (auto known = by_token_.find(request.client_token); known != by_token_.end()) {
    if (instances_.at(known->second).request != request) {
      return absl::AlreadyExistsError(
          absl::StrCat("client_token ", Printable(request.client_token), " was used for a different request: ", InstanceIdOf(known->second)));
    }
    return CreateOutcome{known->second, {}};
  }
  const Offer* offer = config_.Find(request.offer);
  if (offer == nullptr) {
    const std::string nearest = NearestName(request.offer, config_.OfferNames());
    return absl::InvalidArgumentError(
        absl::StrCat("unknown offer `", Printable(request.offer), "`", nearest.empty() ? "" : absl::StrCat("; did you mean `", nearest, "`?")));
  }
  if (AliveOf(offer->name) >= offer->capacity) {
    return absl::ResourceExhaustedError(absl::StrCat("offer ", offer->name, " has all of its ", offer->capacity, " machines in use"));
  }
  if (!OpenFor(*offer, now_ms)) return absl::ResourceExhaustedError(absl::StrCat("offer ", offer->name, " has no machine to give now"));

  Created created;
  created.instance = next_number_;
  created.request = request;
  created.terms = TermsOf(*offer);
  auto ordinal = ordinals_.find(offer->name);
  created.ordinal = ordinal == ordinals_.end() ? 0 : ordinal->second;
  created.boot_until_ms = now_ms + offer->boot_ms;
  created.boot_fails = std::find(offer->boot_failures.begin(), offer->boot_failures.end(), created.ordinal + 1) != offer->boot_failures.end();
  if (const std::optional<int64_t> gone = offer->market.GoneAtMs(created.ordinal, now_ms * config_.scale)) {
    created.gone_at_ms = std::max(now_ms + 1, *gone / config_.scale);
    if (offer->notice_ms > 0) created.announce_at_ms = std::max(now_ms, created.gone_at_ms - offer->notice_ms);
  }
  return CreateOutcome{next_number_, {Event{now_ms, std::move(created)}}};
}

absl::StatusOr<std::vector<Event>> Cloud::Terminate(int64_t number, int64_t now_ms) const {
  const Instance* instance = Find(number);
  if (instance == nullptr) return NoInstance(number);
  if (Decided(*instance)) return std::vector<Event>{};
  return std::vector<Event>{EndingOf(*instance, EndReason::kUser, "terminated on request", now_ms, now_ms)};
}

absl::StatusOr<std::vector<Event>> Cloud::OrderReclaim(int64_t number, int64_t notice_ms, int64_t now_ms) const {
  const Instance* instance = Find(number);
  if (instance == nullptr) return NoInstance(number);
  if (Decided(*instance)) return absl::FailedPreconditionError(absl::StrCat(instance->id, " has already ended"));
  if (!instance->terms.spot) return absl::FailedPreconditionError(absl::StrCat(instance->id, " is on demand: it is never reclaimed"));
  if (notice_ms < 0) return absl::InvalidArgumentError("notice must not be negative");
  ReclaimOrdered ordered{number, notice_ms > 0 ? now_ms : -1, now_ms + notice_ms};
  if (instance->gone_at_ms >= 0 && instance->gone_at_ms < ordered.gone_at_ms) ordered.gone_at_ms = instance->gone_at_ms;
  return std::vector<Event>{Event{now_ms, ordered}};
}

absl::Status Cloud::KeepAlive(int64_t number, int64_t now_ms) {
  auto it = instances_.find(number);
  if (it == instances_.end()) return NoInstance(number);
  if (Decided(it->second)) return absl::FailedPreconditionError(absl::StrCat(it->second.id, " has already ended"));
  it->second.kept_alive_ms = now_ms;
  return absl::OkStatus();
}

std::vector<Event> Cloud::ProcessStarted(int64_t number, int64_t pid, int64_t start_ticks, int64_t now_ms) const {
  const Instance* instance = Find(number);
  if (instance == nullptr || instance->state == InstanceState::kEnded) return {};
  return {Event{now_ms, Started{number, pid, start_ticks}}};
}

std::vector<Event> Cloud::StartFailed(int64_t number, absl::string_view error, int64_t now_ms) const {
  const Instance* instance = Find(number);
  if (instance == nullptr || Decided(*instance)) return {};
  return {EndingOf(*instance, EndReason::kBootFailed, error, now_ms, now_ms)};
}

std::vector<Event> Cloud::ProcessGone(int64_t number, int64_t died_ms, absl::string_view detail, int64_t now_ms) const {
  const Instance* instance = Find(number);
  if (instance == nullptr || instance->state == InstanceState::kEnded) return {};
  std::vector<Event> events;
  if (!Decided(*instance)) {
    // A machine that shuts itself down under notice was taken by the market; any other that goes by itself has crashed.
    const EndReason reason = instance->announced_ms >= 0 ? EndReason::kReclaimed : EndReason::kCrashed;
    events.push_back(EndingOf(*instance, reason, detail, std::clamp(died_ms, instance->created_ms, now_ms), now_ms));
  }
  return events;
}

std::vector<Event> Cloud::Buried(int64_t number, int64_t now_ms) const {
  const Instance* instance = Find(number);
  if (instance == nullptr || instance->state != InstanceState::kStopping) return {};
  return {Event{now_ms, Gone{number}}};
}

std::vector<Event> Cloud::Due(int64_t now_ms) const {
  std::vector<Event> events;
  for (int64_t number : unended_) {
    const Instance& instance = instances_.at(number);
    if (Decided(instance)) continue;
    const bool announce = instance.announce_at_ms >= 0 && instance.announce_at_ms <= now_ms && instance.announced_ms < 0;
    if (announce) events.push_back(Event{now_ms, Announced{number}});
    if (instance.gone_at_ms >= 0 && instance.gone_at_ms <= now_ms) {
      const bool with_notice = announce || instance.announced_ms >= 0;
      events.push_back(EndingOf(instance, with_notice ? EndReason::kReclaimed : EndReason::kReclaimedWithoutNotice, "the market took it back", now_ms, now_ms));
    } else if (instance.boot_fails && instance.state == InstanceState::kBooting && instance.boot_until_ms <= now_ms) {
      events.push_back(EndingOf(instance, EndReason::kBootFailed, "the machine did not come up", now_ms, now_ms));
    } else if (LeaseEndMs(instance) <= now_ms) {
      events.push_back(EndingOf(instance, EndReason::kLeaseExpired, "no keepalive within self_terminate_after", now_ms, now_ms));
    }
  }
  return events;
}

std::vector<Owed> Cloud::WhatIsOwed(int64_t now_ms) const {
  std::vector<Owed> owed;
  for (int64_t number : unended_) {
    const Instance& instance = instances_.at(number);
    if (instance.state == InstanceState::kBooting && instance.boot_until_ms <= now_ms && !instance.boot_fails) {
      owed.push_back({Owed::Kind::kStart, number});
    } else if (instance.state == InstanceState::kStopping) {
      owed.push_back({instance.pid != 0 ? Owed::Kind::kKill : Owed::Kind::kBury, number});
    }
  }
  return owed;
}

std::optional<int64_t> Cloud::NextDeadlineMs(int64_t now_ms) const {
  int64_t next = std::numeric_limits<int64_t>::max();
  auto consider = [&](int64_t at_ms) {
    if (at_ms > now_ms) next = std::min(next, at_ms);
  };
  for (int64_t number : unended_) {
    const Instance& instance = instances_.at(number);
    if (Decided(instance)) continue;
    if (instance.state == InstanceState::kBooting) consider(instance.boot_until_ms);
    consider(instance.announce_at_ms);
    consider(instance.gone_at_ms);
    consider(LeaseEndMs(instance));
  }
  if (next == std::numeric_limits<int64_t>::max()) return std::nullopt;
  return next;
}

absl::Status Cloud::Admissible(const Event& event) const {
  struct Visitor {
    const Cloud& cloud;

    absl::Status operator()(const Opened&) const { return absl::OkStatus(); }
    absl::Status operator()(const Created& e) const {
      if (!cloud.opened_.has_value()) return absl::InvalidArgumentError("created before opened");
      if (e.instance < cloud.next_number_) return absl::InvalidArgumentError(absl::StrCat("instance ", e.instance, " is created twice"));
      return absl::OkStatus();
    }
    absl::Status operator()(const Started& e) const { return Living(e.instance, false); }
    absl::Status operator()(const ReclaimOrdered& e) const { return Living(e.instance, true); }
    absl::Status operator()(const Announced& e) const { return Living(e.instance, true); }
    absl::Status operator()(const Ending& e) const { return Living(e.instance, true); }
    absl::Status operator()(const Gone& e) const {
      RETURN_IF_ERROR(Living(e.instance, false));
      if (cloud.Find(e.instance)->state == InstanceState::kStopping) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("instance ", e.instance, " is gone before its end was decided"));
    }

    absl::Status Living(int64_t number, bool undecided) const {
      const Instance* instance = cloud.Find(number);
      if (instance == nullptr) return absl::InvalidArgumentError(absl::StrCat("no instance ", number));
      if (undecided ? Decided(*instance) : instance->state == InstanceState::kEnded) {
        return absl::InvalidArgumentError(absl::StrCat("instance ", number, " has already ended"));
      }
      return absl::OkStatus();
    }
  };
  return std::visit(Visitor{*this}, event.what);
}

void Cloud::Apply(const Event& event) {
  const absl::Status admissible = Admissible(event);
  CHECK(admissible.ok()) << admissible.message();
  struct Visitor {
    Cloud* cloud;
    int64_t at_ms;

    void operator()(const Opened& e) { cloud->opened_ = e; }

    void operator()(const Created& e) {
      Instance& instance = cloud->instances_[e.instance];
      instance.number = e.instance;
      instance.id = InstanceIdOf(e.instance);
      instance.request = e.request;
      instance.terms = e.terms;
      instance.ordinal = e.ordinal;
      instance.boot_fails = e.boot_fails;
      instance.created_ms = at_ms;
      instance.kept_alive_ms = at_ms;
      instance.boot_until_ms = e.boot_until_ms;
      instance.announce_at_ms = e.announce_at_ms;
      instance.gone_at_ms = e.gone_at_ms;
      cloud->next_number_ = std::max(cloud->next_number_, e.instance + 1);
      cloud->unended_.insert(e.instance);
      cloud->by_token_[e.request.client_token] = e.instance;
      cloud->ordinals_[e.request.offer] = e.ordinal + 1;
      ++cloud->alive_of_[e.request.offer];
    }

    void operator()(const Started& e) {
      Instance& instance = cloud->instances_.at(e.instance);
      if (instance.state == InstanceState::kBooting) instance.state = InstanceState::kRunning;
      instance.started_ms = at_ms;
      instance.pid = e.pid;
      instance.start_ticks = e.start_ticks;
    }

    void operator()(const ReclaimOrdered& e) {
      Instance& instance = cloud->instances_.at(e.instance);
      instance.announce_at_ms = e.announce_at_ms;
      instance.gone_at_ms = e.gone_at_ms;
    }

    void operator()(const Announced& e) { cloud->instances_.at(e.instance).announced_ms = at_ms; }

    void operator()(const Ending& e) {
      Instance& instance = cloud->instances_.at(e.instance);
      instance.state = InstanceState::kStopping;
      instance.ended_ms = at_ms;
      instance.end_reason = e.reason;
      instance.end_detail = e.detail;
      instance.billed_ms = e.billed_ms;
      instance.charge_micros = e.charge_micros;
      cloud->final_micros_ += e.charge_micros;
    }

    void operator()(const Gone& e) {
      Instance& instance = cloud->instances_.at(e.instance);
      instance.state = InstanceState::kEnded;
      instance.pid = 0;
      cloud->unended_.erase(e.instance);
      --cloud->alive_of_[instance.request.offer];
      cloud->Forget();
    }
  };
  std::visit(Visitor{this, event.at_ms}, event.what);
  last_event_ms_ = std::max(last_event_ms_, event.at_ms);
}

void Cloud::RestartLeases(int64_t now_ms) {
  for (int64_t number : unended_) instances_.at(number).kept_alive_ms = now_ms;
}

const Instance* Cloud::Find(int64_t number) const {
  auto it = instances_.find(number);
  return it == instances_.end() ? nullptr : &it->second;
}

const Instance* Cloud::FindById(absl::string_view id) const {
  int64_t number = 0;
  if (!absl::ConsumePrefix(&id, "i-") || !absl::SimpleAtoi(id, &number)) return nullptr;
  const Instance* instance = Find(number);
  return instance != nullptr && absl::StrCat("i-", id) == instance->id ? instance : nullptr;
}

int64_t Cloud::AliveOf(absl::string_view offer) const {
  auto it = alive_of_.find(std::string(offer));
  return it == alive_of_.end() ? 0 : it->second;
}

Totals Cloud::TotalsAt(int64_t now_ms) const {
  Totals totals;
  totals.created = next_number_ - 1;
  totals.final_micros = final_micros_;
  for (int64_t number : unended_) {
    const Instance& instance = instances_.at(number);
    if (Decided(instance)) continue;
    ++totals.alive;
    totals.accruing_micros += pricing::ChargeMicros(instance.terms.billing, now_ms - instance.created_ms);
  }
  return totals;
}

Event Cloud::EndingOf(const Instance& instance, EndReason reason, absl::string_view detail, int64_t end_ms, int64_t now_ms) const {
  Ending ending;
  ending.instance = instance.number;
  ending.reason = reason;
  ending.detail = std::string(detail);
  if (reason != EndReason::kBootFailed) {
    ending.billed_ms = pricing::BilledMs(instance.terms.billing, end_ms - instance.created_ms);
    ending.charge_micros = pricing::ChargeMicros(instance.terms.billing, end_ms - instance.created_ms);
  }
  return Event{end_ms, std::move(ending)};
}

void Cloud::Forget() {
  auto it = instances_.begin();
  while (instances_.size() > kInstancesKept && it != instances_.end()) {
    if (it->second.state != InstanceState::kEnded) {
      ++it;
      continue;
    }
    by_token_.erase(it->second.request.client_token);
    it = instances_.erase(it);
  }
}

}  // namespace spillway::playground
