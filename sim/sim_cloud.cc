#include "sim/sim_cloud.h"

#include <algorithm>
#include <utility>

#include "pricing/billing.h"

namespace spillway::sim {
namespace {

constexpr int64_t kTimeoutMs = 15'000;            // of a call, at the caller
constexpr int64_t kRevivedForMs = 300'000;        // after its end
constexpr int64_t kForgottenAfterMs = 3'600'000;  // after its end, as clouds do

}  // namespace

SimCloud::SimCloud(World* world, Observer* observer, const Faults* faults, std::string provider, std::vector<Market> markets,
                   std::function<std::unique_ptr<SimNode>(const Instance&)> make_machine)
    : world_(world),
      observer_(observer),
      faults_(faults),
      provider_(std::move(provider)),
      markets_(std::move(markets)),
      make_machine_(std::move(make_machine)),
      rng_(world->Luck("cloud " + provider_)) {}

int64_t SimCloud::living() const {
  return std::count_if(instances_.begin(), instances_.end(), [](const auto& entry) { return entry.second->ended_ms == 0; });
}

// ---- the API ----

template <typename T>
void SimCloud::Call(LifeWatch asker, Answer<T> answer, std::function<absl::StatusOr<T>()> work) {
  const auto later = [&] { return rng_.Between(1, std::max<int64_t>(1, faults_->api_ms_max)); };
  const auto no_answer = [this, asker, answer](const char* what) {
    world_->Reach(what);
    world_->After(kTimeoutMs, asker, [answer] { answer(absl::UnavailableError("the cloud does not answer")); });
  };
  if (world_->now_ms() < cut_until_ms_) return no_answer("the cloud was out of reach");
  if (rng_.Chance(faults_->request_lost)) {
    // Lost on the way, or only very late: the cloud may carry it out when nobody waits any more.
    if (rng_.Chance(0.5)) {
      const int64_t late_ms = rng_.Chance(0.7) ? rng_.Between(1'000, 90'000) : rng_.Between(90'000, 1'500'000);
      world_->After(late_ms, [this, work] {
        world_->Reach("a request reached the cloud after its caller gave up");
        work().status().IgnoreError();
      });
    }
    return no_answer("a request to the cloud was lost");
  }
  const bool reply_lost = rng_.Chance(faults_->reply_lost);
  world_->After(later(), [this, asker, answer, work, reply_lost, no_answer, back_ms = later()] {
    if (rng_.Chance(faults_->throttles)) {
      world_->Reach("the cloud throttled");
      return world_->After(back_ms, asker, [answer] { answer(absl::UnavailableError("slow down")); });
    }
    absl::StatusOr<T> result = work();
    if (reply_lost) return no_answer("an answer of the cloud was lost");
    world_->After(back_ms, asker, [answer, result = std::move(result)] { answer(result); });
  });
}

void SimCloud::Create(const engine::CreateOrder& order, LifeWatch asker, Answer<std::string> answer) {
  Call<std::string>(asker, std::move(answer), [this, order] { return CreateNow(order); });
}

void SimCloud::Terminate(const engine::TerminateOrder& order, LifeWatch asker, Answer<bool> answer) {
  Call<bool>(asker, std::move(answer), [this, id = order.instance_id, token = order.client_token]() -> absl::StatusOr<bool> {
    TerminateNow(id, token);
    return true;
  });
}

void SimCloud::List(LifeWatch asker, Answer<core::InstanceListing> answer) {
  Call<core::InstanceListing>(asker, std::move(answer), [this]() -> absl::StatusOr<core::InstanceListing> { return ListNow(); });
}

void SimCloud::ListOffers(LifeWatch asker, Answer<std::vector<core::Offer>> answer) {
  Call<std::vector<core::Offer>>(asker, std::move(answer), [this]() -> absl::StatusOr<std::vector<core::Offer>> {
    std::vector<core::Offer> offers;
    for (const Market& market : markets_) offers.push_back(market.offer);
    return offers;
  });
}

// ---- instances ----

absl::StatusOr<std::string> SimCloud::CreateNow(const engine::CreateOrder& order) {
  if (const auto known = by_token_.find(order.client_token); known != by_token_.end()) {
    world_->Reach("an instance was asked for twice");
    return known->second;
  }
  const auto market = std::find_if(markets_.begin(), markets_.end(), [&](const Market& one) { return one.offer.name == order.offer.name; });
  if (market == markets_.end()) return absl::InvalidArgumentError("no such offer");
  if (!market->spot.AvailableAt(world_->now_ms() - World::kStartMs) || rng_.Chance(faults_->refuses)) {
    world_->Reach("the cloud had no capacity");
    return absl::ResourceExhaustedError("insufficient capacity");
  }
  Instance* instance = Make(order.node.name, order.client_token, *market);
  if (!rng_.Chance(faults_->twins)) return instance->id;
  world_->Reach("a twin instance was made");
  instance->twin = true;
  instance = Make(order.node.name, order.client_token, *market);
  instance->twin = true;
  return instance->id;
}

void SimCloud::MakeStray() {
  const std::string name = absl::StrCat("stray-", instances_.size());
  Make(name, name, markets_[rng_.Below(markets_.size())])->stray = true;
}

Instance* SimCloud::Make(const std::string& name, const std::string& token, const Market& market) {
  auto owned = std::make_unique<Instance>();
  Instance* const instance = owned.get();
  instance->id = absl::StrCat("i-", 1'000'000 + instances_.size());
  instance->name = name;
  instance->token = token;
  instance->offer = market.offer;
  instance->created_ms = world_->now_ms();
  instance->bill_is_late = rng_.Chance(faults_->bill_unknown);
  instances_[instance->id] = std::move(owned);
  by_token_[instance->token] = instance->id;
  world_->Trace("instance ", instance->id, " (", instance->name, ") of ", instance->offer.name);
  observer_->InstanceMade(*instance);
  instance->machine = make_machine_(*instance);
  if (rng_.Chance(faults_->never_boots)) {
    world_->Reach("an instance never booted");
  } else {
    world_->After(rng_.Between(1'000, std::max<int64_t>(1'000, faults_->boot_ms_max)), [instance] {
      if (instance->ended_ms == 0) instance->machine->PowerOn();
    });
  }
  PlanReclaim(instance, market, made_[market.offer.name]++);
  return instance;
}

void SimCloud::PlanReclaim(Instance* instance, const Market& market, int64_t ordinal) {
  const auto gone_ms = market.spot.GoneAtMs(ordinal, instance->created_ms);
  if (!gone_ms) return;
  const int64_t notice_ms = market.offer.notice_ms;
  if (notice_ms > 0) {
    world_->At(std::max(world_->now_ms(), *gone_ms - notice_ms), [this, instance, gone_ms = *gone_ms] { GiveNotice(instance, gone_ms); });
  }
  if (market.lingers && rng_.Chance(0.5)) {
    world_->Reach("a notice was given in vain");
    return;
  }
  world_->At(*gone_ms, [this, instance] {
    if (instance->ended_ms != 0 || !faults_->reclaims) return;
    world_->Reach(instance->notice_ms > 0 ? "an instance was taken with notice" : "an instance was taken without notice");
    End(instance, true, "reclaimed");
  });
}

void SimCloud::GiveNotice(Instance* instance, int64_t gone_ms) {
  if (instance->ended_ms != 0 || !faults_->reclaims) return;
  instance->notice_ms = gone_ms;
  instance->notice_given_ms = world_->now_ms();
  world_->Trace("notice for ", instance->name);
  // The machine sees it when it looks.
  world_->After(rng_.Between(100, 5'000), [this, instance, gone_ms] {
    if (instance->ended_ms == 0) instance->machine->Notice(std::max<int64_t>(0, gone_ms - world_->now_ms()), "metadata", false);
  });
}

void SimCloud::TerminateNow(const std::string& instance_id, const std::string& token) {
  std::string id = instance_id;
  if (id.empty()) {
    const auto known = by_token_.find(token);
    if (known == by_token_.end()) return;
    id = known->second;
  }
  const auto found = instances_.find(id);
  if (found == instances_.end() || found->second->ending) return;
  Instance* const instance = found->second.get();
  instance->ending = true;
  world_->After(rng_.Between(1, std::max<int64_t>(1, faults_->shutdown_ms_max)), [this, instance] { End(instance, false, "terminated"); });
}

void SimCloud::EndFromInside(const SimNode* machine) {
  for (auto& [id, instance] : instances_) {
    if (instance->machine.get() != machine || instance->ended_ms != 0) continue;
    world_->Reach("an instance ended itself");
    // Not from under the feet of whoever said so.
    world_->After(1, [this, instance = instance.get()] { End(instance, false, "shut down from inside"); });
  }
}

void SimCloud::End(Instance* instance, bool reclaimed, const std::string& reason) {
  if (instance->ended_ms != 0) return;
  instance->machine->PowerOff();
  instance->ended_ms = world_->now_ms();
  instance->reclaimed = reclaimed;
  instance->reason = reason;
  const pricing::BillingRule rule{instance->offer.billing.increment_ms, instance->offer.billing.minimum_ms, instance->offer.price_micros_per_hour};
  instance->billed_micros = pricing::ChargeMicros(rule, instance->ended_ms - instance->created_ms);
  world_->Trace("instance ", instance->id, " (", instance->name, ") ended: ", reason);
  observer_->InstanceEnded(*instance);
}

// What was true a while ago, and says so of nothing that lives: late, never wrong about a death, unless it lies.
core::InstanceListing SimCloud::ListNow() {
  const int64_t lag_ms = faults_->list_lag_ms_max > 0 ? rng_.Between(0, faults_->list_lag_ms_max) : 0;
  const int64_t as_of_ms = world_->now_ms() - lag_ms;
  core::InstanceListing listing;
  listing.provider = provider_;
  for (const auto& [id, instance] : instances_) {
    if (instance->ended_ms != 0 && as_of_ms - instance->ended_ms > kForgottenAfterMs) continue;
    if (instance->created_ms > as_of_ms) {
      world_->Reach("a listing lacked an instance that lives");
      continue;
    }
    core::InstanceListing::Instance row;
    row.instance_id = id;
    row.name = instance->name;
    row.alive = instance->ended_ms == 0 || instance->ended_ms > as_of_ms;
    if (row.alive && rng_.Chance(faults_->list_omits)) {
      world_->Reach("a listing lied about an instance that lives");
      instance->lied_about = true;
      instance->machine->Disown();
      continue;
    }
    if (!row.alive && as_of_ms - instance->ended_ms < kRevivedForMs && rng_.Chance(faults_->list_revives)) {
      world_->Reach("a listing revived an instance");
      instance->lied_about = true;
      row.alive = true;
    }
    if (row.alive) {
      if (instance->ended_ms != 0) world_->Reach("a listing showed an instance that was gone");
      if (instance->ended_ms == 0 && instance->notice_ms > 0 && instance->notice_given_ms <= as_of_ms)
        row.notice_in_ms = std::max<int64_t>(0, instance->notice_ms - world_->now_ms());
    } else {
      row.reclaimed = instance->reclaimed;
      row.reason = instance->reason;
      if (!instance->bill_is_late) row.billed_micros = instance->billed_micros;
    }
    listing.instances.push_back(std::move(row));
  }
  return listing;
}

SimNode* SimCloud::AnyMachine(Rng* rng) const {
  std::vector<SimNode*> on;
  for (const auto& [id, instance] : instances_) {
    if (instance->ended_ms == 0 && instance->machine->powered()) on.push_back(instance->machine.get());
  }
  return on.empty() ? nullptr : on[rng->Below(on.size())];
}

}  // namespace spillway::sim
