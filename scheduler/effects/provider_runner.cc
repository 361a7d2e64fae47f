#include "scheduler/effects/provider_runner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"

namespace spillway::effects {

ProviderRunner::ProviderRunner(std::unique_ptr<provider::Provider> provider, Clock* clock, std::function<int64_t()> turn_ms, Post post, RunnerOptions options)
    : provider_(std::move(provider)), clock_(clock), turn_ms_(std::move(turn_ms)), post_(std::move(post)), options_(options), thread_([this] { Work(); }) {}

ProviderRunner::~ProviderRunner() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void ProviderRunner::Create(const engine::CreateOrder& order) {
  MutexLock lock(&mutex_);
  if (terminates_.count(order.node.id) > 0) return;
  creates_.try_emplace(order.node.id, Owed<engine::CreateOrder>{order, 0, 0});
  changed_.Signal();
}

void ProviderRunner::Terminate(const engine::TerminateOrder& order) {
  MutexLock lock(&mutex_);
  creates_.erase(order.node);
  // Said again, it may know the instance by now.
  terminates_.try_emplace(order.node, Owed<engine::TerminateOrder>{order, 0, 0}).first->second.order = order;
  changed_.Signal();
}

void ProviderRunner::ListSoon() {
  MutexLock lock(&mutex_);
  list_due_ms_ = 0;
  changed_.Signal();
}

int64_t ProviderRunner::NextBackoff(int64_t backoff_ms) const { return std::min(options_.backoff_ms_max, std::max(options_.backoff_ms_min, 2 * backoff_ms)); }

int64_t ProviderRunner::NextDueMs() {
  int64_t due = std::numeric_limits<int64_t>::max();
  if (provider_->capabilities().testify) due = std::min(due, list_due_ms_);
  if (provider_->capabilities().offers) due = std::min(due, offers_due_ms_);
  for (const auto& [node, owed] : creates_) due = std::min(due, owed.next_try_ms);
  for (const auto& [node, owed] : terminates_) due = std::min(due, owed.next_try_ms);
  return due;
}

void ProviderRunner::Work() {
  while (true) {
    const int64_t now_ms = clock_->NowSteadyMs();
    bool list = false, offers = false;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      const int64_t due = NextDueMs();
      if (due > now_ms) {
        changed_.WaitForMs(&mutex_, static_cast<long>(std::min<int64_t>(due - now_ms, 60'000)));
        continue;
      }
      list = provider_->capabilities().testify && list_due_ms_ <= now_ms;
      offers = provider_->capabilities().offers && offers_due_ms_ <= now_ms;
      if (list) list_due_ms_ = now_ms + options_.list_every_ms;
      if (offers) offers_due_ms_ = now_ms + options_.offers_every_ms;
    }
    if (offers) RefreshOffers();
    TerminateOne();
    CreateOne();
    if (list) RefreshListing();
  }
}

bool ProviderRunner::CreateOne() {
  engine::CreateOrder order;
  {
    MutexLock lock(&mutex_);
    const int64_t now_ms = clock_->NowSteadyMs();
    const auto due = std::find_if(creates_.begin(), creates_.end(), [&](const auto& entry) { return entry.second.next_try_ms <= now_ms; });
    if (due == creates_.end()) return false;
    order = due->second.order;
  }
  const absl::StatusOr<std::string> instance = provider_->Create(order);
  // The core counted the request against what the offer had. An instance that comes and goes between two looks leaves the list as it was: it is told again.
  offers_posted_ = false;
  const NodeId node = order.node.id;
  if (!instance.ok() && !absl::IsResourceExhausted(instance.status()) && !absl::IsInvalidArgument(instance.status())) {
    MutexLock lock(&mutex_);
    const auto it = creates_.find(node);
    if (it == creates_.end()) return true;  // it became a termination meanwhile
    LOG(WARNING) << provider_->name() << ": creating " << order.node.name << ": " << instance.status().message() << "; trying again";
    it->second.backoff_ms = NextBackoff(it->second.backoff_ms);
    it->second.next_try_ms = clock_->NowSteadyMs() + it->second.backoff_ms;
    return true;
  }
  {
    MutexLock lock(&mutex_);
    creates_.erase(node);
    // Ordered to end while it was being made: now there is something to end.
    if (const auto ending = terminates_.find(node); instance.ok() && ending != terminates_.end()) {
      ending->second.order.instance_id = *instance;
      ending->second.next_try_ms = 0;
    }
  }
  if (instance.ok()) {
    post_(core::InstanceCreated{node, *instance});
  } else {
    const auto code = absl::IsResourceExhausted(instance.status()) ? core::InstanceRefused::Code::kCapacity : core::InstanceRefused::Code::kRejected;
    post_(core::InstanceRefused{node, code, std::string(instance.status().message()), 0});
  }
  return true;
}

bool ProviderRunner::TerminateOne() {
  engine::TerminateOrder order;
  {
    MutexLock lock(&mutex_);
    const int64_t now_ms = clock_->NowSteadyMs();
    const auto due = std::find_if(terminates_.begin(), terminates_.end(), [&](const auto& entry) { return entry.second.next_try_ms <= now_ms; });
    if (due == terminates_.end()) return false;
    order = due->second.order;
    due->second.backoff_ms = NextBackoff(due->second.backoff_ms);
    due->second.next_try_ms = now_ms + due->second.backoff_ms;
  }
  if (const absl::Status status = provider_->Terminate(order); !status.ok()) {
    LOG(WARNING) << provider_->name() << ": ending " << order.name << ": " << status.message() << "; trying again";
  } else {
    MutexLock lock(&mutex_);
    list_due_ms_ = 0;  // its end shows in the listing
  }
  return true;
}

void ProviderRunner::RefreshOffers() {
  absl::StatusOr<std::vector<core::Offer>> offers = provider_->ListOffers();
  if (!offers.ok()) {
    if (!out_of_reach_) LOG(WARNING) << provider_->name() << ": no price list: " << offers.status().message();
    out_of_reach_ = true;
    return;
  }
  if (out_of_reach_) LOG(INFO) << provider_->name() << ": answers again";
  out_of_reach_ = false;
  if (offers_posted_ && *offers == last_offers_) return;
  offers_posted_ = true;
  last_offers_ = *offers;
  post_(core::OffersListed{provider_->name(), *std::move(offers)});
}

void ProviderRunner::RefreshListing() {
  const int64_t asked_ms = turn_ms_();
  absl::StatusOr<core::InstanceListing> listing = provider_->List();
  if (!listing.ok()) {
    if (!out_of_reach_) LOG(WARNING) << provider_->name() << ": no listing: " << listing.status().message();
    out_of_reach_ = true;
    return;
  }
  {
    MutexLock lock(&mutex_);
    std::erase_if(terminates_, [&](const auto& entry) {
      const bool tried = entry.second.backoff_ms > 0;
      return tried && !engine::ShowsAlive(*listing, entry.second.order);
    });
  }
  listing->asked_ms = asked_ms;
  post_(*std::move(listing));
}

}  // namespace spillway::effects
