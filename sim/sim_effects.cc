#include "sim/sim_effects.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace spillway::sim {
namespace {

constexpr int64_t kListEveryMs = 5'000, kOffersEveryMs = 60'000;
constexpr int64_t kBackoffMsMin = 200, kBackoffMsMax = 30'000;
constexpr int64_t kSealRetryMs = 1'000;
constexpr int64_t kLateMs = 30 * 60'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t NextBackoff(int64_t backoff_ms) { return std::min(kBackoffMsMax, std::max(kBackoffMsMin, 2 * backoff_ms)); }

}  // namespace

CloudRunner::CloudRunner(EffectsSetup setup, SimCloud* cloud) : setup_(setup), cloud_(cloud), wake_at_ms_(kNever) { Wake(setup_.world->now_ms()); }

void CloudRunner::Wake(int64_t at_ms) {
  at_ms = std::max(at_ms, setup_.world->now_ms());
  if (at_ms >= wake_at_ms_) return;
  wake_at_ms_ = at_ms;
  setup_.world->After(at_ms - setup_.world->now_ms(), life_, [this, at_ms] {
    if (wake_at_ms_ != at_ms) return;
    wake_at_ms_ = kNever;
    Work();
  });
}

void CloudRunner::Create(const engine::CreateOrder& order) {
  if (terminates_.count(order.node.id) > 0) return;
  creates_.try_emplace(order.node.id, Owed<engine::CreateOrder>{order, 0, 0});
  Wake(0);
}

void CloudRunner::Terminate(const engine::TerminateOrder& order) {
  if (setup_.hooks->drop_terminates) return;
  creates_.erase(order.node);
  // Said again, it may know the instance by now.
  terminates_.try_emplace(order.node, Owed<engine::TerminateOrder>{order, 0, 0}).first->second.order = order;
  Wake(0);
}

void CloudRunner::ListSoon() {
  list_due_ms_ = 0;
  Wake(0);
}

void CloudRunner::Work() {
  if (busy_) return;
  const int64_t now_ms = setup_.world->now_ms();
  int64_t due_ms = std::min(list_due_ms_, offers_due_ms_);
  if (offers_due_ms_ <= now_ms) return ListOffers();
  for (const auto& [node, owed] : terminates_) {
    if (owed.next_try_ms <= now_ms) return TerminateOne(node);
    due_ms = std::min(due_ms, owed.next_try_ms);
  }
  for (const auto& [node, owed] : creates_) {
    if (owed.next_try_ms <= now_ms) return CreateOne(node);
    due_ms = std::min(due_ms, owed.next_try_ms);
  }
  if (list_due_ms_ <= now_ms) return ListInstances();
  Wake(due_ms);
}

void CloudRunner::Done() {
  busy_ = false;
  Work();
}

void CloudRunner::CreateOne(NodeId node) {
  busy_ = true;
  cloud_->Create(creates_.at(node).order, life_, [this, node](absl::StatusOr<std::string> instance) {
    const auto owed = creates_.find(node);
    const bool answered = instance.ok() || absl::IsResourceExhausted(instance.status()) || absl::IsInvalidArgument(instance.status());
    if (!answered) {
      if (owed != creates_.end()) {
        owed->second.backoff_ms = NextBackoff(owed->second.backoff_ms);
        owed->second.next_try_ms = setup_.world->now_ms() + owed->second.backoff_ms;
      }
      return Done();
    }
    if (owed != creates_.end()) creates_.erase(owed);
    // Ordered to end while it was being made: now there is something to end.
    if (const auto ending = terminates_.find(node); instance.ok() && ending != terminates_.end()) {
      ending->second.order.instance_id = *instance;
      ending->second.next_try_ms = 0;
    }
    if (instance.ok()) {
      setup_.host->Post(core::InstanceCreated{node, *instance}, nullptr);
    } else {
      const auto code = absl::IsResourceExhausted(instance.status()) ? core::InstanceRefused::Code::kCapacity : core::InstanceRefused::Code::kRejected;
      setup_.host->Post(core::InstanceRefused{node, code, std::string(instance.status().message()), 0}, nullptr);
    }
    Done();
  });
}

void CloudRunner::TerminateOne(NodeId node) {
  busy_ = true;
  auto& owed = terminates_.at(node);
  owed.backoff_ms = NextBackoff(owed.backoff_ms);
  owed.next_try_ms = setup_.world->now_ms() + owed.backoff_ms;
  cloud_->Terminate(owed.order, life_, [this, node](absl::StatusOr<bool> taken) {
    if (taken.ok()) list_due_ms_ = 0;  // its end shows in the listing
    if (taken.ok() && setup_.hooks->terminate_is_end) setup_.host->Post(core::InstanceGone{node, false, "its end was asked for", -1}, nullptr);
    Done();
  });
}

void CloudRunner::ListOffers() {
  busy_ = true;
  offers_due_ms_ = setup_.world->now_ms() + kOffersEveryMs;
  cloud_->ListOffers(life_, [this](absl::StatusOr<std::vector<core::Offer>> offers) {
    if (offers.ok()) setup_.host->Post(core::OffersListed{cloud_->provider(), *std::move(offers)}, nullptr);
    Done();
  });
}

void CloudRunner::ListInstances() {
  busy_ = true;
  list_due_ms_ = setup_.world->now_ms() + kListEveryMs;
  cloud_->List(life_, [this, asked_ms = setup_.host->engine()->now_ms()](absl::StatusOr<core::InstanceListing> listing) {
    if (!listing.ok()) return Done();
    listing->asked_ms = asked_ms;
    std::erase_if(terminates_, [&](const auto& entry) { return entry.second.backoff_ms > 0 && !engine::ShowsAlive(*listing, entry.second.order); });
    Distort(&*listing);
    setup_.host->Post(*std::move(listing), nullptr);
    Done();
  });
}

// Planted bugs: what is heard is not what was said.
void CloudRunner::Distort(core::InstanceListing* listing) const {
  const Hooks& hooks = *setup_.hooks;
  if (!setup_.host->up()) return;
  const core::State& state = setup_.host->engine()->state();
  auto& rows = listing->instances;
  std::set<std::string> listed;
  for (const auto& row : rows) listed.insert(row.instance_id);
  if (hooks.orphans_unseen || hooks.orphans_late) {
    const auto unseen = [&](const auto& row) {
      if (state.index.node_by_name.count({cloud_->provider(), row.name}) > 0 || state.index.node_by_instance.count({cloud_->provider(), row.instance_id}) > 0)
        return false;
      const auto instance = cloud_->instances().find(row.instance_id);
      return hooks.orphans_unseen || setup_.world->now_ms() - instance->second->created_ms < kLateMs;
    };
    rows.erase(std::remove_if(rows.begin(), rows.end(), unseen), rows.end());
  }
  if (!hooks.absent_is_gone) return;
  for (const auto& [id, node] : state.nodes) {
    if (node.provider != cloud_->provider() || node.instance_id.empty() || listed.count(node.instance_id) > 0) continue;
    core::InstanceListing::Instance row;
    row.instance_id = node.instance_id;
    row.name = node.name;
    row.alive = false;
    rows.push_back(row);
  }
}

// ---- all effects ----

SimEffects::SimEffects(EffectsSetup setup) : setup_(setup), rng_(setup.world->Luck("effects").Fork(static_cast<uint64_t>(setup.world->now_ms()))) {}

void SimEffects::AddCloud(SimCloud* cloud) { runners_[cloud->provider()] = std::make_unique<CloudRunner>(setup_, cloud); }

void SimEffects::Create(const engine::CreateOrder& order) {
  if (const auto runner = runners_.find(order.node.provider); runner != runners_.end()) runner->second->Create(order);
}

void SimEffects::Terminate(const engine::TerminateOrder& order) {
  if (const auto runner = runners_.find(order.provider); runner != runners_.end()) runner->second->Terminate(order);
}

void SimEffects::AskAbout(const std::string& provider) {
  if (const auto runner = runners_.find(provider); runner != runners_.end()) runner->second->ListSoon();
}

void SimEffects::Seal(const engine::SealOrder& order) {
  if (setup_.hooks->drop_seals) return;
  setup_.world->After(rng_.Between(1, 500), life_, [this, order] { SealNow(order); });
}

// The newest whole manifest, and how many that are none lie in front of it.
void SimEffects::SealNow(const engine::SealOrder& order) {
  if (setup_.hooks->seal_blindly) return setup_.host->Post(core::SealResult{order.attempt, std::nullopt, 0}, nullptr);
  if (!setup_.store->Answers() || rng_.Chance(setup_.faults->look_fails)) {
    setup_.world->Reach("a seal had to be tried again");
    return setup_.world->After(kSealRetryMs, life_, [this, order] { SealNow(order); });
  }
  core::SealResult result;
  result.attempt = order.attempt;
  const std::vector<const Manifest*> found = setup_.store->List(order.checkpoint_dir);
  for (auto it = found.rbegin(); it != found.rend() && !result.newest; ++it) {
    if ((*it)->damaged && !setup_.hooks->seal_takes_damaged) {
      ++result.damaged;
      continue;
    }
    core::CheckpointRef ref;
    ref.attempt = order.attempt.number;
    ref.step = (*it)->step;
    ref.path = (*it)->path;
    ref.manifest_sha256 = (*it)->sha256;
    ref.bytes = (*it)->bytes;
    ref.sealed = true;
    result.newest = std::move(ref);
  }
  setup_.observer->SealListed(order.attempt);
  setup_.world->After(rng_.Between(1, 500), life_, [this, result = std::move(result)] { setup_.host->Post(result, nullptr); });
}

}  // namespace spillway::sim
